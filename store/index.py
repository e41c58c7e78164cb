"""Where each record of a journal lies and on which one it hangs: rows of one size, enough to walk without parsing."""

import re
import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import attrs

from store.entries import LEAF_MARK, MOVES_LEAF, CustomEntry
from store.errors import BadRecord
from store.frame import body
from store.records import Record, read_record

# The code of a type is its place, so types are only ever added at the end.
TYPES = (
    "",  # of a type that is not in here
    "session",
    "message",
    "model_change",
    "thinking_level_change",
    "service_tier_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "child_usage_attributed",
    "usage",
    "label",
    "session_info",
    "session_state",
    "agent_status",
    "git_state",
    "context_edit",
    "mail",
    "run_settled",
    "child_spawned",
    "child_settled",
)
CODES = {kind: code for code, kind in enumerate(TYPES) if kind}
MARK = 254
"""A `custom` entry that says where the leaf is."""
NO_ENTRY = 255
"""A line that checks itself and is no entry: it is passed over."""
NONE = 0
"""In place of a sequence number: no entry. The header has this number and is none."""
UNRESOLVED = 0xFFFF_FFFF
"""In place of a parent: it has an id that no earlier entry has."""

_ROW = struct.Struct("<QQIIIB3x")
ROW_BYTES = _ROW.size
_CODE_AT = 28
_LEAF_CODES = frozenset(CODES[kind] for kind in MOVES_LEAF)
_HEAD = re.compile(
    rb'\{"type":"([a-z_]+)","id":"([^"\\\x00-\x1f]+)","parentId":(?:null|"([^"\\\x00-\x1f]+)"),"timestamp":"([^"\\\x00-\x1f]*)"[,}]'
)
_CANONICAL = re.compile(r"[0-9a-f]{8}")
_ODD_BIT = 1 << 63


class Row(NamedTuple):
    """`offset` and `length` of the line with its newline; `key` stands for the id; `parent`: a seq, NONE, UNRESOLVED."""

    offset: int
    key: int
    length: int
    seq: int
    parent: int
    code: int


class Head(NamedTuple):
    """What a row keeps of an entry."""

    code: int
    id: str
    parent_id: str | None


def head_of(record: Record) -> Head:
    code = CODES.get(record.type, 0)
    if record.type == "custom" and LEAF_MARK.encode() in record.raw:
        body = record.body()
        if isinstance(body, CustomEntry) and body.custom_type == LEAF_MARK:
            code = MARK
    return Head(code, record.id, record.parent_id)


def read_head(line: bytes) -> Head | None:
    """The head of the entry in a line that passed `check`, whose beginning alone is looked at where we wrote it.

    None for what is no entry.
    """
    match = _HEAD.match(line)
    if match is not None and match[1] != b"custom":
        try:
            parent = match[3]
            return Head(CODES.get(match[1].decode(), 0), match[2].decode(), None if parent is None else parent.decode())
        except UnicodeDecodeError:
            pass
    try:
        return head_of(read_record(body(line)))
    except BadRecord:
        return None


def quick_record(body: bytes) -> Record | None:
    """As `read_record`, looking at the beginning alone where we wrote it. None for what is no entry."""
    match = _HEAD.match(body)
    if match is not None and match[1] != b"child_usage_attributed":
        kind, entry, parent, timestamp = match.groups()
        try:
            above = None if parent is None else parent.decode()
            return Record(kind.decode(), entry.decode(), above, timestamp.decode(), body)
        except UnicodeDecodeError:
            pass
    try:
        return read_record(body)
    except BadRecord:
        return None


