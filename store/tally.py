"""What a session was billed, added up record by record, each bill once, and on from where the sum came to."""

import re
from collections.abc import Sequence
from hashlib import blake2b

import attrs

from store.attribution import billed_usage
from store.entries import ChildSpawnedEntry, ChildUsageAttributedEntry
from store.errors import BadUsage
from store.records import Record
from store.usage import NOTHING, Spend, Usage, spend_of

_HASH_BYTES = 8
_CANONICAL = re.compile(r"[0-9a-f]{8}")


@attrs.define(eq=False)
class Tally:
    """Sums of the records behind the first `inherited`, which were billed to another session.

    children   ids of those that were spawned, in that order
    is_unsure  only a tally of the whole can tell: something may have been counted before
    can_go_on  False: there are attributions of another program, whose sums are found out of all records at once
    """

    inherited: int
    own: Spend = NOTHING
    total: Spend = NOTHING
    children: list[str] = attrs.field(factory=list)
    is_unsure: bool = False
    can_go_on: bool = True
    _exact: set[tuple[str, ...]] | None = attrs.field(factory=set)
    """What was counted; None for one who goes on, and knows hashes alone."""
    _seen: set[bytes] = attrs.field(factory=set)

    @classmethod
    def going_on(cls, inherited: int, own: Spend, total: Spend, children: Sequence[str], seen: bytes) -> "Tally":
        """From where another tally came to. `seen`: see `hashes`."""
        tally = cls(inherited, own, total, list(children), exact=None)
        tally._seen = {seen[place : place + _HASH_BYTES] for place in range(0, len(seen), _HASH_BYTES)}
        return tally

    @property
    def hashes(self) -> bytes:
        """Of all that must not be counted again, and that cannot be told from its number."""
        return b"".join(sorted(self._seen))

    def add(self, record: Record, number: int) -> None:
        """The next record, number `number` of its session."""
        if record.type == "child_spawned":
            body = record.body()
            if isinstance(body, ChildSpawnedEntry) and self._is_new("child", body.child_session_id):
                self.children.append(body.child_session_id)
        elif record.type == "child_usage_attributed":
            self._attributed(record)
        elif (usage := billed_usage(record)) is not None:
            self.bill(record, number, usage)

    def bill(self, record: Record, number: int, usage: Usage) -> None:
        """What this record cost."""
        if self._is_first(record, number):
            spend = _spend(usage) or NOTHING
            self.own, self.total = self.own + spend, self.total + spend

    def _attributed(self, record: Record) -> None:
        body = record.body()
        if not isinstance(body, ChildUsageAttributedEntry):
            return
        if record.key is None:
            self.can_go_on, self.is_unsure = False, True
        elif (spend := _spend(body.child_usage)) is not None and self._is_new("key", *record.key):
            self.total = self.total + spend

    def _is_first(self, record: Record, number: int) -> bool:
        """Whether no record with this id was billed before. One that is called by its own number need not be kept."""
        called = int(record.id, 16) if _CANONICAL.fullmatch(record.id) else 0
        if self._exact is None and self.inherited < called < number:
            self.is_unsure = True  # that record may be called so, too
        return self._is_new("own", record.id, is_kept=called != number)

    def _is_new(self, *key: str, is_kept: bool = True) -> bool:
        hashed = _hashed(key) if is_kept or self._exact is None else b""
        if self._exact is not None:
            is_new = key not in self._exact
            self._exact.add(key)
        else:
            is_new = hashed not in self._seen
            self.is_unsure = self.is_unsure or not is_new
        if is_kept:
            self._seen.add(hashed)
        return is_new


def _spend(usage: Usage) -> Spend | None:
    try:
        return spend_of(usage)
    except BadUsage:
        return None


def _hashed(key: Sequence[str]) -> bytes:
    return blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=_HASH_BYTES).digest()
