"""New journals that appear all at once: written aside, made durable, then named."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from store.disk.fs import Fs, Stat, open_own, write_whole
from store.disk.home import Home
from store.disk.ownership import TreeLock
from store.entries import FRAMING
from store.frame import COMMITS, seal, seed
from store.ids import is_session_id
from store.legacy.imports import Journal
from store.legacy.members import with_members
from store.records import Record

_WRITE_BYTES = 8 << 20
_ON_ITS_WAY = ".importing"


@attrs.define
class Landing:
    """Files that are written aside, under a lock each, and get their names when all of them are durable.

    The lock on a file tells one import that is at work from one that was killed: what that left is written over.
    """

    fs: Fs
    home: Home
    since: str
    _files: dict[str, int] = attrs.field(factory=dict)
    """Session → descriptor."""

    def __enter__(self) -> "Landing":
        self.home.create()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go; what has no name yet is taken away."""
        for session, fd in self._files.items():
            with suppress(OSError):
                if self._is_ours(session, fd):
                    self.fs.unlink(self._aside(session))
            with suppress(OSError):  # what matters is durable by now, or gone
                self.fs.close(fd)

    def reserve(self, wanted: str | None, new_id: Callable[[], str]) -> str:
        """`wanted` if it is a session id that nobody has here, else a new one; nobody else can have it until the end."""
        session = wanted or new_id()
        while not self._take(session):
            session = new_id()
        return session

    def _take(self, session: str) -> bool:
        if session in self._files or not is_session_id(session) or self._has_journal(session):
            return False
        fd, _ = open_own(self.fs, self._aside(session), os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            # Another import may have had it between the opening and the lock, and given it its name.
            is_taken = not self.fs.lock(fd) or not self._is_ours(session, fd)
            if not is_taken:
                self.fs.truncate(fd, 0)
        except BaseException:
            self.fs.close(fd)
            raise
        if is_taken:
            self.fs.close(fd)
            return False
        self._files[session] = fd
        return not self._has_journal(session)

    def _is_ours(self, session: str, fd: int) -> bool:
        found: Stat = self.fs.fstat(fd)
        try:
            there = self.fs.lstat(self._aside(session))
        except FileNotFoundError:
            return False
        return (found.device, found.inode) == (there.device, there.inode)

    def _has_journal(self, session: str) -> bool:
        try:
            self.fs.lstat(self.home.journal_path(session))
        except FileNotFoundError:
            return False
        return True

    def _aside(self, session: str) -> Path:
        path = self.home.journal_path(session)
        return path.with_name(path.name + _ON_ITS_WAY)

    def write(self, written: dict[str, Journal], order: Sequence[str]) -> None:
        """Write the journals of a tree and name them in `order`, the root last: its name makes the tree whole."""
        root = order[-1]
        lock = TreeLock.acquire(self.fs, self.home, root, self.since)
        try:
            for session in order:
                each = written[session]
                write_journal(self.fs, self._files[session], session, each.header, each.records, lock.epoch)
            for session in order:
                self.fs.fdatasync(self._files[session])
            self._name(order)
        finally:
            lock.release()

    def _name(self, order: Sequence[str]) -> None:
        named: list[str] = []
        try:
            for session in order:
                self.fs.rename(self._aside(session), self.home.journal_path(session))
                named.append(session)
            self.fs.sync_dir(self.home.sessions)
        except BaseException:
            for session in reversed(named):
                with suppress(OSError):
                    self.fs.unlink(self.home.journal_path(session))
            raise


def write_journal(fs: Fs, fd: int, session_id: str, header: bytes, records: Sequence[Record], epoch: int) -> None:
    """Write a whole journal into an empty file, each record committed. Raises OSError; what went out stays out.

    The file gets its name when all of it is durable, so every record may say that all are: a bit that flips in the last
    line, too, is damage then, and not a write that was cut off.
    """
    key = seed(session_id)
    bodies = [with_members(header, {"framing": b"%d" % FRAMING}), *(record.raw for record in records)]
    waiting: list[bytes] = []
    size = 0
    for seq, each in enumerate(bodies):
        waiting.append(seal(each, seq, len(bodies), epoch, COMMITS, key))
        size += len(waiting[-1])
        if size >= _WRITE_BYTES:
            write_whole(fs, fd, b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        write_whole(fs, fd, b"".join(waiting))
