"""What was billed, summed up by session and model, by model, or by day. The sums of the parts are the totals that are shown."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from orchestrator.views.bills import Bill
from orchestrator.views.grid import Look
from orchestrator.views.money import ABSENT, decimal_dollars, exact_money, tokens
from orchestrator.views.spans import Line
from orchestrator.views.text import one_line
from orchestrator.views.usage_report import UsageReport
from orchestrator.views.usage_text import table_lines, unpriced_lines, wrapped
from store.usage import Spend, Usage, add_up, spend_of, usage_of

By = Literal["session", "model", "day"]
Row = tuple[str, ...]

_COUNTS = ("calls", "input", "output", "cacheRead", "cacheWrite", "costUsd", "priceKnown")
HEADS: dict[By, Row] = {
    "session": ("rootSessionId", "parentSessionId", "sessionId", "name", "depth", "outcome", "model", *_COUNTS),
    "model": ("model", "sessions", *_COUNTS),
    "day": ("day", "sessions", *_COUNTS),
}


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All bills with the same `key`: a model or a day. `sessions`: how many have such bills."""

    key: str
    sessions: int
    calls: int
    usage: Usage


class Parts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`verified`: the parts sum to the total of the reports that they are of, to the last unit."""

    by: By
    parts: tuple[Part, ...]
    total: Usage
    verified: bool


def parted(bills: Iterable[Bill], reports: Sequence[UsageReport], by: By) -> Parts:
    """Models by what they cost, days in their order."""
    groups = _grouped(bills, (lambda bill: bill.model) if by == "model" else (lambda bill: bill.day))
    found = [
        Part(
            key=key,
            sessions=len({bill.node.session_id for bill in group}),
            calls=len(group),
            usage=usage_of(_sum(group)),
        )
        for key, group in groups.items()
    ]
    if by == "model":
        found.sort(key=lambda part: (-part.usage.cost.total, -part.usage.total_tokens, part.key))
    else:
        found.sort(key=lambda part: part.key)
    total = add_up(spend_of(part.usage) for part in found)
    shown = add_up(spend_of(report.total) for report in reports if report.total is not None)
    are_verified = all(report.verified for report in reports)
    return Parts(by=by, parts=tuple(found), total=usage_of(total), verified=total == shown and are_verified)


def _grouped(bills: Iterable[Bill], key: Callable[[Bill], str]) -> dict[str, list[Bill]]:
    groups: dict[str, list[Bill]] = {}
    for bill in bills:
        groups.setdefault(key(bill), []).append(bill)
    return groups


def _sum(bills: Iterable[Bill]) -> Spend:
    return add_up(bill.spend for bill in bills)


def session_rows(bills: Iterable[Bill]) -> Iterable[Row]:
    """One row per session and model, in spawn order."""
    groups: dict[tuple[str, str], list[Bill]] = {}
    for bill in bills:
        groups.setdefault((bill.node.session_id, bill.model), []).append(bill)
    for (_, model), group in groups.items():
        first = group[0]
        node = first.node
        named = (first.root_id, node.parent_session_id or "", node.session_id, node.name or "", str(node.depth))
        yield (*named, node.outcome or "", model, *_counts(len(group), _sum(group)))


def part_rows(found: Parts) -> Iterable[Row]:
    """One row per part."""
    for part in found.parts:
        yield (part.key, str(part.sessions), *_counts(part.calls, spend_of(part.usage)))


def _counts(calls: int, spend: Spend) -> Row:
    """What has no price at all has no cost: an empty cell, never a zero."""
    return (
        str(calls),
        str(spend.input),
        str(spend.output),
        str(spend.cache_read),
        str(spend.cache_write),
        "" if spend.unpriced and not spend.total_pico else decimal_dollars(spend.total_pico),
        "no" if spend.unpriced else "yes",
    )


_DISPENSABLE = ("Cached", "Output", "Input", "Sessions", "Calls")


def part_lines(found: Parts, reports: Sequence[UsageReport], look: Look) -> list[Line]:
    """The parts and their sum, then what has no price, and whether they sum to what is shown elsewhere."""
    head = found.by.capitalize()
    rows = [_part(head, part.key or ABSENT, part, "") for part in found.parts]
    whole = Part(key="", sessions=_sessions(reports), calls=sum(part.calls for part in found.parts), usage=found.total)
    rows.append(_part(head, "Total", whole, "bold"))
    heads = (head, "Sessions", "Calls", "Input", "Output", "Cached", "Cost")
    lines = [*table_lines(heads, rows, look, frozenset({head}), _DISPENSABLE), ((" ", ""),)]
    unpriced = dict.fromkeys(text for report in reports for text in unpriced_lines(report))
    verdict = "verified" if found.verified else "NOT verified: run sapwood sessions check"
    notes = [
        *((text, "yellow") for text in unpriced),
        (f"parts sum to total: {verdict}", "" if found.verified else "bold red"),
    ]
    return [*lines, *(line for text, style in notes for line in wrapped(text, style, look))]


def _sessions(reports: Sequence[UsageReport]) -> int:
    return sum(len(report.nodes) for report in reports)


def _part(head: str, key: str, part: Part, style: str) -> dict[str, tuple[str, str]]:
    usage = part.usage
    return {
        head: (one_line(key, 80), style),
        "Sessions": (str(part.sessions), "dim"),
        "Calls": (str(part.calls), "dim"),
        "Input": (tokens(usage.input), ""),
        "Output": (tokens(usage.output), ""),
        "Cached": (tokens(usage.cache_read + usage.cache_write), ""),
        "Cost": (exact_money(usage), style or "bold"),
    }
