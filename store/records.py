"""A line of a journal: its head, decoded at once, and its bytes, decoded when somebody asks."""

import msgspec

from store.entries import ChildUsageAttributedEntry, Entry, Known, UnknownEntry
from store.errors import BadRecord
from store.wire import Wire, encode


class Head(Wire, frozen=True, kw_only=True):
    """What walking a tree needs, and the key of an attribution."""

    type: str
    id: str | None = None
    parent_id: str | None = None
    timestamp: str | None = None
    origin_session_id: str | None = None
    origin_entry_id: str | None = None


class Record(msgspec.Struct, frozen=True):
    """One entry. `raw` is the JSON object without frame and newline, byte for byte as it was read or written."""

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    raw: bytes
    key: tuple[str, str] | None = None

    def body(self) -> Entry:
        """The typed body; UnknownEntry for a type or shape that we do not know."""
        try:
            return _known.decode(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return UnknownEntry(self.raw)


_known: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)
_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


def read_record(raw: bytes) -> Record:
    """The record in one JSON object. Raises BadRecord where there is no object with `type` and `id`."""
    try:
        head = _head.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"expected an entry, found {raw[:120]!r}: {error}") from error
    if head.id is None:
        raise BadRecord(f"expected an entry with an id, found {raw[:120]!r}")
    key = None
    if head.origin_session_id is not None and head.origin_entry_id is not None:
        key = (head.origin_session_id, head.origin_entry_id)
    return Record(head.type, head.id, head.parent_id, head.timestamp or "", raw, key)


class Draft(msgspec.Struct, frozen=True):
    """A body that was encoded once: `tail` is what follows `{"type":"…"`, shared by the entry and its event."""

    type: str
    tail: bytes
    body: Known

    @classmethod
    def of(cls, body: Known) -> "Draft":
        kind = str(body.__struct_config__.tag)
        return cls(kind, encode(body)[len(kind) + 10 :], body)

    def record(self, entry: str, parent: str | None, timestamp: str) -> Record:
        """The entry with this id and place. The ids are hex and the timestamp ISO, so nothing needs escaping."""
        parent_json = "null" if parent is None else f'"{parent}"'
        head = f'{{"type":"{self.type}","id":"{entry}","parentId":{parent_json},"timestamp":"{timestamp}"'
        key = None
        if isinstance(self.body, ChildUsageAttributedEntry):
            origin_session, origin_entry = self.body.origin_session_id, self.body.origin_entry_id
            if origin_session is not None and origin_entry is not None:
                key = (origin_session, origin_entry)
        return Record(self.type, entry, parent, timestamp, head.encode() + self.tail, key)
