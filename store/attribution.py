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
from store.usage import NOTHING, Cost, Spend, Usage, add_up, spend_of

Key = tuple[str, str]
_FREE = Cost()
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
            return _if_any(message.usage) if isinstance(message, AssistantMessage) else None
        case CompactionEntry(usage=usage) | BranchSummaryEntry(usage=usage) | UsageEntry(usage=usage):
            return _if_any(usage)
    return None


def _if_any(usage: Usage | None) -> Usage | None:
    """A call that was refused before it was made bills nothing, and nobody need be told of nothing."""
    if usage is None:
        return None
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return usage if any(counts) or usage.cost != _FREE else None


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
    refused: list[str] = []
    own: dict[str, Spend] = {}
    for entry, usage in billed(header, records):
        spend = _spend(entry, usage, refused)
        if spend is not None:
            own[entry] = spend
    children: dict[Key, Spend] = {}
    foreign: list[_Foreign] = []
    for record in own_records(header, records):
        if record.type != "child_usage_attributed" or record.key in children:
            continue
        body = record.body()
        if not isinstance(body, ChildUsageAttributedEntry):
            continue
        spend = _spend(record.id, body.child_usage, refused)
        if record.key is None:
            aggregate = body.aggregate_usage
            total = None if aggregate is None else _spend(record.id, aggregate, refused)
            foreign.append(_Foreign(body.target_id, spend or NOTHING, total))
        elif spend is not None:
            children[record.key] = spend
    folded, is_verifiable = _folded_by_others(foreign, own)
    return Account(
        own=add_up(own.values()),
        children=add_up(children.values()) + folded,
        keys=frozenset(children),
        refused=tuple(dict.fromkeys(refused)),
        is_verifiable=is_verifiable,
    )


def _spend(entry: str, usage: Usage, refused: list[str]) -> Spend | None:
    try:
        return spend_of(usage)
    except BadUsage:
        refused.append(entry)
        return None


class _Foreign(msgspec.Struct, frozen=True):
    """An attribution without a key: what it adds to its target, and what the target then stands at."""

    target_id: str | None
    child: Spend
    aggregate: Spend | None


def _folded_by_others(entries: Sequence[_Foreign], own: dict[str, Spend]) -> tuple[Spend, bool]:
    """Children's spend in a file of another program, whose attributions have no key.

    There the last aggregate of a target wins; what it holds beyond the target's own is the children's. Where that would be
    negative nothing can be verified, and the sum of the parts stands in.
    """
    last: dict[str | None, _Foreign] = {}
    parts: dict[str | None, Spend] = {}
    for entry in entries:
        last[entry.target_id] = entry
        parts[entry.target_id] = parts.get(entry.target_id, NOTHING) + entry.child
    result, is_verifiable = NOTHING, True
    for target, entry in last.items():
        beyond = None
        if entry.aggregate is not None and target in own:
            beyond = _beyond(entry.aggregate, own[target])
            is_verifiable = is_verifiable and beyond is not None
        result = result + (beyond or parts[target])
    return result, is_verifiable


def _beyond(aggregate: Spend, own: Spend) -> Spend | None:
    counts = {
        name: getattr(aggregate, name) - getattr(own, name) for name in Spend.__struct_fields__ if name != "unpriced"
    }
    return None if min(counts.values()) < 0 else Spend(**counts, unpriced=aggregate.unpriced)
