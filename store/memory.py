"""A journal that is kept nowhere: for sessions that are not to be stored, and for tests."""

from collections.abc import Sequence

import attrs


@attrs.define(eq=False)
class MemoryJournal:
    """A journal without a disk. `fail` is raised by the next `failures` appends."""

    lines: list[bytes] = attrs.field(factory=list)
    seq: int = 1
    durable: int = 0
    is_poisoned: bool = False
    failures: int = 0
    fail: OSError = attrs.field(factory=lambda: OSError(28, "No space left on device"))

    def append(self, bodies: Sequence[bytes]) -> None:
        if self.failures:
            self.failures -= 1
            raise self.fail
        self.lines += bodies
        self.seq += len(bodies)

    def sync(self) -> None:
        self.durable = self.seq

    def close(self) -> None:
        """Nothing to give back."""
