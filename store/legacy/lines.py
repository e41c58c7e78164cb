"""The lines of a plain session file, and the entry that a good one holds."""

from collections.abc import Iterator
from typing import Any

import msgspec

from store.legacy.members import UNREADABLE
from store.legacy.report import Salvaged
from store.records import well_formed
from store.wire import Wire

BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"


class Line(msgspec.Struct, frozen=True, gc=False):
    """A stretch of the file between two bytes 0A, without white space around it. `number` counts from 1."""

    number: int
    offset: int
    data: bytes


class Head(Wire, frozen=True, kw_only=True, gc=False):
    """The members that reading needs, whatever others put there. UNSET: the member is not there."""

    type: Any = msgspec.UNSET
    id: Any = msgspec.UNSET
    parent_id: Any = msgspec.UNSET
    timestamp: Any = msgspec.UNSET
    origin_session_id: Any = msgspec.UNSET
    origin_entry_id: Any = msgspec.UNSET


class Item(msgspec.Struct, frozen=True, gc=False):
    """An entry or a header, where it stood. `raw` is its JSON object."""

    line: int
    offset: int
    raw: bytes
    head: Head

    @property
    def is_header(self) -> bool:
        return bool(self.head.type == "session")


class Lost(msgspec.Struct, frozen=True, gc=False):
    """Bytes that hold no entry; `raw` is their beginning."""

    line: int
    offset: int
    reason: str
    raw: bytes


Piece = Item | Lost | Salvaged
_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


def lines(data: bytes) -> Iterator[Line]:
    """The lines of `data`, blank ones as well; cut at byte 0A and nowhere else."""
    start, number, size = 0, 0, len(data)
    while start < size:
        end = data.find(b"\n", start)
        end = size if end < 0 else end
        number += 1
        raw = data[start:end]
        stripped = raw.lstrip(_SPACE)
        yield Line(number, start + len(raw) - len(stripped), stripped.rstrip(_SPACE))
        start = end + 1


def whole(line: Line) -> list[Piece]:
    """The entry that a whole line is, behind what had to be mended in it; nothing where it is none."""
    raw, offset = line.data, line.offset
    head = head_of(raw)
    if head is not None and raw.isascii():
        return [Item(line.number, offset, raw, head)]
    notes: list[Piece] = []
    if raw.startswith(BOM):
        notes.append(Salvaged(line.number, offset, "a byte order mark was left out"))
        raw = raw[len(BOM) :].lstrip(_SPACE)
        offset = line.offset + len(line.data) - len(raw)
        head = head_of(raw)
    if head is None:
        return []
    text = utf8(raw)
    if text is not raw:
        notes.append(Salvaged(line.number, offset, NO_UTF8))
        head = head_of(text)
    return [*notes, Item(line.number, offset, text, head)] if head is not None else []


NO_UTF8 = "bytes that are no UTF-8 were replaced by U+FFFD"


def head_of(raw: bytes) -> Head | None:
    """The head of a JSON object that has a `type`; None for anything else."""
    if raw[:1] != b"{":
        return None
    try:
        head = _head.decode(raw)
    except UNREADABLE:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            return None
        try:
            head = _head.decode(well_formed(raw))
        except UNREADABLE:
            return None
    return head if isinstance(head.type, str) and head.type else None


def utf8(raw: bytes) -> bytes:
    """`raw` itself if it is UTF-8, else with U+FFFD for what is not."""
    if raw.isascii():
        return raw
    try:
        raw.decode()
    except UnicodeDecodeError:
        return raw.decode(errors="replace").encode()
    return raw
