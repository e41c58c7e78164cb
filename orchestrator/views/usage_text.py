"""The report of what was spent, as lines: who spent it, what has no price, and whether the sums agree."""

import textwrap
from collections.abc import Mapping, Sequence

from orchestrator.views.grid import Look
from orchestrator.views.money import ABSENT, exact_dollars, exact_money, tokens, unpriced_tokens
from orchestrator.views.spans import Line, cut_line
from orchestrator.views.states import State, state
from orchestrator.views.text import cells, one_line
from orchestrator.views.usage_report import UsageNode, UsageReport
from store.ids import short

_HEADS = ("Name", "Model", "Outcome", "Input", "Output", "Cached", "Own", "Total")
_TEXTS = frozenset({"Name", "Model", "Outcome"})
_DISPENSABLE = ("Cached", "Output", "Input", "Model", "Own")
"""What a narrow terminal does without, in this order."""
_NAME_CELLS = (12, 40)
_BETWEEN = 2

Cell = tuple[str, str]


def usage_lines(report: UsageReport, look: Look, states: Mapping[str, State] = {}) -> list[Line]:
    """The report with four decimals. `states`: what sessions are now, where their outcome alone does not say."""
    top = report.nodes[0].depth
    table = [_cells(node, node.depth - top, look, states.get(node.session_id)) for node in report.nodes]
    lines = [*table_lines(_HEADS, table, look, _TEXTS, _DISPENSABLE), ((" ", ""),)]
    notes = [(text, "yellow") for text in unpriced_lines(report)] + verdict(report)
    return [*lines, *(line for text, style in notes for line in wrapped(text, style, look))]


def wrapped(text: str, style: str, look: Look) -> list[Line]:
    """A sentence in as many lines as it needs."""
    parts = textwrap.wrap(look.text(text), max(look.width, 1))
    return [cut_line(((part, style),), look.width, look.signs.cut) for part in parts]


def table_lines(
    heads: Sequence[str],
    rows: Sequence[Mapping[str, Cell]],
    look: Look,
    texts: frozenset[str],
    dispensable: Sequence[str],
) -> list[Line]:
    """A head and one line per row: `texts` at the left, figures at the right. The first column is cut where it is too long."""
    sizes = {head: max(cells(look.text(head)), *(cells(look.text(row[head][0])) for row in rows)) for head in heads}
    first = heads[0]
    sizes[first] = min(sizes[first], _NAME_CELLS[1])
    shown = list(heads)
    for head in dispensable:
        if _width(shown, sizes) - sizes[first] + _NAME_CELLS[0] <= look.width:
            break
        shown.remove(head)
    over = _width(shown, sizes) - look.width
    sizes[first] = max(sizes[first] - max(over, 0), min(sizes[first], _NAME_CELLS[0]))
    gap = (" " * _BETWEEN, "")
    lines: list[Line] = []
    for row in [{head: (head, "bold") for head in heads}, *rows]:
        line: list[tuple[str, str]] = []
        for head in shown:
            text, style = row[head]
            line += [*([gap] if line else []), (look.fit(text, sizes[head], is_right=head not in texts), style)]
        lines.append(cut_line(tuple(line), look.width, look.signs.cut))
    return lines


def _width(shown: Sequence[str], sizes: Mapping[str, int]) -> int:
    return sum(sizes[head] for head in shown) + _BETWEEN * (len(shown) - 1)


def _cells(node: UsageNode, level: int, look: Look, now: State | None) -> dict[str, Cell]:
    own = node.own
    cached = None if own is None else own.cache_read + own.cache_write
    shown = now or (state("idle", node.outcome) if node.outcome else None)
    outcome = (ABSENT, "dim") if shown is None else (f"{shown.mark(ascii=look.is_ascii)} {shown.word}", shown.style)
    return {
        "Name": ("  " * level + (one_line(node.name or "", 200) or short(node.session_id)), "" if level else "bold"),
        "Model": (one_line(node.model or ABSENT, 60).rpartition("/")[2], "dim"),
        "Outcome": outcome,
        "Input": (tokens(None if own is None else own.input), ""),
        "Output": (tokens(None if own is None else own.output), ""),
        "Cached": (tokens(cached), ""),
        "Own": (exact_money(own), ""),
        "Total": (exact_money(node.total), "bold"),
    }


def unpriced_lines(report: UsageReport) -> list[str]:
    """One line per model without a price, with its tokens where they can be told apart from priced ones."""
    lines = []
    for model in sorted(report.total.cost.unpriced or ()) if report.total else ():
        count = unpriced_tokens(model, [node.own for node in report.nodes])
        told = f" ({tokens(count)} tokens)" if count else ""
        lines.append(f"no price for {one_line(model, 80)}{told}, so ≥ is a lower bound")
    return lines


def verdict(report: UsageReport) -> list[Cell]:
    """Whether own sums to the total, and by how much not."""
    count = len(report.nodes)
    sessions = "1 session" if count == 1 else f"{count} sessions"
    lines: list[Cell] = []
    if report.unrepaired:
        entries = "1 entry" if report.unrepaired == 1 else f"{report.unrepaired} entries"
        text = f"{entries} that a crash left out are counted here; opening the session again writes them"
        lines.append((text, ""))
    if report.verified:
        return [*lines, (f"{sessions}, own sums to total: verified", "")]
    apart = report.difference
    if apart.total_pico:
        fault = f"differs by {exact_dollars(apart.total_pico)}"
    elif apart.tokens:
        fault = f"differs by {apart.tokens} tokens"
    else:
        fault = "not every journal can be read whole"
    return [*lines, (f"{sessions}, own sums to total: NOT verified, {fault}: run sapwood sessions check", "bold red")]
