"""Trees that stay at hand when they are quiet: those of a resident host, and of a run that is driven from outside."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.directory import Row
from actors.giving_up import reason_of
from orchestrator.engine.host import Host
from orchestrator.engine.job import Job
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.models import Models
from orchestrator.engine.opening import root_of
from orchestrator.engine.planted import Planted
from store.events import Diagnostic


@attrs.define(eq=False)
class Keeper:
    """Each tree has a task of its own in `nursery`: what breaks one is not the end of the others.

    A tree in which nothing has happened for `idle_s` is let go of; the next command for it opens it again. `changed` is called
    when there is another tree, or one less.
    """

    host: Host
    jobs: Jobs
    nursery: trio.Nursery
    idle_s: float = math.inf
    changed: Callable[[], None] = lambda: None

    def keep(self, planted: Planted) -> None:
        """From now on it takes work."""
        planted.is_kept = True
        self.nursery.start_soon(self._keep, planted)
        self.changed()

    async def _keep(self, planted: Planted) -> None:
        try:
            async with planted.alive():
                await self._at_hand(planted)
                await planted.tree.quiet()
        except Exception as error:
            text = f"the tree broke, and is opened again with the next command for it: {reason_of(error)}"
            planted.sink.publish(planted.tree.root.place, Diagnostic(level="error", code="crash", text=text))
        finally:
            await self.host.uproot(planted)
            self.changed()

    async def _at_hand(self, planted: Planted) -> None:
        """Until it is to end, or has been of no use to anybody for long."""
        seen = -1
        while not planted.leaving.is_set():
            # A kernel that lives holds what nobody could bring back.
            if seen == planted.sink.seq and not planted.tree.root.has_task and not len(planted.kernels):
                return
            seen = planted.sink.seq
            with trio.move_on_after(self.idle_s):
                await planted.leaving.wait()

    def reach(self, session_id: str) -> tuple[Planted, Row]:
        """A session, opened with its tree if need be. Raises WrongUsage, NotOurs; StoreError, OSError."""
        found = self.host.find(session_id)
        if found is not None:
            return found
        root_id = root_of(self.host.home.fs, self.host.home, session_id)
        planted = self._planted(*self.jobs.stored(root_id))
        return planted, planted.tree.supervisor.directory.rows[session_id]

    def go_on(self, root_id: str) -> Planted:
        """What was interrupted in a stored tree goes on. Raises NothingLeft, and as `reach`."""
        return self._planted(*self.jobs.stored(root_id, goes_on=True))

    def begin(self, cwd: Path, **members: Any) -> Planted:
        """A new tree in a folder; `members` as `Jobs.new` has them. Raises as `reach`."""
        return self._planted(*self.jobs.new(cwd, **members))

    def _planted(self, job: Job, models: Models) -> Planted:
        planted = self.host.plant(job, models)
        self.keep(planted)
        return planted
