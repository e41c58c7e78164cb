"""One job in one process: from its prompt to its exit status."""

from typing import Protocol

import attrs
import trio

from actors.flusher import Flusher
from actors.protocol.mail import Prompt
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.host import Host, hosting
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.planted import Planted
from orchestrator.engine.run_end import RunEnd
from orchestrator.engine.signals import Signals
from orchestrator.engine.stdout import LineWriter
from orchestrator.engine.telling import told_as
from store.disk.fs import RealFs
from store.disk.home import Home
from store.events import Event, Place
from store.times import unix_ms


class Watching(Protocol):
    """Somebody who looks at the tree while it runs: hears every event, and has a task of the host."""

    def take(self, place: Place, event: Event, at: float) -> None: ...

    async def run(self) -> None: ...


@attrs.define(eq=False)
class OneShot:
    """Runs the tree of a job on a host that then has no other, with stdout and signals; when the tree is quiet it is over."""

    job: Job
    host: Host
    models: Models
    watching: Watching | None = None
    planted: Planted | None = None
    _signals: Signals = attrs.field(init=False)
    _end: RunEnd = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._signals = Signals(self.stop)
        self._end = RunEnd(self._signals)

    def stop(self, reason: str) -> None:
        """End the tree, with all that is open closed."""
        self.host.leave(reason)

    async def run(self) -> Ended:
        """Raises as `Host.plant`, and then nothing has started."""
        writer = LineWriter(1, self._end.reader_gone) if self.job.is_json else None
        outlets = [] if writer is None else [told_as(self.job.stream, writer)]
        planted = self.planted = self.host.plant(self.job, self.models, outlets)
        try:
            planted.sink.watchers.append(self._end.take)
            await self._alive(planted, writer)
            return self._end.of(planted)
        finally:
            await self.host.uproot(planted)

    async def _alive(self, planted: Planted, writer: LineWriter | None) -> None:
        endpoint = Endpoint(Desk(self.host, planted.root_id), self.job.environ)
        async with self.host.working(), endpoint.open(), trio.open_nursery() as outer:
            endpoint.tell_trouble(planted)
            await outer.start(self._signals.hear, outer.cancel_scope)
            if writer is not None:
                outer.start_soon(writer.run)
            if self.watching is not None:
                planted.sink.watchers.append(self.watching.take)
                outer.start_soon(self.watching.run)
            if self._signals.number is None:
                await self._work(planted)
            self._signals.is_over = True
            if writer is not None:
                writer.finish()
                await writer.written()
            outer.cancel_scope.cancel()

    async def _work(self, planted: Planted) -> None:
        """What the tree is there for: its prompt, or what an interruption left unfinished."""
        first: list[Prompt] = []
        if self.job.prompt is not None:
            planted.tree.root.outcome = ""
            # The task of the tree: an abort that comes with it ends it as aborted.
            now = unix_ms(self.host.clock.now())
            first.append(Prompt(f"prompt:{now}", self.job.prompt, origin="spawn_task"))
        async with planted.alive(*first):
            await planted.tree.quiet()


def run_job(
    job: Job,
    home: Home | None = None,
    models: Models | None = None,
    watching: Watching | None = None,
) -> Ended:
    """Run one job in this process, to its end. Raises EngineError."""
    from orchestrator.engine.config import load_config

    home = home or Home.from_env(job.environ, RealFs())
    models = models or Models(load_config(home.config_path, job.cwd), job.environ, job.cwd)
    host = Host(home, flusher=Flusher(level=job.durability))
    return hosting(home, OneShot(job, host, models, watching=watching).run)
