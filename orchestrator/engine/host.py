"""A host: one process that runs trees. What its trees share, and who they are."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

from actors.clock import Clock
from actors.directory import Row
from actors.flusher import Flusher
from actors.sink import Outlet, Sink
from orchestrator.engine.control.audience import Audience, Feed
from orchestrator.engine.control.ring import Ring
from orchestrator.engine.errors import EngineError, NotOurs
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.opening import open_ground
from orchestrator.engine.planted import Planted, check_models
from orchestrator.views.rows import AgentRow
from store.disk.home import Home
from store.errors import StoreError

T = TypeVar("T")


@attrs.define(eq=False)
class Host:
    """The trees by the ids of their roots; one clock and one flusher for all. `is_resident`: it outlives its clients."""

    home: Home
    clock: Clock = attrs.field(factory=Clock)
    flusher: Flusher = attrs.field(factory=Flusher)
    trees: dict[str, Planted] = attrs.field(factory=dict)
    is_resident: bool = False
    audience: Audience = attrs.field(factory=lambda: Audience(secrets.token_hex(8)))
    leaving: trio.Event = attrs.field(factory=trio.Event)
    """Set once the host is to end."""
    _closing: list[Planted] = attrs.field(factory=list)
    _seqs: dict[str, int] = attrs.field(factory=dict)
    _uprooted: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The tasks of the process. The flusher stands outside all trees and outlives them."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.flusher.run)
            try:
                yield
            finally:
                self.flusher.end()

    def plant(self, job: Job, models: Models, outlets: Sequence[Outlet] = ()) -> Planted:
        """Own the tree of a job, a new one or a stored one, and have it in memory. `outlets` see its stream from the first line.

        Raises WrongUsage, NotOurs before anything has started; StoreError and OSError where the store cannot be used.
        """
        if job.model is not None or (job.session is None and job.fork is None):
            # Before a lock file is made for a tree that then never is.
            check_models(job, models, None)
        ground = open_ground(job, self.home, self.clock.now)
        # Numbers go on where they were: within one generation none is given out twice.
        seq = self._seqs.get(ground.root_id, 0)
        feed = Feed(ground.root_id, self.audience, ring=Ring(seq=seq))
        sink = Sink(self.clock, [feed, *outlets], seq=seq)
        try:
            planted = Planted.on(ground, job, self.home, models, feed, sink, self.flusher)
        except BaseException:
            ground.close()
            raise
        self.trees[planted.root_id] = planted
        if ground.nodes:
            self.audience.tell_opened(feed, planted.rows(self.clock.now()))
        return planted

    @property
    def id(self) -> str:
        """Another one for every host that ever was."""
        return self.audience.generation

    def rows(self) -> list[AgentRow]:
        """The sessions of all trees, as people see them."""
        now = self.clock.now()
        return [row for planted in self.trees.values() for row in planted.rows(now)]

    def find(self, session_id: str) -> tuple[Planted, Row] | None:
        """A session of one of the trees, and its tree."""
        for planted in self.trees.values():
            row = planted.tree.supervisor.directory.rows.get(session_id)
            if row is not None:
                return planted, row
        return None

    def being_let_go(self, session_id: str) -> Planted | None:
        """The tree of a session that can be opened again in a moment, and not yet."""
        closing = (planted for planted in self._closing if session_id in planted.tree.supervisor.directory.rows)
        return next(closing, None)

    def leave(self, reason: str) -> None:
        """Stop all trees; the host ends when they have."""
        self.leaving.set()
        for planted in self.trees.values():
            planted.leave(reason)

    async def uproot(self, planted: Planted) -> None:
        """Let go of a tree that has come to rest."""
        if self.trees.pop(planted.root_id, None) is not None:
            self._seqs[planted.root_id] = planted.sink.seq
            self.audience.tell_left(planted.feed)
        self._closing.append(planted)
        try:
            await planted.aclose()
        finally:
            self._closing.remove(planted)
            self._uprooted.unpark_all()

    async def rested(self) -> None:
        """Return when there is no tree any more."""
        while self.trees:
            await self._uprooted.park()


def hosting(home: Home, work: Callable[[], Awaitable[T]]) -> T:
    """Run what a host does in this process. Raises EngineError."""
    try:
        return trio.run(work)
    except StoreError as error:
        raise NotOurs(str(error)) from error
    except OSError as error:
        raise EngineError(f"the sessions in {home.sessions} cannot be used: {error}") from error
