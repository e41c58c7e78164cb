"""A tree of sessions as plain lines: who ran, how it ended, for how long, and where the money went."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.money import duration, exact_dollars, exact_money, money, spent_tokens, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.states import state
from orchestrator.views.text import cells, cut, fit, fit_right, one_line
from orchestrator.views.usage_report import UsageNode, UsageReport
from store.ids import short
from store.usage import add_up, spend_of, usage_of

_NAME_CELLS = (12, 40)
_DOING_CELLS = (12, 60)
_WIDE = 100
_NARROW = 80


class Signs(msgspec.Struct, frozen=True):
    """What lines are drawn with."""

    branch: str = "├ "
    last: str = "└ "
    through: str = "│ "
    cut: str = "…"
    at_least: str = "≥"
    absent: str = "–"


UNICODE = Signs()
ASCII = Signs("|-", "`-", "| ", "...", ">=", "-")


def signs(*, ascii: bool) -> Signs:
    return ASCII if ascii else UNICODE


def plain(text: str, *, ascii: bool) -> str:
    """Text of ours with the signs of money and of cutting in ASCII, if so asked."""
    if not ascii:
        return text
    for sign, instead in (("≥", ">="), ("–", "-"), ("…", "..."), ("·", ".")):
        text = text.replace(sign, instead)
    return text


def title(row: AgentRow) -> str:
    """What a session is called: its name, else the first words of what it is about, else its short id."""
    return one_line(row.name or "", 200) or one_line(row.summary or "", 200) or short(row.session_id)


def tree_text(rows: Sequence[AgentRow], width: int = 80, ascii: bool = False) -> list[str]:
    """A head and one line per row, none wider than `width`. `rows` in spawn order, of one tree or of several."""
    drawn = signs(ascii=ascii)
    names = [guide + title(row) for guide, row in zip(guides(rows, drawn), rows, strict=True)]
    columns = _columns(rows, names, width, drawn)
    return [cut(" ".join(line).rstrip(), width, drawn.cut) for line in zip(*columns, strict=True)]


def guides(rows: Sequence[AgentRow], drawn: Signs = UNICODE) -> list[str]:
    """The lines that lead to each row from its parent; empty for roots."""
    found: list[str] = []
    top = min((row.depth for row in rows), default=0)
    # From below: which depths still have a row to come under the same parent.
    open_depths: set[int] = set()
    for row in reversed(rows):
        level = row.depth - top
        if level == 0:
            open_depths.clear()
            found.append("")
            continue
        through = "".join(drawn.through if depth in open_depths else "  " for depth in range(1, level))
        found.append(through + (drawn.branch if level in open_depths else drawn.last))
        open_depths = {depth for depth in open_depths if depth < level} | {level}
    found.reverse()
    return found


def summary_line(rows: Sequence[AgentRow]) -> str:
    """How many, in which states, and what all trees among `rows` have spent: roots hold the sum of what is below."""
    tops = [row for row in rows if row.depth == 0]
    spend = add_up(spend_of(row.total) for row in tops if row.total)
    issues = sum(row.state.is_issue for row in rows)
    counts = [
        f"{sum(row.state.word == word for row in rows)} {word}"
        for word in ("running", "waiting")
        if any(row.state.word == word for row in rows)
    ]
    agents = "1 agent" if len(rows) == 1 else f"{len(rows)} agents"
    noted = [f"{issues} issue{'' if issues == 1 else 's'}"] if issues else []
    return " · ".join([agents, *counts, *noted, f"{tokens(spend.tokens)} tok", money(usage_of(spend))])


def doing(row: AgentRow) -> str:
    """The column Doing, on one line, queued mail first."""
    label = one_line(row.activity.label, 400) if row.activity else ""
    return f"[{row.queued}q] {label}".strip() if row.queued and row.state.is_working else label


def _columns(rows: Sequence[AgentRow], names: list[str], width: int, drawn: Signs) -> list[list[str]]:
    ascii = drawn is ASCII
    is_narrow = width < _NARROW
    status = ["Status"] + [f"{row.state.mark(ascii=ascii)} {row.state.short}" for row in rows]
    right = [
        ["Total", *(plain(money(row.total), ascii=ascii) for row in rows)],
        ["Time", *(plain(duration(row.elapsed_ms), ascii=ascii) for row in rows)],
    ]
    left: list[list[str]] = []
    if is_narrow:
        status = [""] + [row.state.mark(ascii=ascii) for row in rows]
    else:
        right.insert(0, ["Own", *(plain(money(row.own), ascii=ascii) for row in rows)])
    if width >= _WIDE:
        left = [["Model", *(one_line((row.model or drawn.absent).rpartition("/")[2], 60) for row in rows)]]
        right.insert(2, ["Tokens", *(plain(tokens(spent_tokens(row.total)), ascii=ascii) for row in rows)])
    fixed = [_filled(status, 20), *(_filled(column, 14) for column in left), *(_right(column) for column in right)]
    room = width - sum(cells(column[0]) + 1 for column in fixed)
    longest = max(cells(name) for name in [*names, "Name"])
    if is_narrow:
        return [_filled(["Name", *names], max(room, 4), drawn.cut, at_least=max(room, 4)), *fixed]
    name_cells = min(longest, _NAME_CELLS[1], max(_NAME_CELLS[0], room - _DOING_CELLS[0] - 1))
    doing_cells = min(room - name_cells - 1, _DOING_CELLS[1])
    name = _filled(["Name", *names], name_cells, drawn.cut, at_least=name_cells)
    if doing_cells < _DOING_CELLS[0]:
        return [name, *fixed]
    texts = ["Doing", *(doing(row) for row in rows)]
    return [name, fixed[0], _filled(texts, doing_cells, drawn.cut, at_least=doing_cells), *fixed[1:]]


def _filled(column: list[str], most: int, mark: str = "…", at_least: int = 0) -> list[str]:
    size = max(at_least, min(most, max(cells(text) for text in column)))
    return [fit(text, size, mark) for text in column]


def _right(column: list[str]) -> list[str]:
    size = max(cells(text) for text in column)
    return [fit_right(text, size) for text in column]


def usage_text(report: UsageReport, ascii: bool = False) -> list[str]:
    """The report as a table with four decimals, then what has no price, and whether the sums agree."""
    top = report.nodes[0].depth
    table = [["Name", "Model", "Outcome", "Input", "Output", "Cached", "Own", "Total"]]
    table += [_usage_cells(node, node.depth - top) for node in report.nodes]
    columns = [list(column) for column in zip(*table, strict=True)]
    filled = [_filled(column, _NAME_CELLS[1]) for column in columns[:3]] + [_right(column) for column in columns[3:]]
    lines = ["  ".join(line).rstrip() for line in zip(*filled, strict=True)]
    return [plain(line, ascii=ascii) for line in [*lines, "", *_unpriced_lines(report), *_verdict(report)]]


def _usage_cells(node: UsageNode, level: int) -> list[str]:
    own = node.own
    name = one_line(node.name or "", 200) or short(node.session_id)
    figures = ["–"] * 3 if own is None else [str(n) for n in (own.input, own.output, own.cache_read + own.cache_write)]
    outcome = state("idle", node.outcome).word if node.outcome else "–"
    return [
        "  " * level + name,
        one_line(node.model or "–", 60).rpartition("/")[2],
        outcome if outcome != "unknown" else one_line(node.outcome or "", 40),
        *figures,
        exact_money(own),
        exact_money(node.total),
    ]


def _unpriced_lines(report: UsageReport) -> list[str]:
    """One line per model without a price, with its tokens where they can be told apart from priced ones."""
    lines = []
    for model in sorted(report.total.cost.unpriced or ()) if report.total else ():
        users = [node.own for node in report.nodes if node.own and model in (node.own.cost.unpriced or ())]
        is_alone = all(own.cost.unpriced == (model,) and not own.cost.total for own in users)
        count = sum(spent_tokens(own) or 0 for own in users)
        told = f" ({tokens(count)} tokens)" if is_alone and count else ""
        lines.append(f"no price for {one_line(model, 80)}{told}, so ≥ is a lower bound")
    return lines


def _verdict(report: UsageReport) -> list[str]:
    count = len(report.nodes)
    sessions = "1 session" if count == 1 else f"{count} sessions"
    lines = []
    if report.unrepaired:
        entries = "1 entry" if report.unrepaired == 1 else f"{report.unrepaired} entries"
        lines.append(f"{entries} that a crash left out are counted here; opening the session again writes them")
    if report.verified:
        return [*lines, f"{sessions}, own sums to total: verified"]
    apart = report.difference
    if apart.total_pico:
        fault = f"differs by {exact_dollars(apart.total_pico)}"
    elif apart.tokens:
        fault = f"differs by {apart.tokens} tokens"
    else:
        fault = "not every journal can be read whole"
    return [*lines, f"{sessions}, own sums to total: NOT verified, {fault}: run sapwood sessions check"]
