"""Which trees belong into a view that nobody asked for more, and what to say where there is none."""

from collections.abc import Sequence

from orchestrator.views.rows import AgentRow
from store.times import unix_s

SHOWN_AFTER_END_S = 600
NOTHING_RUNS = (
    "No agents are running.",
    "Start one here or in a terminal; it appears by itself.",
    'sapwood run "…"    or    sapwood demo',
)


def merged(stored: Sequence[Sequence[AgentRow]], live: Sequence[AgentRow]) -> list[list[AgentRow]]:
    """Trees, the oldest first; what hosts say of theirs goes before what lies on the disk."""
    trees: dict[str, list[AgentRow]] = {}
    for row in live:
        trees.setdefault(row.root_session_id, []).append(row)
    known = frozenset(trees)
    for tree in stored:
        if tree and tree[0].root_session_id not in known:
            trees.setdefault(tree[0].root_session_id, []).extend(tree)
    return [trees[root_id] for root_id in sorted(trees)]


def is_current(rows: Sequence[AgentRow], now: float) -> bool:
    """Whether a tree has an owner, or ended a moment ago. `now` in Unix seconds."""
    if any(row.host_pid is not None or row.state.is_working or row.status == "unknown" for row in rows):
        return True
    ends = [unix_s(row.last_event_at) for row in rows if row.last_event_at]
    return any(end is not None and end >= now - SHOWN_AFTER_END_S for end in ends)
