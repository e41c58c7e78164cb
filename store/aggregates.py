"""What `aggregateUsage` says: written for other readers, never read by us but to tell where it is wrong."""

from collections.abc import Iterator, Sequence

import attrs

from store.attribution import billed, own_records
from store.entries import ChildUsageAttributedEntry, Header
from store.errors import BadUsage
from store.records import Record
from store.usage import NOTHING, Spend, spend_of, usage_of


@attrs.define
class Aggregates:
    """Running sums per target message: what `aggregateUsage` says. Written for other readers, never read by us."""

    own: dict[str, tuple[Spend, int]] = attrs.field(factory=dict)
    sums: dict[str, Spend] = attrs.field(factory=dict)

    def attribution(
        self, target_id: str | None, spend: Spend, origin: tuple[str, str], child_session_id: str, why: str
    ) -> ChildUsageAttributedEntry:
        """The next attribution entry to `target_id`."""
        aggregate = None
        if target_id is not None:
            own, own_tokens = self.own.get(target_id, (NOTHING, 0))
            self.sums[target_id] = self.sums.get(target_id, NOTHING) + spend
            aggregate = usage_of(own + self.sums[target_id], own_tokens)
        return ChildUsageAttributedEntry(
            target_id=target_id,
            child_usage=usage_of(spend),
            aggregate_usage=aggregate,
            origin_session_id=origin[0],
            origin_entry_id=origin[1],
            child_session_id=child_session_id,
            origin=why,
        )


def aggregates(header: Header, records: Sequence[Record]) -> Aggregates:
    """The sums that a journal holds so far."""
    result = Aggregates()
    for _ in _folded(header, records, result):
        pass
    return result


def _folded(
    header: Header, records: Sequence[Record], into: Aggregates
) -> Iterator[tuple[str, ChildUsageAttributedEntry]]:
    """Add up the attributions with a key, each once; after each, its entry's id and body."""
    for entry, usage in billed(header, records):
        try:
            into.own[entry] = (spend_of(usage), usage.total_tokens)
        except BadUsage:
            continue
    seen: set[tuple[str, str]] = set()
    for record in own_records(header, records):
        if record.key is None or record.key in seen:
            continue
        body = record.body()
        if not isinstance(body, ChildUsageAttributedEntry):
            continue
        try:
            spend = spend_of(body.child_usage)
        except BadUsage:
            continue
        seen.add(record.key)
        if body.target_id is not None:
            into.sums[body.target_id] = into.sums.get(body.target_id, NOTHING) + spend
        yield record.id, body


def aggregates_apart(header: Header, records: Sequence[Record]) -> list[str]:
    """The entries whose aggregate is not their target's own usage and all that was attributed to it up to there."""
    sums = Aggregates()
    apart: list[str] = []
    for entry, body in _folded(header, records, sums):
        if body.aggregate_usage is None or body.target_id is None or body.target_id not in sums.own:
            continue
        try:
            told = spend_of(body.aggregate_usage)
        except BadUsage:
            told = None
        if told != sums.own[body.target_id][0] + sums.sums[body.target_id]:
            apart.append(entry)
    return apart
