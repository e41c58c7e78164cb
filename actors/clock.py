"""Time for the actors: the wall clock for what is written down, trio's for how long something took."""

import time
from collections.abc import Callable

import attrs
import trio

from store.times import iso


@attrs.define
class Clock:
    """`wall` gives Unix seconds. Durations never come from it: it may go backwards."""

    wall: Callable[[], float] = time.time
    _ms: int = -1
    _text: str = ""

    def now(self) -> float:
        return self.wall()

    def iso(self) -> str:
        """Now, as the wire has it."""
        return self.stamp()[1]

    def stamp(self) -> tuple[float, str]:
        """Now in whole milliseconds: Unix seconds, and as the wire has it. Events of one millisecond share the text."""
        ms = int(self.wall() * 1000)
        if ms != self._ms:
            self._ms, self._text = ms, iso(ms / 1000)
        return ms / 1000, self._text

    def steady_s(self) -> float:
        return trio.current_time()
