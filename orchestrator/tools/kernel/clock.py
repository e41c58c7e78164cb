"""A timeout that can stand still."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio


@attrs.define
class Clock:
    """Cancels `scope` after so many seconds, not counting those in which at least one holds it."""

    scope: trio.CancelScope
    _left_s: float = attrs.field(default=math.inf, init=False)
    _holders: int = attrs.field(default=0, init=False)

    @classmethod
    def of(cls, timeout_s: float) -> "Clock":
        return cls(trio.CancelScope(deadline=trio.current_time() + timeout_s))

    @contextmanager
    def held(self) -> Iterator[None]:
        if self._holders == 0:
            self._left_s = self.scope.deadline - trio.current_time()
            self.scope.deadline = math.inf
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self.scope.deadline = trio.current_time() + self._left_s
