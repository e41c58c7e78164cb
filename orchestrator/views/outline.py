"""Which rows of a forest are seen, and in which order: folding, ordering, filters. Sums never change with any of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import attrs

from orchestrator.views.money import spent_tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from orchestrator.views.states import STATES, State
from store.errors import BadUsage
from store.usage import NOTHING, Spend, spend_of

MANY_CHILDREN = 12
Order = Literal["spawned", "total", "own", "time", "context", "name"]
ORDERS: tuple[Order, ...] = ("spawned", "total", "own", "time", "context", "name")


@attrs.frozen
class Folding:
    """Rows down to `depth` are seen (None: all), and of more than `many` children (None: never) groups.

    `opened` and `closed` were changed by hand.
    """

    depth: int | None = 1
    many: int | None = MANY_CHILDREN
    opened: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()

    def is_open(self, key: str, level: int, *, is_group: bool = False) -> bool:
        by_rule = not is_group and (self.depth is None or level < self.depth)
        return key in self.opened or (by_rule and key not in self.closed)

    def set(self, key: str, *, is_open: bool) -> "Folding":
        opened = self.opened | {key} if is_open else self.opened - {key}
        closed = self.closed - {key} if is_open else self.closed | {key}
        return attrs.evolve(self, opened=opened, closed=closed)


@attrs.frozen
class Group:
    """Children that ended alike, folded together."""

    state: State
    rows: tuple[AgentRow, ...]

    @property
    def total(self) -> Spend:
        total = NOTHING
        for row in self.rows:
            total = total + _spend(row)
        return total

    @property
    def model(self) -> str | None:
        models = {row.model for row in self.rows}
        return models.pop() if len(models) == 1 else None


@attrs.frozen
class Item:
    """One line of the outline: a session or a group. `is_open` None: there is nothing below it.

    `is_last` says of each level from 1 to its own whether nothing more comes there. `hidden_issues`: below it and not seen.
    """

    key: str
    level: int
    row: AgentRow | None
    group: Group | None = None
    is_open: bool | None = None
    is_last: tuple[bool, ...] = ()
    hidden_issues: int = 0
    is_dim: bool = False

    @property
    def state(self) -> State:
        return self.row.state if self.row is not None else self.group.state  # type: ignore[union-attr]


@attrs.frozen
class Forest:
    """Rows by parent. Parents that are not among the rows make their children roots."""

    roots: tuple[AgentRow, ...]
    children: Mapping[str, Sequence[AgentRow]]
    by_id: Mapping[str, AgentRow]

    @classmethod
    def of(cls, rows: Sequence[AgentRow]) -> "Forest":
        by_id = {row.session_id: row for row in rows}
        children: dict[str, list[AgentRow]] = {}
        roots = []
        for row in rows:
            if row.parent_session_id in by_id:
                children.setdefault(str(row.parent_session_id), []).append(row)
            else:
                roots.append(row)
        return cls(tuple(roots), children, by_id)

    def above(self, session_id: str) -> Iterator[str]:
        """Its ancestors, nearest first."""
        row = self.by_id.get(session_id)
        while row is not None and (row := self.by_id.get(row.parent_session_id or "")) is not None:
            yield row.session_id


Ranks = Mapping[str, int]


def ranks(rows: Sequence[AgentRow], order: Order) -> dict[str, int]:
    """The place of each row in this order, by session id; applied among siblings. Empty for the order of spawning."""
    if order == "spawned":
        return {}
    key = _KEYS[order]
    return {row.session_id: place for place, row in enumerate(sorted(rows, key=key))}


def still_holds(forest: Forest, order: Order, known: Ranks) -> bool:
    """Whether siblings would still come in this order if it were applied again."""
    if order == "spawned":
        return True
    key = _KEYS[order]
    for siblings in (forest.roots, *forest.children.values()):
        placed = _sorted(siblings, known)
        if any(key(one) > key(other) for one, other in pairwise(placed)):
            return False
    return True


def _sorted(siblings: Sequence[AgentRow], known: Ranks) -> list[AgentRow]:
    """Those without a rank are new: they come last, as they were spawned."""
    return sorted(siblings, key=lambda row: known.get(row.session_id, len(known))) if known else list(siblings)


def _spend(row: AgentRow) -> Spend:
    try:
        return NOTHING if row.total is None else spend_of(row.total)
    except BadUsage:
        return NOTHING


def _own_pico(row: AgentRow) -> int:
    try:
        return 0 if row.own is None else spend_of(row.own).total_pico
    except BadUsage:
        return 0


_KEYS: dict[str, Callable[[AgentRow], tuple[float | str, ...]]] = {
    "total": lambda row: (-_spend(row).total_pico, -(spent_tokens(row.total) or 0)),
    "own": lambda row: (-_own_pico(row), -(spent_tokens(row.own) or 0)),
    "time": lambda row: (-(row.elapsed_ms or 0),),
    "context": lambda row: (-(row.context_tokens or 0),),
    "name": lambda row: (title(row).casefold(),),
}


def outline(
    rows: Sequence[AgentRow],
    folding: Folding = Folding(),
    known: Ranks = {},  # noqa: B006
    hits: frozenset[str] | None = None,
) -> list[Item]:
    """The lines that are seen. `hits`: the rows that meet the filter, None without one; their ancestors stay, dimmed."""
    return list(_Outline(Forest.of(rows), folding, known, hits).items())


@attrs.define
class _Outline:
    forest: Forest
    folding: Folding
    known: Ranks
    hits: frozenset[str] | None
    _kept: set[str] = attrs.field(factory=set)

    def items(self) -> Iterator[Item]:
        """Without recursion: a chain of children may be long."""
        if self.hits is not None:
            self._kept = set(self.hits)
            for hit in self.hits:
                self._kept.update(self.forest.above(hit))
        stack = [self._entry(row, 0, ()) for row in reversed(self._shown(self.forest.roots))]
        while stack:
            item = stack.pop()
            yield item
            if item.is_open:
                below = self._below(item)
                last = len(below) - 1
                for place in range(last, -1, -1):
                    stack.append(self._entry(below[place], item.level + 1, (*item.is_last, place == last)))

    def _shown(self, siblings: Sequence[AgentRow]) -> list[AgentRow]:
        kept = siblings if self.hits is None else [row for row in siblings if row.session_id in self._kept]
        return _sorted(kept, self.known)

    def _below(self, item: Item) -> Sequence[AgentRow | Group]:
        if item.group is not None:
            return item.group.rows
        children = self._shown(self.forest.children.get(item.key, ()))
        many = self.folding.many
        return children if self.hits is not None or many is None or len(children) <= many else grouped(children)

    def _entry(self, entry: AgentRow | Group, level: int, is_last: tuple[bool, ...]) -> Item:
        if isinstance(entry, Group):
            key = group_key(entry.rows[0].parent_session_id, entry.state)
            return Item(key, level, None, entry, self.folding.is_open(key, level, is_group=True), is_last)
        key = entry.session_id
        has_children = bool(self._shown(self.forest.children.get(key, ())))
        is_forced = self.hits is not None and any(
            child.session_id in self._kept for child in self.forest.children.get(key, ())
        )
        is_open: bool | None = (is_forced or self.folding.is_open(key, level)) if has_children else None
        hidden = entry.issues - entry.state.is_issue if is_open is False else 0
        is_dim = self.hits is not None and key not in self.hits
        return Item(key, level, entry, None, is_open, is_last, hidden, is_dim)


def grouped(children: Sequence[AgentRow]) -> list[AgentRow | Group]:
    """Of many children first those with issues, then those at work, then one line per outcome."""
    issues = [row for row in children if row.issues]
    working = [row for row in children if not row.issues and (row.state.is_working or row.working)]
    seen = {row.session_id for row in (*issues, *working)}
    rest: dict[str, list[AgentRow]] = {}
    for row in children:
        if row.session_id not in seen:
            rest.setdefault(row.state.word, []).append(row)
    groups = [Group(STATES[word], tuple(rest[word])) for word in STATES if word in rest]
    return [*issues, *working, *(group.rows[0] if len(group.rows) == 1 else group for group in groups)]


def group_key(parent_id: str | None, state: State) -> str:
    return f"{parent_id}/{state.word}"


def opened_to(rows: Sequence[AgentRow], folding: Folding, session_id: str) -> Folding:
    """The folding with everything open that hides this session."""
    forest = Forest.of(rows)
    child = forest.by_id.get(session_id)
    for above in forest.above(session_id):
        folding = folding.set(above, is_open=True)
        siblings = forest.children[above]
        is_grouped = folding.many is not None and len(siblings) > folding.many
        if child is not None and is_grouped:
            groups = [entry for entry in grouped(siblings) if isinstance(entry, Group)]
            if any(child in group.rows for group in groups):
                folding = folding.set(group_key(above, child.state), is_open=True)
        child = forest.by_id.get(above)
    return folding


def next_issue(rows: Sequence[AgentRow], known: Ranks, selected: str | None, step: int) -> str | None:
    """The next session that needs somebody, in the order of the lines, round about; None if none does."""
    everything = [item for item in outline(rows, Folding(depth=None), known) if item.row is not None]
    order = [item.key for item in everything]
    needy = [place for place, item in enumerate(everything) if item.state.is_issue]
    if not needy:
        return None
    here = order.index(selected) if selected in order else -1
    if step > 0:
        return order[next((place for place in needy if place > here), needy[0])]
    return order[next((place for place in reversed(needy) if place < here), needy[-1])]
