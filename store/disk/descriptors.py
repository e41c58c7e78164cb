"""Which journals keep a descriptor open."""

from collections import OrderedDict
from threading import Lock
from typing import Protocol

from store.errors import StoreError

_LOOKED_AT = 4


class Parkable(Protocol):
    """A journal, as the cache sees it. Hashed by identity. `was_used`: set at each use, cleared by the cache."""

    was_used: bool

    def park(self) -> bool:
        """Close the descriptor; False, at once, where that cannot be done now."""

    def flush_and_park(self) -> None:
        """Raises StoreError, OSError."""


class DescriptorCache:
    """Keeps the journals that were used last open, so that thousands fit under a process's limit of descriptors.

    Above `limit` those that were not used since the last look are parked, oldest first, if they are clean. Dirty ones
    are left to the flusher, but above `most` the oldest is flushed here, so the caller waits for the disk: rather slow
    than out of descriptors.
    """

    def __init__(self, limit: int = 256, most: int = 768) -> None:
        self.limit = limit
        self.most = most
        self._open: OrderedDict[Parkable, None] = OrderedDict()
        self._lock = Lock()

    def add(self, journal: Parkable) -> None:
        """`journal` has opened its file."""
        with self._lock:
            self._open[journal] = None

    def make_room(self, journal: Parkable) -> None:
        """`journal` is about to open its file. Waits for no lock of a journal while it holds its own."""
        with self._lock:
            self._open[journal] = None
            for _ in range(_LOOKED_AT):
                if len(self._open) <= self.limit:
                    return
                oldest, _ = self._open.popitem(last=False)
                if oldest.was_used or not oldest.park():
                    oldest.was_used = False
                    self._open[oldest] = None
            oldest = next(iter(self._open))
            if len(self._open) <= self.most or oldest is journal:
                return
        try:
            oldest.flush_and_park()
        except (StoreError, OSError):
            return  # the journal's next append says so
        with self._lock:
            self._open.pop(oldest, None)

    def forget(self, journal: Parkable) -> None:
        with self._lock:
            self._open.pop(journal, None)
