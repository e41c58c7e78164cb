"""The detail of a session as lines: one drawing per tab, each as high as it needs to be."""

from collections.abc import Callable, Sequence

from orchestrator.views.called import Called
from orchestrator.views.charts import cost_bar, lane_lines
from orchestrator.views.context import context_text, percent
from orchestrator.views.doing_text import seconds_since
from orchestrator.views.grid import Look
from orchestrator.views.money import duration, exact_money, money, spent_tokens, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.details import TABS, Detail, Tab
from orchestrator.views.signs import title
from orchestrator.views.spans import Line, Span, cut_line
from orchestrator.views.states import STATES
from orchestrator.views.text import one_line, safe_lines
from orchestrator.views.usage_text import table_lines, wrapped

_TEXTS = frozenset({"Tool", "Argument", "State", "Spill", "Name", "Origin"})
_LAST_SAID = 12


def head_line(row: AgentRow, look: Look) -> Line:
    """`invoices ● running · sonnet · turn 21 · context 74% of 200k · last event 2s ago`."""
    shown = row.state
    ago_s = seconds_since(row.last_event_at, look.now)
    window = f" of {tokens(row.context_window)}" if percent(row) is not None else ""
    facts = [
        one_line(row.model or "", 60).rpartition("/")[2],
        f"turn {row.turns}" if row.turns else "",
        f"context {context_text(row)}{window}" if row.context_tokens is not None else "",
        f"{money(row.own)} own, {money(row.total)} in all",
        f"last event {duration(max(0, ago_s) * 1000)} ago" if ago_s is not None else "",
    ]
    rest = " · ".join(fact for fact in facts if fact)
    mark = f"{shown.mark(ascii=look.is_ascii)} {shown.word}"
    line = ((look.text(title(row)), "bold"), (" ", ""), (mark, shown.style), (look.text(f" · {rest}"), "dim"))
    return cut_line(line, look.width, look.signs.cut)


def tab_line(tab: int, look: Look) -> Line:
    """The names of the tabs, the chosen one reversed."""
    spans: list[Span] = []
    for place, name in enumerate(TABS):
        spans += [(" ", ""), (f" {place + 1} {name} ", "reverse" if place == tab else "")]
    return cut_line(tuple(spans), look.width, look.signs.cut)


def detail_lines(detail: Detail | None, row: AgentRow, tab: int, look: Look) -> list[Line]:
    """The body of a tab."""
    if detail is None or detail.session_id != row.session_id:
        return [(("Reading…" if not look.is_ascii else "Reading...", "dim"),)]
    return [*_damage(detail, row, look), *_TABS[TABS[tab]](detail, look)]


def _damage(detail: Detail, row: AgentRow, look: Look) -> list[Line]:
    """What is wrong with the journal, and what to look at it with."""
    if not detail.trouble:
        return []
    text = f"! {title(row)} is damaged: {one_line(detail.trouble, 400)}. Opened read-only, nothing was changed."
    if detail.entries:
        text += f" {detail.entries:,} entries are readable."
    check = f"  sapwood sessions check {one_line(row.name or row.session_id, 80)}"
    return [*wrapped(text, "bold red", look), *wrapped(check, "", look), _blank()]


