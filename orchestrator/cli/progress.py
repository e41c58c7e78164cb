"""The live tree of `run` on a terminal's stderr: rewritten in place, gone from nothing else's way."""

import os
import sys
import time

import attrs
import trio

from orchestrator.cli.block import Block
from orchestrator.views.grid import Look
from orchestrator.views.live import LiveTree
from orchestrator.views.progress import final_lines, progress_lines
from orchestrator.views.text import sanitize_terminal
from store.events import Event, Place

FRAME_S = 0.1


def stderr_block() -> Block:
    return Block(sys.stderr, has_colour=not os.environ.get("NO_COLOR"))


@attrs.define
class Progress:
    """Watches a tree and draws it. `run` is a task of the host. `budget_pico`: what the tree may spend, in 10⁻¹² dollar."""

    budget_pico: int | None = None
    fold: LiveTree = attrs.field(factory=LiveTree)
    block: Block = attrs.field(factory=stderr_block)
    _told: int = 0

    def take(self, place: Place, event: Event, at: float) -> None:
        """Hear an event."""
        self.fold.take(place, event, at)

    async def run(self) -> None:
        """Draw until cancelled."""
        try:
            while True:
                self._tell()
                look = self._look()
                rows = self.fold.rows(look.now)
                self.block.draw(progress_lines(rows, look, self.block.size.lines, self.budget_pico))
                await trio.sleep(FRAME_S)
        finally:
            self._tell()
            self.block.clear()

    def _look(self) -> Look:
        is_ascii = not self.block.stream.encoding.lower().startswith("utf")
        return Look(self.block.size.columns - 1, time.time(), is_ascii)

    def _tell(self) -> None:
        """Warnings stay in the scrollback, above the block."""
        fresh = self.fold.note_count - self._told
        for note in self.fold.notes[-fresh:] if fresh else ():
            self.block.tell(((f"sapwood: {sanitize_terminal(note)}", "yellow"),))
        self._told = self.fold.note_count

    def final(self) -> None:
        """What stays when the run has ended."""
        look = self._look()
        for line in final_lines(self.fold.rows(look.now), look, self.budget_pico):
            self.block.tell(line)
