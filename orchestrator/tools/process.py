"""A process that leads a session and a process group of its own, so that all of it can be ended together."""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

import attrs
import trio

CHUNK_BYTES = 64 * 1024
TERM_GRACE_S = 2.0
KILL_GRACE_S = 5.0
_POLL_S = 0.02


@attrs.define
class GroupProcess:
    """stdin is empty, stdout and stderr share one pipe. The leader stays unreaped until the end: so its number, which
    names the group, cannot pass to a stranger while we may still send signals to it.

    A process that makes a session of its own (`setsid`) leaves the group and is not reached.
    """

    _popen: "subprocess.Popen[bytes]"
    _pidfd: int
    _pipe: int

    @classmethod
    def start(cls, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> "GroupProcess":
        """Raises OSError and, for what cannot be an argument, ValueError.

        Not `trio.lowlevel.open_process`: that forks in a worker thread, and Linux counts the end of that *thread* as
        the death of the parent, so PDEATHSIG would kill the process as soon as the thread idles out.
        """
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(read_end, False)
            popen = subprocess.Popen(
                [*_dies_with_parent(os.getpid()), *argv],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        try:
            pidfd = os.pidfd_open(popen.pid)
        except BaseException:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()
            os.close(read_end)
            raise
        return cls(popen, pidfd, read_end)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """Negative: the signal that ended it. None until it is reaped."""
        return self._popen.returncode

    async def read(self) -> bytes:
        """The next piece of output; empty at its end, when no process holds the pipe any more."""
        while True:
            await trio.lowlevel.wait_readable(self._pipe)
            data = self.read_now()
            if data is not None:
                return data

    def read_now(self) -> bytes | None:
        """As `read`, but None where there is nothing yet."""
        try:
            return os.read(self._pipe, CHUNK_BYTES)
        except BlockingIOError:
            return None

    async def exited(self) -> None:
        """Return when the leader has ended, whatever it left behind."""
        await trio.lowlevel.wait_readable(self._pidfd)

    async def end(self, grace_s: float = TERM_GRACE_S) -> None:
        """TERM, then KILL, to all of the group; reap the leader. Call it shielded; it ends in bounded time."""
        if self._popen.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        with trio.move_on_after(grace_s):
            await self.exited()
            await self._emptied()
        self._signal(signal.SIGKILL)
        # A process in the depth of the kernel, or of another user (sudo), may stay: then that has to be lived with.
        with trio.move_on_after(KILL_GRACE_S):
            await self.exited()
            self._popen.wait()
            await self._emptied()

    async def end_rest(self) -> bool:
        """Reap the leader, which has exited, and KILL the rest of its group. Whether there was one. Call shielded."""
        self._popen.wait()
        # The empty group is the usual case and costs one system call. A group that is there keeps its number.
        if not _exists(self.pid) or not living_members(self.pid):
            return False
        self._signal(signal.SIGKILL)
        with trio.move_on_after(KILL_GRACE_S):
            await self._emptied()
        return True

    def close(self) -> None:
        os.close(self._pipe)
        os.close(self._pidfd)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    async def _emptied(self) -> None:
        while living_members(self.pid):  # noqa: ASYNC110 – the end of a process that is no child of ours is no event
            await trio.sleep(_POLL_S)


def living_members(group: int) -> list[int]:
    """The processes of a group that are no zombies."""
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # pid (name, which may hold anything) state ppid pgrp …
                state, _parent, its_group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state not in (b"Z", b"X"):
            members.append(int(name))
    return members


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@functools.cache
def _dies_with_parent(pid: int) -> tuple[str, ...]:
    """The words that make the kernel kill the leader when we, `pid`, die, where `setpriv` can say that.

    If we died before it was said, the leader has another parent by now, and does not begin.

    Not by `preexec_fn`: Python code between fork and exec can deadlock where there are threads, and forbids vfork.
    """
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv is None:
        return ()
    words = (setpriv, "--pdeathsig", "KILL", "--")
    try:
        probe = subprocess.run([*words, "true"], env={}, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    if probe.returncode != 0:
        return ()
    return (*words, "/bin/sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(pid))
