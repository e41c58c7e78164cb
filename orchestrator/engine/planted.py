"""One tree of a host: where it lies, what it works with, and its actors."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import msgspec
import trio

from actors.directory import Row
from actors.flusher import Flushing
from actors.protocol.mail import Command, Stop
from actors.protocol.model import Model, ModelInfo
from actors.protocol.supervision import Member, TreeState
from actors.sink import Sink
from actors.supervisor import Workshop
from actors.tree import Tree
from orchestrator.engine.control.audience import Feed
from orchestrator.engine.declared.speaker import Declared, declared_in
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.hearing import Hearing
from orchestrator.engine.instructions import Instructions, context_files
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.opening import Ground
from orchestrator.engine.rows import model_of, name_of, plant
from orchestrator.engine.terms import terms_entry, terms_of
from orchestrator.engine.toolset import all_tools
from orchestrator.engine.windows import windows
from orchestrator.tools.kernel.interpreter import KernelSettings
from orchestrator.tools.kernel.kernels import Kernels
from orchestrator.tools.registry import child_env
from orchestrator.views.live import LiveTree
from orchestrator.views.live_session import HostFacts
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from store.disk.home import Home
from store.entries import CustomEntry, ModelChangeEntry, SessionInfoEntry
from store.errors import BadUsage
from store.events import AgentSettled, Diagnostic, Event, Place
from store.goals import goal_entry, goal_of
from store.repair import Node

CLOSING_S = 2.0
LOOK_AGAIN_S = 0.5


@attrs.define(eq=False)
class Planted:
    """Wires a tree to the disk, the models, the tools and whoever watches. `fold`: what its sessions are doing.

    `is_kept`: it stays at hand when it is quiet, until it is let go of.
    """

    job: Job
    home: Home
    models: Models
    ground: Ground
    sink: Sink
    feed: Feed
    kernels: Kernels
    declared: Declared | None
    fold: LiveTree = attrs.field(factory=LiveTree)
    hearing: Hearing = attrs.field(factory=Hearing)
    tree: Tree = attrs.field(init=False)
    leaving: trio.Event = attrs.field(factory=trio.Event)
    """Set once the tree is to end."""
    gone: trio.Event = attrs.field(factory=trio.Event)
    """Set once it is let go of: somebody else may open it."""
    is_kept: bool = False
    _early: list[tuple[Row, Command]] = attrs.field(factory=list)
    is_over: bool = False
    """It takes nothing any more."""

    @classmethod
    def on(
        cls, ground: Ground, job: Job, home: Home, models: Models, feed: Feed, sink: Sink, flusher: Flushing
    ) -> "Planted":
        """The tree in memory, with a row for every session that is stored. Nothing of it runs yet.

        Raises WrongUsage; StoreError, OSError.
        """
        config = models.config.kernel
        kernels = Kernels(KernelSettings(job.environ.get("SAPWOOD_KERNEL_PYTHON") or config.python))
        node = ground.nodes.get(ground.root_id)
        declared = Declared(job.tree) if job.tree else declared_in([] if node is None else node.tree.own_records)
        planted = cls(job, home, models, ground, sink, feed, kernels, declared)
        planted.fold.host = HostFacts(os.getpid(), ground.path, windows(home), job.budgets.get("max_cost"))
        sink.watchers += [planted.fold.take, planted.hearing.take]
        stored_model = None if node is None else model_of(node)
        model = planted._checked_model(stored_model)
        state = planted._state(model, None if node is None else goal_of(node.records))
        tree = planted.tree = Tree.of(planted._workshop(), state, sink, flusher, sink.clock, job.name)
        feed.rows = tree.supervisor.directory.rows
        tree.root.tools, tree.root.thinking, tree.root.limits = job.tools, job.thinking, dict(job.budgets)
        tree.root.founding = planted._founding(state.autonomy.goal)
        if job.timeout_s is not None:
            tree.root.limits["timeout_s"] = job.timeout_s
        models.notice = planted._notice
        if node is not None:
            planted._take_up(node, has_new_model=model != stored_model)
        tree.supervisor.open_accounts()
        return planted

    @property
    def root_id(self) -> str:
        return self.ground.root_id

    def rows(self, now: float) -> list[AgentRow]:
        """What people see of its sessions, parents before children. `now` in Unix seconds."""
        return self.fold.rows(now)

    @asynccontextmanager
    async def alive(self, *first: Command) -> AsyncIterator[None]:
        """The tree takes work while this is open: these commands for its root, then what came for it before, then the rest.

        One that was interrupted goes on, where the job says no more than that.
        """
        try:
            async with self.tree.alive():
                if self.job.prompt is None:
                    self.tree.take_up(self.ground.unfinished)
                for command in first:
                    self.tree.tell(command)
                early, self._early = self._early, []
                for row, letter in early:
                    self.tree.supervisor.directory.deliver(row, letter)
                yield
        finally:
            self.is_over = True

    def deliver(self, row: Row, command: Command) -> bool:
        """Bring a session a command from outside. False: the tree has ended."""
        if self.is_over:
            return False
        if self.tree.takes_work:
            self.tree.supervisor.directory.deliver(row, command)
        else:
            self._early.append((row, command))
        return True

    def leave(self, reason: str) -> None:
        """Stop the root, with all below it; whoever keeps the tree lets go of it then."""
        self.leaving.set()
        self.deliver(self.tree.root, Stop(reason))

    def event_of(self, row: Row, kind: type[Event]) -> Callable[[Place, Event], bool]:
        """Whether an event is one of this kind, of this session."""
        return lambda place, event: place.session_id == row.id and isinstance(event, kind)

    async def settled(self, row: Row) -> None:
        """Return when no run of this session is open, or the tree is let go of: what broke it may have left one open."""
        while row.is_running and not self.gone.is_set():
            # One that was woken and had nothing to do comes to rest without a word.
            with self.hearing.listen(self.event_of(row, AgentSettled)) as ear, trio.move_on_after(LOOK_AGAIN_S):
                await ear.heard()

    def tell_later(self, diagnostic: Diagnostic) -> None:
        """Something that is to be said as soon as the stream has begun."""

        def take(place: Place, event: Event, at: float) -> None:
            # A new list: the old one is being gone through.
            self.sink.watchers = [watcher for watcher in self.sink.watchers if watcher is not take]
            self.sink.publish(self.tree.root.place, diagnostic)

        if self.sink.seq:
            self.sink.publish(self.tree.root.place, diagnostic)
        else:
            self.sink.watchers.append(take)

    async def aclose(self) -> None:
        """End what the tools left, and let go of the tree."""
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING_S):
                await self.kernels.aclose()
                await self.models.aclose()
        finally:
            self.ground.close()
            self.gone.set()
            self.hearing.end()

    # Making it

    def _checked_model(self, stored: str | None) -> str:
        """The root's model. Raises WrongUsage where it, the fallback or a limit on its cost cannot be."""
        job = self.job
        check_models(job, self.models, stored)
        model = named_model(job, self.models, stored)
        for name in filter(None, (model, job.fallback_model, self.models.config.status.model)):
            if "max_cost" in job.budgets and self.models.get(name)[1].price is None:
                raise WrongUsage(
                    f"--max-cost cannot be kept: the price of {name} is not known. Give it a `cost` in the configuration, "
                    "or use --max-tokens"
                )
        return model

    def _state(self, model: str, goal: str | None) -> TreeState:
        """`goal`: what the stored session is held to. The job may name another one, or with an empty one none."""
        job, root_id = self.job, self.ground.root_id
        goal = goal if job.autonomy.goal is None else job.autonomy.goal or None
        return TreeState(
            root_id,
            job.limits,
            job.retry,
            {root_id: Member(0, model)},
            compaction=job.compaction,
            fallback_model=job.fallback_model,
            describer=self.models.config.status.model,
            waits_for_reset=job.waits_for_reset,
            gates=job.gates,
            autonomy=msgspec.structs.replace(job.autonomy, goal=goal),
        )

    def _founding(self, goal: str | None) -> tuple[CustomEntry, ...]:
        """What the journal of a new tree begins with."""
        declared = [] if self.declared is None else [self.declared.entry]
        terms = [terms_entry(self.job.terms)] if self.job.terms else []
        held_to = [] if goal is None else [goal_entry(goal, "active")]
        return (*declared, *terms, *held_to)

    def _take_up(self, node: Node, *, has_new_model: bool) -> None:
        """A stored tree goes on: its rows, its journal, and what this job says anew."""
        tree, ground, job = self.tree, self.ground, self.job
        stored = Stored(ground.root_id, ground.nodes, "dead", None, ground.troubles, folder=str(self.home.sessions))
        # A journal may hold spend that nobody can mean; it is left out of totals elsewhere, and is no reason not to go on.
        with suppress(BadUsage):
            self.fold.seed(tree_rows(stored, self.sink.clock.now()))
        plant(tree, ground.nodes)
        outbox = tree.root.outbox = tree.supervisor.outbox(tree.root, *ground.open(ground.root_id))
        self.sink.publish(tree.root.place, node.header)
        self._tell_repairs()
        if has_new_model:
            provider, _, name = tree.root.model.partition("/")
            outbox.append(ModelChangeEntry(provider=provider, model_id=name))
        if job.name is not None and job.name != name_of(node):
            outbox.append(SessionInfoEntry(name=job.name))
            tree.root.name, tree.root.is_named = job.name, True
        # A level that was set since then is the one that counts.
        tree.root.thinking = tree.root.thinking or (job.terms or {}).get("thinking")
        if job.terms is not None and job.terms != terms_of(node.tree.own_records):
            outbox.append(terms_entry(job.terms))
        goal = tree.supervisor.state.autonomy.goal
        if goal != goal_of(node.records):
            outbox.append(goal_entry(goal or "", "active" if goal else "dropped"))

    def _tell_repairs(self) -> None:
        place, ground = self.tree.root.place, self.ground
        if ground.repaired:
            text = f"an earlier run was interrupted: {len(ground.repaired)} entries that it left out were added"
            self.sink.publish(place, Diagnostic(level="info", code="repaired", text=text))
        for session, trouble in ground.troubles.items():
            text = f"session {session}: {trouble}"
            self.sink.publish(place, Diagnostic(level="warning", code="unreadable", text=text))

    def _workshop(self) -> Workshop:
        ground, instructions = self.ground, self._instructions()
        return Workshop(
            model=self._model,
            tools=all_tools(self.kernels),
            env=child_env(self.job.environ, {}),
            cwd=str(self.job.cwd),
            create_journal=ground.create,
            open_journal=ground.open,
            read_tree=ground.read,
            journal_path=ground.path,
            artifact_dir=ground.artifact_dir,
            find_models=self.models.search,
            system_prompt=lambda row: instructions.for_session(row, self.tree.supervisor.state.autonomy),
            speaker=self._speaker,
        )

    def _instructions(self) -> Instructions:
        job = self.job
        files = context_files(job.cwd, self.home.root) if job.has_context_files else ()
        return Instructions(job.cwd, job.limits.max_depth, job.system_prompt, job.append_system_prompt, files)

    def _model(self, name: str) -> tuple[Model, ModelInfo]:
        """As the actors want it: a name that is not known is a KeyError with the reason."""
        try:
            return self.models.get(name)
        except WrongUsage as error:
            raise KeyError(str(error)) from error

    def _speaker(self, row: Row) -> Model | None:
        return None if self.declared is None else self.declared.speaker(row)

    def _notice(self, session: str, text: str) -> None:
        row = self.tree.supervisor.directory.rows[session]
        self.sink.publish(row.place, Diagnostic(level="warning", code="provider", text=text))


def named_model(job: Job, models: Models, stored: str | None) -> str:
    """The name of the root's model: the job's, else the stored session's. Raises WrongUsage where there is none."""
    model = job.model or stored
    if model is None:
        raise WrongUsage(models.nothing_named())
    return model


def check_models(job: Job, models: Models, stored: str | None) -> None:
    """Raises WrongUsage for a model of the job that cannot be called."""
    models.get(named_model(job, models, stored))
    for name in filter(None, (job.fallback_model, models.config.status.model)):
        models.get(name)