def peek_lines(detail: Detail | None, row: AgentRow, look: Look, height: int) -> list[Line]:
    """The shortest of all: where the money went, what happened when, what was said last."""
    if detail is None or detail.session_id != row.session_id:
        return detail_lines(None, row, 0, look)
    charts = [*_cost_chart(detail, look), *_lanes(detail, look, most=max(1, height // 3))]
    said = _said(detail, look)
    return [*charts, *said[-max(1, height - len(charts)) :]][:height]


def _overview(detail: Detail, look: Look) -> list[Line]:
    return [
        *_cost_chart(detail, look),
        _blank(),
        *_lanes(detail, look, most=6),
        _blank(),
        *_said(detail, look)[-_LAST_SAID:],
    ]


def _said(detail: Detail, look: Look) -> list[Line]:
    if not detail.said:
        return [(("Nothing was said yet.", "dim"),)]
    return [_plain(line, look, "" if line.startswith(" ") else "bold") for line in detail.said]


def _tools(detail: Detail, look: Look) -> list[Line]:
    if not detail.calls:
        return [(("No tool was called.", "dim"),)]
    slowest = sorted(detail.calls, key=lambda call: -(call.duration_ms or 0))
    rows = [_call(call) for call in slowest]
    return table_lines(
        ("Tool", "Argument", "State", "Time", "Output", "Spill"), rows, look, _TEXTS, ("Spill", "Output")
    )


def _call(call: Called) -> dict[str, Span]:
    word = {"ok": "completed", "failed": "failed", "open": "running"}[call.state]
    took = "" if call.duration_ms is None else f"{call.duration_ms} ms" if call.duration_ms < 1000 else None
    return {
        "Tool": (call.name, ""),
        "Argument": (call.argument[:60], "dim"),
        "State": (call.state, STATES[word].style),
        "Time": (took if took is not None else duration(call.duration_ms), ""),
        "Output": (f"{call.output_chars:,}", "dim"),
        "Spill": (call.spill or "", "dim"),
    }


def _issues(detail: Detail, look: Look) -> list[Line]:
    if not detail.issues:
        return [(("Nothing needs you here.", "dim"),)]
    lines: list[Line] = []
    for issue in detail.issues:
        shown = STATES[issue.word]
        facts = [issue.stop_reason or "", f"{issue.tries} failed tries" if issue.tries > 1 else "", issue.session_id]
        rest = " · ".join(fact for fact in facts if fact)
        lines += [
            *([_blank()] if lines else []),
            (
                (f"{shown.mark(ascii=look.is_ascii)} {shown.word} ", shown.style),
                (look.text(issue.name), "bold"),
                (look.text(f" · {one_line(rest, 200)}"), "dim"),
            ),
            *(_plain(f"  {line}", look) for line in safe_lines(issue.text)),
        ]
    return lines


def _info(detail: Detail, look: Look) -> list[Line]:
    found = detail.facts
    if found is None:
        return []
    lines: list[Line] = [((f"{label + ':':<12}", "dim"), (look.text(text), "")) for label, text in found.facts]
    return [*lines, _blank(), (("Prompt", "bold"),), *(_plain(f"  {line}", look) for line in safe_lines(found.prompt))]


def _costs(detail: Detail, look: Look) -> list[Line]:
    found = detail.costs
    if found is None or not found.nodes:
        return []
    top = found.nodes[0].depth
    whole = found.nodes[0].total
    rows: list[dict[str, Span]] = [
        {
            "Name": ("  " * (node.depth - top) + node.name, "" if node.depth > top else "bold"),
            "Origin": (", ".join(node.origins), "dim"),
            "Calls": (str(node.calls), "dim"),
            "Tokens": (tokens(spent_tokens(node.total)), "dim"),
            "Own": (exact_money(node.own), ""),
            "Total": (exact_money(node.total), "bold"),
        }
        for node in found.nodes
    ]
    verdict = "own sums to total: verified" if found.verified else "own sums to total: NOT verified"
    table = table_lines(
        ("Name", "Origin", "Calls", "Tokens", "Own", "Total"), rows, look, _TEXTS, ("Origin", "Calls", "Tokens", "Own")
    )
    noted = look.text(f"{exact_money(whole)} in all, {verdict}")
    return [*_cost_chart(detail, look), _blank(), *table, _blank(), ((noted, "" if found.verified else "bold red"),)]


def _cost_chart(detail: Detail, look: Look) -> list[Line]:
    return cost_bar(detail.costs, look) if detail.costs else []


def _lanes(detail: Detail, look: Look, most: int = 60) -> list[Line]:
    return lane_lines(detail.timeline, look, most) if detail.timeline else []


def _plain(text: str, look: Look, style: str = "") -> Line:
    return ((look.text(text), style),)


def _blank() -> Line:
    return ((" ", ""),)


_TABS: dict[Tab, Callable[[Detail, Look], Sequence[Line]]] = {
    "Overview": _overview,
    "Conversation": _said,
    "Tools": _tools,
    "Issues": _issues,
    "Info": _info,
    "Cost": _costs,
    "Timeline": _lanes,
}
