"""What one connection is still to be sent: answers, all of them, and lines of the stream, of which only so much waits."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import trio

from orchestrator.engine.control.answers import gap
from orchestrator.engine.control.joining import Waiting, joined

LINES_BYTES = 1 << 20
ANSWERS_BYTES = 4 << 20
SEND_BYTES = 64 << 10


class Target(Protocol):
    """Where the lines of a connection go. Nothing here waits; who reads from a model or a tool waits for room."""

    def say(self, line: bytes) -> None:
        """A line of the connection, never dropped."""

    def offer(self, line: bytes, root_id: str) -> None:
        """A line of the stream of this tree."""

    def note(self, line: bytes, root_id: str) -> None:
        """A line that tells of this tree that it comes or goes, for whoever watches several."""

    def forget_lines(self) -> None:
        """Lines of the stream that wait are not wanted any more."""

    @property
    def has_room(self) -> bool: ...

    async def wait_for_room(self) -> None: ...

    async def wait_for_answers(self) -> None:
        """Return when few answers wait: nobody may ask on and on and never read."""


@attrs.define(eq=False)
class Outgoing:
    """Never slows a session down: what a slow reader does not take is joined, then left out, and told as a gap."""

    limit_bytes: int = LINES_BYTES
    _waiting: deque[Waiting] = attrs.field(factory=deque)
    _lines_bytes: int = 0
    _answers_bytes: int = 0
    _missed: dict[str, int] = attrs.field(factory=dict)
    _is_finished: bool = False
    _work: trio.Event = attrs.field(factory=trio.Event)
    _taken: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @property
    def has_room(self) -> bool:
        return True

    async def wait_for_room(self) -> None:
        """There always is."""

    @property
    def waiting_bytes(self) -> int:
        return self._lines_bytes + self._answers_bytes

    def say(self, line: bytes) -> None:
        self._answers_bytes += len(line)
        self._waiting.append(Waiting(line, None))
        self._work.set()

    def note(self, line: bytes, root_id: str) -> None:
        if self._missed or self._answers_bytes > ANSWERS_BYTES:
            # Whoever is told of a gap asks anew how all trees stand.
            self._missed[root_id] = self._missed.get(root_id, 0) + 1
            return
        self.say(line)

    def offer(self, line: bytes, root_id: str) -> None:
        if not self._missed and self._lines_bytes and self._lines_bytes + len(line) > self.limit_bytes:
            self._join()
            if self._lines_bytes > self.limit_bytes * 3 // 4:
                self._missed[root_id] = 0
        if self._missed:
            self._missed[root_id] = self._missed.get(root_id, 0) + 1
            return
        self._lines_bytes += len(line)
        self._waiting.append(Waiting(line, root_id))
        self._work.set()

    def forget_lines(self) -> None:
        self._waiting = deque(one for one in self._waiting if one.root_id is None)
        self._lines_bytes = 0
        self._missed.clear()

    def _join(self) -> None:
        self._waiting = deque(joined(self._waiting))
        self._lines_bytes = sum(len(one.line) for one in self._waiting if one.root_id is not None)

    async def wait_for_answers(self) -> None:
        while self._answers_bytes > ANSWERS_BYTES:
            await self._taken.park()

    def finish(self) -> None:
        """No more comes: `run` returns once all is sent."""
        self._is_finished = True
        self._work.set()

    async def run(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send until finished. A send that was cancelled may have stopped in mid-line: then nothing may follow it."""
        while self._waiting or not self._is_finished:
            if not self._waiting:
                self._work = trio.Event()
                await self._work.wait()
                continue
            await send(self._take())

    def _take(self) -> bytes:
        batch: list[bytes] = []
        size = 0
        while self._waiting and size < SEND_BYTES:
            one = self._waiting.popleft()
            batch.append(one.line)
            size += len(one.line)
            if one.root_id is None:
                self._answers_bytes -= len(one.line)
            else:
                self._lines_bytes -= len(one.line)
        self._taken.unpark_all()
        if self._missed and self._lines_bytes <= self.limit_bytes // 2:
            for root_id, missed in self._missed.items():
                self.say(gap(root_id, missed))
            self._missed.clear()
        return b"".join(batch)
