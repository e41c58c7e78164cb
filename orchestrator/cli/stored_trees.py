"""The stored trees that a live view shows beside those of hosts: what ended a moment ago, or all."""

from contextlib import suppress

import attrs

from orchestrator.cli.forest import Forest
from orchestrator.engine.errors import EngineError
from orchestrator.engine.windows import Window, windows
from orchestrator.views.context import with_windows
from orchestrator.views.current import SHOWN_AFTER_END_S, is_current
from orchestrator.views.rows import AgentRow
from store.disk.home import Home


@attrs.define(eq=False)
class StoredTrees:
    """`left_out` trees ended long ago. Called from a thread; there, where nothing can be read, the last trees stay."""

    home: Home
    shows_all: bool = False
    left_out: int = 0
    _window: Window = attrs.field(init=False)
    _last: list[list[AgentRow]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self._window = windows(self.home)

    def __call__(self, now: float) -> list[list[AgentRow]]:
        with suppress(EngineError):
            self._last = self.read(now)
        return self._last

    def read(self, now: float) -> list[list[AgentRow]]:
        """Raises EngineError."""
        forest = Forest.of(self.home)
        shown = forest if self.shows_all else forest.touched_since(now - SHOWN_AFTER_END_S)
        trees = list(shown.rows(now))
        kept = [rows for rows in trees if self.shows_all or is_current(rows, now)]
        self.left_out = shown.left_out + len(trees) - len(kept)
        return [with_windows(rows, self._window) for rows in kept]
