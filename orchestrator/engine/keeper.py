"""Trees that stay at hand when they are quiet: those of a resident host, and of a run that is driven from outside."""

from pathlib import Path
from typing import Any

import attrs
import trio

from actors.directory import Row
from orchestrator.engine.host import Host
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.opening import root_of
from orchestrator.engine.planted import Planted
from store.events import Diagnostic


@attrs.define(eq=False)
class Keeper:
    """Each tree has a task of its own in `nursery`: what breaks one is not the end of the others."""

    host: Host
    jobs: Jobs
    nursery: trio.Nursery

    def keep(self, planted: Planted) -> None:
        """From now on it takes work."""
        self.nursery.start_soon(self._keep, planted)

    async def _keep(self, planted: Planted) -> None:
        try:
            async with planted.alive():
                await planted.leaving.wait()
                await planted.tree.quiet()
        except Exception as error:
            text = f"the tree broke, and is opened again with the next command for it: {type(error).__name__}: {error}"
            planted.sink.publish(planted.tree.root.place, Diagnostic(level="error", code="crash", text=text))
        finally:
            await self.host.uproot(planted)

    def reach(self, session_id: str) -> tuple[Planted, Row]:
        """A session, opened with its tree if need be. Raises WrongUsage, NotOurs; StoreError, OSError."""
        found = self.host.find(session_id)
        if found is not None:
            return found
        root_id = root_of(self.host.home.fs, self.host.home, session_id)
        job, models = self.jobs.stored(root_id)
        planted = self.host.plant(job, models)
        self.keep(planted)
        return planted, planted.tree.supervisor.directory.rows[session_id]

    def begin(self, cwd: Path, **members: Any) -> Planted:
        """A new tree in a folder; `members` as `Jobs.new` has them. Raises as `reach`."""
        job, models = self.jobs.new(cwd, **members)
        planted = self.host.plant(job, models)
        self.keep(planted)
        return planted
