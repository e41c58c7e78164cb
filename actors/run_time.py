"""How long the open run of a session may still take."""

import math

import attrs
import trio


@attrs.define(eq=False)
class RunTime:
    """Outlives incarnations. `left_s`: what a run had left that an earlier process did not end; it goes on with that."""

    limit_s: float
    left_s: float | None = None
    _ends_at: float = math.inf
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def begin(self) -> None:
        """A run begins; one that has begun already goes on as it was."""
        if self._ends_at == math.inf:
            self._set(trio.current_time() + (self.limit_s if self.left_s is None else self.left_s))
            self.left_s = None

    def end(self) -> None:
        """The run has ended."""
        if self._ends_at != math.inf:
            self._set(math.inf)

    def _set(self, ends_at: float) -> None:
        self._ends_at = ends_at
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def over(self) -> None:
        """Return when the time of a run is over."""
        while trio.current_time() < self._ends_at:
            with trio.CancelScope(deadline=self._ends_at):
                await self._changed.wait()
        self._ends_at = math.inf