def key_of(entry: str) -> int:
    """64 bits for an id: its number if it is one of ours, else a hash."""
    if _CANONICAL.fullmatch(entry):
        return int(entry, 16)
    digest = blake2b(entry.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") | _ODD_BIT


@attrs.define(eq=False)
class Index:
    """Row number n is record number n; the header is number 0. The same tree as `EntryTree`, without the records.

    leaf  number of the entry that the next one hangs on, NONE before any
    odd   numbers of entries whose id is not their own number, by key: the first of those with one id
    """

    data: bytearray = attrs.field(factory=bytearray)
    leaf: int = NONE
    odd: dict[int, int] = attrs.field(factory=dict)
    is_plain: bool = True
    """Every row is an entry's that is called by its own number: what nearly all journals are."""

    @classmethod
    def of(cls, data: bytes, leaf: int, is_plain: bool) -> "Index":
        """The index in saved rows."""
        index = cls(bytearray(data), leaf, is_plain=is_plain)
        if not is_plain:
            for _, key, _, seq, _, code in _ROW.iter_unpack(data):
                if key != seq and code != NO_ENTRY:
                    index.odd.setdefault(key, seq)
        return index

    @property
    def count(self) -> int:
        """Rows, that of the header included: the number that the next record has."""
        return len(self.data) // ROW_BYTES

    @property
    def end(self) -> int:
        """Where the last line ends."""
        return self.row(self.count - 1).offset + self.row(self.count - 1).length if self.data else 0

    def add_header(self, length: int) -> None:
        self.data += _ROW.pack(0, 0, length, 0, NONE, CODES["session"])

    def add(self, offset: int, length: int, head: Head | None) -> None:
        """The next record."""
        seq = self.count
        if head is None:
            self.data += _ROW.pack(offset, 0, length, seq, NONE, NO_ENTRY)
            self.is_plain = False
            return
        code, entry, parent_id = head
        key = key_of(entry)
        parent = NONE if parent_id is None else self._number(key_of(parent_id))
        self.data += _ROW.pack(offset, key, length, seq, UNRESOLVED if parent is None else parent, code)
        if key != seq:
            self.odd.setdefault(key, seq)
            self.is_plain = False
        if code in _LEAF_CODES:
            self.leaf = seq if self.is_plain else self._number(key) or seq
        elif code == MARK:
            marked = NONE if parent_id is None else self._number(key_of(parent_id))
            self.leaf = self.leaf if marked is None else marked  # else it marks what was lost

    def row(self, seq: int) -> Row:
        return Row._make(_ROW.unpack_from(self.data, seq * ROW_BYTES))

    def span(self, seq: int) -> tuple[int, int]:
        """Offset and length of a line."""
        offset, _, length, _, _, _ = _ROW.unpack_from(self.data, seq * ROW_BYTES)
        return offset, length

    def find(self, entry: str) -> int | None:
        """The number of the entry with this id; the first of several."""
        return self._number(key_of(entry))

    def _number(self, key: int) -> int | None:
        if self.is_plain:
            return key if NONE < key < self.count else None
        odd = self.odd.get(key)
        if NONE < key < self.count:
            row = self.row(key)
            if row.key == key and row.code != NO_ENTRY and (odd is None or key < odd):
                return key
        return odd

    def fresh_numbers(self, count: int) -> list[int]:
        """The next numbers that are no entry's id: what new entries are called."""
        found: list[int] = []
        number = self.count
        while len(found) < count:
            if number not in self.odd:
                found.append(number)
            number += 1
        return found

    def entries(self) -> Iterator[int]:
        """The numbers of all entries, in order."""
        codes = self._codes()
        return (seq for seq in range(1, self.count) if codes[seq] != NO_ENTRY)

    def backward(self, end: int) -> Iterator[int]:
        """The numbers of the entries below `end`, the last first."""
        return (seq for seq in range(end - 1, NONE, -1) if self.data[seq * ROW_BYTES + _CODE_AT] != NO_ENTRY)

    def last_of(self, code: int) -> Iterator[int]:
        """The numbers of the entries of a type, from the last to the first."""
        codes = self._codes()
        at = codes.rfind(code)
        while at > 0:
            yield at
            at = codes.rfind(code, 0, at)

    def parent(self, seq: int, parent_id: Callable[[int], str | None]) -> int:
        """The entry that `seq` hangs on, or NONE. `parent_id` reads it from the record, where a row cannot say.

        An entry whose parent is not there hangs on the one before it in the file.
        """
        parent = self.row(seq).parent
        if parent != UNRESOLVED:
            return parent
        found = self.find(parent_id(seq) or "")
        if found is not None:
            return found
        before = seq - 1
        while before > NONE and self.row(before).code == NO_ENTRY:
            before -= 1
        return before

    def path(self, leaf: int, parent_id: Callable[[int], str | None]) -> list[int]:
        """The numbers from the root to `leaf`, each once, whatever the links say."""
        seen: set[int] = set()
        found: list[int] = []
        while leaf != NONE and leaf not in seen:
            seen.add(leaf)
            found.append(leaf)
            leaf = self.parent(leaf, parent_id)
        found.reverse()
        return found

    def _codes(self) -> bytearray:
        return self.data[_CODE_AT::ROW_BYTES]
