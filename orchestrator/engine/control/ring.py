"""The last lines of a tree's stream, for whoever comes back."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

import attrs

RING_BYTES = 8 << 20


@attrs.define
class Ring:
    """`seq`: number of the newest line, as the stream counts from 1. Its lines follow each other without a hole."""

    limit_bytes: int = RING_BYTES
    seq: int = 0
    _lines: deque[bytes] = attrs.field(factory=deque)
    _bytes: int = 0

    def add(self, line: bytes) -> None:
        self.seq += 1
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > self.limit_bytes and self._lines:
            self._bytes -= len(self._lines.popleft())

    def holds_all_after(self, seq: int) -> bool:
        """Whether `seq` is a number that was seen here, and nothing behind it is gone."""
        return self.seq - len(self._lines) <= seq <= self.seq

    def after(self, seq: int) -> Iterator[bytes]:
        """The lines behind number `seq`."""
        return islice(self._lines, max(0, len(self._lines) - (self.seq - seq)), None)
