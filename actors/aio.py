"""Stored sessions for programs on trio that keep their own loop: a session manager whose calls never hold the loop up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

from store.disk.manager import SessionManager

T = TypeVar("T")


@attrs.define(eq=False)
class Session:
    """A session manager in worker threads, one call at a time, in the order of the calls."""

    _manager: SessionManager
    _turn: trio.Lock = attrs.field(factory=trio.Lock)

    async def do(self, act: Callable[[SessionManager], T]) -> T:
        """What `act` returns or raises, such as `lambda session: session.append_message(message)`.

        Cancelled before its turn it does nothing. Cancelled later it is waited for: a write that goes on behind the back of
        its caller would race what comes next.
        """
        async with self._turn:
            return await trio.to_thread.run_sync(act, self._manager)


@asynccontextmanager
async def session(make: Callable[[], SessionManager]) -> AsyncIterator[Session]:
    """The session that `make` gives, such as `partial(SessionManager.open, path)`; durable and let go behind the block."""
    manager = await trio.to_thread.run_sync(make)
    found = Session(manager)
    try:
        yield found
    finally:
        with trio.CancelScope(shield=True):
            await found.do(SessionManager.close)
