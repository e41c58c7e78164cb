"""Where entries are read from: memory, or a journal that somebody else may be writing to."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from store.disk.fs import Fs, Stat, open_own, read_whole
from store.disk.index import Indexed, extend, open_index, read_bodies
from store.entries import VERSION, Header
from store.errors import JournalRefused
from store.frame import FRAME_BYTES
from store.index import Index, head_of, read_head
from store.records import Record
from store.recovery import Recovery, examine

FRAMED_BYTES = FRAME_BYTES - 1
"""How much longer a line is than its JSON."""

Look = tuple[Index, Callable[[Sequence[int]], list[bytes]]]
"""The index as of now, and what reads records by number as long as the look lasts."""


@attrs.define(eq=False)
class MemorySource:
    """Entries that are kept nowhere else."""

    lines: list[bytes] = attrs.field(factory=lambda: [b""])
    index: Index = attrs.field(factory=Index)

    def __attrs_post_init__(self) -> None:
        if not self.index.count:
            self.index.add_header(0)

    @contextmanager
    def look(self) -> Iterator[Look]:
        yield self.index, lambda numbers: [self.lines[seq] for seq in numbers]

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            self.index.add(self.index.count, len(record.raw) + FRAMED_BYTES, head_of(record))
            self.lines.append(record.raw)


@attrs.define(eq=False)
class StoredSource:
    """A journal as a reader sees it: no lock, nothing repaired, and at every look what it holds by then.

    header   made up where the journal has lost its own
    trouble  why it cannot be read whole; what is intact is read all the same
    """

    fs: Fs
    path: Path
    session_id: str
    header: Header | None = None
    trouble: str = ""
    _indexed: Indexed | None = None
    _salvaged: tuple[Stat, MemorySource] | None = None

    @property
    def is_looked_at(self) -> bool:
        return self._indexed is not None or self._salvaged is not None

    @contextmanager
    def look(self) -> Iterator[Look]:
        """Raises JournalRefused, OSError; reading then JournalDamaged where a record is not what was written."""
        fd, found = open_own(self.fs, self.path, os.O_RDONLY)
        try:
            self._refresh(fd, found)
            if self._salvaged is not None:
                with self._salvaged[1].look() as look:
                    yield look
            elif self._indexed is not None:
                index = self._indexed.index
                yield index, lambda numbers: read_bodies(self.fs, fd, self.path, self.session_id, index, numbers)
        finally:
            self.fs.close(fd)

    def _refresh(self, fd: int, found: Stat) -> None:
        known = self._indexed
        if known is not None and _is_same(known.found, found) and known.scan.still_holds(self.fs, fd, found.size):
            extend(self.fs, known, fd, found)
        else:
            known = self._indexed = open_index(self.fs, self.path, self.session_id, fd, found)
        if not known.trouble:
            self.header, self.trouble, self._salvaged = known.scan.header, "", None
        elif self._salvaged is None or self._salvaged[0] != found:
            self._salvage(examine(read_whole(self.fs, fd, found.size), self.session_id), found)

    def _salvage(self, recovery: Recovery, found: Stat) -> None:
        source = MemorySource()
        for body in recovery.records:
            source.index.add(source.index.count, len(body) + FRAMED_BYTES, read_head(body))
            source.lines.append(body)
        self.header = recovery.header
        self.trouble = recovery.trouble or ""
        self._salvaged = found, source
        self._indexed = None
        if self.header is None and recovery.records:
            self.header = Header(version=VERSION, id=self.session_id, timestamp="", cwd="")
        if self.header is None:
            raise JournalRefused(f"{self.path}: {self.trouble or 'expected a session header, found none'}")


def _is_same(one: Stat, other: Stat) -> bool:
    return (one.device, one.inode) == (other.device, other.inode)
