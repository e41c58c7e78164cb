"""The run's own stdout: lines in, bytes out, without ever blocking the loop."""

import errno
import os
import select
import stat
from collections import deque
from collections.abc import Callable

import attrs
import trio

ROOM_BYTES = 256 * 1024
# A pipe that is ready takes this much without blocking (POSIX, PIPE_BUF on Linux). We do not set O_NONBLOCK: the open
# file description belongs to others too.
SMALL_WRITE_BYTES = 4096
LARGE_WRITE_BYTES = 1 << 20


@attrs.define(eq=False)
class LineWriter:
    """An outlet of the stream on a file descriptor. `on_gone(error)` is called once, when nobody can be written to."""

    fd: int
    on_gone: Callable[[OSError], None]
    _lines: deque[bytes] = attrs.field(factory=deque)
    _waiting_bytes: int = 0
    _is_gone: bool = False
    _is_finished: bool = False
    _is_waiting: bool = False
    _ended: trio.Event = attrs.field(factory=trio.Event)
    _work: trio.Event = attrs.field(factory=trio.Event)
    _room: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def offer(self, line: bytes) -> None:
        """Take a line. What nobody reads any more is dropped."""
        if self._is_gone:
            return
        self._lines.append(line)
        self._waiting_bytes += len(line)
        if self._is_waiting:
            self._is_waiting = False
            self._work.set()

    @property
    def has_room(self) -> bool:
        return self.has_less_than(ROOM_BYTES)

    def has_less_than(self, size_bytes: int) -> bool:
        """Whether less than this waits to be written."""
        return self._is_gone or self._waiting_bytes < size_bytes

    async def wait_for_room(self) -> None:
        """Return when less than `ROOM_BYTES` wait to be written."""
        while not self.has_room:
            await self._room.park()

    def finish(self) -> None:
        """No more lines come: `run` returns once all are written."""
        self._is_finished = True
        self._is_waiting = False
        self._work.set()

    async def written(self) -> None:
        """Return when `run` has ended."""
        await self._ended.wait()

    async def run(self) -> None:
        """Write until finished, or until the reader has gone away."""
        try:
            async with trio.open_nursery() as nursery:
                if stat.S_ISFIFO(_mode(self.fd)):
                    nursery.start_soon(self._hear_reader_leave)
                try:
                    await self._write()
                except OSError as error:
                    self._gone(error)
                nursery.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def _hear_reader_leave(self) -> None:
        """A reader may leave while nothing is written for long: a tree that nobody hears must not work on and spend."""
        # For the writing end of a pipe epoll reports nothing here but an error: that the last reader has closed it.
        await trio.lowlevel.wait_readable(self.fd)
        poll = select.poll()
        poll.register(self.fd, 0)
        if any(happened & select.POLLERR for _, happened in poll.poll(0)):
            self._gone(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

    async def _write(self) -> None:
        waits = must_wait(self.fd)
        size = SMALL_WRITE_BYTES if waits else LARGE_WRITE_BYTES
        while (self._lines or not self._is_finished) and not self._is_gone:
            if not self._lines:
                self._work, self._is_waiting = trio.Event(), True
                await self._work.wait()
                continue
            pending = self._take(size)
            while pending:
                if waits:
                    await trio.lowlevel.wait_writable(self.fd)
                try:
                    written = os.write(self.fd, pending[:size])
                except BlockingIOError:
                    # Somebody made the description non-blocking, and another writer was faster.
                    await trio.lowlevel.wait_writable(self.fd)
                    continue
                pending = pending[written:]
                self._waiting_bytes -= written
                if self.has_room:
                    self._room.unpark_all()

    def _take(self, size: int) -> bytes:
        """What is waiting, in one piece of about `size` bytes: small lines share a write."""
        batch: list[bytes] = []
        length = 0
        while self._lines and length < size:
            line = self._lines.popleft()
            batch.append(line)
            length += len(line)
        return b"".join(batch)

    def _gone(self, error: OSError) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self._lines.clear()
        self._waiting_bytes = 0
        self._room.unpark_all()
        self._work.set()
        self.on_gone(error)


def hold_standard_descriptors() -> None:
    """Open those of 0, 1 and 2 that are closed: the next file would get the number, and our stream be written into it.

    Writing to such a 1 still fails, as it should.
    """
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free


def must_wait(fd: int) -> bool:
    """Pipes, sockets and terminals are waited for; a regular file never blocks for a reader, and cannot be polled."""
    mode = _mode(fd)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _mode(fd: int) -> int:
    """What kind of file it is; of no kind where it is closed."""
    try:
        return os.fstat(fd).st_mode
    except OSError:
        return 0
