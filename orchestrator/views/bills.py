"""Everything that was billed, entry by entry: for whom, which model, and on which day."""

from collections.abc import Iterator
from datetime import datetime

import attrs

from orchestrator.views.stored import Stored, members, subtree
from orchestrator.views.usage_report import UsageNode, UsageReport
from store.attribution import billed_usage, own_records
from store.entries import ModelChangeEntry, UsageEntry
from store.errors import BadUsage
from store.messages import AssistantMessage
from store.records import Record, message_in
from store.repair import Node
from store.times import unix_s
from store.usage import Spend, spend_of


@attrs.frozen
class Bill:
    """One billed entry of a session. `day`: local, `2026-11-30`; empty where the entry has no time."""

    root_id: str
    node: UsageNode
    model: str
    day: str
    spend: Spend


def bills(stored: Stored, report: UsageReport) -> Iterator[Bill]:
    """The bills that the figures of a report of this tree are made of, each entry once, in spawn order."""
    nodes = {member.session_id: member.node for member in subtree(members(stored), report.nodes[0].session_id)}
    for shown in report.nodes:
        node = nodes[shown.session_id]
        if node is not None:
            for model, day, spend in _billed(node):
                yield Bill(report.root_session_id, shown, model, day, spend)


def _billed(node: Node) -> Iterator[tuple[str, str, Spend]]:
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
            yield _model(record) or current, _day(record.timestamp), spend_of(usage)
        except BadUsage:
            continue


def _model(record: Record) -> str:
    """The model of a billed entry; empty for summaries, which do not say."""
    said: AssistantMessage | UsageEntry | None = None
    if record.type == "message" and isinstance(message := message_in(record), AssistantMessage):
        said = message
    elif record.type == "usage" and isinstance(body := record.body(), UsageEntry):
        said = body
    return f"{said.provider}/{said.model}" if said is not None and said.model else ""


def _day(timestamp: str) -> str:
    at = unix_s(timestamp)
    return "" if at is None else datetime.fromtimestamp(at).date().isoformat()
