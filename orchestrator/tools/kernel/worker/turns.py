"""The asyncio loop of the process."""

from __future__ import annotations

import asyncio
import os
import types
from collections.abc import Coroutine
from typing import Any

from .screen import Screen
from .source import CELL


class Turns:
    """The loop, which cell it works for, and the interrupts of that."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.pid = os.getpid()
        self.is_running = self.is_interrupted = False
        self.task: asyncio.Task[Any] | None = None
        self.open()

    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.arrived = asyncio.Event()

    def interrupt(self, _: int, frame: types.FrameType | None) -> None:
        """Between the cells nothing is to be interrupted. A cell that awaits is cancelled, since it is the loop that runs."""
        if os.getpid() != self.pid:
            raise KeyboardInterrupt
        if not self.is_running:
            return
        self.is_interrupted = True
        while frame is not None and not frame.f_code.co_filename.startswith(CELL):
            frame = frame.f_back
        if self.task is None or frame is not None:
            raise KeyboardInterrupt
        self.loop.call_soon_threadsafe(self.task.cancel)

    def tell(self, error: BaseException) -> None:
        if self.is_interrupted and isinstance(error, asyncio.CancelledError):
            error = KeyboardInterrupt().with_traceback(error.__traceback__)
        self.screen.tell(error)

    def drive(self, cell: Coroutine[Any, Any, Any], needs_loop: bool) -> Any:
        if needs_loop:
            return self.in_loop(cell)
        try:
            cell.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("expected a cell that does not await")

    def in_loop(self, cell: Coroutine[Any, Any, Any]) -> Any:
        if self.loop.is_closed():
            self.open()
        task = self.task = self.loop.create_task(cell)
        try:
            self.turn_until(task)
            return task.result()
        finally:
            task.cancel()  # if an interrupt has hit just here, it is not to go on behind our back
            self.task = None

    def turn_until(self, task: asyncio.Task[Any]) -> None:
        """Turn the loop until the task is done, whatever other tasks raise, and whoever stops the loop."""
        task.add_done_callback(lambda _: self.loop.stop())
        while not task.done():
            try:
                self.loop.run_forever()
            except SystemExit as error:
                if not task.done() or task.cancelled() or task.exception() is not error:
                    self.tell(error)
            except KeyboardInterrupt:
                task.cancel()  # unless it was this task that was hit, and is done
