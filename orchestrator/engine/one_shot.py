"""One job in one process: from its prompt to its exit status."""

import signal
from typing import Protocol

import attrs
import trio

from actors.flusher import Flusher
from actors.protocol.mail import Abort, Prompt, Stop
from actors.sink import Outlet
from actors.tree import Tree
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.errors import EngineError, NotOurs
from orchestrator.engine.host import Host
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.planted import Planted
from orchestrator.engine.status import exit_status
from orchestrator.engine.stdout import LineWriter
from orchestrator.engine.telling import told_as
from store.context import last_assistant
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import RunSettledEntry
from store.errors import StoreError
from store.events import Diagnostic, Event, Place
from store.times import unix_ms

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    _signal: int | None = None
    _late_signal: int | None = None
    _is_over: bool = False
    _gone: OSError | None = None
    _settled: RunSettledEntry | None = None
    _planted: Planted | None = None
    _writer: LineWriter | None = None

    async def run(self) -> Ended:
        """Raises as `Host.plant`, and then nothing has started."""
        outlets: list[Outlet] = []
        if self.job.is_json:
            self._writer = LineWriter(1, self._reader_gone)
            outlets.append(told_as(self.job.stream, self._writer))
        planted = self._planted = self.host.plant(self.job, self.models, outlets)
        try:
            planted.sink.watchers.append(self._hear_end)
            await self._alive(planted)
            return self._ended(planted.tree)
        finally:
            await self.host.uproot(planted)

    async def _alive(self, planted: Planted) -> None:
        tree = planted.tree
        endpoint = Endpoint(Desk(self.host), self.job.environ)
        async with self.host.working(), endpoint.open(), trio.open_nursery() as outer:
            if endpoint.trouble is not None:
                planted.tell_later(Diagnostic(level="warning", code="endpoint", text=endpoint.trouble))
            await outer.start(self._hear_signals, outer.cancel_scope)
            if self._writer is not None:
                outer.start_soon(self._writer.run)
            if self.watching is not None:
                planted.sink.watchers.append(self.watching.take)
                outer.start_soon(self.watching.run)
            if self.job.timeout_s is not None:
                outer.start_soon(self._expire, tree, self.job.timeout_s)
            if self._signal is None:
                await self._work(planted)
            self._is_over = True
            if self._writer is not None:
                self._writer.finish()
                await self._writer.written()
            outer.cancel_scope.cancel()

    async def _work(self, planted: Planted) -> None:
        """What the tree is there for: its prompt, or what an interruption left unfinished."""
        if self.job.prompt is None:
            await planted.tree.resume(planted.ground.unfinished)
        else:
            planted.tree.root.outcome = ""
            await planted.tree.run(Prompt(f"prompt:{unix_ms(self.host.clock.now())}", self.job.prompt))

    async def _hear_signals(
        self, all_of_it: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The first signal stops the tree, which then closes what is open. A second one ends at once.

        A tree that has ended is not stopped any more: what waits for a slow reader is still written, and the status is the run's.
        """
        with trio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for number in received:
                if self._signal is not None or self._late_signal is not None:
                    self._signal = self._signal or self._late_signal
                    all_of_it.cancel()
                    return
                if self._is_over:
                    self._late_signal = number
                    continue
                self._signal = number
                self._stop(f"stopped by {signal.Signals(number).name}")

    def _hear_end(self, place: Place, event: Event, at: float) -> None:
        """Why the root's run ended as it did: also where its journal does not take that any more."""
        if place.parent_id is None and isinstance(event, RunSettledEntry):
            self._settled = event

    async def _expire(self, tree: Tree, timeout_s: float) -> None:
        """The time of the run is over: it ends as timed out, with all below it."""
        await trio.sleep(timeout_s)
        tree.tell(Abort(f"the time of {timeout_s:g} s is over; raise it with --timeout", "timed_out"))

    def _reader_gone(self, error: OSError) -> None:
        self._gone = error
        self._stop("the reader of stdout went away")

    def _stop(self, reason: str) -> None:
        if self._planted is not None:
            self._planted.tree.tell(Stop(reason))

    def _ended(self, tree: Tree) -> Ended:
        root, outbox = tree.root, tree.root.outbox
        message = None if outbox is None else last_assistant(outbox.tree.path())
        is_pipe = isinstance(self._gone, BrokenPipeError)
        failure = tree.supervisor.failure
        if failure is not None:
            failure = f"the records that close the run could not be written: {failure}"
        if self._gone is not None and not is_pipe:
            failure = f"stdout could not be written: {self._gone}"
        outcome = root.outcome or "failed"
        error = failure
        if error is None and self._signal is not None:
            error = f"stopped by {signal.Signals(self._signal).name}"
        if error is None and outcome != "completed":
            error = (self._settled.error_message if self._settled is not None else None) or outcome
        return Ended(
            exit_status(outcome, signal=self._signal, reader_gone=is_pipe, failure=failure),
            outcome,
            root.id,
            message.text if message is not None else "",
            error,
        )


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
    try:
        return trio.run(OneShot(job, host, models, watching=watching).run)
    except StoreError as error:
        raise NotOurs(str(error)) from error
    except OSError as error:
        raise EngineError(f"the sessions in {home.sessions} cannot be used: {error}") from error
