"""A tree that this process owns: its lock, its journals open for writing, and the repair of what a crash left out."""

from collections.abc import Callable, Collection
from contextlib import suppress

import attrs

from store.disk.descriptors import DescriptorCache
from store.disk.forest import decoded
from store.disk.fs import Fs
from store.disk.home import Home
from store.disk.journal import Journal, read_journal
from store.disk.ownership import TreeLock
from store.entries import Header
from store.errors import JournalDamaged, JournalRefused
from store.records import Draft
from store.repair import Fix, Node, own_children, repair_plan
from store.times import iso
from store.tree import EntryTree

MISSING = "its journal is missing"
EMPTY = "its journal has no header"


@attrs.define(eq=False)
class OwnedJournals:
    """`troubles`: sessions below the root that cannot be opened for writing, and why. `repaired`: what was written."""

    fs: Fs
    home: Home
    root_id: str
    lock: TreeLock
    clock: Callable[[], float]
    nodes: dict[str, Node] = attrs.field(factory=dict)
    troubles: dict[str, str] = attrs.field(factory=dict)
    repaired: list[Fix] = attrs.field(factory=list)
    _journals: dict[str, Journal] = attrs.field(factory=dict)
    _descriptors: DescriptorCache = attrs.field(factory=DescriptorCache)

    def create(self, header: Header) -> Journal:
        """The journal of a new session of the tree."""
        journal = Journal.create(self.fs, self.home.journal_path(header.id), header, self.lock.epoch, self._descriptors)
        self._journals[header.id] = journal
        return journal

    def open(self, session_id: str) -> tuple[Journal, EntryTree]:
        """The journal of a stored session, recovered if need be, and its entries. A poisoned handle is replaced."""
        old = self._journals.pop(session_id, None)
        if old is not None:
            old.close()
        journal, recovery = Journal.open(
            self.fs, self.home.journal_path(session_id), session_id, self.lock.epoch, self._descriptors
        )
        # The owner's epoch is above that of every journal it writes to.
        if recovery.epoch >= self.lock.epoch:
            self.lock.raise_epoch(recovery.epoch + 1)
        journal.epoch = self.lock.epoch
        self._journals[session_id] = journal
        tree = EntryTree.of(list(decoded(recovery.records)), recovery.header)
        if recovery.header is not None:
            self.nodes[session_id] = Node(recovery.header, tree)
        return journal, tree

    def read(self, session_id: str) -> EntryTree:
        """The entries of a session whose journal is open, as written so far."""
        recovery = read_journal(self.fs, self.home.journal_path(session_id), session_id)
        return EntryTree.of(list(decoded(recovery.records)), recovery.header)

    def open_all(self) -> None:
        """Open the root and all below it. Raises what opening the root does, and OSError."""
        waiting = [self.root_id]
        while waiting:
            session_id = waiting.pop()
            try:
                self.open(session_id)
                if session_id not in self.nodes:
                    raise JournalRefused(EMPTY)
            except (FileNotFoundError, JournalDamaged, JournalRefused) as error:
                if session_id == self.root_id:
                    raise
                self.troubles[session_id] = MISSING if isinstance(error, FileNotFoundError) else str(error)
            else:
                children = own_children(self.nodes[session_id])
                waiting += [child.child_session_id for child in children if child.child_session_id not in self.nodes]

    def repair(self, going_on: Collection[str] = ()) -> None:
        """Write what a crash left out, and make it durable. `going_on`: sessions whose run is taken up again."""
        self.repaired = repair_plan(self.nodes, self.root_id, going_on)
        touched: set[str] = set()
        for fix in self.repaired:
            tree, journal = self.nodes[fix.session_id].tree, self._journals[fix.session_id]
            record = Draft.of(fix.body).record(tree.next_ids(1)[0], tree.leaf_id, iso(self.clock()))
            journal.append([record.raw])
            tree.add(record)
            touched.add(fix.session_id)
        for session in sorted(touched):
            self._journals[session].sync()

    def discard(self, session_id: str) -> None:
        """Take away an opened journal that holds nothing."""
        self._journals.pop(session_id).close()
        self.fs.unlink(self.home.journal_path(session_id))

    def close(self, *, keeps_lock: bool = False) -> None:
        """Close every journal, then let go of the tree. What a disk refuses now changes nothing that was acknowledged."""
        for journal in self._journals.values():
            with suppress(OSError):
                journal.close()
        self._journals.clear()
        if not keeps_lock:
            # A lock file that does not say so: its process is gone, and so is the lock.
            with suppress(OSError):
                self.lock.release()


def repair_tree(home: Home, root_id: str, lock: TreeLock, clock: Callable[[], float]) -> None:
    """Write what a crash left out of a tree that is owned already. Raises as `OwnedJournals.open_all`."""
    tree = OwnedJournals(home.fs, home, root_id, lock, clock)
    try:
        tree.open_all()
        tree.repair()
    finally:
        tree.close(keeps_lock=True)
