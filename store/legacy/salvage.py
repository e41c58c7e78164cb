"""What bad lines still hold: entries before, behind and between torn ones, and entries over several lines.

Every byte is looked at a bounded number of times, whatever the lines hold.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice

import attrs
import msgspec

from store.entries import Known
from store.legacy.lines import NO_UTF8, Head, Item, Line, Lost, Piece, head_of, lines, utf8, whole
from store.legacy.members import CONTROL, UNREADABLE, with_control_characters_escaped
from store.legacy.report import Salvaged

TORN = "no whole JSON object"
KNOWN_TYPES = frozenset(str(member.__struct_config__.tag) for member in Known.__args__)
# A journal takes records of 64 MiB, and an entry may have to get an id and a parent.
RECORD_BYTES = (64 << 20) - 4096

_LOOKS = 8
_GAPS = 64
_LOST_BYTES = 512
_JOINED_LINES = 100_000
_NULS = re.compile(rb"\x00+")
_TO_END_OF_LINE = re.compile(rb"[ \t\r]*(?:\n|\Z)")
_TYPE = r'\{[ \t]*"type"[ \t]*:[ \t]*"'
_ANY_ENTRY = re.compile(_TYPE)
_KNOWN_ENTRY = re.compile(_TYPE + "(?:session|" + "|".join(sorted(KNOWN_TYPES)) + ')"')
# Not strict: raw control characters in strings pass, so that a string may go on over several lines.
_decoder = json.JSONDecoder(strict=False)


def pieces(data: bytes) -> Iterator[Piece]:
    """All of a file in order: entries, what is no entry, and notes before the entries that they are about."""
    bad: list[Line] = []
    size = 0
    for line in lines(data):
        found = whole(line) if line.data and len(line.data) <= RECORD_BYTES else []
        is_more = bool(bad) and bad[0].data[:1] == b"{" != line.data[:1] and not found
        if bad and not (is_more and size <= RECORD_BYTES and len(bad) <= _JOINED_LINES):
            yield from _salvaged(data, bad)
            bad, size = [], 0
        if len(line.data) > RECORD_BYTES:
            yield Lost(line.number, line.offset, f"a line of {len(line.data)} bytes: more than an entry may have", b"")
        elif found:
            yield from found
        elif line.data or bad:
            bad.append(line)
            size += len(line.data)
    yield from _salvaged(data, bad)


def _salvaged(data: bytes, bad: list[Line]) -> Iterator[Piece]:
    """What a run of bad lines holds, of which none but the first begins with `{`."""
    while bad and not bad[-1].data:
        bad.pop()
    joined = _joined(data, bad) if len(bad) > 1 else None
    if joined is not None:
        count, item = joined
        yield Salvaged(item.line, item.offset, f"one entry over {count} lines: raw newlines in it were escaped")
        yield item
        bad = bad[count:]
    for line in bad:
        if line.data:
            yield from _inside(line)


def _joined(data: bytes, bad: list[Line]) -> tuple[int, Item] | None:
    """The entry that begins on the first line and ends at the end of a later one, and how many lines it takes."""
    first = bad[0]
    text = data[first.offset : bad[-1].offset + len(bad[-1].data)]
    if text[:1] != b"{" or b"\0" in text:
        return None
    end = object_end(text.decode("latin-1"), 0)[0]
    if end is None or not _TO_END_OF_LINE.match(text, end):
        return None
    raw = utf8(with_control_characters_escaped(text[:end]))
    head = head_of(raw)
    if head is None or not _is_entry(head):
        return None
    return text.count(b"\n", 0, end) + 1, Item(first.number, first.offset, raw, head)


def object_end(text: str, start: int) -> tuple[int | None, int]:
    """Where the JSON object at `start` ends, None if there is no whole one; and how many characters were looked at.

    `text` has a character per byte: the structure of JSON is ASCII.
    """
    try:
        end = _decoder.raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        return None, max(1, error.pos - start)
    except (RecursionError, ValueError):
        return None, len(text) - start
    return end, end - start


def _inside(line: Line) -> Iterator[Piece]:
    """Entries on a bad line, and what is left of it, in order."""
    nuls = line.data.count(b"\0")
    if nuls == len(line.data):
        yield Lost(line.number, line.offset, f"{nuls} NUL bytes", b"")
        return
    found: list[Piece] = []
    at = 0
    for gap in islice(_NULS.finditer(line.data), _GAPS):
        found += _in_stretch(Line(line.number, line.offset + at, line.data[at : gap.start()]))
        at = gap.end()
    found += _in_stretch(Line(line.number, line.offset + at, _NULS.sub(b"", line.data[at:])))
    if nuls and not any(isinstance(piece, Item) for piece in found):
        whole_line = Line(line.number, line.offset, _NULS.sub(b"", line.data))
        without = list(_in_stretch(whole_line))
        found = without if any(isinstance(piece, Item) for piece in without) else found
    if nuls:
        yield Salvaged(line.number, line.offset, f"{nuls} NUL bytes on the line were left out")
    yield from found


def _in_stretch(line: Line) -> Iterator[Piece]:
    """Entries in bytes without NUL, and what is left between them."""
    text = line.data.decode("latin-1")
    left, is_alone = 0, True
    for start, end, item in _Search(line, text).entries():
        if text[left:start].strip():
            is_alone = False
            yield _lost(line, left, start)
        if not is_alone or text[end:].strip():
            is_alone = False
            yield Salvaged(line.number, item.offset, "an entry on a line with something else")
        if utf8(line.data[start:end]) != line.data[start:end]:
            yield Salvaged(line.number, item.offset, NO_UTF8)
        if CONTROL.search(line.data, start, end):
            yield Salvaged(line.number, item.offset, "raw control characters in it were escaped")
        yield item
        left = end
    if text[left:].strip():
        yield _lost(line, left, len(text))


def _lost(line: Line, start: int, end: int) -> Lost:
    raw = line.data[start:end]
    reason = TORN
    if _is_json(raw):
        reason = f"expected an entry with a type, found {raw[:60].decode(errors='replace')!r}"
    return Lost(line.number, line.offset + start, reason, raw[:_LOST_BYTES])


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except UNREADABLE:
        return False
    return True


@attrs.define
class _Search:
    """Looks for entries in one bad line, and for no longer than a fixed multiple of its length."""

    line: Line
    text: str
    _looked_at: int = 0

    def entries(self) -> Iterator[tuple[int, int, Item]]:
        """(start, end, entry) of each. Tried are the first `{`, what follows a whole object, and what looks like an entry."""
        place: int | None = self.text.find("{")
        while place is not None and place >= 0 and self._looked_at <= _LOOKS * len(self.text):
            end, looked_at = object_end(self.text, place)
            self._looked_at += looked_at
            if end is None:
                place = self._next(_KNOWN_ENTRY, place + 1)
                continue
            item = self._item(place, end)
            if item is not None:
                yield place, end, item
            place = self._next(_ANY_ENTRY if item is not None else _KNOWN_ENTRY, end)

    def _next(self, pattern: "re.Pattern[str]", start: int) -> int | None:
        found = pattern.search(self.text, start)
        return found.start() if found else None

    def _item(self, start: int, end: int) -> Item | None:
        raw = self.line.data[start:end]
        raw = utf8(with_control_characters_escaped(raw))
        head = head_of(raw)
        if head is None or not _is_entry(head):
            return None
        return Item(self.line.number, self.line.offset + start, raw, head)


def _is_entry(head: Head) -> bool:
    """Whether this is an entry, and not a block of a message: only entries have a type and a time in words."""
    return isinstance(head.timestamp, str)
