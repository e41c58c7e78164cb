"""Trees on disk for their owner: the lock, the journals, and the repair of what a crash left out."""

from collections.abc import Callable

import attrs

from orchestrator.engine.errors import NotOurs, WrongUsage
from store.disk.descriptors import DescriptorCache
from store.disk.forest import decoded, read_header
from store.disk.fs import Fs
from store.disk.home import Home
from store.disk.journal import Journal, read_journal
from store.disk.ownership import TreeLock
from store.entries import Header
from store.errors import JournalDamaged, JournalRefused, OwnedElsewhere, StoreError
from store.records import Draft
from store.repair import Fix, Node, children_of, repair_plan
from store.times import iso
from store.tree import EntryTree


@attrs.define(eq=False)
class OwnedTree:
    """A tree that this process owns. `troubles`: sessions below the root that cannot be opened for writing, and why."""

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

    @classmethod
    def acquire(cls, fs: Fs, home: Home, root_id: str, clock: Callable[[], float]) -> "OwnedTree":
        """Own a tree, new or stored. Raises NotOurs; StoreError, OSError."""
        try:
            return cls(fs, home, root_id, TreeLock.acquire(fs, home, root_id, iso(clock())), clock)
        except OwnedElsewhere as error:
            raise NotOurs(str(error)) from error

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
        tree = EntryTree.of(list(decoded(recovery.records)))
        if recovery.header is not None:
            self.nodes[session_id] = Node(recovery.header, tree)
        return journal, tree

    def read(self, session_id: str) -> EntryTree:
        """The entries of a session whose journal is open, as written so far."""
        recovery = read_journal(self.fs, self.home.journal_path(session_id), session_id)
        return EntryTree.of(list(decoded(recovery.records)))

    def load(self) -> None:
        """Open the root and all below it, and write what a crash left out. Raises NotOurs."""
        waiting = [self.root_id]
        while waiting:
            session_id = waiting.pop()
            try:
                _, tree = self.open(session_id)
            except FileNotFoundError:
                self.troubles[session_id] = "its journal is missing"
            except (JournalDamaged, JournalRefused) as error:
                self.troubles[session_id] = str(error)
            else:
                children = children_of(tree.records)
                waiting += [child.child_session_id for child in children if child.child_session_id not in self.nodes]
        if self.root_id not in self.nodes:
            raise NotOurs(f"session {self.root_id} cannot be opened: {self.troubles.get(self.root_id, 'no header')}")
        self._repair()

    def _repair(self) -> None:
        self.repaired = repair_plan(self.nodes, self.root_id)
        touched: set[str] = set()
        for fix in self.repaired:
            tree, journal = self.nodes[fix.session_id].tree, self._journals[fix.session_id]
            record = Draft.of(fix.body).record(tree.next_ids(1)[0], tree.leaf_id, iso(self.clock()))
            journal.append([record.raw])
            tree.add(record)
            touched.add(fix.session_id)
        for session_id in sorted(touched):
            self._journals[session_id].sync()

    def close(self) -> None:
        """Close every journal, then let go of the tree."""
        for journal in self._journals.values():
            journal.close()
        self._journals.clear()
        self.lock.release()


def root_of(fs: Fs, home: Home, session_id: str) -> str:
    """The root of the tree that a stored session belongs to. Raises WrongUsage, NotOurs."""
    try:
        header = read_header(fs, home, session_id)
    except FileNotFoundError as error:
        raise WrongUsage(f"there is no session {session_id}; `sapwood sessions list` shows those there are") from error
    except (OSError, StoreError) as error:
        raise NotOurs(f"session {session_id} cannot be read: {error}") from error
    if header is None:
        raise NotOurs(f"session {session_id} has no header that can be read; see `sapwood sessions check`")
    return header.root_id
