"""The rows of a tree at rest, out of the summaries that a list keeps: no journal of it has to be looked at."""

from collections.abc import Mapping, Sequence

import attrs

from orchestrator.views.doing import at_rest
from orchestrator.views.rows import AgentRow, row_of
from orchestrator.views.spent import Spent
from orchestrator.views.states import Status, state
from store.summary import Summary


def resting_rows(root_id: str, members: Sequence[Summary], folder: str) -> list[AgentRow] | None:
    """The rows, parents first, of a tree that has no owner; None where only its journals can tell.

    That is so where a repair would add something to it, or where it does not hang together.
    """
    by_id = {summary.session_id: summary for summary in members}
    root = by_id.get(root_id)
    if root is None or root.parent_id is not None or not all(map(_is_at_rest, members)):
        return None
    tree = _Tree(
        root, {each.session_id: [by_id[child] for child in each.children if child in by_id] for each in members}
    )
    order = tree.in_order()
    if len(order) != len(members) or not all(map(tree.is_whole, order)):
        return None
    return _rows(order, folder)


def _is_at_rest(summary: Summary) -> bool:
    """Whether its row needs no look at anything else: the journal, the lock, what its parent said of it."""
    if summary.trouble or summary.is_open or summary.outcome == "lost":
        return False
    is_known = summary.runs and summary.name and summary.model and (summary.summary or summary.first_prompt)
    return summary.parent_id is None or bool(is_known)


@attrs.frozen
class _Tree:
    root: Summary
    children: Mapping[str, Sequence[Summary]]

    def is_whole(self, summary: Summary) -> bool:
        """Whether its children are there and know it, and whether it holds what they have spent."""
        below = self.children[summary.session_id]
        if len(below) != len(summary.children) or any(child.parent_id != summary.session_id for child in below):
            return False
        spent = summary.own
        for child in below:
            spent = spent + child.total
        return summary.total == spent

    def in_order(self) -> list[Summary]:
        """Parents before their children, each with its depth in this tree."""
        found: list[Summary] = []
        waiting = [(self.root, 0)]
        while waiting:
            summary, depth = waiting.pop()
            summary.depth = depth
            found.append(summary)
            waiting += [(child, depth + 1) for child in reversed(self.children[summary.session_id])]
        return found


def _rows(order: Sequence[Summary], folder: str) -> list[AgentRow]:
    rows: list[AgentRow] = []
    below: dict[str | None, list[AgentRow]] = {}
    for found in reversed(order):
        row = _row(found, below.pop(found.session_id, []), folder)
        rows.append(row)
        below.setdefault(found.parent_id, []).append(row)
    rows.reverse()
    return rows


def _row(found: Summary, below: Sequence[AgentRow], folder: str) -> AgentRow:
    status: Status = "archived" if found.is_archived else "idle"
    doing = at_rest(found, state(status, found.outcome, found.task_state))
    worked_ms = None if found.worked_s is None else int(found.worked_s * 1000)
    spend = Spent(found.own, found.total)
    return row_of(found, status, found.outcome, doing, spend, below, folder, elapsed_ms=worked_ms)
