"""A tree of sessions at work: the root's task, the ledger, and the end of it all."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
import msgspec
import trio

from actors.clock import Clock
from actors.directory import Directory, Row
from actors.flusher import Flushing
from actors.holder import Holder
from actors.mailbox import Mailbox
from actors.protocol.mail import REVIVING, Command, Prompt
from actors.protocol.supervision import TreeState
from actors.sink import Sink
from actors.supervisor import Supervisor, Workshop, task_prompt
from store.events import Place

UNNAMED = "root"
"""What a root is called in scripts and families when nobody gave it a name; its header then has none."""


@attrs.define(eq=False)
class Tree:
    """The supervisor and the tasks of one tree. A tree without work has no tasks; it can be run again."""

    supervisor: Supervisor
    root: Row
    _nursery: trio.Nursery | None = None
    _rested: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @classmethod
    def of(
        cls, workshop: Workshop, state: TreeState, sink: Sink, flusher: Flushing, clock: Clock, name: str | None = None
    ) -> "Tree":
        """A tree with nothing but its root's row in it."""
        directory = Directory(lambda row, nursery: tree._start(row, nursery))
        supervisor = Supervisor(workshop, state, sink, flusher, clock, directory)
        place = Place(state.root_id, state.root_id, None, 0)
        model = state.members[state.root_id].model
        root = Row(place, name or UNNAMED, model, None, Mailbox(clock), is_named=name is not None)
        directory.add(root)
        tree = cls(supervisor, root)
        return tree

    def _start(self, row: Row, nursery: trio.Nursery | None) -> None:
        within = nursery or self._nursery
        if within is None:
            raise RuntimeError("a session was started in a tree that is not running")
        within.start_soon(self._hold, row)

    async def _hold(self, row: Row) -> None:
        await Holder(self.supervisor, row).run()
        if row is self.root:
            self._rested.unpark_all()

    @property
    def takes_work(self) -> bool:
        """Whether its tasks are there: then commands for any of its sessions are heard."""
        return self._nursery is not None

    def tell(self, command: Command) -> None:
        """Bring the root a command from outside. Raises RuntimeError for new work in a tree that is not running."""
        if self._nursery is None and isinstance(command, REVIVING):
            raise RuntimeError("work was given to a tree that is not running")
        self.supervisor.directory.deliver(self.root, command)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """The tasks of the tree. While this is open it takes work, from anybody."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.supervisor.ledger.run)
            try:
                yield
            finally:
                self._nursery = None
            nursery.cancel_scope.cancel()

    async def quiet(self) -> None:
        """Return when nothing in the tree is at work and what it spent is folded."""
        while self.root.has_task:
            await self._rested.park()
            if not self.root.has_task:
                await self.supervisor.drained()

    def take_up(self, unfinished: Mapping[str, str | None]) -> None:
        """Sessions of an interrupted tree go on where their journals end, or begin with their task. Parents come first."""
        directory = self.supervisor.directory
        for session_id, task in unfinished.items():
            row = directory.rows[session_id]
            row.outcome = ""
            if task is None:
                directory.revive(row)
            else:
                directory.deliver(row, task_prompt(session_id, task))

    async def run(self, command: Command) -> None:
        """Give the root its command and return when the tree is quiet."""
        async with self.alive():
            if isinstance(command, Prompt):
                # The task of the tree: an abort that comes with it ends it as aborted.
                command = msgspec.structs.replace(command, origin="spawn_task")
            self.tell(command)
            await self.quiet()
