"""Who owns a tree of sessions: a lock that the kernel frees on death, and a line of text for people."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import attrs
import msgspec

from store.disk.fs import Fs, open_own, read_whole
from store.disk.home import Home
from store.errors import JournalRefused, OwnedElsewhere
from store.frame import U32_MAX
from store.wire import Wire, encode

_LINE_BYTES = 512
_READ_BYTES = 4096
_PROC = Path("/proc")


class Owner(Wire, frozen=True, kw_only=True):
    """The line in a lock file: a process, by what no other process has in common with it, and when it took the tree.

    `start`: clock ticks from boot to its start. `space`: the namespace in which `pid` counts. None: not to be had here.
    """

    pid: int
    start: int | None = None
    space: str | None = None
    boot: str | None = None
    host: str
    since: str
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=U32_MAX)]
    released: bool = False


class Liveness(msgspec.Struct, frozen=True):
    """Whether a tree has a living owner. `pid`: of the owner that the lock file names, dead or alive. `has_let_go`: it said so."""

    state: Literal["alive", "dead", "unknown"]
    pid: int | None = None
    has_let_go: bool = False


@attrs.define(eq=False)
class TreeLock:
    """Ownership of the tree under one root, until `release` or the death of the process. The file is never deleted."""

    path: Path
    owner: Owner
    _fs: Fs
    _fd: int | None

    @classmethod
    def acquire(cls, fs: Fs, home: Home, root_id: str, since: str) -> Self:
        """Become the owner; the epoch is one above the last owner's. `since`: the time now, as people read it.

        Raises OwnedElsewhere, BadId, StoreError (folder or file is not ours), OSError (also: no locks on this disk).
        """
        home.create()
        path = home.lock_path(root_id)
        fd, _ = open_own(fs, path, os.O_RDWR | os.O_CREAT)
        try:
            is_ours = fs.lock(fd)
            last = _owner(read_whole(fs, fd, _READ_BYTES))
            if not is_ours:
                raise OwnedElsewhere(_refusal(root_id, last))
            # Without a readable last owner the epoch begins again; the journals know a higher one: see `raise_epoch`.
            lock = cls(path, _this_process(fs, since, epoch=last.epoch + 1 if last else 1), fs, fd)
            lock._write(fd)
        except BaseException:
            fs.close(fd)
            raise
        return lock

    @property
    def epoch(self) -> int:
        return self.owner.epoch

    def raise_epoch(self, at_least: int) -> int:
        """The epoch, raised to `at_least` (one above that of a journal that turned out higher). Raises OSError."""
        if at_least > self.owner.epoch:
            self.owner = msgspec.structs.replace(self.owner, epoch=at_least)
            if self._fd is not None:
                self._write(self._fd)
        return self.owner.epoch

    def release(self) -> None:
        """Say so in the file and let go. A second call does nothing. Raises OSError, but has let go."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        self.owner = msgspec.structs.replace(self.owner, released=True)
        try:
            self._write(fd)
        finally:
            self._fs.close(fd)

    def _write(self, fd: int) -> None:
        # Always of one length and in place: whoever reads at the same time sees the old line or the new one, not half.
        line = encode(self.owner).ljust(_LINE_BYTES - 1) + b"\n"
        done = 0
        while done < len(line):
            done += self._fs.write_at(fd, line[done:], done)
        self._fs.truncate(fd, len(line))


def liveness(fs: Fs, home: Home, root_id: str) -> Liveness:
    """Whether the tree's owner lives, without touching its lock: a probe could make an owner fail.

    Dead: nobody ever owned it, the owner let go, or it is certain that its process is gone. Unknown: the owner is on
    another host, the file cannot be read, or this system does not tell when a process started. Raises BadId.
    """
    try:
        fd, found = open_own(fs, home.lock_path(root_id), os.O_RDONLY)
    except FileNotFoundError:
        return Liveness("dead")
    except (OSError, JournalRefused):
        return Liveness("unknown")
    try:
        owner = _owner(read_whole(fs, fd, min(found.size, _READ_BYTES)))
    except OSError:
        return Liveness("unknown")
    finally:
        fs.close(fd)
    if owner is None:
        return Liveness("unknown")
    if owner.released:
        return Liveness("dead", owner.pid, has_let_go=True)
    return Liveness(_state(fs, owner), owner.pid)


def _state(fs: Fs, owner: Owner) -> Literal["alive", "dead", "unknown"]:
    here = _this_process(fs, since="", epoch=0)
    if owner.host != here.host or owner.boot is None or here.boot is None:
        return "unknown"
    if owner.boot != here.boot:
        return "dead"
    # Containers may share the host's name and boot, but not its pids.
    if owner.space != here.space or owner.start is None or here.start is None:
        return "unknown"
    return "alive" if start_of(fs, owner.pid) == owner.start else "dead"


def _this_process(fs: Fs, since: str, epoch: int) -> Owner:
    pid = os.getpid()
    boot = _system_text(fs, _PROC / "sys/kernel/random/boot_id")
    return Owner(
        pid=pid,
        start=start_of(fs, pid),
        space=_pid_space(fs),
        boot=boot.strip() if boot else None,
        host=os.uname().nodename,
        since=since,
        epoch=epoch,
    )


def start_of(fs: Fs, pid: int) -> int | None:
    """When a process started; None if there is none, or only a zombie is left. Source: proc(5), /proc/pid/stat."""
    text = _system_text(fs, _PROC / str(pid) / "stat")
    # Field 2, the command's name in parentheses, may hold anything: count from the last parenthesis, field 3 on.
    fields = text.rpartition(")")[2].split() if text else []
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def _pid_space(fs: Fs) -> str | None:
    try:
        return fs.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None


def _system_text(fs: Fs, path: Path) -> str | None:
    try:
        fd = fs.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return fs.read_at(fd, _READ_BYTES, 0).decode(errors="replace")
    except OSError:
        return None
    finally:
        fs.close(fd)


def _owner(data: bytes) -> Owner | None:
    try:
        return msgspec.json.decode(data, type=Owner)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _refusal(root_id: str, owner: Owner | None) -> str:
    if owner is None or owner.released:
        return f"session tree {root_id} is just being opened by another process. Try again"
    is_us = owner.pid == os.getpid() and owner.host == os.uname().nodename
    who = f"process {owner.pid}" + (" (this one)" if is_us else "")
    return (
        f"session tree {root_id} belongs to {who} on host {owner.host} since {owner.since}. "
        f"Wait until it has ended, or end it there (`kill -INT {owner.pid}`); `sapwood agents` shows what it does, "
        "`sapwood attach` and `sapwood send` talk to it"
    )
