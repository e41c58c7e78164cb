"""How the entries of a file hang together: ids that are unique, parents that are there, and no circle.

The first entry with an id keeps it. A name in a later entry means the latest entry before it that had that id in the file,
else the first one behind it. So what was written behind the second of two entries with one id stays with the second.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from store.entries import MOVES_LEAF
from store.ids import entry_id
from store.legacy.lines import Item, Lost
from store.legacy.members import members, with_members
from store.legacy.migrate import kept_place, with_kept_entry
from store.legacy.report import Salvaged, Skipped
from store.records import Record, read_record
from store.tree import EntryTree
from store.wire import encode

# Members that name another entry, by the types that have them.
_REFERENCES = {
    "label": ("targetId",),
    "compaction": ("firstKeptEntryId",),
    "branch_summary": ("fromId",),
    "context_edit": ("targetId",),
    "child_usage_attributed": ("targetId",),
}
# What may stand between quotes as it is, since later entries name their parent that way.
_PLAIN_ID = re.compile(r'[^"\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}')
_LOST_ID = re.compile(rb'"id":"([^"\\]{1,128})"')
_LOST_PARENT = re.compile(rb'"parentId":(?:"([^"\\]{1,128})"|null)')
Note = Skipped | Salvaged


@attrs.define
class Links:
    """`pieces`: all of the file in order, headers and lost lines included. `notes`: what was mended."""

    pieces: Sequence[Item | Lost]
    version: int
    notes: list[Note] = attrs.field(factory=list)
    _items: list[Item] = attrs.field(factory=list)
    _ids: list[str] = attrs.field(factory=list)
    """Of `_items`, as they will be."""
    _names: list[str | None] = attrs.field(factory=list)
    """Of `_items`, as they were."""
    _places: dict[str, list[int]] = attrs.field(factory=dict)
    """Where in `_items` a name stands, in order."""
    _kept: dict[int, int] = attrs.field(factory=dict)
    """From the place of a piece to that of its item."""
    _number: int = 0

    def records(self) -> list[Record]:
        """The entries as records, linked."""
        self._name()
        parents = self._parents()
        found: list[Record] = []
        for place, item in enumerate(self._items):
            parent = parents[place]
            above = None if parent is None else self._ids[parent]
            raw = self._rewritten(place, item, above)
            found.append(_record(item, self._ids[place], above) if raw is item.raw else read_record(raw))
        return found

    @property
    def items(self) -> Sequence[Item]:
        """Where each of the records stood."""
        return self._items

    def _note(self, item: Item, what: str) -> None:
        self.notes.append(Salvaged(item.line, item.offset, what))

    # ids

    def _name(self) -> None:
        names = [_name_of(piece.head.id) if isinstance(piece, Item) else None for piece in self.pieces]
        taken = {name for name in names if name is not None}
        for slot, (piece, name) in enumerate(zip(self.pieces, names, strict=True)):
            if not isinstance(piece, Item) or piece.is_header:
                continue
            earlier = self._places.get(name, []) if name is not None else []
            if earlier and self._items[earlier[-1]].raw == piece.raw:
                again = f"the entry of line {self._items[earlier[-1]].line} once more"
                self.notes.append(Skipped(piece.line, piece.offset, again))
                continue
            place = len(self._items)
            self._items.append(piece)
            self._names.append(name)
            self._kept[slot] = place
            if name is not None:
                self._places.setdefault(name, []).append(place)
            self._ids.append(self._id(piece, name, is_taken=bool(earlier), taken=taken))

    def _id(self, item: Item, name: str | None, *, is_taken: bool, taken: set[str]) -> str:
        if name is not None and not is_taken and _PLAIN_ID.fullmatch(name):
            return name
        self._number = max(self._number, len(self._items) - 1) + 1
        while entry_id(self._number) in taken:
            self._number += 1
        fresh = entry_id(self._number)
        if name is not None:
            why = "an earlier entry has it" if is_taken else "it cannot be written as one"
            self._note(item, f"its id {name[:40]!r} became {fresh}: {why}")
        elif self.version > 1:
            self._note(item, f"it had no id and got {fresh}")
        return fresh

    # parents

    def _parents(self) -> list[int | None]:
        parents: list[int | None] = []
        orphans: list[tuple[int, str | None]] = []
        for place, item in enumerate(self._items):
            if item.head.parent_id is None:
                parents.append(None)
                continue
            if item.head.parent_id is msgspec.UNSET and (self.version == 1 or place == 0):
                parents.append(place - 1 if place else None)
                continue
            name = _name_of(item.head.parent_id)
            parent = self._meant(name, place)
            if parent is None:
                orphans.append((place, name))
            parents.append(parent)
        self._adopt(parents, orphans)
        self._break_circles(parents)
        return parents

    def _meant(self, name: str | None, place: int) -> int | None:
        """The entry that `name` means at `place`."""
        there = self._places.get(name, []) if name is not None else []
        before = bisect_left(there, place)
        if before:
            return there[before - 1]
        return there[0] if there else None

    def _break_circles(self, parents: list[int | None]) -> None:
        """Where links run in a circle, none that points forward can be believed: no program writes a child first."""
        if not any(parent is not None and parent >= place for place, parent in enumerate(parents)):
            return
        if not _has_circle(parents):
            return
        for place, parent in enumerate(parents):
            if parent is not None and parent >= place:
                parents[place] = place - 1 if place else None
                self._note(self._items[place], f"its parent {self._names[parent]!r} stands behind it, in a circle")

    def _adopt(self, parents: list[int | None], orphans: list[tuple[int, str | None]]) -> None:
        """An entry whose parent is gone hangs on what that hung on, where that can be read, else on what stood before.

        All children of one lost entry go to one place, so that its branches stay branches.
        """
        lost = _lost_parents(self.pieces)
        adopted: dict[str, int | None] = {}
        for place, name in orphans:
            before = place - 1 if place else None
            parents[place] = before if name is None else adopted.setdefault(name, self._heir(name, place, lost, before))
            parent = parents[place]
            there = "the beginning" if parent is None else f"entry {self._ids[parent]}"
            missing = "it names no parent" if name is None else f"its parent {name[:40]!r} is not there"
            self._note(self._items[place], f"{missing}: attached to {there}")

    def _heir(self, name: str, place: int, lost: dict[str, str | None], before: int | None) -> int | None:
        """What the lost entry `name` hung on; `before` where nobody knows."""
        at: str | None = name
        seen: set[str] = set()
        while at is not None and at in lost and at not in seen:
            seen.add(at)
            at = lost[at]
            parent = self._meant(at, place)
            if at is None or parent is not None:
                return parent
        return before

    # bytes

    def _rewritten(self, place: int, item: Item, parent: str | None) -> bytes:
        """The entry's bytes: as they were, but for the names of entries that have to be others."""
        changes: dict[str, bytes | None] = {}
        if item.head.id != self._ids[place]:
            changes["id"] = encode(self._ids[place])
        if item.head.parent_id is msgspec.UNSET or item.head.parent_id != parent:
            changes["parentId"] = encode(parent)
        if self._number and item.head.type in _REFERENCES:
            changes |= self._references(place, item)
        raw = with_members(item.raw, changes) if changes else item.raw
        slot = kept_place(item) if self.version == 1 else None
        if slot is not None and slot in self._kept:
            raw = with_kept_entry(raw, self._ids[self._kept[slot]])
        return raw

    def _references(self, place: int, item: Item) -> dict[str, bytes | None]:
        changes: dict[str, bytes | None] = {}
        found = members(item.raw) or {}
        for member in _REFERENCES[item.head.type]:
            value = found.get(member)
            name = _name_of(msgspec.json.decode(value)) if value is not None else None
            meant = self._meant(name, place + 1)
            if meant is not None and self._ids[meant] != name:
                changes[member] = encode(self._ids[meant])
        return changes


