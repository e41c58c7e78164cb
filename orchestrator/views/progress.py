"""The progress of a run: the busiest part of its tree in a few lines, and what stays when it has ended."""

from collections import Counter
from collections.abc import Sequence

from orchestrator.views.money import duration, money, spent_tokens, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.states import STATES
from orchestrator.views.text import cells, cut, fit, fit_right
from orchestrator.views.tree_text import doing, guides, plain, signs, title
from store.ids import short

Segment = tuple[str, str]
"""A piece of a line and its rich style; the text is safe for a terminal."""
Line = tuple[Segment, ...]

MAX_LINES = 14
_MONEY_CELLS, _TIME_CELLS = 9, 8
_SEPARATOR = " · "


def progress_lines(rows: Sequence[AgentRow], width: int, height: int, *, ascii: bool = False) -> list[Line]:
    """At most a third of the screen: issues and working agents first, `+ N more`, the sum. No line is wider than `width`."""
    if not rows:
        return []
    room = max(2, min(MAX_LINES, height // 3)) - 1
    shown = chosen(rows, room)
    drawn = signs(ascii=ascii)
    lines = [_row_line(row, guide, width, ascii=ascii) for row, guide in zip(shown, guides(shown, drawn), strict=True)]
    hidden = [row for row in rows if row not in shown]
    if hidden:
        text = plain(f"{drawn.last}+ {len(hidden)} more: {_counts(hidden)}", ascii=ascii)
        lines.append(((cut(text, width, drawn.cut), "dim"),))
    lines.append(((cut(plain(_sum_text(rows), ascii=ascii), width, drawn.cut), ""),))
    return lines


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
        chain = [row.session_id]
        while (parent := by_id[chain[-1]].parent_session_id) in by_id and parent not in kept:
            chain.append(str(parent))
        fresh = set(chain) - kept
        if len(kept) + len(fresh) <= room - 1:
            kept |= fresh
    return [row for row in rows if row.session_id in kept]


def _row_line(row: AgentRow, guide: str, width: int, *, ascii: bool) -> Line:
    mark = row.state.mark(ascii=ascii)
    dots = signs(ascii=ascii).cut
    right = fit_right(plain(money(row.total), ascii=ascii), _MONEY_CELLS) + fit_right(
        plain(duration(row.elapsed_ms), ascii=ascii), _TIME_CELLS
    )
    room = width - cells(right)
    if room < 24:
        return ((cut(f"{guide}{mark} {title(row)}", width, dots), row.state.style),)
    head = min(max(room // 3, 16), 32)
    name = fit(title(row), max(head - cells(guide) - 2, 4), dots)
    text = row.state.word if row.state.word not in {"running", "completed"} else ""
    label = doing(row)
    if row.retry is not None:
        label = f"try {row.retry.attempt} of {row.retry.of}: {label or row.retry.kind}"
    what = _SEPARATOR.join(part for part in (text, label) if part)
    rest = room - cells(guide) - 2 - cells(name) - 1
    return (
        (guide, "dim"),
        (f"{mark} ", row.state.style),
        (f"{name} ", "bold" if row.depth == 0 else ""),
        (fit(plain(what, ascii=ascii), max(rest, 0), dots), row.state.style if row.state.is_issue else "dim"),
        (right, ""),
    )


def _counts(rows: Sequence[AgentRow]) -> str:
    """`5 running, 1 idle, 29 ended`: what works by its word, the rest together."""
    working = Counter(row.state.word for row in rows if row.state.is_working)
    parts = [f"{count} {word}" for word, count in working.items()]
    idle = sum(1 for row in rows if row.state.word == "idle")
    ended = len(rows) - sum(working.values()) - idle
    return ", ".join(parts + [f"{n} {word}" for n, word in ((idle, "idle"), (ended, "ended")) if n])


def _sum_text(rows: Sequence[AgentRow]) -> str:
    root = rows[0]
    issues = sum(row.state.is_issue for row in rows)
    running = sum(row.state.is_working for row in rows)
    parts = [
        "1 agent" if len(rows) == 1 else f"{len(rows)} agents",
        f"{running} running" if running else "",
        (f"{issues} issues" if issues > 1 else "1 issue") if issues else "",
        f"{tokens(spent_tokens(root.total))} tok",
        money(root.total),
        duration(root.elapsed_ms),
    ]
    return _SEPARATOR.join(part for part in parts if part)


def final_lines(rows: Sequence[AgentRow], width: int, *, ascii: bool = False) -> list[Line]:
    """What stays when a run has ended: outcome, time, money, tokens; counts per outcome if not all is well."""
    if not rows:
        return []
    root = rows[0]
    shown = root.state
    parts = [
        "1 agent" if len(rows) == 1 else f"{len(rows)} agents",
        duration(root.elapsed_ms),
        money(root.total),
        f"{tokens(spent_tokens(root.total))} tok",
    ]
    lines: list[Line] = [
        (
            (f"{shown.mark(ascii=ascii)} {shown.word}", shown.style),
            (plain(_SEPARATOR + _SEPARATOR.join(parts), ascii=ascii), ""),
        )
    ]
    words = Counter(row.state.word for row in rows)
    if set(words) != {"completed"}:
        ordered = [(word, words[word]) for word in STATES if words[word]]
        counts = ", ".join(f"{count} {word}" for word, count in ordered)
        lines.append((("  " + counts, ""),))
    if root.total is not None and root.total.cost.unpriced:
        models = ", ".join(root.total.cost.unpriced)
        lines.append(((plain(f"  price unknown: {models}, so ≥ is a lower bound", ascii=ascii), "yellow"),))
    lines.append(((f"  where it went: sapwood usage {short(root.session_id)}", "dim"),))
    dots = signs(ascii=ascii).cut
    return [_cut_line(line, width, dots) for line in lines]


def _cut_line(line: Line, width: int, dots: str) -> Line:
    kept: list[Segment] = []
    for text, style in line:
        room = width - sum(cells(done) for done, _ in kept)
        if room <= 0:
            break
        kept.append((cut(text, room, dots), style))
    return tuple(kept)
