"""The rows of all trees: of those that are at rest and whole from the catalog, of the others from their journals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs

from orchestrator.cli.common import as_stored
from orchestrator.engine.errors import EngineError
from orchestrator.views.doing import Activity
from orchestrator.views.rows import AgentRow, Status, tree_rows
from orchestrator.views.states import State, state
from orchestrator.views.stored import Stored
from store.disk.catalog import Catalog
from store.disk.forest import read_tree
from store.disk.home import Home
from store.disk.ownership import liveness
from store.errors import StoreError
from store.summary import LINE_CHARS, Summary
from store.usage import Spend, usage_of

_UNHAPPY = frozenset({"failed", "aborted", "timed_out", "limit_reached"})


@contextmanager
def catalog_of(home: Home) -> Iterator[Catalog]:
    """The catalog of a home. Raises EngineError where its folder cannot be looked at."""
    with Catalog.open(home) as catalog:
        try:
            yield catalog
        except OSError as error:
            raise EngineError(f"{home.sessions}: {error.strerror}") from error


def all_trees(catalog: Catalog, now: float) -> list[list[AgentRow]]:
    """Every tree, the one first that was written to last: its rows, parents first. `now` in Unix seconds. Raises OSError.

    What no root leads to is a tree of its own: sessions whose parent is gone or forgot them, journals without a header.
    """
    families: dict[str, list[Summary]] = {}
    for summary in catalog.sessions():
        families.setdefault(summary.root_id, []).append(summary)
    owners = catalog.owners(families)
    trees: list[list[AgentRow]] = []
    for root_id, members in families.items():
        tree = _Tree.of(root_id, members) if owners[root_id].state == "dead" else None
        if tree is not None:
            trees.append(tree.rows(str(catalog.home.sessions)))
        else:
            trees += [tree_rows(stored, now) for stored in _read(catalog.home, root_id, members)]
    trees.sort(key=lambda rows: rows[0].session_id)
    trees.sort(key=lambda rows: rows[0].modified or "", reverse=True)
    return trees


def _read(home: Home, root_id: str, members: Sequence[Summary]) -> Iterator[Stored]:
    """The trees that a family is, out of its journals."""
    ids = sorted(summary.session_id for summary in members)
    seen: set[str] = set()
    for session_id in [each for each in ids if each == root_id] + [each for each in ids if each != root_id]:
        if session_id in seen:
            continue
        tree = _stored(home, session_id)
        seen.update(tree.nodes)
        yield tree


def _stored(home: Home, session_id: str) -> Stored:
    try:
        return as_stored(home, read_tree(home.fs, home, session_id))
    except (StoreError, OSError) as error:
        owner = liveness(home.fs, home, session_id)
        return Stored(session_id, {}, owner.state, owner.pid, {session_id: str(error)}, folder=str(home.sessions))


@attrs.frozen
class _Tree:
    """A tree at rest to which a repair would add nothing, so that its summaries say all."""

    root: Summary
    children: dict[str, list[Summary]]

    @classmethod
    def of(cls, root_id: str, members: Sequence[Summary]) -> "_Tree | None":
        """None where the journals themselves have to be looked at."""
        children: dict[str, list[Summary]] = {}
        by_id = {summary.session_id: summary for summary in members}
        for summary in members:
            children[summary.session_id] = [by_id[child] for child in summary.children if child in by_id]
        root = by_id.get(root_id)
        if root is None or root.parent_id is not None or not all(map(_is_at_rest, members)):
            return None
        tree = cls(root, children)
        if not all(map(tree._is_whole, members)) or len(tree._in_order()) != len(members):
            return None
        return tree

    def _is_whole(self, summary: Summary) -> bool:
        below = self.children[summary.session_id]
        if len(below) != len(summary.children) or any(child.parent_id != summary.session_id for child in below):
            return False
        return summary.total == summary.own + _sum(below)

    def _in_order(self) -> list[tuple[Summary, int]]:
        """Parents before their children, with the depth."""
        found: list[tuple[Summary, int]] = []
        waiting = [(self.root, 0)]
        while waiting:
            summary, depth = waiting.pop()
            found.append((summary, depth))
            waiting += [(child, depth + 1) for child in reversed(self.children[summary.session_id])]
        return found

    def rows(self, folder: str) -> list[AgentRow]:
        rows: list[AgentRow] = []
        below: dict[str | None, list[AgentRow]] = {}
        for summary, depth in reversed(self._in_order()):
            row = _row(summary, self.root.session_id, depth, below.pop(summary.session_id, []), folder)
            rows.append(row)
            below.setdefault(summary.parent_id, []).append(row)
        rows.reverse()
        return rows


def _is_at_rest(summary: Summary) -> bool:
    """Whether its row needs no look at anything else: the journal, the lock, what its parent said of it."""
    if summary.trouble or summary.is_open or summary.outcome == "lost":
        return False
    return summary.parent_id is None or bool(summary.runs and summary.name and summary.model and _about(summary))


def _sum(summaries: Sequence[Summary]) -> Spend:
    total = Spend()
    for summary in summaries:
        total = total + summary.total
    return total


def _about(summary: Summary) -> str | None:
    return summary.summary or summary.first_prompt


def _row(found: Summary, root_id: str, depth: int, below: Sequence[AgentRow], folder: str) -> AgentRow:
    status: Status = "archived" if found.is_archived else "idle"
    shown = state(status, found.outcome, found.task_state)
    return AgentRow(
        session_id=found.session_id,
        parent_session_id=found.parent_id,
        root_session_id=root_id,
        name=found.name or None,
        depth=depth,
        status=status,
        outcome=found.outcome,
        model=found.model or None,
        cwd=found.cwd,
        created=found.created,
        modified=found.modified,
        elapsed_ms=None if found.worked_s is None else int(found.worked_s * 1000),
        last_event_at=found.modified,
        message_count=found.messages,
        context_tokens=found.context_tokens,
        context_window=None,
        own=usage_of(found.own),
        total=usage_of(found.total),
        unpriced_models=tuple(sorted(found.total.unpriced)),
        summary=_about(found),
        task_state=found.task_state,
        activity=_activity(found, shown),
        retry=None,
        queued=found.queued,
        turns=found.turns,
        working=0,
        descendants=sum(row.descendants + 1 for row in below),
        issues=sum(row.issues for row in below) + shown.is_issue,
        host_pid=None,
        path=f"{folder}/{found.session_id}.jsonl",
    )


def _activity(found: Summary, shown: State) -> Activity | None:
    """As `orchestrator.views.doing` has it for a session that nobody works on."""
    if shown.word == "needs input":
        return Activity(kind="question", label=found.summary or found.answer or "", since=found.modified)
    if shown.word == "idle":
        return None
    if found.outcome not in {None, "completed"}:
        error = found.run_error or found.answer_error
        if error or found.outcome in _UNHAPPY:
            label = (error or str(found.outcome).replace("_", " ")).strip()[:LINE_CHARS]
            return Activity(kind="error", label=label, since=found.modified)
    return Activity(kind="answer", label=found.answer, since=found.modified) if found.answer else None
