"""The tree of entries of one session: what is where, and how to walk it without ever running in circles."""

import attrs

from store.entries import LEAF_MARK, MOVES_LEAF, CustomEntry, Header
from store.ids import entry_id
from store.records import Record


@attrs.define
class EntryTree:
    """Records in the order of the file, and the leaf: the position that the next entry hangs on.

    `header`: the journal's, where it was read. `count` is the number of its entries, also of those that were shed.
    """

    records: list[Record] = attrs.field(factory=list)
    leaf_id: str | None = None
    count: int = 0
    header: Header | None = None
    _place: dict[str, int] = attrs.field(factory=dict)
    _odd: set[str] = attrs.field(factory=set)

    @classmethod
    def of(cls, records: list[Record], header: Header | None = None) -> "EntryTree":
        """The tree of a journal's entries. `header`: tells how many a fork has copied."""
        tree = cls(header=header)
        for record in records:
            tree.add(record)
        return tree

    @property
    def inherited(self) -> int:
        """How many of the entries a fork has copied."""
        return self.header.forked_from.records if self.header is not None and self.header.forked_from else 0

    @property
    def own_records(self) -> list[Record]:
        """What this session wrote itself: its runs and its spend are in here."""
        return self.records[self.inherited :]

    def add(self, record: Record) -> None:
        """Take in the next record. Of two with one id the first keeps it."""
        self._place.setdefault(record.id, len(self.records))
        self.records.append(record)
        self.count += 1
        if record.id != entry_id(self.count):
            self._odd.add(record.id)
        leaf = leaf_after(record, self.leaf_id)
        if leaf is None or leaf in self._place or len(self.records) < self.count:  # else it marks what was lost
            self.leaf_id = leaf

    def next_ids(self, count: int) -> list[str]:
        """Fresh entry ids: the next numbers of this journal that no entry has."""
        ids: list[str] = []
        number = self.count
        while len(ids) < count:
            number += 1
            if entry_id(number) not in self._odd and entry_id(number) not in self._place:
                ids.append(entry_id(number))
        return ids

    def shed(self) -> None:
        """Let the records go and keep what appending needs: a settled session costs little memory."""
        self.records = []
        self._place = {}

    def get(self, entry: str) -> Record | None:
        place = self._place.get(entry)
        return None if place is None else self.records[place]

    def path(self, leaf: str | None = None) -> list[Record]:
        """Records from the root to `leaf` (default: the current one), each once, whatever the links say.

        A record whose parent is not there hangs on the one before it in the file: what came earlier is its likeliest past.
        """
        at = self._place.get(leaf if leaf is not None else self.leaf_id or "")
        seen: set[int] = set()
        found: list[Record] = []
        while at is not None and at not in seen:
            seen.add(at)
            record = self.records[at]
            found.append(record)
            if record.parent_id is None:
                break
            at = self._place.get(record.parent_id, at - 1 if at else None)
        found.reverse()
        return found


def leaf_after(record: Record, leaf: str | None) -> str | None:
    """The leaf once `record` stands behind what led to `leaf`."""
    if record.type in MOVES_LEAF:
        return record.id
    if record.type == "custom":
        body = record.body()
        if isinstance(body, CustomEntry) and body.custom_type == LEAF_MARK:
            return record.parent_id
    return leaf
