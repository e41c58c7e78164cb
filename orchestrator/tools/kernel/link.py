"""The worker process of a kernel and what leads to it: its output, lines to it, lines from it."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from orchestrator.tools.process import CHUNK_BYTES, GroupProcess

WORKER = str(Path(__file__).with_name("worker"))
LINE_BYTES = 16 * 1024 * 1024


class BadLine(Exception):
    """What came by the channel is no message; expected one JSON object per line, of at most 16 MiB."""


@attrs.define
class Link:
    """`post` never waits, and a cancelled `write_out` or `message` loses nothing: the next one goes on in mid-line."""

    process: GroupProcess
    _commands: int
    _events: int
    _life: int
    _outgoing: bytearray = attrs.field(factory=bytearray, init=False)
    _posted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _incoming: bytearray = attrs.field(factory=bytearray, init=False)
    _searched: int = attrs.field(default=0, init=False)

    @classmethod
    def start(cls, python: str, cwd: str, env: Mapping[str, str], config: dict[str, Any]) -> "Link":
        """Raises OSError, and ValueError for what cannot be an argument."""
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for is_read_by_us in (True, True, False, False):
                read_end, write_end = os.pipe2(os.O_CLOEXEC)
                ours.append(read_end if is_read_by_us else write_end)
                theirs.append(write_end if is_read_by_us else read_end)
                os.set_blocking(ours[-1], False)
            output, events, commands, life = theirs
            popen = subprocess.Popen(
                [python, "-u", WORKER, *map(str, (commands, events, life)), msgspec.json.encode(config).decode()],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(commands, events, life),
                start_new_session=True,
            )
            try:
                pidfd = os.pidfd_open(popen.pid)
            except BaseException:
                os.killpg(popen.pid, signal.SIGKILL)
                popen.wait()
                raise
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        return cls(GroupProcess(popen, pidfd, ours[0]), commands=ours[2], events=ours[1], life=ours[3])

    def post(self, message: dict[str, Any]) -> None:
        self._outgoing += msgspec.json.encode(message) + b"\n"
        self._posted.set()

    async def write_out(self) -> None:
        """Write what is posted, until cancelled, or nobody reads it any more."""
        while True:
            while not self._outgoing:
                self._posted = trio.Event()
                await self._posted.wait()
            await trio.lowlevel.wait_writable(self._commands)
            try:
                del self._outgoing[: os.write(self._commands, self._outgoing[:CHUNK_BYTES])]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return

    async def message(self) -> dict[str, Any] | None:
        """The next message; None when none will come. Raises BadLine."""
        while True:
            newline = self._incoming.find(b"\n", self._searched)
            if newline >= 0:
                line = bytes(self._incoming[:newline])
                del self._incoming[: newline + 1]
                self._searched = 0
                return _decoded(line)
            self._searched = len(self._incoming)
            if len(self._incoming) > LINE_BYTES:
                raise BadLine(f"a line of more than {LINE_BYTES:,} bytes")
            await trio.lowlevel.wait_readable(self._events)
            try:
                data = os.read(self._events, CHUNK_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return None
            self._incoming += data

    def close(self) -> None:
        self.process.close()
        for fd in (self._commands, self._events, self._life):
            os.close(fd)


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadLine(f"{line[:100]!r}: {error}") from error
    if not isinstance(message.get("type"), str):
        raise BadLine(f"{line[:100]!r} has no type")
    return message
