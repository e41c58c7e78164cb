"""The journal of one session: append lines, make them durable, and never build on bytes that are not."""

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Self

import attrs
import msgspec

from store.disk.descriptors import DescriptorCache
from store.disk.fs import Fs, Stat, kept_beside, open_own, read_whole, write_whole
from store.entries import FRAMING, Header
from store.errors import JournalDamaged, JournalPoisoned, JournalRefused, StoreError
from store.frame import COMMITS, PART, U32_MAX, seal, seed
from store.recovery import Recovery, examine
from store.wire import encode

RECORD_LIMIT_BYTES = 64 << 20

_DAMAGE_SHOWN = 5
_OPENS, _QUOTES, _CLOSES = b'{"}'
_APPENDING = os.O_RDWR | os.O_APPEND


@attrs.define(eq=False)
class Journal:
    """Owner's handle. One thread appends; `sync` may run in another at the same time.

    seq          number of the next record
    durable      how many leading records are known to be durable
    epoch        fencing epoch of the owner; may be raised, never lowered
    is_poisoned  a flush failed, or the file is not what was written: only opening it again helps
    """

    fs: Fs
    path: Path
    session_id: str
    epoch: int
    seq: int
    durable: int
    is_poisoned: bool = False
    was_used: bool = True
    """For the cache: used since it last looked."""
    _descriptors: DescriptorCache | None = None
    _fd: int | None = None
    _file: tuple[int, int] = (0, 0)
    """Device and inode."""
    _size_bytes: int = 0
    _is_named_durably: bool = True
    _is_closed: bool = False
    _is_syncing: bool = False
    _seed: int = 0
    _guard: Lock = attrs.field(factory=Lock)
    """Held for every look at the fields above and during write(2), not during a flush: appends do not wait for it."""
    _flush: Lock = attrs.field(factory=Lock)
    """One flush at a time: the kernel reports a failed one to one caller, and a second must not believe in its own."""

    @classmethod
    def create(
        cls,
        fs: Fs,
        path: Path,
        header: Header,
        epoch: int,
        descriptors: DescriptorCache | None = None,
        first: Sequence[bytes] = (),
    ) -> Self:
        """A new file: its header as record 0 and the `first` records, as one batch. File and folder become durable with
        the first `sync`.

        Raises FileExistsError, other OSError (then no file is left behind), JournalRefused, StoreError as `append`.
        """
        fd, found = open_own(fs, path, _APPENDING | os.O_CREAT | os.O_EXCL)
        journal = cls._of(fs, path, header.id, epoch, descriptors, fd, found)
        journal._is_named_durably = False
        try:
            journal.begin(header, first)
        except BaseException:
            journal.close()
            try:
                fs.unlink(path)
            except OSError:
                pass  # what remains has no acknowledged record, and opens as an empty journal
            raise
        return journal

    @classmethod
    def open(
        cls, fs: Fs, path: Path, session_id: str, epoch: int, descriptors: DescriptorCache | None = None
    ) -> tuple[Self, Recovery]:
        """Recover the file for its owner. What a crash left behind the last commit is saved beside it and cut.

        `epoch` of the journal is at least the highest in the file; an owner raises it above that before it appends.
        A file without a header (empty, or cut to nothing) needs `begin` first.
        Raises JournalDamaged, JournalRefused (the file is as it was); OSError.
        """
        fd, found = open_own(fs, path, _APPENDING)
        journal = cls._of(fs, path, session_id, epoch, descriptors, fd, found)
        try:
            data = read_whole(fs, fd, found.size)
            recovery = examine(data, session_id)
            _refuse(path, recovery)
            journal._repair_tail(fd, data, recovery)
        except BaseException:
            journal.close()
            raise
        journal.seq = journal.durable = recovery.next_seq
        journal.epoch = max(epoch, recovery.epoch)
        return journal, recovery

    @classmethod
    def _of(
        cls, fs: Fs, path: Path, session_id: str, epoch: int, cache: DescriptorCache | None, fd: int, found: Stat
    ) -> Self:
        journal = cls(fs, path, session_id, epoch, seq=0, durable=0, descriptors=cache, fd=fd, seed=seed(session_id))
        journal._file = found.device, found.inode
        journal._size_bytes = found.size
        if cache is not None:
            cache.make_room(journal)
        return journal

    def begin(self, header: Header, first: Sequence[bytes] = ()) -> None:
        """Write the header as record 0, and the `first` records: all or none, as a fork that has its header alone would
        take what it appends for what it has copied, and never be billed for it.

        Raises StoreError where a header does not belong; else as `append`.
        """
        if self.seq or header.id != self.session_id:
            expected = f"expected an empty journal and the header of {self.session_id}"
            raise StoreError(f"{self.path}: {expected}, found {self.seq} records and the header of {header.id}")
        self.append((encode(msgspec.structs.replace(header, framing=FRAMING)), *first))

    def append(self, bodies: Sequence[bytes]) -> None:
        """Write these records as one atomic batch, all or none of them. Each is a compact JSON object without newline.

        Raises StoreError (nothing was tried), JournalPoisoned, JournalRefused (a parked file was changed), OSError
        (the file is back at its last commit and the journal goes on, unless `is_poisoned` says that this failed too).
        """
        _check_bodies(self.path, bodies)
        if not bodies:
            return
        self._touch()
        with self._guard:
            fd = self._descriptor()
            if not (self.seq + len(bodies) <= U32_MAX and 0 <= self.epoch <= U32_MAX):
                raise StoreError(f"{self.path}: expected u32, found record {self.seq} and epoch {self.epoch}")
            self._write(fd, self._lines(bodies), len(bodies))

    def _lines(self, bodies: Sequence[bytes]) -> bytes:
        last = self.seq + len(bodies) - 1
        line = seal(bodies[-1], last, self.durable, self.epoch, COMMITS, self._seed)
        if last == self.seq:
            return line
        head = [
            seal(body, seq, self.durable, self.epoch, PART, self._seed)
            for seq, body in enumerate(bodies[:-1], start=self.seq)
        ]
        return b"".join([*head, line])

    def _write(self, fd: int, data: bytes, records: int) -> None:
        seq, size = self.seq, self._size_bytes
        try:
            write_whole(self.fs, fd, data)
            self._size_bytes, self.seq = size + len(data), seq + records
        except BaseException:
            # Also KeyboardInterrupt: the record after one that is on disk and not counted would repeat its number.
            self.is_poisoned = True
            self._size_bytes, self.seq = size, seq
            try:
                self.fs.truncate(fd, size)
            except OSError:
                pass
            else:
                self.is_poisoned = False
            raise

    def sync(self) -> None:
        """Make what was appended before this call durable; blocks. The first one after `create` includes the name.

        Raises JournalPoisoned, JournalRefused (a parked file was changed), OSError (it could not be opened again).
        """
        self._touch()
        self._sync()

    def _sync(self) -> None:
        with self._flush:
            with self._guard:
                seq, is_named = self.seq, self._is_named_durably
                if seq == self.durable and is_named and not self.is_poisoned:
                    return
                fd = self._descriptor()
                self._check_in_place()
                self._is_syncing = True
            try:
                self.fs.fdatasync(fd)
                if not is_named:
                    self.fs.sync_dir(self.path.parent)
            except BaseException as error:
                with self._guard:  # an append that fails meanwhile must not clear it
                    self.is_poisoned = True
                if isinstance(error, OSError):
                    raise JournalPoisoned(f"{self.path}: a flush failed ({error}); open it again") from error
                raise
            finally:
                self._is_syncing = False
            self._is_named_durably = True
            self.durable = seq

    def _touch(self) -> None:
        """Tell the cache. Appends are many, so it hears only of those that open the file; the rest leave a mark."""
        self.was_used = True
        if self._fd is None and self._descriptors is not None:
            self._descriptors.make_room(self)

    def park(self) -> bool:
        """Give the descriptor back until the next append or sync. False while in use or not yet durable.

        A dirty file keeps its descriptor because the kernel may report a failed write-back only to those that were
        open at that time.
        """
        if not self._guard.acquire(blocking=False):
            return False
        try:
            if self._is_syncing or (self.durable < self.seq and not self.is_poisoned):
                return False
            self._close_descriptor()
            return True
        finally:
            self._guard.release()

    def flush_and_park(self) -> None:
        """Raises as `sync` does."""
        self._sync()
        self.park()

    def close(self) -> None:
        """Give the descriptor back for good, after a flush that is under way. Flushes nothing itself."""
        with self._flush, self._guard:
            self._is_closed = True
            self._close_descriptor()
        if self._descriptors is not None:
            self._descriptors.forget(self)

    def _close_descriptor(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self.fs.close(fd)

    def _descriptor(self) -> int:
        """The open descriptor; a parked file is opened again, if it is the one that was parked."""
        if self.is_poisoned:
            raise JournalPoisoned(f"{self.path}: what the disk holds is unknown since a call failed; open it again")
        if self._is_closed:
            raise StoreError(f"{self.path}: expected an open journal, found a closed one")
        if self._fd is None:
            try:
                fd, found = open_own(self.fs, self.path, _APPENDING)
            except FileNotFoundError as error:
                raise JournalRefused(f"{self.path}: expected the file that was parked, found none") from error
            fault = self._changed(found)
            if fault:
                self.fs.close(fd)
                raise JournalRefused(f"{self.path}: {fault}")
            self._fd = fd
            if self._descriptors is not None:
                self._descriptors.add(self)
        return self._fd

    def _check_in_place(self) -> None:
        """Poison a journal whose file was removed, replaced or written by another: appends would be lost in silence."""
        try:
            fault = self._changed(self.fs.lstat(self.path))
        except OSError as error:
            fault = f"expected the file that is being written, found none ({error.strerror})"
        if fault:
            self.is_poisoned = True
            raise JournalPoisoned(f"{self.path}: {fault}. What was not flushed before is not acknowledged")

    def _changed(self, found: Stat) -> str:
        if (found.device, found.inode) != self._file:
            return "expected the file that was opened, found another one in its place"
        if found.size != self._size_bytes:
            return f"expected {self._size_bytes} bytes, found {found.size}: another program wrote to it"
        return ""

    def _repair_tail(self, fd: int, data: bytes, recovery: Recovery) -> None:
        if recovery.torn is not None:
            start, end = recovery.torn
            kept_beside(self.fs, self.path, "torn", data[start:end])
            self.fs.truncate(fd, start)
            self._size_bytes = start
        # Whoever wrote this may have died before its flush. Never build on bytes, or on a name, that are not durable.
        self.fs.fdatasync(fd)
        self.fs.sync_dir(self.path.parent)


def read_journal(fs: Fs, path: Path, session_id: str) -> Recovery:
    """What the journal holds now, for a reader: no lock, and nothing is repaired.

    Damage and refusals are in the answer. Raises OSError; JournalRefused for what is no regular file of ours.
    """
    fd, found = open_own(fs, path, os.O_RDONLY)
    try:
        return examine(read_whole(fs, fd, found.size), session_id)
    finally:
        fs.close(fd)


def _check_bodies(path: Path, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        size = len(body)
        if size > RECORD_LIMIT_BYTES:
            raise StoreError(f"{path}: expected a record of at most {RECORD_LIMIT_BYTES} bytes, found {size}")
        if size < 3 or body[0] != _OPENS or body[1] != _QUOTES or body[-1] != _CLOSES or b"\n" in body:
            raise StoreError(f"{path}: expected a JSON object on one line, found {body[:80]!r}")


def _refuse(path: Path, recovery: Recovery) -> None:
    if recovery.refusal is not None:
        raise JournalRefused(f"{path}: {recovery.refusal}. Nothing was changed")
    if recovery.damage:
        places = "; ".join(f"{d.start}-{d.end} ({d.reason})" for d in recovery.damage[:_DAMAGE_SHOWN])
        more = f" and {len(recovery.damage) - _DAMAGE_SHOWN} more" if len(recovery.damage) > _DAMAGE_SHOWN else ""
        raise JournalDamaged(
            f"{path}: expected every acknowledged record, found damage at bytes {places}{more}. Nothing was changed; "
            "the rest can be read. `sapwood sessions check` lists it, `sapwood sessions repair` writes a new file"
        )
