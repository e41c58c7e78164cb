"""The pane of events: what happened, newest last, by type and scope; it can be held."""

from collections.abc import Sequence

import attrs

from orchestrator.views.feed import FEED_TYPES, FeedLine

KEPT = 5_000


@attrs.frozen
class Fed:
    """One line. `at` in Unix seconds; `seq` is the number that its host gave it. Without a session: about the view itself."""

    at: float
    seq: int
    session_id: str
    name: str
    line: FeedLine


@attrs.frozen
class Pane:
    """`fed`: the last lines; while `held_at` is set they are shown as they were then. `back`: so many lines up from the end.

    `scope`: the root of the one sub-tree that is shown; None: everything.
    """

    fed: tuple[Fed, ...] = ()
    held: tuple[Fed, ...] | None = None
    new: int = 0
    types: frozenset[str] = frozenset(FEED_TYPES)
    scope: frozenset[str] | None = None
    back: int = 0

    def with_lines(self, lines: Sequence[Fed]) -> "Pane":
        """With these as the newest ones. What is held does not move, and counts them."""
        if not lines:
            return self
        fed = (*self.fed, *lines)[-KEPT:]
        new = self.new + len(lines) if self.held is not None else 0
        back = self.back + sum(map(self.shows, lines)) if self.back and self.held is None else self.back
        return attrs.evolve(self, fed=fed, new=new, back=back)

    def shows(self, one: Fed) -> bool:
        return one.line.type in self.types and (self.scope is None or one.session_id in self.scope)

    @property
    def shown(self) -> list[Fed]:
        """What is seen, newest last."""
        lines = self.fed if self.held is None else self.held
        return [one for one in lines if self.shows(one)]

    def paused(self) -> "Pane":
        """Held, or going on with the newest."""
        if self.held is None:
            return attrs.evolve(self, held=self.fed, new=0)
        return attrs.evolve(self, held=None, new=0, back=0)

    def switched(self, number: int) -> "Pane":
        """With type `number`, from 1, on or off."""
        kind = FEED_TYPES[number - 1]
        return attrs.evolve(self, types=self.types ^ {kind}, back=0)

    def moved(self, lines: int) -> "Pane":
        """Up (more) or down; at the end it follows again."""
        return attrs.evolve(self, back=max(0, min(self.back + lines, len(self.shown) - 1)))
