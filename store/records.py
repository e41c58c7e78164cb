"""A line of a journal: its head, decoded at once, and its bytes, decoded when somebody asks."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from store.entries import (
    ChildUsageAttributedEntry,
    CustomEntry,
    Entry,
    Header,
    Known,
    MessageEntry,
    SessionInfoEntry,
    UnknownEntry,
)
from store.errors import BadRecord
from store.messages import Message, decode_message
from store.wire import Wire, encode


class Head(Wire, frozen=True, kw_only=True):
    """What walking a tree needs, and the key of an attribution. An entry of others may mean something else by the last three."""

    type: str
    id: str | None = None
    parent_id: str | None = None
    timestamp: Any = None
    origin_session_id: Any = None
    origin_entry_id: Any = None


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
            return _decoded(_known, self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return UnknownEntry(self.raw)


_known: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)
_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)
_T = TypeVar("_T")
_HALF = rb"u[dD][89a-fA-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(" + _HALF + rb")|.)", re.DOTALL)


def well_formed(raw: bytes) -> bytes:
    """`raw` with U+FFFD for each half of a surrogate pair: JavaScript writes one where it cut a string, and it is no text."""
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if escape[1] else escape[0], raw)


def _decoded(decoder: msgspec.json.Decoder[_T], raw: bytes) -> _T:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            raise
        return decoder.decode(well_formed(raw))


def read_record(raw: bytes) -> Record:
    """The record in one JSON object. Raises BadRecord where there is no object with `type` and `id`."""
    try:
        head = _decoded(_head, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord(f"expected an entry, found {raw[:120]!r}: {error}") from error
    if head.id is None:
        raise BadRecord(f"expected an entry with an id, found {raw[:120]!r}")
    key = None
    if isinstance(head.origin_session_id, str) and isinstance(head.origin_entry_id, str):
        key = (head.origin_session_id, head.origin_entry_id)
    timestamp = head.timestamp if isinstance(head.timestamp, str) else ""
    return Record(head.type, head.id, head.parent_id, timestamp, raw, key)


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
        """The entry with this id and place."""
        # An imported journal may hold any text where we write hex and ISO.
        parent_json = "null" if parent is None else encode(parent).decode()
        time_json = encode(timestamp).decode()
        head = f'{{"type":"{self.type}","id":"{entry}","parentId":{parent_json},"timestamp":{time_json}'
        key = None
        if isinstance(self.body, ChildUsageAttributedEntry):
            origin_session, origin_entry = self.body.origin_session_id, self.body.origin_entry_id
            if origin_session is not None and origin_entry is not None:
                key = (origin_session, origin_entry)
        return Record(self.type, entry, parent, timestamp, head.encode() + self.tail, key)


def message_in(record: Record) -> Message | None:
    """The message in a record; None for other records and for what we cannot read."""
    body = record.body()
    if not isinstance(body, MessageEntry):
        return None
    try:
        return decode_message(body.message)
    except BadRecord:
        return None


def last_marked(records: Sequence[Record], mark: str) -> dict[str, Any] | None:
    """The data of the last `custom` entry of this type, where they are an object; None: there is no such entry."""
    needle = mark.encode()
    for record in reversed(records):
        body = record.body() if record.type == "custom" and needle in record.raw else None
        if isinstance(body, CustomEntry) and body.custom_type == mark and isinstance(body.data, dict):
            return body.data
    return None


def name_given(header: Header, info: Record | None) -> str | None:
    """What a session is called: what its latest `session_info` says, else the name that it was born with."""
    body = info.body() if info is not None else None
    return body.name if isinstance(body, SessionInfoEntry) else header.name
