"""The live view played by hand: rows, keys, and the lines that a person would see."""

from collections.abc import Sequence

import attrs

from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.effects import Effect
from orchestrator.views.screen.frame import frame
from orchestrator.views.screen.state import Known, Lost, Screen
from orchestrator.views.screen.step import Happening, Key, Seen, Tick, step
from orchestrator.views.spans import line_cells, line_text
from tests.orchestrator.views.billing import billing_rows


@attrs.define
class Played:
    """`asked`: all effects so far. Each frame is checked to fit its terminal."""

    screen: Screen
    asked: list[Effect] = attrs.field(factory=list)

    def happen(self, *happenings: Happening) -> "Played":
        for happening in happenings:
            self.screen, effects = step(self.screen, happening)
            self.asked += effects
        return self

    def press(self, *keys: str) -> "Played":
        return self.happen(*(Key(key) for key in keys))

    def type(self, text: str) -> "Played":
        return self.press(*("space" if char == " " else char for char in text))

    def see(
        self, rows: Sequence[AgentRow], *, lost: Lost | None = None, ended: int = 0, is_read: bool = True
    ) -> "Played":
        return self.happen(Seen(Known(tuple(rows), is_read, 1, ended, lost)))

    def later(self, seconds: float) -> "Played":
        return self.happen(Tick(self.screen.now + seconds))

    @property
    def lines(self) -> list[str]:
        drawn = frame(self.screen)
        assert len(drawn) == self.screen.height
        assert all(line_cells(line) <= self.screen.width for line in drawn)
        return [line_text(line).rstrip() for line in drawn]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def selected(self) -> str:
        """The line of the selected row, and where it stands."""
        return next(line for line in self.lines if line.startswith(("▌", ">")))

    @property
    def selected_at(self) -> int:
        return self.lines.index(self.selected)


def played(width: int = 120, height: int = 30, *, is_ascii: bool = False) -> Played:
    """With the tree of the samples on the screen."""
    rows, now = billing_rows()
    return Played(Screen(width, height, is_ascii, now, now)).see(rows)


def empty(width: int = 100, height: int = 12) -> Played:
    return Played(Screen(width, height, now=1_800_000_000.0, begun=1_800_000_000.0))
