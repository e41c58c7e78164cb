"""The progress of a run: the busiest part of its tree in a few lines, and what stays when it has ended."""

from collections import Counter
from collections.abc import Sequence

from orchestrator.views.doing_text import doing
from orchestrator.views.grid import Look
from orchestrator.views.money import dollars, duration, money, spent_tokens, tokens, unpriced_tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import guides, title
from orchestrator.views.spans import Line, cut_line
from orchestrator.views.states import STATES
from orchestrator.views.text import cells, count, fit_right
from store.ids import short

MAX_LINES = 14
_MONEY_CELLS, _TIME_CELLS = 9, 8
_NAME_CELLS = (16, 32)
_ROOMY = 24
_SEPARATOR = " · "
_SAYS_ITSELF = frozenset({"running", "retrying", "compacting", "completed", "idle"})
"""States that the mark and what is done tell without their word."""


def progress_lines(rows: Sequence[AgentRow], look: Look, height: int, budget_pico: int | None = None) -> list[Line]:
    """At most a third of the screen: issues and working agents first, `+ N more`, the sum. None is wider than the look.

    `budget_pico`: what the tree may spend, in 10⁻¹² dollar.
    """
    if not rows:
        return []
    room = max(2, min(MAX_LINES, height // 3)) - 1
    shown = chosen(rows, room)
    kept = {row.session_id for row in shown}
    hidden = [row for row in rows if row.session_id not in kept]
    is_told = bool(hidden) and len(shown) < room
    drawn = [_going_on(guide, look) if is_told else guide for guide in guides(shown, look.signs)]
    lines = [_row_line(row, guide, look) for row, guide in zip(shown, drawn, strict=True)]
    if is_told:
        lines.append(((look.text(f"{look.signs.last}+ {len(hidden)} more: {_counts(hidden)}"), "dim"),))
    lines.append(_sum_line(rows, look, budget_pico))
    return [cut_line(line, look.width, look.signs.cut) for line in lines]


def _going_on(guide: str, look: Look) -> str:
    """The guide of a row below which the root has one more line."""
    drawn = look.signs
    if guide.startswith(drawn.last):
        return drawn.branch + guide.removeprefix(drawn.last)
    return drawn.through + guide[2:] if guide.startswith("  ") else guide


def chosen(rows: Sequence[AgentRow], room: int) -> list[AgentRow]:
    """The rows that fit into `room` lines, in their order: the root, issues, working ones, the rest; with their ancestors.

    Where some are left out, one line is kept free to say so.
    """
    if len(rows) <= room:
        return list(rows)
    by_id = {row.session_id: row for row in rows}
    kept = {rows[0].session_id}
    wanted = sorted(rows, key=lambda row: (not row.state.is_issue, not row.state.is_working))
    for row in wanted:
        if len(kept) >= room - 1:
            break
        chain = [row.session_id]
        while (parent := by_id[chain[-1]].parent_session_id) in by_id and parent not in kept:
            chain.append(str(parent))
        fresh = set(chain) - kept
        if len(kept) + len(fresh) <= room - 1:
            kept |= fresh
    return [row for row in rows if row.session_id in kept]


def _row_line(row: AgentRow, guide: str, look: Look) -> Line:
    shown = row.state
    mark = shown.mark(ascii=look.is_ascii)
    right = fit_right(look.text(money(row.total)), _MONEY_CELLS) + fit_right(duration(row.elapsed_ms), _TIME_CELLS)
    room = look.width - cells(right)
    if room < _ROOMY:
        return ((guide, "dim"), (f"{mark} {look.text(title(row))}", shown.style))
    head = min(max(room // 2 - 1, _NAME_CELLS[0]), _NAME_CELLS[1])
    name = look.fit(title(row), max(head - cells(guide) - 2, 4))
    rest = room - cells(guide) - 2 - cells(name) - 1
    return (
        (guide, "dim"),
        (f"{mark} ", shown.style),
        (f"{name} ", "bold" if row.depth == 0 else ""),
        (look.fit(_what(row, look.now), max(rest, 0)), shown.style if shown.is_issue else "dim"),
        (right, ""),
    )


def _what(row: AgentRow, now: float) -> str:
    """What it does, with its state where that is not plain."""
    label = doing(row, now)
    if row.state.word in _SAYS_ITSELF:
        return label
    if row.state.word == "waiting":
        return label.replace("for ", "waiting for ", 1)
    return _SEPARATOR.join(part for part in (row.state.word, label) if part)


def _counts(rows: Sequence[AgentRow]) -> str:
    """`5 running, 1 idle, 29 ended`: what works by its word, the rest together."""
    working = Counter(row.state.word for row in rows if row.state.is_working)
    parts = [f"{working[word]} {word}" for word in STATES if word in working]
    idle = sum(1 for row in rows if row.state.word == "idle")
    ended = len(rows) - sum(working.values()) - idle
    return ", ".join(parts + [f"{n} {word}" for n, word in ((idle, "idle"), (ended, "ended")) if n])


def _sum_line(rows: Sequence[AgentRow], look: Look, budget_pico: int | None) -> Line:
    root = rows[0]
    issues = sum(row.state.is_issue for row in rows)
    running = sum(row.state.is_working and row.state.word != "waiting" for row in rows)
    parts = [
        (count(len(rows), "agent"), ""),
        (f"{running} running" if running else "", "blue"),
        (count(issues, "issue") if issues else "", "bold red"),
        (f"{tokens(spent_tokens(root.total))} tok", ""),
        (_spent(root, budget_pico), ""),
        (duration(root.elapsed_ms), ""),
    ]
    return _listed(parts, look)


def _spent(root: AgentRow, budget_pico: int | None) -> str:
    return money(root.total) + (f" of {dollars(budget_pico)}" if budget_pico else "")


def _listed(parts: Sequence[tuple[str, str]], look: Look) -> Line:
    line: list[tuple[str, str]] = []
    for text, style in parts:
        if text:
            line += [*([(look.text(_SEPARATOR), "dim")] if line else []), (look.text(text), style)]
    return tuple(line)


def final_lines(rows: Sequence[AgentRow], look: Look, budget_pico: int | None = None) -> list[Line]:
    """What stays when a run has ended: outcome, time, money, tokens; counts per outcome if not all is well."""
    if not rows:
        return []
    root = rows[0]
    shown = root.state
    parts = [
        (f"{shown.mark(ascii=look.is_ascii)} {shown.word}", shown.style),
        (count(len(rows), "agent"), ""),
        (duration(root.elapsed_ms), ""),
        (_spent(root, budget_pico), ""),
        (f"{tokens(spent_tokens(root.total))} tok", ""),
    ]
    lines = [_listed(parts, look)]
    words = Counter(row.state.word for row in rows)
    if set(words) != {"completed"}:
        counts = ", ".join(f"{words[word]} {word}" for word in STATES if words[word])
        lines.append(((f"  {counts}", "red"),))
    if root.total is not None and root.total.cost.unpriced:
        models = ", ".join(_with_tokens(model, rows) for model in root.total.cost.unpriced)
        lines.append(((look.text(f"  price unknown: {models}, so ≥ is a lower bound"), "yellow"),))
    lines.append(((f"  where it went: sapwood usage {short(root.session_id)}", "dim"),))
    return [cut_line(line, look.width, look.signs.cut) for line in lines]


def _with_tokens(model: str, rows: Sequence[AgentRow]) -> str:
    """`local/qwen (58k tok)`, where its tokens can be told apart from those of priced models."""
    count = unpriced_tokens(model, [row.own for row in rows])
    return model if count is None else f"{model} ({tokens(count)} tok)"
