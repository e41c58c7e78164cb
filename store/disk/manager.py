"""Sessions for programs that keep their own loop: create, open, append, branch, read. Synchronous.

What is appended has been written when the method returns, and is durable after `flush` or `close`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from store.disk.appends import Appends
from store.disk.backward import last_entries
from store.disk.catalog import Catalog
from store.disk.extract import WALL, Clock, chained, extracted, new_header, record_of
from store.disk.forest import read_header
from store.disk.history import USUAL, Capture, ReadLimits
from store.disk.home import Home
from store.disk.identity import Identity
from store.disk.listing import Listing, journal_place, place_of
from store.disk.owned import OwnedSource, take
from store.disk.owned_journals import repair_tree
from store.disk.ownership import TreeLock
from store.disk.reads import UNLIMITED, Reads
from store.disk.sources import MemorySource, StoredSource
from store.entries import (
    LEAF_MARK,
    BranchSummaryEntry,
    CustomEntry,
    Header,
    Known,
)
from store.errors import JournalRefused, ReadLimit, StoreError
from store.index import NONE
from store.records import Record
from store.times import iso
from store.tree import leaf_after
from store.usage import Usage

_ROOT = "root"
"""`fromId` of a summary of a branch that had no entry yet."""


@attrs.define(eq=False)
class SessionManager(Identity, Appends, Reads, Listing):
    """One session at a time. A new one is a draft until its first entry: a draft that is thrown away leaves no file.

    While it is open for writing, its whole tree belongs to this process; `close` lets go.
    """

    header: Header
    home: Home | None
    """None: nothing is kept."""
    clock: Clock
    _source: MemorySource | StoredSource | OwnedSource = attrs.field(factory=MemorySource)
    _leaf_id: str | None = None
    _is_closed: bool = False
    _home_of_new: Home | None = None
    """Where sessions go that are made out of this one; None: to its own place."""

    # Making one

    @classmethod
    def create(
        cls,
        cwd: str | Path,
        session_dir: Path | None = None,
        *,
        name: str | None = None,
        parent_session: str | None = None,
        home: Home | None = None,
        clock: Clock = WALL,
    ) -> Self:
        """A new session. `home`: else the one that the environment names."""
        header = new_header(clock, str(cwd), name, parent_session)
        return cls(header, place_of(home, session_dir), clock)

    @classmethod
    def in_memory(cls, cwd: str | Path | None = None, *, clock: Clock = WALL) -> Self:
        """A session that is kept nowhere."""
        return cls(new_header(clock, str(cwd or Path.cwd())), None, clock)

    @classmethod
    def open(
        cls,
        path: str | Path,
        session_dir: Path | None = None,
        *,
        home: Home | None = None,
        clock: Clock = WALL,
        repairs: bool = True,
    ) -> Self:
        """A stored session, to go on with. What a crash left is saved beside it and cut; what one left out of the tree is
        written: a run that nobody has settled is lost.

        `session_dir`: where new sessions go that are made out of it. `repairs` False: to note something on it, so that an
        interrupted run can still be taken up. Raises OwnedElsewhere, JournalDamaged, JournalRefused (the file is as it was);
        FileNotFoundError, other OSError.
        """
        place, session = journal_place(home, path)
        lock = take(place, session, iso(clock()))
        try:
            manager = cls._opened(place, session, lock, clock, repairs=repairs)
        except BaseException:
            lock.release()
            raise
        manager._home_of_new = None if session_dir is None else place_of(home, session_dir)
        return manager

    @classmethod
    def open_read_only(cls, path: str | Path, *, home: Home | None = None, clock: Clock = WALL) -> Self:
        """A stored session as it is at every read, whoever may own it. Damage is worked around and told by `trouble`.

        Raises JournalRefused where nothing can be read, OSError.
        """
        place, session = journal_place(home, path)
        header = read_header(place.fs, place, session)
        source = StoredSource(place.fs, place.journal_path(session), session, header)
        if header is None:
            with source.look():
                header = source.header
        if header is None:
            raise JournalRefused(f"{path}: expected a session header, found an empty file")
        return cls(header, place, clock, source=source)

    @classmethod
    def continue_recent(
        cls, cwd: str | Path, session_dir: Path | None = None, *, home: Home | None = None, clock: Clock = WALL
    ) -> Self:
        """The root of this folder that was written to last, archived ones left out; a new one where there is none.

        Raises as `open`: one that cannot be opened is never passed over for a new one.
        """
        place = place_of(home, session_dir)
        with Catalog.open(place) as catalog:
            newest = catalog.newest_root(str(cwd))
        if newest is not None:
            return cls.open(place.journal_path(newest.session_id), home=place, clock=clock)
        return cls.create(cwd, home=place, clock=clock)

    @classmethod
    def fork_from(
        cls,
        source_path: str | Path,
        target_cwd: str | Path,
        session_dir: Path | None = None,
        *,
        from_id: str | None = None,
        name: str | None = None,
        home: Home | None = None,
        clock: Clock = WALL,
    ) -> Self:
        """A new session that begins with a branch of another one (by default the current), labels included.

        It says what is copied, so nothing is billed twice. Raises StoreError where the source is damaged: a copy of what
        is left would hide it; else as `open_read_only` and `open`.
        """
        source = cls.open_read_only(source_path, home=home, clock=clock)
        with source.captured(UNLIMITED) as capture:
            if source.trouble:
                raise StoreError(f"{source_path}: expected a sound session, found damage: {source.trouble}")
            name = name or source.name
            header, records = extracted(source.header, source.file, capture, from_id, str(target_cwd), name, clock())
        fork = cls(header, place_of(home, session_dir) if home or session_dir else source.home, clock)
        fork._begin(records)
        return fork

    @classmethod
    def _opened(cls, place: Home, session: str, lock: TreeLock, clock: Clock, *, repairs: bool) -> Self:
        source = OwnedSource.open(place, session, lock, str(Path.cwd()), iso(clock()))
        if repairs and source.may_lack:
            source.close(keeps_lock=True)
            repair_tree(place, source.header.root_id, lock, clock)
            source = OwnedSource.open(place, session, lock, source.header.cwd, iso(clock()))
        manager = cls(source.header, place, clock, source=source)
        manager._leaf_id = manager._read_leaf_id()
        return manager

    # Which session

    @property
    def is_read_only(self) -> bool:
        return isinstance(self._source, StoredSource)

    @property
    def supports_captured_history_reads(self) -> bool:
        """Whether reads are captures of a session that this process owns."""
        return self.is_persisted and not self.is_read_only

    @property
    def trouble(self) -> str:
        """What is wrong with a journal that is only read, as far as it was looked at."""
        return self._source.trouble if isinstance(self._source, StoredSource) else ""

    def new_session(self, parent_session: str | None = None) -> None:
        """Leave this session and begin another one."""
        header = new_header(self.clock, self.cwd, None, parent_session)
        self._become(type(self)(header, self._home_of_new or self.home, self.clock))

    def set_session_file(self, path: str | Path) -> None:
        """Leave this session and open another one. If that fails this one goes on. Raises as `open`."""
        place, session = journal_place(self.home, path)
        source = self._source
        header = read_header(place.fs, place, session)
        if not isinstance(source, OwnedSource) or header is None or place.lock_path(header.root_id) != source.lock.path:
            self._become(self.open(path, home=self.home, clock=self.clock))
        elif session != self.id:  # one tree has one owner, so its lock goes on with it
            other = self._opened(place, session, source.lock, self.clock, repairs=False)
            self._is_closed = True
            try:
                source.close(keeps_lock=True)
            finally:
                self._become(other)

    def create_branched_session(self, leaf_id: str) -> Path | None:
        """Go on in a new session that holds the path to `leaf_id` alone. Its file is there when this returns."""
        self._writable()
        with self.captured(UNLIMITED) as capture:
            header, records = extracted(self.header, self.file, capture, leaf_id, self.cwd, self.name, self.clock())
        other = type(self)(header, self._home_of_new or self.home, self.clock)
        other._begin(records)
        self._become(other)
        return self.file

    def flush(self) -> None:
        """Make durable what was appended. Raises JournalPoisoned, OSError."""
        if isinstance(self._source, OwnedSource):
            self._source.flush()

    def close(self) -> None:
        """Flush and let go; a second call does nothing. Raises as `flush`, but has let go."""
        is_closed, self._is_closed = self._is_closed, True
        if isinstance(self._source, OwnedSource) and not is_closed:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Where in it

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one hangs on; None before any."""
        return self._read_leaf_id() if self.is_read_only else self._leaf_id

    def branch_to(self, entry_id: str | None) -> str:
        """Move the leaf, for good; None: before any entry. Returns the id of the entry that says so."""
        return self._append_at(entry_id, CustomEntry(custom_type=LEAF_MARK))

    def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        details: Any = None,
        from_hook: bool | None = None,
        usage: Usage | None = None,
    ) -> str:
        """Move the leaf to a summary, behind `entry_id`, of the branch that is left."""
        body = BranchSummaryEntry(
            from_id=self.leaf_id or _ROOT, summary=summary, details=details, from_hook=from_hook, usage=usage
        )
        return self._append_at(entry_id, body)

    def append_batch(self, bodies: Sequence[Known]) -> list[str]:
        source = self._writable()
        numbers = source.index.fresh_numbers(len(bodies))
        records, leaf = chained(bodies, numbers, self._leaf_id, iso(self.clock()))
        self._write(source, records, leaf)
        return [record.id for record in records]

    @contextmanager
    def captured(self, limits: ReadLimits = USUAL) -> Iterator[Capture]:
        with self._source.look() as (index, bodies):
            yield Capture(index, bodies, limits)

    def read_last_entries(self, count: int, limits: ReadLimits = USUAL) -> list[Record]:
        """The last entries of the file. Of a journal that was not looked at yet only the end is read."""
        source = self._source
        if isinstance(source, StoredSource) and not source.is_looked_at:
            if count > limits.entries:
                raise ReadLimit(f"expected at most {limits.entries} entries, found {count}: ask for fewer")
            ending = last_entries(source.fs, source.path, source.session_id, count, limits.source_bytes)
            if not ending.trouble:
                return [*ending.records]
        return super().read_last_entries(count, limits)

    # Inside

    def _append_at(self, parent: str | None, body: Known) -> str:
        source = self._writable()
        if parent is not None and source.index.find(parent) is None:
            raise StoreError(f"expected the id of an entry of this session, found {parent[:80]!r}")
        record = record_of(body, source.index.fresh_numbers(1)[0], parent, iso(self.clock()))
        self._write(source, [record], leaf_after(record, self._leaf_id))
        return record.id

    def _write(self, source: MemorySource | OwnedSource, records: Sequence[Record], leaf: str | None) -> None:
        if isinstance(source, MemorySource) and self.home is not None and records:
            self._begin(records)
        else:
            source.append(records)
        self._leaf_id = leaf

    def _begin(self, records: Sequence[Record]) -> None:
        """Give the session its first entries, and its file."""
        if self.home is None:
            self._source = MemorySource()
            self._source.append(records)
        else:
            lock = TreeLock.acquire(self.home.fs, self.home, self.id, iso(self.clock()))
            try:
                self._source = OwnedSource.create(self.home, self.header, records, lock)
            except BaseException:
                lock.release()
                raise
        self._leaf_id = None
        for record in records:
            self._leaf_id = leaf_after(record, self._leaf_id)

    def _become(self, other: Self) -> None:
        try:
            self.close()
        finally:
            for field in attrs.fields(type(self)):
                setattr(self, field.name, getattr(other, field.name))

    def _read_leaf_id(self) -> str | None:
        with self.captured(UNLIMITED) as capture:
            leaf = capture.leaf_entry() if capture.index.leaf != NONE else None
        return None if leaf is None else leaf.id

    def _writable(self) -> MemorySource | OwnedSource:
        if isinstance(self._source, StoredSource) or self._is_closed:
            state = "closed" if self._is_closed else "only read"
            raise StoreError(f"session {self.id}: expected one that is open for writing, found one that is {state}")
        return self._source
