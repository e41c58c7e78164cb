"""Sessions of other programs become journals of ours: all files of a tree, or none."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from store.disk.forest import decoded
from store.disk.fs import Fs, open_own, read_whole
from store.disk.home import Home
from store.disk.journal import read_journal
from store.disk.landing import Landing
from store.entries import ForkedFrom
from store.errors import BadId, StoreError
from store.frame import body
from store.legacy.family import Source, copied, id_in_name, in_order, origin_id, parents
from store.legacy.imports import Arrival, ImportedFrom, imported_from, journals
from store.legacy.read import read_legacy
from store.legacy.report import Salvaged, Skipped
from store.records import Record
from store.repair import children_of

FILE_LIMIT_BYTES = 4 << 30
_HEADER_READ_BYTES = 16 * 1024
_KEPT_BYTES = 64 << 20


@attrs.frozen
class Imported:
    """What became of one file. `is_known`: it was imported before, so nothing was done.

    `entries`: how many were taken from the file. `copied_from`: what it begins as a copy of, whose cost counts there.
    """

    path: str
    session_id: str
    parent_id: str | None = None
    is_known: bool = False
    entries: int = 0
    skipped: tuple[Skipped, ...] = ()
    salvaged: tuple[Salvaged, ...] = ()
    copied_from: ForkedFrom | None = None


def _as_before(source: Source, session_id: str) -> Imported:
    return Imported(source.path, session_id, is_known=True)


def _as_it_came(arrival: Arrival) -> Imported:
    legacy = arrival.source.whole
    return Imported(
        path=arrival.source.path,
        session_id=arrival.session_id,
        parent_id=arrival.parent,
        entries=len(legacy.records),
        skipped=legacy.skipped,
        salvaged=legacy.salvaged,
        copied_from=arrival.copied,
    )


@attrs.frozen
class Refused:
    """A file that is no session, or that cannot be read, and why."""

    path: str
    reason: str


def read_source(fs: Fs, path: Path) -> Source | Refused:
    """A session file as it is now."""
    try:
        data = read_data(fs, path)
    except (OSError, StoreError) as error:
        return Refused(str(path), getattr(error, "strerror", None) or str(error))
    legacy = read_legacy(data)
    if legacy.refusal is not None:
        return Refused(str(path), legacy.refusal)
    return Source.of(str(path), legacy, hashlib.sha256(data).hexdigest())


def read_sources(fs: Fs, paths: Iterable[Path]) -> Iterator[Source | Refused]:
    """Many files: what they hold is kept in memory as long as it is little, else read again when its turn comes."""
    kept_bytes = 0
    for path in paths:
        found = read_source(fs, path)
        if isinstance(found, Source):
            kept_bytes += sum(len(record.raw) for record in found.records)
            if kept_bytes > _KEPT_BYTES:
                found = attrs.evolve(found, legacy=None)
        yield found


def read_data(fs: Fs, path: Path) -> bytes:
    """The bytes of a regular file. Raises StoreError for anything else and for what is too large, OSError."""
    fd = fs.open(path, os.O_RDONLY)
    try:
        found = fs.fstat(fd)
        if not found.is_file:
            raise StoreError("expected a regular file, found something else")
        if found.size > FILE_LIMIT_BYTES:
            raise StoreError(f"expected at most {FILE_LIMIT_BYTES} bytes, found {found.size}")
        return read_whole(fs, fd, found.size)
    finally:
        fs.close(fd)


@attrs.define
class Importer:
    """`since`: the time now, as people read it. `new_id` draws the id of a session."""

    fs: Fs
    home: Home
    since: str
    new_id: Callable[[], str]
    again: bool = False
    _seen: list[tuple[str, ImportedFrom]] | None = None
    """What was imported before: the session here, and where it came from."""

    def run(self, sources: Sequence[Source]) -> Iterator[list[Imported]]:
        """Import trees, one after the other. A fork comes behind its source, so that what it copied is not billed again.

        Raises OwnedElsewhere, StoreError, OSError; the tree at hand is then left out whole, those before it are there.
        """
        above = parents(sources)
        for root in in_order(sources):
            if above[root] is None:
                yield self._tree(sources, above, root)

    def _tree(self, sources: Sequence[Source], above: Sequence[int | None], root: int) -> list[Imported]:
        places = _below(above, root)
        known = {origin.digest: session for session, origin in self._imports()}
        before = {place: known.get(sources[place].digest) for place in places}
        there = [name for name in before.values() if name is not None]
        if not self.again and len(there) == len(places):
            return [_as_before(sources[place], name) for place, name in zip(places, there, strict=True)]
        whole = {place: self._whole(sources[place]) for place in places}
        with Landing(self.fs, self.home, self.since) as landing:
            arrivals = self._arrivals(landing, whole, above)
            strangers = self._strangers(arrivals)
            written = journals(arrivals, lambda session: str(self.home.journal_path(session)), strangers)
            landing.write(written, [each.session_id for each in reversed(arrivals)])
        for session, journal in written.items():
            origin = imported_from(journal.header)
            if origin is not None:
                self._imports().append((session, origin))
        return [_as_it_came(each) for each in arrivals]

    def _whole(self, source: Source) -> Source:
        """The source with what is in it. Raises StoreError where the file is no longer one."""
        if source.legacy is not None:
            return source
        again = read_source(self.fs, Path(source.path))
        if isinstance(again, Refused):
            raise StoreError(f"{source.path}: {again.reason}")
        return again

    def _arrivals(self, landing: Landing, sources: Mapping[int, Source], above: Sequence[int | None]) -> list[Arrival]:
        """The sessions of a tree under the ids that they get: their own where it is valid and free."""
        found: dict[int, Arrival] = {}
        for place, source in sources.items():
            parent = above[place]
            # A child that comes without its parent is somebody else here than what its parent's journal may mean.
            is_alone = parent is None and (source.header.depth > 0 or source.header.parent_session_id is not None)
            wanted = source.header.id or (id_in_name(source.path) or "" if source.whole.is_made else "")
            session = landing.reserve(None if is_alone else wanted, self.new_id)
            found[place] = Arrival(
                source,
                session,
                found[parent].session_id if parent is not None else None,
                self._copied(source),
            )
        return list(found.values())

    def _copied(self, source: Source) -> ForkedFrom | None:
        """What of a session that is here stands at the beginning of this file: a fork of it, or it itself, grown."""
        for name in (origin_id(source.header), source.header.id):
            there = self._here(name)
            if there is None:
                continue
            session, records = there
            count = copied(source.records, records)
            if count:
                return ForkedFrom(session_id=session, entry_id=source.records[count - 1].id, records=count)
        return None

    def _here(self, name: str | None) -> tuple[str, list[Record]] | None:
        """The session that is called `name` here, or was where it came from."""
        if not name:
            return None
        origins = {origin.session_id: session for session, origin in self._imports()}
        session = origins.get(name) or (name if self._is_taken(name) else None)
        if session is None:
            return None
        with suppress(OSError, StoreError):
            recovery = read_journal(self.fs, self.home.journal_path(session), session)
            return session, list(decoded(recovery.records))
        return None

    def _strangers(self, arrivals: Sequence[Arrival]) -> dict[str, str]:
        """New ids for children that entries name, that do not come along, and whose id is another session's here."""
        coming = {each.source.header.id for each in arrivals}
        named = {
            child.child_session_id
            for each in arrivals
            for child in children_of(list(each.source.records)[each.copied.records if each.copied else 0 :])
        }
        return {name: self.new_id() for name in sorted(named - coming) if self._is_taken(name)}

    def _is_taken(self, name: str) -> bool:
        try:
            self.fs.lstat(self.home.journal_path(name))
        except (BadId, FileNotFoundError):
            return False
        return True

    def _imports(self) -> list[tuple[str, ImportedFrom]]:
        if self._seen is None:
            ids = self.home.session_ids()
            found = [(session, imported_from(header_line(self.fs, self.home, session))) for session in ids]
            self._seen = [(session, origin) for session, origin in found if origin is not None]
        return self._seen


def header_line(fs: Fs, home: Home, session_id: str) -> bytes:
    """The JSON object of a journal's header, without its frame; empty where it cannot be read."""
    try:
        fd, found = open_own(fs, home.journal_path(session_id), os.O_RDONLY)
    except (OSError, StoreError):
        return b""
    try:
        line = fs.read_at(fd, min(found.size, _HEADER_READ_BYTES), 0).partition(b"\n")[0]
    except OSError:
        return b""
    finally:
        fs.close(fd)
    return body(line + b"\n")


def _below(above: Sequence[int | None], root: int) -> list[int]:
    """`root` and all below it, parents before their children."""
    children: dict[int, list[int]] = {}
    for place, parent in enumerate(above):
        if parent is not None:
            children.setdefault(parent, []).append(place)
    found = [root]
    for place in found:
        found += children.get(place, [])
    return found
