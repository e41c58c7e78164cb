"""A one-shot host: one process, one tree, from its prompt to its exit status."""

import signal
from typing import Protocol

import attrs
import trio

from actors.clock import Clock
from actors.flusher import Flusher
from actors.protocol.mail import Abort, Prompt, Stop
from actors.protocol.model import Model, ModelInfo
from actors.protocol.supervision import Member, TreeState
from actors.sink import Sink
from actors.supervisor import Workshop
from actors.tree import UNNAMED, Tree
from orchestrator.engine.errors import EngineError, NotOurs, WrongUsage
from orchestrator.engine.instructions import Instructions, context_files
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.opening import Ground, open_ground
from orchestrator.engine.rows import model_of, plant
from orchestrator.engine.status import exit_status
from orchestrator.engine.stdout import LineWriter
from orchestrator.engine.toolset import all_tools
from orchestrator.tools.kernel.interpreter import KernelSettings
from orchestrator.tools.kernel.kernels import Kernels
from orchestrator.tools.registry import child_env
from store.context import last_assistant
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import ModelChangeEntry, RunSettledEntry, SessionInfoEntry
from store.errors import StoreError
from store.events import Diagnostic, Event, Place
from store.times import unix_ms

CLOSING_S = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Watching(Protocol):
    """Somebody who looks at the tree while it runs: hears every event, and has a task of the host."""

    def take(self, place: Place, event: Event, at: float) -> None: ...

    async def run(self) -> None: ...


