"""How many sessions of a tree work at the same time. The others wait their turn; none is refused."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio


@attrs.define
class Slots:
    """`limit` sessions with open model or tool work. One session's works share its slot; only who works holds one."""

    limit: int
    _held: dict[str, int] = attrs.field(factory=dict)
    _queue: deque[tuple[str, trio.Event]] = attrs.field(factory=deque)

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[None]:
        """Have a slot while inside. First come, first served."""
        if session_id in self._held:
            self._held[session_id] += 1
        elif len(self._held) < self.limit and not self._queue:
            self._held[session_id] = 1
        else:
            await self._wait(session_id)
        try:
            yield
        finally:
            self._release(session_id)

    async def _wait(self, session_id: str) -> None:
        ticket = (session_id, trio.Event())
        self._queue.append(ticket)
        try:
            await ticket[1].wait()
        except BaseException:
            if ticket[1].is_set():
                self._release(session_id)
            else:
                self._queue.remove(ticket)
            raise

    def _release(self, session_id: str) -> None:
        self._held[session_id] -= 1
        if not self._held[session_id]:
            del self._held[session_id]
        while self._queue and (len(self._held) < self.limit or self._queue[0][0] in self._held):
            waiting, event = self._queue.popleft()
            self._held[waiting] = self._held.get(waiting, 0) + 1
            event.set()

    def is_waiting(self, session_id: str) -> bool:
        return any(waiting == session_id for waiting, _ in self._queue)
