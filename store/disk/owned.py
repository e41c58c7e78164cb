"""A session that this process owns: its tree's lock, its journal, and the index that grows with it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import attrs

from store.disk.forest import read_header
from store.disk.fs import open_own
from store.disk.home import Home
from store.disk.index import WORTH_BYTES, Indexed, open_index, read_bodies, save
from store.disk.journal import Journal
from store.disk.ownership import TreeLock
from store.disk.sources import FRAMED_BYTES, Look
from store.entries import Header
from store.errors import JournalRefused, StoreError
from store.frame import FRAME_BYTES, seed
from store.index import CODES, NONE, Index, head_of
from store.records import Record

_APPENDING = os.O_RDWR | os.O_APPEND
_RUN_TYPES = ("message", "custom_message", "run_settled", "child_spawned")


@attrs.define(eq=False)
class OwnedSource:
    """Appends, and reads what it has appended."""

    home: Home
    header: Header
    lock: TreeLock
    journal: Journal
    indexed: Indexed

    @classmethod
    def create(cls, home: Home, header: Header, records: Sequence[Record], lock: TreeLock) -> "OwnedSource":
        """A new session that begins with these records, all of them or no file.

        What a fork has copied is durable behind this. Raises as `Journal.create` and `sync`.
        """
        path = home.journal_path(header.id)
        journal = Journal.create(home.fs, path, header, lock.epoch, first=[record.raw for record in records])
        try:
            if header.forked_from is not None:
                journal.sync()
            indexed = _indexed(home, header.id)
        except BaseException:
            journal.close()
            with suppress(OSError):
                home.fs.unlink(path)
            raise
        return cls(home, header, lock, journal, indexed)

    @classmethod
    def open(cls, home: Home, session_id: str, lock: TreeLock, cwd: str, timestamp: str) -> "OwnedSource":
        """A stored session. An empty file, which a crash may leave, gets its header now.

        Raises JournalDamaged, JournalRefused (the file is as it was), OSError.
        """
        indexed = _indexed(home, session_id)
        journal = _untouched(home, lock, indexed) if indexed.is_untouched else None
        if journal is None:
            journal, recovery = Journal.open(home.fs, home.journal_path(session_id), session_id, lock.epoch)
            try:
                if recovery.header is None:
                    journal.begin(Header(id=session_id, version=3, timestamp=timestamp, cwd=cwd))
                indexed = _indexed(home, session_id)
            except BaseException:
                journal.close()
                raise
        if indexed.scan.epoch >= lock.epoch:
            lock.raise_epoch(indexed.scan.epoch + 1)
        journal.epoch = lock.epoch
        header = indexed.scan.header
        fault = _fault(header, indexed)
        if header is None or fault:
            journal.close()
            raise JournalRefused(f"{journal.path}: {fault}")
        return cls(home, header, lock, journal, indexed)

    @property
    def index(self) -> Index:
        return self.indexed.index

    @property
    def may_lack(self) -> bool:
        """Whether a crash may have left something out: where a run is open, or where there are other sessions in the tree."""
        last = {kind: next(self.index.last_of(CODES[kind]), NONE) for kind in _RUN_TYPES}
        if self.header.root_session_id is not None or last["child_spawned"] != NONE:
            return True
        copied = self.header.forked_from.records if self.header.forked_from else NONE
        return max(last["message"], last["custom_message"]) > max(last["run_settled"], copied)

    @contextmanager
    def look(self) -> Iterator[Look]:
        """Raises JournalRefused, OSError."""
        fs, path, index = self.home.fs, self.journal.path, self.indexed.index
        fd, _ = open_own(fs, path, os.O_RDONLY)
        try:
            yield index, lambda numbers: read_bodies(fs, fd, path, self.header.id, index, numbers)
        finally:
            fs.close(fd)

    def append(self, records: Sequence[Record]) -> None:
        """All of them or none. Raises as `Journal.append`."""
        self.journal.append([record.raw for record in records])
        index, scan = self.indexed.index, self.indexed.scan
        for record in records:
            length = len(record.raw) + FRAMED_BYTES
            index.add(scan.good_bytes, length, head_of(record))
            scan.good_bytes += length

    def flush(self) -> None:
        """Raises JournalPoisoned, OSError."""
        self.journal.sync()

    def close(self, keeps_lock: bool = False) -> None:
        """Make all durable, save the index, and let go. Raises as `flush`, but has let go."""
        try:
            if not self.journal.is_poisoned:
                self.journal.sync()
                with suppress(OSError, StoreError):
                    self._save_index()
        finally:
            self.journal.close()
            if not keeps_lock:
                with suppress(OSError):
                    self.lock.release()

    def _save_index(self) -> None:
        scan = self.indexed.scan
        if scan.good_bytes < WORTH_BYTES:
            return
        fs, path = self.home.fs, self.journal.path
        fd, found = open_own(fs, path, os.O_RDONLY)
        try:
            scan.last = fs.read_at(fd, FRAME_BYTES, scan.good_bytes - FRAME_BYTES)
        finally:
            fs.close(fd)
        scan.epoch, scan.durable = self.journal.epoch, self.journal.durable
        self.indexed.found = found
        if found.size == scan.good_bytes:
            save(fs, self.home.index_path(self.header.id), self.indexed, is_flushed=True)


def take(home: Home, session_id: str, since: str) -> TreeLock:
    """Own the tree that a stored session is in. Raises OwnedElsewhere, JournalRefused; FileNotFoundError, other OSError."""
    header = read_header(home.fs, home, session_id)
    root_id = header.root_id if header is not None else session_id
    if root_id != session_id and not _has_header(home, root_id):
        raise JournalRefused(
            f"session {session_id}: expected the journal of its root {root_id}, which owns it, found none that can be "
            "read. It can be read, not written to"
        )
    return TreeLock.acquire(home.fs, home, root_id, since)


def _has_header(home: Home, session_id: str) -> bool:
    try:
        return read_header(home.fs, home, session_id) is not None
    except OSError:
        return False


def _indexed(home: Home, session_id: str) -> Indexed:
    path = home.journal_path(session_id)
    fd, found = open_own(home.fs, path, os.O_RDONLY)
    try:
        return open_index(home.fs, path, session_id, fd, found)
    finally:
        home.fs.close(fd)


def _fault(header: Header | None, indexed: Indexed) -> str:
    if header is None:
        return "expected a session header, found none"
    if header.forked_from is not None and indexed.index.count <= header.forked_from.records:
        copied = f"expected {header.forked_from.records} copied records, found {indexed.index.count - 1}"
        return f"{copied}: it was cut while it was made, and holds nothing of its own. Fork again"
    return ""


def _untouched(home: Home, lock: TreeLock, indexed: Indexed) -> Journal | None:
    """The journal that its last owner flushed and left, without reading it again; None if it is another by now."""
    fs, session_id = home.fs, indexed.scan.session_id
    path = home.journal_path(session_id)
    fd, found = open_own(fs, path, _APPENDING)
    known = indexed.found
    try:
        is_known = (found.inode, found.size, found.mtime_ns) == (known.inode, known.size, known.mtime_ns)
        if is_known:
            # Never build on bytes, or on a name, that are not durable: whoever said that they are may have been wrong.
            fs.fdatasync(fd)
            fs.sync_dir(path.parent)
    except BaseException:
        fs.close(fd)
        raise
    if not is_known:
        fs.close(fd)
        return None
    return Journal(
        fs,
        path,
        session_id,
        lock.epoch,
        seq=indexed.scan.next_seq,
        durable=indexed.scan.next_seq,
        fd=fd,
        file=(found.device, found.inode),
        size_bytes=found.size,
        seed=seed(session_id),
    )
