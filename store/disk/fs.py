"""The one object through which every system call of the store goes, so that a model of a file system can stand in."""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from store.errors import JournalRefused

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_CHUNK_BYTES = 1 << 30


class Stat(msgspec.Struct, frozen=True):
    """What the store asks of a file. `mode`: permission bits only."""

    is_file: bool
    is_folder: bool
    device: int
    inode: int
    links: int
    uid: int
    mode: int
    size: int
    mtime_ns: int


class Fs(Protocol):
    """System calls. All raise OSError; reads and writes may be short."""

    def open(self, path: Path, flags: int) -> int:
        """A descriptor that is not inherited. Follows no link, waits for no FIFO; a new file has mode 0600."""

    def close(self, fd: int) -> None: ...

    def fstat(self, fd: int) -> Stat: ...

    def lstat(self, path: Path) -> Stat: ...

    def read_at(self, fd: int, size: int, offset: int) -> bytes: ...

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Append (O_APPEND); the number of bytes that went out."""

    def write_at(self, fd: int, data: bytes | memoryview, offset: int) -> int: ...

    def truncate(self, fd: int, size: int) -> None: ...

    def fdatasync(self, fd: int) -> None: ...

    def sync_dir(self, path: Path) -> None:
        """Make the names in a folder durable."""

    def chmod(self, fd: int, mode: int) -> None: ...

    def lock(self, fd: int) -> bool:
        """flock(LOCK_EX | LOCK_NB); False if another has it."""

    def mkdir(self, path: Path) -> None:
        """One folder of mode 0700, whatever the umask."""

    def listdir(self, path: Path) -> list[str]: ...

    def readlink(self, path: Path) -> str: ...

    def rename(self, old: Path, new: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...


class RealFs:
    """The kernel's."""

    def open(self, path: Path, flags: int) -> int:
        # O_NONBLOCK: without it opening a FIFO that somebody put there would wait for ever. Regular files ignore it.
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, FILE_MODE)
        try:
            # The umask may have taken rights from us, too.
            if flags & os.O_EXCL and stat.S_IMODE(os.fstat(fd).st_mode) != FILE_MODE:
                os.fchmod(fd, FILE_MODE)
        except OSError:
            os.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def fstat(self, fd: int) -> Stat:
        return _stat(os.fstat(fd))

    def lstat(self, path: Path) -> Stat:
        return _stat(os.lstat(path))

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def write_at(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:  # macOS
            os.fsync(fd)

    def sync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def chmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, FOLDER_MODE)
        # By name, since a folder that the umask left without rights cannot be opened. Nobody else can put a link here:
        # the parent is ours, or a sticky one.
        if stat.S_IMODE(os.lstat(path).st_mode) != FOLDER_MODE:
            os.chmod(path, FOLDER_MODE)

    def listdir(self, path: Path) -> list[str]:
        return os.listdir(path)

    def readlink(self, path: Path) -> str:
        return os.readlink(path)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)


def _stat(found: os.stat_result) -> Stat:
    return Stat(
        is_file=stat.S_ISREG(found.st_mode),
        is_folder=stat.S_ISDIR(found.st_mode),
        device=found.st_dev,
        inode=found.st_ino,
        links=found.st_nlink,
        uid=found.st_uid,
        mode=stat.S_IMODE(found.st_mode),
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
    )


def open_own(fs: Fs, path: Path, flags: int) -> tuple[int, Stat]:
    """Open a file that must be ours alone: regular, one name, our uid. The opened file is checked, not the name.

    A file opened for writing gets mode 0600. Raises JournalRefused for anything else than such a file; OSError.
    """
    try:
        fd = fs.open(path, flags)
    except OSError as error:
        # ELOOP: a symbolic link (O_NOFOLLOW). ENXIO: a FIFO without a reader, or a socket. EISDIR: a folder.
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise JournalRefused(f"{path}: expected a regular file, found none ({error.strerror})") from error
        raise
    try:
        found = fs.fstat(fd)
        fault = _fault(found)
        if fault:
            raise JournalRefused(f"{path}: expected a regular file of ours with one name, found {fault}")
        if flags & (os.O_RDWR | os.O_WRONLY) and found.mode != FILE_MODE:
            fs.chmod(fd, FILE_MODE)
    except BaseException:
        fs.close(fd)
        if flags & os.O_EXCL:  # made just now, and of no use
            with suppress(OSError):
                fs.unlink(path)
        raise
    return fd, found


def _fault(found: Stat) -> str:
    if not found.is_file:
        return "something that is no regular file"
    if found.links != 1:
        return f"{found.links} names (hard links)"
    if found.uid != os.geteuid():
        return f"one of user {found.uid}"
    return ""


def read_whole(fs: Fs, fd: int, size: int) -> bytes:
    """The first `size` bytes; fewer if the file is shorter by now. Raises OSError."""
    parts: list[bytes] = []
    offset = 0
    while offset < size:
        part = fs.read_at(fd, min(size - offset, _CHUNK_BYTES), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def kept_beside(fs: Fs, path: Path, kind: str, data: bytes) -> Path:
    """A durable copy of bytes of a file, beside it as `<name>.<kind>-<n>`, before they are cut or replaced."""
    number = 1
    while True:
        kept = path.with_name(f"{path.name}.{kind}-{number}")
        try:
            fd, _ = open_own(fs, kept, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            break
        except FileExistsError:
            number += 1
    try:
        write_whole(fs, fd, data)
        fs.fdatasync(fd)
        fs.sync_dir(path.parent)
    except BaseException:
        with suppress(OSError):  # or a full disk would gather one more at every try
            fs.unlink(kept)
        raise
    finally:
        fs.close(fd)
    return kept


def write_whole(fs: Fs, fd: int, data: bytes) -> None:
    """Append all of `data`. Raises OSError, also where the file takes no more; what went out is not taken back."""
    done = fs.write(fd, data)
    while done < len(data):
        count = fs.write(fd, memoryview(data)[done:])
        if count == 0:
            raise OSError(errno.ENOSPC, f"expected room for {len(data)} bytes, the file took {done}")
        done += count
