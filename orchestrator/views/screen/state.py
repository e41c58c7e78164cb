"""The state of the live view: what is known, what is seen of it, and what is being typed or asked."""

from collections.abc import Mapping
from typing import Literal

import attrs

from orchestrator.views.chips import CHIPS, Chip, chip_meets
from orchestrator.views.columns import too_small
from orchestrator.views.grid import Look
from orchestrator.views.outline import Folding, Forest, Item, Order, Ranks, outline, still_holds
from orchestrator.views.query import Query, parse_query
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.details import Detail
from orchestrator.views.screen.dialogs import Confirm, Entry
from orchestrator.views.screen.pane import Pane

NOTICE_S = 10.0
Mode = Literal["list", "detail", "help"]


@attrs.frozen
class Lost:
    """A host does not answer since `since`; the next try is at `next_try` (Unix seconds)."""

    since: float
    tries: int
    next_try: float


@attrs.frozen
class Known:
    """What the world is like: the rows, whether the disk was read, how many ended trees are not among them."""

    rows: tuple[AgentRow, ...] = ()
    is_read: bool = False
    trees_found: int = 0
    ended_trees: int = 0
    lost: Lost | None = None


@attrs.frozen
class Notice:
    """A line that goes by itself, `until` in Unix seconds. `undo`: the session that can be brought back till then."""

    text: str
    style: str
    until: float
    undo: str | None = None


@attrs.frozen
class Screen:
    """`line`: where in the list the selected row stands, which it keeps while rows come and go above it.

    `pending`: what was asked of hosts and is not confirmed. `examined`: session and last event that a detail was asked for.
    `scroll`: lines from the end in a conversation, else from the top. `begun` in Unix seconds.
    """

    width: int = 80
    height: int = 24
    is_ascii: bool = False
    now: float = 0.0
    begun: float = 0.0
    known: Known = attrs.field(factory=Known)
    mode: Mode = "list"
    selected: str | None = None
    line: int = 0
    folding: Folding = attrs.field(factory=Folding)
    order: Order = "spawned"
    ranks: Ranks = attrs.field(factory=dict)
    chip: Chip | None = None
    filter: str = ""
    entry: Entry | None = None
    confirm: Confirm | None = None
    pane: Pane = attrs.field(factory=Pane)
    is_pane_open: bool = False
    notice: Notice | None = None
    pending: Mapping[str, str] = attrs.field(factory=dict)
    is_peeking: bool = False
    detail: Detail | None = None
    examined: tuple[str, str | None] | None = None
    tab: int = 0
    scroll: int = 0
    is_showing_ended: bool = False

    @property
    def look(self) -> Look:
        return Look(self.width, self.now, self.is_ascii, is_frozen=self.known.lost is not None)

    @property
    def rows(self) -> tuple[AgentRow, ...]:
        return self.known.rows

    @property
    def too_small(self) -> str:
        return too_small(self.width, self.height)

    @property
    def query(self) -> Query:
        """With what is being typed, so that hits are seen at once."""
        return parse_query(self.entry.text if self.entry is not None and self.entry.ask == "filter" else self.filter)

    @property
    def is_filtered(self) -> bool:
        return self.chip is not None or bool(self.query.terms)

    @property
    def hits(self) -> frozenset[str] | None:
        """The sessions that meet chip and filter; None without either."""
        if not self.is_filtered:
            return None
        query, chip, forest = self.query, self.chip, Forest.of(self.rows)
        return frozenset(
            row.session_id
            for row in self.rows
            if query.meets(row, self.now) and (chip is None or chip_meets(chip, row, forest.by_id))
        )

    @property
    def items(self) -> list[Item]:
        return outline(self.rows, self.folding, self.ranks, self.hits)

    @property
    def is_in_order(self) -> bool:
        return still_holds(Forest.of(self.rows), self.order, self.ranks)

    def row(self, session_id: str | None) -> AgentRow | None:
        return next((row for row in self.rows if row.session_id == session_id), None)

    @property
    def selected_row(self) -> AgentRow | None:
        """The session that is selected; None on a group."""
        return self.row(self.selected)

    @property
    def tree(self) -> list[AgentRow]:
        """The rows of the tree that the selection is in, else of the first one."""
        row = self.selected_row
        if row is None and self.selected is not None:  # a group, which is named after its parent
            row = self.row(self.selected.partition("/")[0])
        root_id = row.root_session_id if row else self.rows[0].root_session_id if self.rows else ""
        return [row for row in self.rows if row.root_session_id == root_id]


def place_of(items: list[Item], key: str | None) -> int | None:
    return next((place for place, item in enumerate(items) if item.key == key), None)


def settled_on(screen: Screen, items: list[Item], before: list[Item] | None = None) -> Screen:
    """With a selection that is seen: what was selected, else what hides it, else what stands in its place."""
    if not items:
        return attrs.evolve(screen, selected=None, line=0)
    if place_of(items, screen.selected) is not None:
        return screen
    for above in Forest.of(screen.rows).above(screen.selected or ""):
        if place_of(items, above) is not None:
            return attrs.evolve(screen, selected=above)
    old = place_of(before, screen.selected) if before is not None else None
    place = min(old if old is not None else 0, len(items) - 1)
    return attrs.evolve(screen, selected=items[place].key)


def next_chip(chip: Chip | None) -> Chip | None:
    """Round about, with none in between."""
    names: list[Chip | None] = [None, *CHIPS]
    return names[(names.index(chip) + 1) % len(names)]
