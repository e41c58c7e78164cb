"""One gate per provider and key: so many calls at a time, first come first served, and a pause that holds for all."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.protocol.model import ModelFailure

MAX_CALLS = 64
PAUSING = frozenset({"rate_limited", "overloaded"})


@attrs.define(eq=False)
class Gate:
    """`limit` calls at a time. A call that was told to slow down slows down its siblings, too; none of them fails for it."""

    limit: int = MAX_CALLS
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    _inside: int = 0
    _queue: deque[trio.Event] = attrs.field(factory=deque)
    _closed_until: float = 0.0
    _refusals: int = 0

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Be inside while a call is made. Waits while the gate is closed or full."""
        await self._enter()
        try:
            yield
        finally:
            self._inside -= 1
            self._next()

    async def _enter(self) -> None:
        if self._inside >= self.limit or self._queue:
            ticket = trio.Event()
            self._queue.append(ticket)
            try:
                await ticket.wait()
            except BaseException:
                if ticket.is_set():
                    self._inside -= 1
                    self._next()
                else:
                    self._queue.remove(ticket)
                raise
        else:
            self._inside += 1
        try:
            # Again and again: it may be closed for longer while one waits.
            while trio.current_time() < self._closed_until:  # noqa: ASYNC110 - a time, no event
                await trio.sleep_until(self._closed_until)
        except BaseException:
            self._inside -= 1
            self._next()
            raise

    def _next(self) -> None:
        while self._queue and self._inside < self.limit:
            self._inside += 1
            self._queue.popleft().set()

    def heard(self, failure: ModelFailure | None) -> None:
        """How a call ended. Told to slow down, all wait: as long as the provider says, else a while that doubles."""
        if failure is None:
            self._refusals = 0
        elif failure.kind in PAUSING:
            self._close(failure.retry_after_s)

    def _close(self, told_s: float | None) -> None:
        if told_s is not None:
            pause = min(told_s, self.longest_pause_s)
        elif self.closed_for_s:
            # Siblings that were under way are refused with the first one: that is one refusal, not one each.
            return
        else:
            pause = min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(self._refusals, 10))
            self._refusals += 1
        self._closed_until = max(self._closed_until, trio.current_time() + pause)

    @property
    def closed_for_s(self) -> float:
        return max(0.0, self._closed_until - trio.current_time())


@attrs.define
class Gates:
    """The gates of a host, by provider. One key per provider, so the provider's name tells them apart."""

    limit: int = MAX_CALLS
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    _gates: dict[str, Gate] = attrs.field(factory=dict)

    def of(self, provider: str) -> Gate:
        if provider not in self._gates:
            self._gates[provider] = Gate(self.limit, self.first_pause_s, self.longest_pause_s)
        return self._gates[provider]
