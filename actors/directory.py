"""Who is in the tree: a row per session, kept also when the session has no task."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import trio

from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.protocol.mail import ChildWoken, Mail, Prompt
from store.events import Place
from store.repair import Aggregates
from store.usage import NOTHING, Spend


@attrs.define(eq=False)
class Row:
    """One session. `below`: what its descendants were billed; `why` and `target_id`: how its spend is attributed.

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
    is_stored: bool = False
    outbox: Outbox | None = None
    nursery: trio.Nursery | None = None
    has_task: bool = False
    is_running: bool = False
    runs: int = 0
    turns: int = 0
    outcome: str = ""
    target_id: str | None = None
    why: str = "spawn_task"
    own: Spend = NOTHING
    below: Spend = NOTHING
    aggregates: Aggregates = attrs.field(factory=Aggregates)
    children: list[Row] = attrs.field(factory=list)
    _to_start: list[Row] = attrs.field(factory=list)

    @property
    def id(self) -> str:
        return self.place.session_id

    @property
    def total(self) -> Spend:
        return self.own + self.below

    @property
    def status(self) -> str:
        if not self.is_running:
            return "idle"
        return "waiting" if any(child.is_running for child in self.children) else "running"

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
        """Bring `mail` to the session. A prompt revives one that has no task; what only ends work is for nobody then."""
        if row.has_task and row.mailbox.put(mail):
            return
        if not isinstance(mail, Prompt):
            return
        row.mailbox = Mailbox(row.mailbox.clock)
        row.mailbox.put(mail)
        for ancestor, child in row.ancestors():
            child.is_running = True
            if ancestor.has_task:
                ancestor.mailbox.put(ChildWoken(child.id))
        self.revive(row)

    def revive(self, row: Row) -> None:
        """Start the session's task, its missing ancestors first."""
        if row.has_task:
            return
        if row.parent is not None and not row.parent.has_task:
            if row.parent.mailbox.is_closed:
                row.parent.mailbox = Mailbox(row.parent.mailbox.clock)
            self.revive(row.parent)
        row.has_task = True
        row.is_running = True
        parent = row.parent
        if parent is None:
            self.start(row, None)
        elif parent.nursery is None:
            parent._to_start.append(row)
        else:
            self.start(row, parent.nursery)

    def opened(self, row: Row, nursery: trio.Nursery) -> None:
        """The session's own task runs now: its children that waited for that start."""
        row.nursery = nursery
        waiting, row._to_start = row._to_start, []
        for child in waiting:
            self.start(child, nursery)
