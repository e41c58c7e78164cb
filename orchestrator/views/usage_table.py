"""Own spend per session and model: the rows of `sapwood usage --csv`. Their sums are the totals that are shown."""

from collections.abc import Iterator

import attrs

from orchestrator.views.money import decimal_dollars
from orchestrator.views.stored import Stored, members, subtree
from orchestrator.views.usage_report import UsageNode, usage_report
from store.attribution import billed_usage, own_records
from store.entries import ModelChangeEntry, UsageEntry
from store.errors import BadUsage
from store.messages import AssistantMessage
from store.records import Record, message_in
from store.repair import Node
from store.usage import NOTHING, Spend, spend_of

HEAD = (
    "rootSessionId",
    "parentSessionId",
    "sessionId",
    "name",
    "depth",
    "outcome",
    "model",
    "calls",
    "input",
    "output",
    "cacheRead",
    "cacheWrite",
    "costUsd",
    "priceKnown",
)


@attrs.define
class _Line:
    calls: int = 0
    spend: Spend = NOTHING


def usage_table(stored: Stored, session_id: str | None = None) -> Iterator[tuple[str, ...]]:
    """One row per session and model under `session_id` (default: all), in spawn order. Raises KeyError as the report."""
    report = usage_report(stored, session_id)
    nodes = {member.session_id: member.node for member in subtree(members(stored), report.nodes[0].session_id)}
    for shown in report.nodes:
        node = nodes[shown.session_id]
        for model, line in _by_model(node).items() if node else ():
            yield _row(report.root_session_id, shown, model, line)


def _row(root_id: str, node: UsageNode, model: str, line: _Line) -> tuple[str, ...]:
    spend = line.spend
    return (
        root_id,
        node.parent_session_id or "",
        node.session_id,
        node.name or "",
        str(node.depth),
        node.outcome or "",
        model,
        str(line.calls),
        str(spend.input),
        str(spend.output),
        str(spend.cache_read),
        str(spend.cache_write),
        "" if spend.unpriced and not spend.total_pico else decimal_dollars(spend.total_pico),
        "no" if spend.unpriced else "yes",
    )


def _by_model(node: Node) -> dict[str, _Line]:
    lines: dict[str, _Line] = {}
    seen: set[str] = set()
    current = ""
    for record in own_records(node.header, node.records):
        if record.type == "model_change" and isinstance(body := record.body(), ModelChangeEntry):
            current = f"{body.provider}/{body.model_id}"
        usage = billed_usage(record)
        if usage is None or record.id in seen:
            continue
        seen.add(record.id)
        try:
            spend = spend_of(usage)
        except BadUsage:
            continue
        line = lines.setdefault(_model(record) or current, _Line())
        line.calls += 1
        line.spend = line.spend + spend
    return lines


def _model(record: Record) -> str:
    """The model of a billed entry; empty for summaries, which do not say."""
    said: AssistantMessage | UsageEntry | None = None
    if record.type == "message" and isinstance(message := message_in(record), AssistantMessage):
        said = message
    elif record.type == "usage" and isinstance(body := record.body(), UsageEntry):
        said = body
    return f"{said.provider}/{said.model}" if said is not None and said.model else ""
