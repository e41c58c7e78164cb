"""One gate per provider and key: so many calls at a time, first come first served, and a pause that holds for all."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.protocol.model import ModelFailure

MAX_CALLS = 64
PAUSING = frozenset({"rate_limited", "overloaded"})
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


@attrs.define(eq=False)
class Gate:
    """`limit` calls at a time. A call that was told to slow down slows down its siblings, too; none of them fails for it."""

    limit: int = MAX_CALLS
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
        """How a call ended. Told to slow down, all wait: as long as the provider says, else a second, doubling."""
        if failure is None:
            self._refusals = 0
        elif failure.kind in PAUSING:
            own = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._refusals, 10))
            self._refusals += 1
            pause = own if failure.retry_after_s is None else min(failure.retry_after_s, _LONGEST_PAUSE_S)
            self._closed_until = max(self._closed_until, trio.current_time() + pause)

    @property
    def closed_for_s(self) -> float:
        return max(0.0, self._closed_until - trio.current_time())


@attrs.define
class Gates:
    """The gates of a host, by provider. One key per provider, so the provider's name tells them apart."""

    limit: int = MAX_CALLS
    _gates: dict[str, Gate] = attrs.field(factory=dict)

    def of(self, provider: str) -> Gate:
        if provider not in self._gates:
            self._gates[provider] = Gate(self.limit)
        return self._gates[provider]
