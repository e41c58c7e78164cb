"""A few lines at the end of a terminal's text that are rewritten in place; what stands above them stays."""

import os
from collections.abc import Sequence
from typing import TextIO

import attrs

from orchestrator.views.spans import Line, sgr


@attrs.define
class Block:
    """`draw` writes only what is new. Lines have to be narrower than the terminal."""

    stream: TextIO
    has_colour: bool
    _shown: list[str] = attrs.field(factory=list)

    @property
    def size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            return os.terminal_size((80, 24))

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines in the place of those before."""
        fresh = [sgr(line, has_colour=self.has_colour) for line in lines]
        if fresh != self._shown:
            self._write(self._cleared() + "".join(f"{line}\n" for line in fresh))
            self._shown = fresh

    def tell(self, line: Line) -> None:
        """A line that stays, above the block."""
        below = "".join(f"{shown}\n" for shown in self._shown)
        self._write(f"{self._cleared()}{sgr(line, has_colour=self.has_colour)}\n{below}")

    def clear(self) -> None:
        self.draw([])

    def _cleared(self) -> str:
        return f"\x1b[{len(self._shown)}F\x1b[J" if self._shown else ""

    def _write(self, text: str) -> None:
        """A terminal that is gone is no reason to end a run."""
        try:
            self.stream.write(text.encode(self.stream.encoding, "replace").decode(self.stream.encoding))
            self.stream.flush()
        except OSError:
            return
