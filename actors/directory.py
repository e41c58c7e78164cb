"""Who is in the tree: a row per session, kept also when the session has no task."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import trio

from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.protocol.mail import REVIVING, ChildRested, ChildWoken, Emptied, Mail
from actors.run_time import RunTime
from store.aggregates import Aggregates
from store.entries import Known
from store.events import Place
from store.origins import RunOrigin
from store.usage import NOTHING, Spend


@attrs.define(eq=False)
class Row:
    """One session. `below`: what its descendants were billed; `origin` and `target_id`: how its spend is attributed.

    `is_gone`: it was deleted, and nobody of the family reaches it. `founding`: entries with which its journal begins.
    `is_stored`: it has a journal; `outbox` is there once that is open; `nursery` holds the tasks of its children while its
    own task runs.
    `runs` counts the runs that have ended; `is_running`: one is open, or about to be.
    """

    place: Place
    name: str
    model: str
    parent: Row | None
    mailbox: Mailbox
    is_named: bool = True
    tools: tuple[str, ...] | None = None
    thinking: str | None = None
    service_tier: str | None = None
    limits: dict[str, float] = attrs.field(factory=dict)
    is_gone: bool = False
    founding: tuple[Known, ...] = ()
    is_stored: bool = False
    outbox: Outbox | None = None
    nursery: trio.Nursery | None = None
    has_task: bool = False
    is_running: bool = False
    runs: int = 0
    turns: int = 0
    outcome: str = ""
    target_id: str | None = None
    origin: RunOrigin = attrs.field(factory=RunOrigin)
    own: Spend = NOTHING
    below: Spend = NOTHING
    time: RunTime | None = None
    aggregates: Aggregates = attrs.field(factory=Aggregates)
    children: list[Row] = attrs.field(factory=list)
    _to_start: list[Row] = attrs.field(factory=list)

    @property
    def id(self) -> str:
        return self.place.session_id

    @property
    def present(self) -> list[Row]:
        """The children that have not been deleted."""
        return [child for child in self.children if not child.is_gone]

    @property
    def total(self) -> Spend:
        return self.own + self.below

    @property
    def turns_below(self) -> int:
        """Its turns, with those of all below it."""
        return self.turns + sum(child.turns_below for child in self.children)

    @property
    def status(self) -> str:
        if not self.is_running:
            return "idle"
        return "waiting" if any(child.is_running for child in self.children) else "running"

    def take_waiting(self) -> list[Row]:
        """The children that wait for the start of this session's task; nobody waits from now on."""
        waiting, self._to_start = self._to_start, []
        return waiting

    def ancestors(self) -> Iterator[tuple[Row, Row]]:
        """(ancestor, its child on the way here), from the parent to the root."""
        child = self
        while child.parent is not None:
            yield child.parent, child
            child = child.parent


@attrs.define
class Directory:
    """Finds sessions and brings them mail. `start` starts the task of a session inside its parent's."""

    start: Callable[[Row, trio.Nursery | None], None]
    rows: dict[str, Row] = attrs.field(factory=dict)

    def add(self, row: Row) -> None:
        self.rows[row.id] = row
        if row.parent is not None:
            row.parent.children.append(row)

    def deliver(self, row: Row, mail: Mail) -> None:
        """Bring `mail` to the session. What begins work revives one that has no task, what only ends work is for nobody then."""
        if row.has_task and row.mailbox.put(mail):
            return
        if not isinstance(mail, REVIVING):
            return
        row.mailbox = Mailbox(row.mailbox.clock)
        row.mailbox.put(mail)
        self.revive(row)

    def wake(self, row: Row) -> None:
        """The session runs, or is about to, or waits for one below that does: those above wait for it."""
        while not row.is_running:
            row.is_running = True
            if row.parent is None:
                return
            if row.parent.has_task:
                row.parent.mailbox.put(ChildWoken(row.id))
            row = row.parent

    def revive(self, row: Row) -> None:
        """Start the session's task, its missing ancestors first. One that is just ending starts anew when it has ended."""
        self.wake(row)
        if row.has_task:
            return
        if row.mailbox.is_closed:
            row.mailbox = Mailbox(row.mailbox.clock)
        row.has_task = True
        parent = row.parent
        if parent is None:
            self.start(row, None)
        elif parent.nursery is None:
            parent._to_start.append(row)
            self.revive(parent)
        else:
            self.start(row, parent.nursery)

    def rest(self, row: Row) -> None:
        """The session's task has ended; the row stays. What came at the last moment starts it anew."""
        left = [letter.mail for letter in row.mailbox.close() if isinstance(letter.mail, REVIVING)]
        row.has_task, row.nursery = False, None
        if left or row._to_start:
            for mail in left:
                self.deliver(row, mail)
            self.revive(row)
            return
        if row.outbox is not None and row.parent is not None:
            row.outbox.tree.shed()
        if row.parent is not None and row.parent.has_task:
            # Whoever counts it as running was told of no end: there was none.
            row.parent.mailbox.put(ChildRested(row.id) if row.is_running else Emptied())
        row.is_running = False

    def opened(self, row: Row, nursery: trio.Nursery) -> None:
        """The session's own task runs now: its children that waited for that start."""
        row.nursery = nursery
        for child in row.take_waiting():
            self.start(child, nursery)