@attrs.define(eq=False)
class Host:
    """Wires one tree to the disk, the models, the tools and stdout, and runs it."""

    job: Job
    home: Home
    models: Models
    clock: Clock = attrs.field(factory=Clock)
    flusher: Flusher = attrs.field(
        default=attrs.Factory(lambda host: Flusher(level=host.job.durability), takes_self=True)
    )
    watching: Watching | None = None
    _signal: int | None = None
    _late_signal: int | None = None
    _is_over: bool = False
    _gone: OSError | None = None
    _settled: RunSettledEntry | None = None
    _tree: Tree | None = None
    _writer: LineWriter | None = None
    _kernels: Kernels = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self.models.config.kernel
        self._kernels = Kernels(KernelSettings(config.python or self.job.environ.get("SAPWOOD_KERNEL_PYTHON")))

    async def run(self) -> Ended:
        """Raises WrongUsage, NotOurs before anything has started; StoreError and OSError where the store cannot be used."""
        if self.job.model is not None or (self.job.session is None and self.job.fork is None):
            # Before a lock file is made for a tree that then never is.
            self.models.get(self._named_model(None))
            if self.job.fallback_model is not None:
                self.models.get(self.job.fallback_model)
        ground = open_ground(self.job, self.home, self.clock.now)
        try:
            sink = Sink(self.clock)
            sink.watchers.append(self._hear_end)
            if self.job.is_json:
                self._writer = LineWriter(1, self._reader_gone)
                sink.outlets.append(self._writer)
            tree = self._tree = self._planted(ground, sink)
            await self._alive(tree)
            return self._ended(tree)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING_S):
                await self._kernels.aclose()
                await self.models.aclose()
            ground.close()

    def _planted(self, ground: Ground, sink: Sink) -> Tree:
        """The tree in memory, with a row for every session that is stored."""
        node = ground.nodes.get(ground.root_id)
        stored_model = None if node is None else model_of(node)
        model = self._named_model(stored_model)
        self.models.get(model)
        job, members = self.job, {ground.root_id: Member(0, model)}
        if job.fallback_model is not None:
            self.models.get(job.fallback_model)
        state = TreeState(
            ground.root_id,
            job.limits,
            job.retry,
            members,
            compaction=job.compaction,
            fallback_model=job.fallback_model,
            waits_for_reset=job.waits_for_reset,
        )
        tree = Tree.of(self._workshop(ground), state, sink, self.flusher, self.clock, self.job.name or UNNAMED)
        tree.root.tools, tree.root.thinking = self.job.tools, self.job.thinking
        tree.root.limits = dict(self.job.budgets)
        if "max_cost" in self.job.budgets and self.models.get(model)[1].price is None:
            raise WrongUsage(
                f"--max-cost cannot be kept: the price of {model} is not known. Give it a `cost` in the configuration, "
                "or use --max-tokens"
            )
        self.models.notice = lambda session, text: self._notice(tree, session, text)
        if node is not None:
            plant(tree, ground.nodes, tree.root.name)
            outbox = tree.root.outbox = tree.supervisor.outbox(tree.root, *ground.open(ground.root_id))
            sink.publish(tree.root.place, node.header)
            self._tell_repairs(ground, tree)
            if model != stored_model:
                provider, _, name = model.partition("/")
                outbox.append(ModelChangeEntry(provider=provider, model_id=name))
            if self.job.name is not None and self.job.name != tree.root.name:
                outbox.append(SessionInfoEntry(name=self.job.name))
        return tree

    def _named_model(self, stored: str | None) -> str:
        model = self.job.model or stored
        if model is None:
            raise WrongUsage(self.models.nothing_named())
        return model

    def _model(self, name: str) -> tuple[Model, ModelInfo]:
        """As the actors want it: a name that is not known is a KeyError with the reason."""
        try:
            return self.models.get(name)
        except WrongUsage as error:
            raise KeyError(str(error)) from error

    def _notice(self, tree: Tree, session: str, text: str) -> None:
        row = tree.supervisor.directory.rows[session]
        tree.supervisor.sink.publish(row.place, Diagnostic(level="warning", code="provider", text=text))

    def _tell_repairs(self, ground: Ground, tree: Tree) -> None:
        place, sink = tree.root.place, tree.supervisor.sink
        if ground.repaired:
            text = f"an earlier run was interrupted: {len(ground.repaired)} entries that it left out were added"
            sink.publish(place, Diagnostic(level="info", code="repaired", text=text))
        for session, trouble in ground.troubles.items():
            sink.publish(place, Diagnostic(level="warning", code="unreadable", text=f"session {session}: {trouble}"))

    def _workshop(self, ground: Ground) -> Workshop:
        return Workshop(
            model=self._model,
            tools=all_tools(self._kernels),
            env=child_env(self.job.environ, {}),
            cwd=str(self.job.cwd),
            create_journal=ground.create,
            open_journal=ground.open,
            read_tree=ground.read,
            journal_path=ground.path,
            artifact_dir=ground.artifact_dir,
            find_models=self.models.search,
            system_prompt=self._instructions().for_session,
        )

    def _instructions(self) -> Instructions:
        job = self.job
        files = context_files(job.cwd, self.home.root) if job.has_context_files else ()
        return Instructions(job.cwd, job.limits.max_depth, job.system_prompt, job.append_system_prompt, files)

    async def _alive(self, tree: Tree) -> None:
        """The tasks of the process. The flusher stands outside the tree and outlives it."""
        async with trio.open_nursery() as host:
            host.start_soon(self.flusher.run)
            try:
                async with trio.open_nursery() as outer:
                    await outer.start(self._hear_signals, outer.cancel_scope)
                    if self._writer is not None:
                        outer.start_soon(self._writer.run)
                    if self.watching is not None:
                        tree.supervisor.sink.watchers.append(self.watching.take)
                        outer.start_soon(self.watching.run)
                    if self.job.timeout_s is not None:
                        outer.start_soon(self._expire, tree, self.job.timeout_s)
                    tree.root.outcome = ""
                    if self._signal is None:
                        await tree.run(Prompt(f"prompt:{unix_ms(self.clock.now())}", self.job.prompt))
                    self._is_over = True
                    if self._writer is not None:
                        self._writer.finish()
                        await self._writer.written()
                    outer.cancel_scope.cancel()
            finally:
                self.flusher.end()

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
        if self._tree is not None:
            self._tree.tell(Stop(reason))

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
    host = Host(job, home, models, watching=watching)
    try:
        return trio.run(host.run)
    except StoreError as error:
        raise NotOurs(str(error)) from error
    except OSError as error:
        raise EngineError(f"the sessions in {home.sessions} cannot be used: {error}") from error
