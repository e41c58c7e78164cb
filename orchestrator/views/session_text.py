"""Stored sessions as plain lines: the list, and the head of one."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from orchestrator.views.money import duration, exact_money, money, spent_tokens, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import guides, plain, signs, title
from orchestrator.views.text import cells, cut, fit, fit_right, one_line
from store.goals import goal_of
from store.ids import short
from store.repair import Node
from store.times import unix_s

_NAME_CELLS = 40
_GOAL_CHARS = 400


def session_list(rows: Sequence[AgentRow], now: float, width: int = 80, ascii: bool = False) -> list[str]:
    """A head and one line per row, in the order given."""
    drawn = signs(ascii=ascii)
    names = [guide + title(row) for guide, row in zip(guides(rows, drawn), rows, strict=True)]
    table = [
        ["Id", *(one_line(short(row.session_id)) for row in rows)],
        ["Name", *(cut(name, _NAME_CELLS, drawn.cut) for name in names)],
        ["Status", *(f"{row.state.mark(ascii=ascii)} {row.state.short}" for row in rows)],
        ["Age", *(age(row.modified, now) for row in rows)],
        ["Messages", *("–" if row.message_count is None else str(row.message_count) for row in rows)],
        ["Total", *(money(row.total) for row in rows)],
        ["Folder", *(one_line(row.cwd or "–", 400) for row in rows)],
    ]
    return column_lines(table, {3, 4, 5}, width, ascii=ascii)


def column_lines(table: Sequence[Sequence[str]], right: Container[int], width: int, *, ascii: bool) -> list[str]:
    """Columns side by side, each with its head first. `right`: the places of those that are aligned there."""
    sides = [_aligned(column, is_right=place in right) for place, column in enumerate(table)]
    end = signs(ascii=ascii).cut
    return [cut(plain("  ".join(line), ascii=ascii).rstrip(), width, end) for line in zip(*sides, strict=True)]


def age(at: str | None, now: float) -> str:
    """How long ago, in the largest unit."""
    then = unix_s(at) if at else None
    return "–" if then is None else duration(int((now - then) * 1000))


def _aligned(column: Sequence[str], *, is_right: bool) -> list[str]:
    size = max(cells(text) for text in column)
    return [fit_right(text, size) if is_right else fit(text, size) for text in column]


def session_head(row: AgentRow, node: Node | None, unrepaired: int = 0, ascii: bool = False) -> list[str]:
    """What is known of one session, a line each. `unrepaired`: entries of its tree that stand in memory only."""
    counts = entry_counts(node) if node else {}
    entries = ", ".join(f"{count} {one_line(kind, 60)}" for kind, count in counts.items()) or "none"
    told = row.activity.label if row.activity and row.activity.kind in {"error", "question", "silent"} else ""
    of_window = f" of {tokens(row.context_window)}" if row.context_window else ""
    goal = goal_of(node.records) if node else None
    crash = f"{unrepaired} that a crash left out of this tree, shown as the next opening will write them"
    lines = {
        "Session": row.session_id,
        "Name": one_line(row.name or "–"),
        "Status": f"{row.state.mark(ascii=ascii)} {row.state.word}" + (f": {one_line(told)}" if told else ""),
        "Model": one_line(row.model or "–"),
        "Folder": one_line(row.cwd or "–"),
        "Goal": one_line(goal, _GOAL_CHARS) if goal else None,
        "Parent": row.parent_session_id,
        "Children": f"{row.descendants} below, {row.working} working" if row.descendants else None,
        "Created": f"{row.created or '–'}, worked {duration(row.elapsed_ms)}",
        "Modified": row.modified or "–",
        "Context": f"about {tokens(row.context_tokens)} tokens{of_window}" if row.context_tokens else "–",
        "Own": f"{exact_money(row.own)}, {tokens(spent_tokens(row.own))} tokens",
        "Total": f"{exact_money(row.total)}, {tokens(spent_tokens(row.total))} tokens",
        "Entries": entries,
        "Missing": crash if unrepaired else None,
        "Journal": one_line(row.path or "–"),
    }
    return [plain(f"{name + ':':<10}{text}", ascii=ascii) for name, text in lines.items() if text is not None]


def entry_counts(node: Node) -> Mapping[str, int]:
    """How many entries of each type, in the order of their first appearance."""
    return Counter(record.type for record in node.records)
