"""One cell: its output taken, its questions answered, its end awaited or brought about."""

import math
import os
import signal
from typing import Literal

import attrs
import trio

from actors.protocol.tools import ToolContext, text_result
from orchestrator.tools.bash import PROGRESS_BYTES, PROGRESS_PERIOD_S
from orchestrator.tools.kernel.asks import Asks
from orchestrator.tools.kernel.clock import Clock
from orchestrator.tools.kernel.link import BadLine, Link
from orchestrator.tools.process import living_members
from orchestrator.tools.spill import Capture

Status = Literal["ok", "error", "interrupted", "died"]

# How an interrupt goes: to the process, after these seconds to its group, then again; what is left after all is killed.
INTERRUPT_S = (1.5, 1.5, 2.0)
# A cancelled cell may end so quickly that the kernel need not be killed with it.
CANCEL_GRACE_S = 1.0
# What a process that has ended may still have said by the channel.
LAST_WORDS_S = 0.5
READ_LIMIT_BYTES = 16 * 1024 * 1024  # against a writer that is as fast as we are


@attrs.define
class CellRun:
    """`status` stays `died` unless the worker says otherwise."""

    link: Link
    asks: Asks
    capture: Capture
    context: ToolContext
    number: int
    status: Status = "died"
    count: int = 0
    problem: str | None = None
    is_timed_out: bool = False
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _said_all: trio.Event = attrs.field(factory=trio.Event, init=False)
    _room: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _is_ending: bool = attrs.field(default=False, init=False)
    _shown_at: float = attrs.field(default=-math.inf, init=False)
    _is_news: bool = attrs.field(default=False, init=False)

    async def run(self, code: str, timeout_s: float) -> None:
        """Return when the cell has ended, or the process with it. Cancelled, it ends the cell, if need be by force."""
        self.link.post({"type": "execute", "id": self.number, "code": code})
        clock = Clock.of(timeout_s)
        try:
            async with trio.open_nursery() as nursery:
                self._attend(nursery, clock)
                with clock.scope:
                    await self._ended.wait()
                if not self._ended.is_set():
                    self.is_timed_out = True
                    await self._interrupt()
                if self._ended.is_set():
                    await self.asks.settled()
                nursery.cancel_scope.cancel()
            if not self._ended.is_set():
                await self._terminate()
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._give_up()
            raise
        self._take_what_is_there()

    def _attend(self, nursery: trio.Nursery, clock: Clock) -> None:
        self.asks.begin(nursery, clock, self.context)
        nursery.start_soon(self.link.write_out)
        nursery.start_soon(self._hear, nursery, clock)
        nursery.start_soon(self._pump, clock)
        nursery.start_soon(self._watch)

    async def _hear(self, nursery: trio.Nursery, clock: Clock) -> None:
        try:
            while (message := await self.link.message()) is not None:
                match message:
                    case {"type": "end", "id": self.number, "status": status, "count": count}:
                        self.status, self.count = status, count
                        self._ended.set()
                        return  # what tasks ask from now on is for the next cell
                    case {"type": "ask", "id": int(), "request": dict()}:
                        self.asks.take(message, nursery, clock, self.context)
                    case {"type": "cancel", "id": int(number)}:
                        self.asks.cancel(number)
        except BadLine as error:
            self.problem = f"its channel is damaged: {error}"
        self._said_all.set()
        if not self._ended.is_set():
            # Without its channel it is of no use, also if it lives.
            with trio.move_on_after(LAST_WORDS_S):
                await self._ended.wait()
            self._signal(signal.SIGKILL)

    async def _watch(self) -> None:
        await self.link.process.exited()
        with trio.move_on_after(LAST_WORDS_S):
            await self._said_all.wait()
        self._ended.set()

    async def _pump(self, clock: Clock) -> None:
        """Take the output as there is room for it. Time without room does not count."""
        while True:
            if not self._is_ending:
                with clock.held(), trio.CancelScope() as self._room:
                    await self.context.wait_for_room()
            data = None
            with trio.move_on_at(self._shown_at + PROGRESS_PERIOD_S if self._is_news else math.inf):
                data = await self.link.process.read()
            if data == b"":
                return
            if data is not None:
                self.capture.add(data)
                self._is_news = True
            self._show_progress()

    def _stop_waiting_for_room(self) -> None:
        """The process cannot end while its output waits."""
        self._is_ending = True
        self._room.cancel()

    def _show_progress(self) -> None:
        now = trio.current_time()
        if self._is_news and now >= self._shown_at + PROGRESS_PERIOD_S:
            self._shown_at, self._is_news = now, False
            self.context.update(text_result(self.capture.shown.recent(PROGRESS_BYTES)))

    async def _interrupt(self) -> None:
        """Until it has ended, or will not."""
        self._stop_waiting_for_room()
        for attempt, pause_s in enumerate(INTERRUPT_S):
            self._signal(signal.SIGINT, is_for_all=attempt > 0)
            with trio.move_on_after(pause_s):
                await self._ended.wait()
            if self._ended.is_set():
                return

    async def _give_up(self) -> None:
        """Cancelled. What the cell has started ends with it; the kernel and its variables stay if it lets go at once."""
        self._stop_waiting_for_room()
        self.asks.refuse_all("the cell was cancelled")
        if not self._ended.is_set():
            with trio.move_on_after(CANCEL_GRACE_S):
                async with trio.open_nursery() as nursery:
                    self._attend(nursery, Clock.of(math.inf))
                    self._signal(signal.SIGINT)
                    await self._ended.wait()
                    nursery.cancel_scope.cancel()
        if not self._ended.is_set() or self.status == "died":
            self.status = "died"
            await self._terminate()
        else:
            self._kill_helpers()
            self._take_what_is_there()

    async def _terminate(self) -> None:
        """TERM, then KILL, to the whole group. Its last words are heard."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._take_all)
                await self.link.process.end()
                nursery.cancel_scope.cancel()

    async def _take_all(self) -> None:
        while data := await self.link.process.read():
            self.capture.add(data)

    def _take_what_is_there(self) -> None:
        limit = READ_LIMIT_BYTES
        while limit > 0 and (data := self.link.process.read_now()):
            self.capture.add(data)
            limit -= len(data)

    def _kill_helpers(self) -> None:
        leader = self.link.process.pid
        for pid in living_members(leader):
            if pid != leader:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass

    def _signal(self, number: signal.Signals, *, is_for_all: bool = False) -> None:
        """The leader is not reaped while a cell runs, so its number is nobody else's."""
        try:
            (os.killpg if is_for_all else os.kill)(self.link.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
