"""Reading a session's history: each answer is complete, or the limit is named that it would exceed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import attrs
import msgspec

from store.entries import LabelEntry
from store.errors import ReadLimit, StoreError
from store.index import CODES, NONE, Index, quick_record
from store.records import Record


class ReadLimits(msgspec.Struct, frozen=True):
    """How much of a journal one answer may be made from."""

    entries: int = 16_384
    source_bytes: int = 64 << 20


USUAL = ReadLimits()


class TreeNode(msgspec.Struct):
    """An entry, what hangs on it in the order of the file, and its label."""

    entry: Record
    children: list["TreeNode"] = msgspec.field(default_factory=list)
    label: str | None = None


@attrs.define(eq=False)
class Capture:
    """One look at a session: what it held when the look began. All answers share one account, each record counts once.

    bodies  reads the JSON of these records, each checked; only valid while the look lasts
    """

    index: Index
    bodies: Callable[[Sequence[int]], list[bytes]]
    limits: ReadLimits = USUAL
    entries: int = 0
    source_bytes: int = 0
    _known: dict[int, Record] = attrs.field(factory=dict)
    _count: int = attrs.field(init=False)
    _leaf: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._count, self._leaf = self.index.count, self.index.leaf

    def entry(self, entry_id: str) -> Record | None:
        """None where no entry has this id."""
        seq = self._find(entry_id)
        found = self._taken([seq]) if seq is not None else []
        return found[0] if found and found[0].id == entry_id else None

    def leaf_entry(self) -> Record | None:
        return self._taken([self._leaf])[0] if self._leaf != NONE else None

    def branch(self, from_id: str | None = None) -> list[Record]:
        """The entries from the root to `from_id`, by default to the leaf. Raises ReadLimit; StoreError: no such entry."""
        return self._taken(self._path(from_id))

    def branches(self, ids: Iterable[str]) -> list[list[Record]]:
        """Several paths. What they have in common counts once."""
        paths = [self._path(entry) for entry in ids]
        self._take([seq for path in paths for seq in path])
        return [self._taken(path) for path in paths]

    def all_entries(self) -> list[Record]:
        return self._taken(self._numbers())

    def last_entries(self, count: int) -> list[Record]:
        """The last ones of the file, in its order."""
        return self._taken([*islice(self.index.backward(self._count), count)][::-1])

    def label(self, entry_id: str) -> str | None:
        """The label that an entry has now."""
        for seq in self._last_of("label"):
            body = self._taken([seq])[0].body()
            if isinstance(body, LabelEntry) and body.target_id == entry_id:
                return body.label
        return None

    def last_of(self, kind: str) -> Record | None:
        """The last entry of a type."""
        return next((self._taken([seq])[0] for seq in self._last_of(kind)), None)

    def labels(self) -> dict[str, str]:
        """The labels there are, by the id of their entry."""
        labels: dict[str, str | None] = {}
        for record in self._taken(list(self._last_of("label"))):
            if isinstance(body := record.body(), LabelEntry):
                labels.setdefault(body.target_id, body.label)
        return {entry: label for entry, label in labels.items() if label is not None}

    def tree(self) -> list[TreeNode]:
        """All entries as a tree: its roots. Each entry is in it once; a circle is cut open at its first entry."""
        numbers = self._numbers()
        nodes = {seq: TreeNode(record) for seq, record in zip(numbers, self._taken(numbers), strict=True)}
        labels = self.labels()
        roots: list[TreeNode] = []
        for seq, parent in self._parents(numbers).items():
            node = nodes[seq]
            node.label = labels.get(node.entry.id) if self._find(node.entry.id) == seq else None
            (nodes[parent].children if parent != NONE else roots).append(node)
        return roots

    def _parents(self, numbers: list[int]) -> dict[int, int]:
        """What each entry hangs on; NONE also for the first entry of each circle."""
        parents = {seq: self.index.parent(seq, self._parent_id) for seq in numbers}
        is_rooted = {NONE}
        for seq in numbers:
            way: dict[int, None] = {}
            at = seq
            while at not in is_rooted and at not in way:
                way[at] = None
                at = parents[at]
            if at in way:
                circle = list(way)[list(way).index(at) :]
                parents[min(circle)] = NONE
            is_rooted.update(way)
        return parents

    def _path(self, from_id: str | None) -> list[int]:
        if from_id is None:
            return self.index.path(self._leaf, self._parent_id)
        seq = self._find(from_id)
        if seq is None:
            raise StoreError(f"expected the id of an entry of this session, found {from_id[:80]!r}")
        return self.index.path(seq, self._parent_id)

    def _find(self, entry_id: str) -> int | None:
        seq = self.index.find(entry_id)
        return seq if seq is not None and seq < self._count else None

    def _numbers(self) -> list[int]:
        return [seq for seq in self.index.entries() if seq < self._count]

    def _last_of(self, kind: str) -> Iterator[int]:
        return (seq for seq in self.index.last_of(CODES[kind]) if seq < self._count)

    def _parent_id(self, seq: int) -> str | None:
        return self._taken([seq])[0].parent_id

    def _taken(self, numbers: Sequence[int]) -> list[Record]:
        self._take(numbers)
        return [self._known[seq] for seq in numbers]

    def _take(self, numbers: Sequence[int]) -> None:
        """Count, then read. Raises ReadLimit before anything is read."""
        fresh = [seq for seq in dict.fromkeys(numbers) if seq not in self._known]
        entries = self.entries + len(fresh)
        if entries > self.limits.entries:
            raise ReadLimit(f"expected at most {self.limits.entries} entries, found {entries}: ask for fewer")
        source_bytes = self.source_bytes + sum(self.index.span(seq)[1] for seq in fresh)
        if source_bytes > self.limits.source_bytes:
            limit = self.limits.source_bytes
            raise ReadLimit(f"expected entries of at most {limit} bytes together, found {source_bytes}: ask for fewer")
        for seq, body in zip(fresh, self.bodies(fresh), strict=True):
            record = quick_record(body)
            if record is None:
                raise StoreError(f"expected an entry in record {seq}, found {body[:120]!r}")
            self._known[seq] = record
        self.entries, self.source_bytes = entries, source_bytes
