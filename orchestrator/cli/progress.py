"""The live tree of `run` on a terminal's stderr: rewritten in place, gone from nothing else's way."""

import os
import time

import attrs
import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from orchestrator.views.live import LiveTree
from orchestrator.views.progress import Line, final_lines, progress_lines
from orchestrator.views.text import sanitize_terminal
from store.events import Event, Place

FRAME_S = 0.1


@attrs.define
class Progress:
    """Watches a tree and draws it. `run` is a task of the host."""

    fold: LiveTree = attrs.field(factory=LiveTree)
    console: Console = attrs.field(factory=lambda: Console(stderr=True, highlight=False, emoji=False))

    @property
    def is_ascii(self) -> bool:
        return not self.console.encoding.lower().startswith("utf") or os.environ.get("TERM") == "dumb"

    def take(self, place: Place, event: Event, at: float) -> None:
        """Hear an event."""
        self.fold.take(place, event, at)

    async def run(self) -> None:
        """Draw until cancelled."""
        live = Live(
            console=self.console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        told = 0
        with live:
            try:
                while True:
                    told = self._tell(live, told)
                    live.update(self._drawn(self._rows()), refresh=True)
                    await trio.sleep(FRAME_S)
            finally:
                self._tell(live, told)
                live.update(Text(""), refresh=True)

    def _rows(self) -> list[Line]:
        size = self.console.size
        return progress_lines(self.fold.rows(time.time()), size.width - 1, size.height, ascii=self.is_ascii)

    def _tell(self, live: Live, told: int) -> int:
        """Warnings stay in the scrollback, above the block."""
        for note in self.fold.notes[told:]:
            live.console.print(Text(f"sapwood: {sanitize_terminal(note)}", style="yellow"))
        return len(self.fold.notes)

    def _drawn(self, lines: list[Line]) -> Text:
        return Text("\n").join(_text(line) for line in lines)

    def final(self) -> None:
        """What stays when the run has ended."""
        lines = final_lines(self.fold.rows(time.time()), self.console.size.width - 1, ascii=self.is_ascii)
        for line in lines:
            self.console.print(_text(line), no_wrap=True)


def _text(line: Line) -> Text:
    return Text.assemble(*line)
