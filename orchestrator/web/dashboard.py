"""The dashboard's own tasks: watch the forest, draw breath sixty times a second, keep one stream per page."""

import secrets
import time
from collections.abc import AsyncGenerator

import attrs
import trio

from orchestrator.web.board import Board
from orchestrator.web.ports import Forest, Hands, Journals
from orchestrator.web.reader import HEARTBEAT, Reader, Since, bye

FRAME_S = 1 / 60
HIDDEN_FRAME_S = 1.0
HEARTBEAT_S = 5.0
_REST = 2
"""Of three moments at most one is spent on rows: the rest is for those who read them."""


@attrs.define(eq=False)
class Dashboard:
    """`hands` None: it is read-only."""

    forest: Forest
    journals: Journals
    hands: Hands | None = None
    board: Board = attrs.field(factory=Board)
    readers: dict[str, Reader] = attrs.field(factory=dict)
    is_closing: bool = False
    _told: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Until cancelled."""
        self._put()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            nursery.start_soon(self._draw)

    async def _watch(self) -> None:
        async for batch in self.forest.news():
            self.board.take(batch, {reader.open_session for reader in self.readers.values() if reader.open_session})
            self._told.set()

    async def _draw(self) -> None:
        """Rows are made once for all pages, and not more often than a page may be told."""
        while True:
            await self._told.wait()
            self._told = trio.Event()
            begin = trio.current_time()
            self._put()
            spent = trio.current_time() - begin
            await trio.sleep(max(FRAME_S, _REST * spent))

    def _put(self) -> None:
        self.board.put(self.forest.rows(), self.forest.left_out)
        self.board.tell()

    def new_reader(self) -> Reader:
        reader = Reader(self.board, secrets.token_hex(8), self.hands is None)
        self.readers[reader.id] = reader
        return reader

    async def frames(self, reader: Reader, since: Since | None) -> AsyncGenerator[bytes, None]:
        """What this page is told, until the dashboard closes; something every five seconds."""
        for frame in reader.first(since, time.time()):
            yield frame
        while True:
            with trio.move_on_after(HEARTBEAT_S) as waiting:
                await self.board.after(reader.version)
            if self.is_closing:
                yield bye("the dashboard was closed")
                return
            if waiting.cancelled_caught:
                yield HEARTBEAT
                continue
            data = b"".join(reader.next())
            if data:
                yield data
            await trio.sleep(HIDDEN_FRAME_S if reader.is_hidden else FRAME_S)

    def close(self) -> None:
        """End all streams: a server that shuts down waits for them."""
        self.is_closing = True
        self.board.version += 1
        self.board.tell()