def _record(item: Item, entry: str, parent: str | None) -> Record:
    """The record of an entry that stays as it is."""
    head = item.head
    key = None
    if isinstance(head.origin_session_id, str) and isinstance(head.origin_entry_id, str):
        key = (head.origin_session_id, head.origin_entry_id)
    timestamp = head.timestamp if isinstance(head.timestamp, str) else ""
    return Record(head.type, entry, parent, timestamp, item.raw, key)


def _name_of(value: Any) -> str | None:
    """An id as text; numbers count, as JavaScript takes them for the same."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _has_circle(parents: Sequence[int | None]) -> bool:
    """Whether some walk to the root never ends. Each link is followed once."""
    done = bytearray(len(parents))
    for start in range(len(parents)):
        at: int | None = start
        walk: list[int] = []
        while at is not None and not done[at]:
            done[at] = 1
            walk.append(at)
            at = parents[at]
        if at is not None and done[at] == 1:
            return True
        for place in walk:
            done[place] = 2
    return False


def _lost_parents(pieces: Sequence[Item | Lost]) -> dict[str, str | None]:
    """Id → parent of entries that are lost but for their beginning."""
    found: dict[str, str | None] = {}
    for piece in pieces:
        if isinstance(piece, Lost):
            entry, parent = _LOST_ID.search(piece.raw), _LOST_PARENT.search(piece.raw)
            if entry and parent:
                name = parent[1].decode(errors="replace") if parent[1] else None
                found.setdefault(entry[1].decode(errors="replace"), name)
    return found


def leaf_of_plain(records: Sequence[Record]) -> str | None:
    """Where a plain file stands, as other programs read it: at its last entry, so at what that hangs on."""
    if not records:
        return None
    for record in reversed(EntryTree.of(list(records)).path(records[-1].id)):
        if record.type in MOVES_LEAF:
            return record.id
    return None
