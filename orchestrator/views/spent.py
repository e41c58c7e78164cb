"""Own and total spend of every session of a tree: the one fold that all views show."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.stored import Member
from store.attribution import Key, account, billed, own_records
from store.entries import ChildUsageAttributedEntry
from store.errors import BadUsage
from store.repair import Node
from store.usage import NOTHING, Spend, add_up, spend_of


class Spent(msgspec.Struct, frozen=True):
    """None: not known, since there is no journal to read it from."""

    own: Spend | None
    total: Spend | None
    is_verifiable: bool = True


def spent(all_members: Sequence[Member]) -> dict[str, Spent]:
    """What each session spent, by session id.

    A total is what the session's own journal says, and what was billed below it and is on its way there: the ledger writes
    an attribution a moment after the entry that it is about. So a parent is always own + its children, also while all run.
    """
    result: dict[str, Spent] = {}
    nodes = {member.session_id: member.node for member in all_members}
    below: dict[str, dict[Key, Spend]] = {}
    for member in reversed(all_members):
        session, node = member.session_id, member.node
        keyed = below.pop(session, {})
        if node is None:
            parent = nodes.get(member.parent_id or "")
            result[session] = Spent(None, None if parent is None else _attributed_through(parent, session))
            continue
        mine = _billed_keys(session, node)
        known = account(node.header, node.records)
        pending = add_up(spend for key, spend in keyed.items() if key not in known.keys)
        result[session] = Spent(known.own, known.total + pending, known.is_verifiable)
        if member.parent_id is not None:
            below.setdefault(member.parent_id, {}).update(keyed | mine)
    return result


def _billed_keys(session: str, node: Node) -> dict[Key, Spend]:
    found: dict[Key, Spend] = {}
    for entry, usage in billed(node.header, node.records):
        try:
            found[session, entry] = spend_of(usage)
        except BadUsage:
            continue
    return found


def _attributed_through(parent: Node, child: str) -> Spend | None:
    """What came to the parent through a child whose journal is gone; None if nothing did."""
    found: dict[Key, Spend] = {}
    for record in own_records(parent.header, parent.records):
        if record.key is None or record.key in found:
            continue
        body = record.body()
        if isinstance(body, ChildUsageAttributedEntry) and body.child_session_id == child:
            try:
                found[record.key] = spend_of(body.child_usage)
            except BadUsage:
                continue
    return add_up(found.values()) if found else None


def own_sum(spends: Sequence[Spent]) -> Spend:
    """Σ own over sessions, those that are not known left out."""
    return add_up(each.own if each.own is not None else NOTHING for each in spends)
