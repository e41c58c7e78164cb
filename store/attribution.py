"""Who spent what: own, attributed and total spend of a session, out of its entries.

own(S)   = everything billed to S itself, on every branch, with every stop reason
total(S) = own(S) + Σ childUsage over the distinct attribution keys in S's journal
"""

from collections.abc import Iterator, Sequence

import msgspec

from store.entries import (
    BranchSummaryEntry,
    ChildUsageAttributedEntry,
    CompactionEntry,
    Header,
    MessageEntry,
    UsageEntry,
)
from store.errors import BadRecord, BadUsage
from store.messages import AssistantMessage, decode_message
from store.records import Record
from store.usage import NOTHING, Spend, Usage, add_up, spend_of

Key = tuple[str, str]
_BILLED_TYPES = frozenset({"message", "compaction", "branch_summary", "usage"})


class Account(msgspec.Struct, frozen=True):
    """What one journal says of its session's spend. `refused` names entries whose usage no provider can mean."""

    own: Spend = NOTHING
    children: Spend = NOTHING
    keys: frozenset[Key] = frozenset()
    refused: tuple[str, ...] = ()
    is_verifiable: bool = True

    @property
    def total(self) -> Spend:
        return self.own + self.children


def billed_usage(record: Record) -> Usage | None:
    """The usage that this entry bills to its own session, if any."""
    if record.type not in _BILLED_TYPES:
        return None
    match record.body():
        case MessageEntry(message=raw):
            try:
                message = decode_message(raw)
            except BadRecord:
                return None
            return message.usage if isinstance(message, AssistantMessage) else None
        case CompactionEntry(usage=usage) | BranchSummaryEntry(usage=usage) | UsageEntry(usage=usage):
            return usage
    return None


def own_records(header: Header, records: Sequence[Record]) -> Sequence[Record]:
    """The records that are this session's own: a fork's copied prefix was billed to its source."""
    return records[header.forked_from.records :] if header.forked_from else records


def billed(header: Header, records: Sequence[Record]) -> Iterator[tuple[str, Usage]]:
    """(entry id, usage) of everything billed to the session, each entry once."""
    seen: set[str] = set()
    for record in own_records(header, records):
        usage = billed_usage(record)
        if usage is not None and record.id not in seen:
            seen.add(record.id)
            yield record.id, usage


def account(header: Header, records: Sequence[Record]) -> Account:
    """Own and children's spend of the session, from its journal alone."""
    own: dict[str, Spend] = {}
    refused: list[str] = []
    for entry, usage in billed(header, records):
        try:
            own[entry] = spend_of(usage)
        except BadUsage:
            refused.append(entry)
    children: dict[Key, Spend] = {}
    foreign: list[ChildUsageAttributedEntry] = []
    for record in own_records(header, records):
        if record.type != "child_usage_attributed" or record.key in children:
            continue
        body = record.body()
        if not isinstance(body, ChildUsageAttributedEntry):
            continue
        if record.key is None:
            foreign.append(body)
            continue
        try:
            children[record.key] = spend_of(body.child_usage)
        except BadUsage:
            refused.append(record.id)
    folded, is_verifiable = _folded_by_others(foreign, own)
    return Account(
        own=add_up(own.values()),
        children=add_up(children.values()) + folded,
        keys=frozenset(children),
        refused=tuple(refused),
        is_verifiable=is_verifiable,
    )


def _folded_by_others(entries: Sequence[ChildUsageAttributedEntry], own: dict[str, Spend]) -> tuple[Spend, bool]:
    """Children's spend in a file of another program, whose attributions have no key.

    There the last aggregate of a target wins; what it holds beyond the target's own is the children's. Where that would be
    negative nothing can be verified, and the sum of the parts stands in.
    """
    last: dict[str | None, ChildUsageAttributedEntry] = {}
    parts: dict[str | None, Spend] = {}
    for entry in entries:
        last[entry.target_id] = entry
        parts[entry.target_id] = parts.get(entry.target_id, NOTHING) + spend_of(entry.child_usage)
    result, is_verifiable = NOTHING, True
    for target, entry in last.items():
        beyond = None
        if entry.aggregate_usage is not None and target in own:
            beyond = _beyond(spend_of(entry.aggregate_usage), own[target])
            is_verifiable = is_verifiable and beyond is not None
        result = result + (beyond or parts[target])
    return result, is_verifiable


def _beyond(aggregate: Spend, own: Spend) -> Spend | None:
    counts = {
        name: getattr(aggregate, name) - getattr(own, name) for name in Spend.__struct_fields__ if name != "unpriced"
    }
    return None if min(counts.values()) < 0 else Spend(**counts, unpriced=aggregate.unpriced)
