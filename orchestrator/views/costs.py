"""Where the money went: the figures of the cost chart and of the table below it, which are the same."""

import msgspec

from orchestrator.views.stored import Member, Stored, members, subtree
from orchestrator.views.text import one_line
from orchestrator.views.usage_report import UsageNode, usage_report
from store.attribution import billed, own_records
from store.entries import ChildUsageAttributedEntry
from store.ids import short
from store.repair import Node
from store.usage import Usage


class CostNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One session. `origins`: why it was paid for, as its parent's journal says. Usages are None where nothing is known."""

    session_id: str
    parent: str | None
    name: str
    depth: int
    own: Usage | None
    total: Usage | None
    calls: int
    origins: tuple[str, ...]


class Costs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Parents before children. `verified`: the total is the sum of all own parts, to the last unit."""

    nodes: tuple[CostNode, ...]
    verified: bool


def costs(stored: Stored, session_id: str) -> Costs:
    """Of a session and what is below it. Raises KeyError."""
    report = usage_report(stored, session_id)
    part = {member.session_id: member for member in subtree(members(stored), session_id)}
    origins = {member.session_id: _origins(member.node) for member in part.values() if member.node}
    return Costs(
        nodes=tuple(_node(node, part[node.session_id], origins, session_id) for node in report.nodes),
        verified=report.verified,
    )


def _node(node: UsageNode, member: Member, origins: dict[str, dict[str, set[str]]], top: str) -> CostNode:
    told = origins.get(node.parent_session_id or "", {}).get(node.session_id, set())
    return CostNode(
        session_id=node.session_id,
        parent=None if node.session_id == top else node.parent_session_id,
        name=one_line(node.name or "", 200) or short(node.session_id),
        depth=node.depth,
        own=node.own,
        total=node.total,
        calls=sum(1 for _ in billed(member.node.header, member.node.records)) if member.node else 0,
        origins=tuple(sorted(one_line(each, 40) for each in told)),
    )


def _origins(node: Node) -> dict[str, set[str]]:
    """Child → the origins that this journal attributes to it."""
    found: dict[str, set[str]] = {}
    for record in own_records(node.header, node.records):
        body = record.body() if record.type == "child_usage_attributed" else None
        if isinstance(body, ChildUsageAttributedEntry) and body.origin and body.child_session_id:
            found.setdefault(body.child_session_id, set()).add(body.origin)
    return found
