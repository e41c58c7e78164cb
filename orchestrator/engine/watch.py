"""One live forest out of all hosts of a home: they come and go by themselves, and a view looks at the rows of all."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from orchestrator.engine.client import Client, CommandFailed, HostGone, asked
from orchestrator.engine.control.endpoint import answering, is_answered
from orchestrator.engine.control.places import Place
from orchestrator.engine.link import Heard, Link
from orchestrator.views.current import merged
from orchestrator.views.rows import AgentRow
from store.disk.home import Home

LOOK_S = 0.5
STORED_S = 2.0
RETRY_S = (1.0, 2.0, 4.0, 8.0, 15.0)

Trees = Sequence[Sequence[AgentRow]]


class NobodyRunsIt(Exception):
    """No host that answers has this session."""


async def rows_now(home: Home) -> list[AgentRow]:
    """The rows of all hosts that answer, as they are now. Raises OSError where the folder cannot be read."""

    async def rows(client: Client) -> list[AgentRow]:
        return msgspec.convert(await client.rows(), list[AgentRow])

    told = await asked(answering(home), rows)
    return [row for rows_of_one in told.values() for row in rows_of_one]


@attrs.frozen
class Ended:
    """A host that was followed and is gone. `at` in Unix seconds."""

    pid: int
    at: float
    roots: tuple[str, ...]


@attrs.define(eq=False)
class Watch:
    """`stored(now)` reads the trees that lie on the disk, in a thread; those that a host runs are taken from it.

    `heard` is called for every line of every host, and must neither raise nor wait.
    """

    home: Home
    stored: Callable[[float], Trees]
    heard: list[Heard] = attrs.field(factory=list)
    links: dict[Path, Link] = attrs.field(factory=dict)
    ended: list[Ended] = attrs.field(factory=list)
    _resting: Trees = ()
    _is_read: bool = False
    _news: trio.Event = attrs.field(factory=trio.Event)
    _look_again: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_stored)
            while True:
                for socket in self._answering() - self.links.keys():
                    self.links[socket] = Link(socket, self._told, self._tell)
                    nursery.start_soon(self._follow, self.links[socket])
                await trio.sleep(LOOK_S)

    def _answering(self) -> set[Path]:
        """None where the folder cannot be read."""
        with suppress(OSError):
            return set(answering(self.home, known=self.links))
        return set()

    @property
    def is_read(self) -> bool:
        """Whether the disk was looked at, so that what is not there is not."""
        return self._is_read

    async def changed(self) -> None:
        """Return when something is another than it was when this was called."""
        await self._news.wait()

    def rows(self, now: float | None = None) -> list[AgentRow]:
        """All rows, the oldest tree first, parents before children. Of a host that does not answer the last known state.

        Without `now` clocks stand, and a row that did not change is the same object as before.
        """
        live = [row for link in self.links.values() for row in link.rows(now)]
        return [row for tree in merged(self._resting, live) for row in tree]

    async def call(self, session_id: str, command: dict[str, Any]) -> dict[str, Any]:
        """Give a command to the host that runs the session. Raises NobodyRunsIt, CommandFailed, HostGone."""
        for link in self.links.values():
            if link.client is not None and session_id in link.fold.sessions:
                return await link.client.call({**command, "sessionId": session_id})
        raise NobodyRunsIt(f"no host that answers runs session {session_id}")

    def read_again(self) -> None:
        """Something was changed on the disk."""
        self._look_again.set()

    def try_now(self) -> None:
        """Do not wait with the next attempt to reach hosts that do not answer."""
        for link in self.links.values():
            link.hurry.set()

    async def _follow(self, link: Link) -> None:
        """To the end of the host: every time its connection ends, another one is tried."""
        while True:
            try:
                async with await Client.connect(link.socket) as client:
                    await link.follow(client)
            except (HostGone, CommandFailed, msgspec.DecodeError):
                pass
            link.leave(time.time())
            self._told()
            if not is_answered(Place(link.socket)):
                break
            await self._pause(link)
        await self._drop(link)

    async def _pause(self, link: Link) -> None:
        """By a timer of ours, longer each time, with some jitter so that views do not come all at once."""
        wait_s = RETRY_S[min(link.tries, len(RETRY_S)) - 1] * random.uniform(0.8, 1.0)
        link.next_try = time.time() + wait_s
        link.hurry = trio.Event()
        with trio.move_on_after(wait_s):
            await link.hurry.wait()

    async def _drop(self, link: Link) -> None:
        """The host has ended. What it left is read before its rows go, so that nothing vanishes in between."""
        await self._read()
        if link.pid is not None and any(row.status in {"lost", "unknown"} for tree in self._resting for row in tree):
            self.ended.append(Ended(link.pid, time.time(), tuple(link.roots)))
        self.links.pop(link.socket, None)
        self._told()

    async def _read_stored(self) -> None:
        while True:
            await self._read()
            self._look_again = trio.Event()
            with trio.move_on_after(STORED_S):
                await self._look_again.wait()

    async def _read(self) -> None:
        found = await trio.to_thread.run_sync(self.stored, time.time(), abandon_on_cancel=True)
        if found != self._resting or not self._is_read:
            self._resting, self._is_read = found, True
            self._told()

    def _told(self) -> None:
        if self._news.statistics().tasks_waiting:
            news, self._news = self._news, trio.Event()
            news.set()

    def _tell(self, *told: Any) -> None:
        for hear in self.heard:
            hear(*told)
