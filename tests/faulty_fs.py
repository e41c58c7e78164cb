"""A file system in memory that fails on demand: power loss at any call, any errno, short writes, a full disk.

It is pessimistic where POSIX allows it: bytes are on disk only after `fdatasync`, names only after `sync_dir`.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import attrs

from store.disk.fs import FILE_MODE, FOLDER_MODE, Stat

Loss = Literal["cut", "zeros", "hole"]
LOSSES: tuple[Loss, ...] = ("cut", "zeros", "hole")


class PowerLoss(BaseException):
    """The machine is off. No `except Exception` of the code under test may catch this."""


@attrs.define(eq=False)
class Node:
    """One inode. `data` is what processes see, `durable` what the disk holds, `pending` what lies between."""

    number: int
    is_folder: bool = False
    mode: int = FILE_MODE
    data: bytearray = attrs.field(factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = attrs.field(factory=list)
    """(offset, bytes written), or (size, None) for a truncation, in order."""
    locked_by: int | None = None
    mtime_ns: int = 0


@attrs.define(eq=False)
class FaultyFs:
    """Implements `store.disk.fs.Fs`.

    calls             how many system calls were made; the first is number 1
    power_fails_at    at this call PowerLoss is raised, and from then on at each; a write still reaches memory
    errors            errno to fail with, by number of the call; the call then does nothing
    fails             errno to fail with, by name of the call, as long as it is in here
    short_bytes       a write takes at most so many bytes
    room_bytes        the sizes of all files together cannot grow beyond this (short writes, then ENOSPC)
    descriptor_limit  EMFILE above it
    """

    power_fails_at: int | None = None
    errors: dict[int, int] = attrs.field(factory=dict)
    fails: dict[str, int] = attrs.field(factory=dict)
    short_bytes: int | None = None
    room_bytes: int | None = None
    descriptor_limit: int = 1024
    calls: int = 0
    log: list[str] = attrs.field(factory=list)
    names: dict[Path, Node] = attrs.field(factory=dict)
    durable_names: dict[Path, Node] = attrs.field(factory=dict)
    links: dict[Path, str] = attrs.field(factory=dict)
    fds: dict[int, tuple[Node, int]] = attrs.field(factory=dict)
    _next: int = 3
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    # What a test does to it

    @classmethod
    def holding(cls, *folders: str) -> "FaultyFs":
        """With these folders, durably."""
        fs = cls()
        for folder in folders:
            for path in (*reversed(Path(folder).parents), Path(folder)):
                fs.names.setdefault(path, fs._node(is_folder=True))
        fs.durable_names = dict(fs.names)
        return fs

    def plant(self, path: Path, data: bytes) -> None:
        """A file that is there, durably, with its folder."""
        node = self._node()
        node.data, node.durable = bytearray(data), data
        self.names[path] = self.durable_names[path] = node
        self.names.setdefault(path.parent, self._node(is_folder=True))
        self.durable_names.setdefault(path.parent, self.names[path.parent])

    def content(self, path: Path) -> bytes:
        return bytes(self.names[path].data)

    def kill(self) -> None:
        """The process dies: its descriptors and locks go, everything it wrote stays."""
        for fd in list(self.fds):
            self._close(fd)

    def after_power_loss(
        self, survives: Callable[[int], int] = lambda unsynced: 0, loss: Loss = "cut", keeps_names: bool = False
    ) -> "FaultyFs":
        """What is found when the power is back, without any fault set.

        Of each file's unsynced bytes, in order of writing, the first `survives(count)` reached the disk: the rest is
        cut off (`cut`) or reads as NULs (`zeros`); with `hole` the first are NULs and the rest is there. Names that
        were not durable are as they were before, or as they became (`keeps_names`).
        """
        fs = FaultyFs()
        fs._next = self._next
        renewed: dict[int, Node] = {}
        for path, node in (self.names if keeps_names else self.durable_names).items():
            data = _on_disk(node, survives, loss)
            old = Node(node.number, node.is_folder, node.mode, bytearray(data), data, mtime_ns=node.mtime_ns)
            fs.names[path] = renewed.setdefault(node.number, old)
        fs.durable_names = dict(fs.names)
        return fs

    # System calls

    def open(self, path: Path, flags: int) -> int:
        with self._lock:
            self._call("open")
            node = self.names.get(path)
            if node is None:
                if not flags & os.O_CREAT:
                    raise _os_error(errno.ENOENT, path)
                if path.parent not in self.names:
                    raise _os_error(errno.ENOENT, path.parent)
                node = self._node()
            elif flags & os.O_EXCL:
                raise _os_error(errno.EEXIST, path)
            elif node.is_folder and flags & (os.O_RDWR | os.O_WRONLY):
                raise _os_error(errno.EISDIR, path)
            if len(self.fds) >= self.descriptor_limit:
                raise _os_error(errno.EMFILE, path)
            self.names[path] = node
            fd, self._next = self._next, self._next + 1
            self.fds[fd] = (node, flags)
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            # A close that fails has closed all the same (close(2), on Linux).
            self._close(fd)
            self._call("close")

    def fstat(self, fd: int) -> Stat:
        self._call("fstat")
        return self._stat(self._at(fd))

    def lstat(self, path: Path) -> Stat:
        self._call("lstat")
        return self._stat(self._named(path))

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        self._call("read_at")
        return bytes(self._at(fd).data[offset : offset + size])

    def write(self, fd: int, data: bytes | memoryview) -> int:
        node, flags = self.fds[fd]
        if not flags & os.O_APPEND:
            raise AssertionError("expected appends through O_APPEND only")
        return self._write(node, data, len(node.data))

    def write_at(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        node, flags = self.fds[fd]
        if flags & os.O_APPEND:
            raise AssertionError("pwrite(2) on Linux appends where O_APPEND is set, whatever the offset")
        return self._write(node, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            self._call("truncate")
            node = self._at(fd)
            if size != len(node.data):
                node.data = bytearray(_resized(bytes(node.data), size))
                node.pending.append((size, None))
                node.mtime_ns += 1

    def fdatasync(self, fd: int) -> None:
        with self._lock:
            self._call("fdatasync")
            node = self._at(fd)
            node.durable = bytes(node.data)
            node.pending.clear()

    def sync_dir(self, path: Path) -> None:
        with self._lock:
            self._call("sync_dir")
            self._named(path)
            for name in [*self.names, *self.durable_names]:
                if name.parent == path and name != path:
                    if name in self.names:
                        self.durable_names[name] = self.names[name]
                    else:
                        self.durable_names.pop(name, None)

    def chmod(self, fd: int, mode: int) -> None:
        self._call("chmod")
        self._at(fd).mode = mode

    def lock(self, fd: int) -> bool:
        with self._lock:
            self._call("lock")
            node = self._at(fd)
            if node.locked_by not in (None, fd):
                return False
            node.locked_by = fd
            return True

    def mkdir(self, path: Path) -> None:
        self._call("mkdir")
        if path in self.names:
            raise _os_error(errno.EEXIST, path)
        self._named(path.parent)
        self.names[path] = self._node(is_folder=True)

    def listdir(self, path: Path) -> list[str]:
        self._call("listdir")
        self._named(path)
        return [name.name for name in self.names if name.parent == path and name != path]

    def readlink(self, path: Path) -> str:
        self._call("readlink")
        if path not in self.links:
            raise _os_error(errno.ENOENT, path)
        return self.links[path]

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        node = self._named(old)
        del self.names[old]
        self.names[new] = node

    def unlink(self, path: Path) -> None:
        self._call("unlink")
        self._named(path)
        del self.names[path]

    # Inside

    def _call(self, name: str) -> None:
        with self._lock:
            self.calls += 1
            self.log.append(name)
            if self.power_fails_at is not None and self.calls >= self.power_fails_at:
                raise PowerLoss
            code = self.errors.get(self.calls, self.fails.get(name))
            if code is not None:
                raise _os_error(code)

    def _write(self, node: Node, data: bytes | memoryview, offset: int) -> int:
        with self._lock:
            size = len(data) if self.short_bytes is None else min(self.short_bytes, len(data))
            if self.room_bytes is not None:
                used = sum(len(each.data) for each in set(self.names.values()))
                size = min(size, max(0, self.room_bytes - used))
            is_cut = self.power_fails_at == self.calls + 1
            if not is_cut:
                self._call("write")
                if not size:
                    raise _os_error(errno.ENOSPC)
            part = bytes(data[:size])
            grown = _resized(bytes(node.data), max(len(node.data), offset + size))
            node.data = bytearray(grown[:offset] + part + grown[offset + size :])
            node.pending.append((offset, part))
            node.mtime_ns += 1
            if is_cut:
                self._call("write")
            return size

    def _close(self, fd: int) -> None:
        node, _ = self.fds.pop(fd)
        if node.locked_by == fd:
            node.locked_by = None

    def _node(self, is_folder: bool = False) -> Node:
        number, self._next = self._next, self._next + 1
        return Node(number, is_folder, FOLDER_MODE if is_folder else FILE_MODE)

    def _at(self, fd: int) -> Node:
        if fd not in self.fds:
            raise AssertionError(f"expected an open descriptor, found {fd}: it was closed, or never opened")
        return self.fds[fd][0]

    def _named(self, path: Path) -> Node:
        if path not in self.names:
            raise _os_error(errno.ENOENT, path)
        return self.names[path]

    def _stat(self, node: Node) -> Stat:
        return Stat(
            is_file=not node.is_folder,
            is_folder=node.is_folder,
            device=1,
            inode=node.number,
            links=sum(1 for each in self.names.values() if each is node),
            uid=os.geteuid(),
            mode=node.mode,
            size=len(node.data),
            mtime_ns=node.mtime_ns,
        )


def _on_disk(node: Node, survives: Callable[[int], int], loss: Loss) -> bytes:
    left = survives(sum(len(part) for _, part in node.pending if part is not None))
    if loss == "hole":
        return _with_hole(node, left)
    data = node.durable
    for offset, part in node.pending:
        if part is None:
            data = _resized(data, offset)
            continue
        kept = part[:left]
        if loss == "zeros":
            kept = kept.ljust(len(part), b"\0")
        elif not kept:
            break
        data = _resized(data, max(len(data), offset + len(kept)))
        data = data[:offset] + kept + data[offset + len(kept) :]
        left = max(0, left - len(part))
        if loss == "cut" and len(kept) < len(part):
            break
    return data


def _with_hole(node: Node, left: int) -> bytes:
    """All is there but the first `left` of the unsynced bytes."""
    data = bytes(node.data)
    start = min((offset for offset, part in node.pending if part), default=len(data))
    end = min(len(data), start + left)
    return data[:start] + bytes(max(0, end - start)) + data[end:]


def _resized(data: bytes, size: int) -> bytes:
    return data[:size].ljust(size, b"\0")


def _os_error(code: int, path: Path | None = None) -> OSError:
    return OSError(code, os.strerror(code), *([str(path)] if path else []))
