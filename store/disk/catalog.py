"""The catalog: what is known of every stored session, so that a list reads only what has changed. Derived; never the truth.

A row is fresh while its journal has the inode, size and time of change that it had; a stale one is read on from its last
record that still checks. A catalog that is missing, cut or corrupt is made anew; one that is busy or cannot be written is
done without: then this process keeps its own in memory.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

import attrs
import msgspec

from store.disk.catalog_file import CatalogFile
from store.disk.catalog_rows import (
    NOT_ARCHIVED,
    NUMBER,
    SELECT,
    SELECT_WHOLE,
    UPSERT,
    known_of,
    row_of,
    summary_of,
    text_value,
)
from store.disk.catalog_search import NAME_HOLDS, Found, Said, pattern, said
from store.disk.folder import JOURNAL, LOCK, Stamp, stamp_of, stamps
from store.disk.forest import NoSuchSession
from store.disk.home import Home
from store.disk.ownership import Liveness, liveness
from store.disk.summarizing import Known, summarize
from store.errors import BadId
from store.ids import is_session_id
from store.summary import Summary

T = TypeVar("T")
Progress = Callable[[int, int], None]
_CHUNK = 250
_SETTLED_NS = 2_000_000_000
"""A time of change this long ago: another change since would have another one, however coarse the clock of the disk."""
_UNUSABLE = (sqlite3.Error, ValueError, TypeError, msgspec.MsgspecError)
"""What a catalog that is not ours, or was damaged, may end in."""


@attrs.define(eq=False)
class Catalog:
    """Of one folder of sessions. Every answer is of the folder as it is when asked, where nothing else is said.

    For one thread at a time, whichever that is.
    """

    home: Home
    _file: CatalogFile

    @classmethod
    def open(cls, home: Home) -> "Catalog":
        """Never fails: at worst everything is read again."""
        return cls(home, CatalogFile.open(home))

    @property
    def is_kept(self) -> bool:
        """Whether the next process will find what this one has read."""
        return self._file.is_kept

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Catalog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Questions

    def sessions(
        self, cwd: str | None = None, roots_only: bool = False, on_progress: Progress | None = None
    ) -> list[Summary]:
        """All sessions, or those of a folder, the one first that was written to last. Raises OSError."""
        where = _in(cwd) + (" AND parent_id IS NULL" if roots_only else "")
        return self._used(lambda: self._refreshed(on_progress)._selected(where, *_values(cwd)))

    def newest(self, count: int, cwd: str | None = None) -> list[Summary]:
        """The roots that were written to last.

        As of the last look at the whole folder: what is new in it since, and each that is named here, is looked at again;
        another one that has grown meanwhile comes forward with the next whole look. Raises OSError.
        """
        where = f"{_in(cwd)} AND parent_id IS NULL"
        return self._used(lambda: self._newest(where, _values(cwd), count))

    def newest_trees(self, count: int, *, with_archived: bool) -> tuple[list[Summary], int]:
        """The sessions of the trees that were written to last, and how many trees there are. Raises OSError.

        An archived root with an open run may be at work or not, which its owner tells: such trees come on top of `count`.
        """
        return self._used(lambda: self._refreshed(None)._newest_trees(count, with_archived))

    def newest_root(self, cwd: str | None = None) -> Summary | None:
        """The root that was written to last, archived ones left out; None: there is none. Raises OSError."""
        where = f"{_in(cwd)} AND parent_id IS NULL AND NOT is_archived"
        found = self._used(lambda: self._refreshed(None)._selected(where, *_values(cwd), limit=1))
        return found[0] if found else None

    def session(self, session_id: str) -> Summary | None:
        """One session, without a look at the others. None: no journal. Raises BadId."""
        path = self.home.journal_path(session_id)
        return self._used(lambda: self._session(session_id, stamp_of(self.home.fs, path)))

    def named(self, name: str) -> Summary:
        """The session of this id, or this name, or this unique beginning or end of an id. A whole id looks at no other.

        Of several with one name the root that was begun last. Raises NoSuchSession, OSError.
        """
        found = self.session(name) if is_session_id(name) else None
        return found or _resolved(self.sessions(), name)

    def search(self, text: str, count: int = 50) -> list[Found]:
        """The sessions whose name, or something said in them, holds all the words of `text`, the newest first.

        A word may be the beginning of one; where no word is so, any part of one. Raises OSError.
        """
        words = text.replace("\0", " ").split()
        return self._used(lambda: self._refreshed(None)._searched(words, count)) if words else []

    def owners(self, root_ids: Iterable[str]) -> dict[str, Liveness]:
        """Who owns these trees. What is certain to be over is remembered, so most lock files are only looked at."""
        wanted = list(root_ids)
        return self._used(lambda: self._owners(wanted))

    # Looking

    def _refreshed(self, on_progress: Progress | None) -> "Catalog":
        """Bring all rows up to date."""
        now, names_ns = self._journals()
        rows = self._db.execute(
            "SELECT session_id, inode, size, mtime_ns FROM session WHERE folder=?", (self._folder,)
        ).fetchall()
        known = {row[0]: row[1:] for row in rows}
        stale = [session for session, stamp in now.items() if known.get(session) != stamp]
        self._forget([session for session in known if session not in now])
        done = len(now) - len(stale)
        for chunk in _chunks(stale):
            self._read_again([(session, session in known) for session in chunk])
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, len(now))
        if on_progress is not None and not stale:
            on_progress(done, len(now))
        self._db.execute("UPDATE folder SET names_ns=? WHERE number=?", (names_ns, self._folder))
        return self

    def _journals(self) -> tuple[dict[str, Stamp], int | None]:
        """All journals, and when the last name came or went; None if that was just now."""
        names_ns = self._names_ns()
        return stamps(self.home.fs, self.home.sessions)[JOURNAL], names_ns

    def _names_ns(self) -> int | None:
        stamp = stamp_of(self.home.fs, self.home.sessions)
        return stamp.mtime_ns if stamp is not None and time.time_ns() - stamp.mtime_ns > _SETTLED_NS else None

    def _newest(self, where: str, values: list[str], count: int) -> list[Summary]:
        [known_ns] = self._db.execute("SELECT names_ns FROM folder WHERE number=?", (self._folder,)).fetchone()
        if known_ns is None or known_ns != self._names_ns():
            names_ns, there = self._names_ns(), set(self.home.session_ids())
            rows = self._db.execute("SELECT session_id FROM session WHERE folder=?", (self._folder,)).fetchall()
            known = {row[0] for row in rows}
            self._forget(list(known - there))
            for chunk in _chunks(sorted(there - known)):
                self._read_again([(session, False) for session in chunk])
            self._db.execute("UPDATE folder SET names_ns=? WHERE number=?", (names_ns, self._folder))
        for _ in range(3):  # a row that was read again may give its place to another
            found = self._selected(where, *values, limit=count)
            if not self._look_again([summary.session_id for summary in found]):
                break
        return found

    def _look_again(self, sessions: list[str]) -> bool:
        """Bring these rows up to date; whether one was not."""
        stale = []
        for session in sessions:
            stamp = stamp_of(self.home.fs, self.home.journal_path(session))
            row = self._db.execute(
                "SELECT inode, size, mtime_ns FROM session WHERE folder=? AND session_id=?", (self._folder, session)
            ).fetchone()
            if stamp is None or row != stamp:
                stale.append((session, row is not None))
        self._read_again(stale)
        return bool(stale)

    def _session(self, session: str, stamp: Stamp | None) -> Summary | None:
        if stamp is not None:
            self._look_again([session])
        found = self._selected(" AND session_id=?", session)
        return found[0] if found and stamp is not None else None

    def _selected(self, where: str, *values: str | int, limit: int = -1) -> list[Summary]:
        """The newest first."""
        order = f" ORDER BY modified DESC, session_id DESC LIMIT {limit}"
        rows = self._db.execute(SELECT + where + order, (self._folder, *values))
        return [summary_of(row) for row in rows]

    def _newest_trees(self, count: int, with_archived: bool) -> tuple[list[Summary], int]:
        roots = f"SELECT root_id FROM session WHERE folder=? GROUP BY root_id{'' if with_archived else NOT_ARCHIVED}"
        [known] = self._db.execute(f"SELECT count(*) FROM ({roots})", (self._folder,)).fetchone()
        unsure = "SELECT count(*) FROM session WHERE folder=? AND session_id=root_id AND is_archived AND is_open"
        [more] = self._db.execute(unsure, (self._folder,)).fetchone()
        newest = f"{roots} ORDER BY max(modified) DESC, root_id DESC LIMIT {int(count) + more}"
        return self._selected(f" AND root_id IN ({newest})", self._folder), known

    # Writing

    def _read_again(self, sessions: list[tuple[str, bool]]) -> None:
        """Read these journals, and keep what was found. With each, whether something of it is known."""
        found = [
            (session, summarize(self.home, session, self._known(session) if is_known else None))
            for session, is_known in sessions
        ]
        self._forget([session for session, known in found if known is None])
        kept = [known for _, known in found if known is not None]
        if not kept:
            return
        with self._writing() as db:
            folder = self._folder
            db.executemany(UPSERT, [row_of(folder, known) for known in kept])
            whole = [(folder, known.summary.session_id) for known in kept if known.is_whole]
            db.executemany(f"DELETE FROM said WHERE session={NUMBER}", whole)
            lines = [(folder, known.summary.session_id, *line) for known in kept for line in known.said]
            db.executemany(
                f"INSERT OR IGNORE INTO said(session, seq, entry_id, text) VALUES ({NUMBER}, ?, ?, ?)", lines
            )

    def _known(self, session: str) -> Known | None:
        row = self._db.execute(SELECT_WHOLE, (self._folder, session)).fetchone()
        return None if row is None else known_of(row)

    def _forget(self, sessions: list[str]) -> None:
        if not sessions:
            return
        with self._writing() as db:
            for session in sessions:
                db.execute(f"DELETE FROM said WHERE session={NUMBER}", (self._folder, session))
                db.execute("DELETE FROM session WHERE folder=? AND session_id=?", (self._folder, session))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            with suppress(sqlite3.Error):  # it may have done so itself
                db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    # Search

    def _searched(self, words: list[str], count: int) -> list[Found]:
        named = self._selected("".join(f" AND {NAME_HOLDS}" for _ in words), *map(pattern, words))
        found = {summary.session_id: Found(summary, []) for summary in named}
        for session, entry, text in said(self._db, self._folder, words, self._file.has_full_text):
            if session not in found:
                found[session] = Found(self._selected(" AND session_id=?", session)[0], [])
            found[session].said.append(Said(entry, text))
        newest = sorted(found.values(), key=lambda each: each.session.modified or "", reverse=True)
        return newest[:count]

    # Owners

    def _owners(self, root_ids: list[str]) -> dict[str, Liveness]:
        locks = stamps(self.home.fs, self.home.sessions, (LOCK,))[LOCK]
        rows = self._db.execute("SELECT root_id, inode, size, mtime_ns FROM dead WHERE folder=?", (self._folder,))
        dead = {row[0]: row[1:] for row in rows}
        found: dict[str, Liveness] = {}
        over: list[tuple[int | str, ...]] = []
        for root_id in root_ids:
            stamp = locks.get(root_id)
            if stamp is None or dead.get(root_id) == stamp:
                found[root_id] = _DEAD
                continue
            found[root_id] = liveness(self.home.fs, self.home, root_id)
            if found[root_id].state == "dead" and time.time_ns() - stamp.mtime_ns > _SETTLED_NS:
                over.append((self._folder, root_id, *stamp))
        if over:
            with self._writing() as db:
                db.executemany("INSERT OR REPLACE INTO dead VALUES (?, ?, ?, ?, ?)", over)
        return found

    # Inside

    def _used(self, act: Callable[[], T]) -> T:
        """`act`, again from the start with an empty catalog if this one is of no use."""
        for _ in range(2):
            try:
                return act()
            except _UNUSABLE as error:
                if isinstance(error, BadId) or not self._file.is_kept:
                    raise
                self._file.replace(error)
        return act()

    @property
    def _db(self) -> sqlite3.Connection:
        return self._file.connection

    @property
    def _folder(self) -> int:
        path = text_value(str(self.home.sessions))
        row = self._db.execute("SELECT number FROM folder WHERE path=?", (path,)).fetchone()
        if row is None:
            self._db.execute("INSERT OR IGNORE INTO folder(path) VALUES (?)", (path,))
            return self._folder
        return int(row[0])


_DEAD = Liveness("dead")


def _in(cwd: str | None) -> str:
    return "" if cwd is None else " AND cwd=?"


def _values(cwd: str | None) -> list[str]:
    return [] if cwd is None else [text_value(cwd)]


def _chunks(sessions: list[str]) -> Iterator[list[str]]:
    rest = iter(sessions)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _resolved(sessions: list[Summary], name: str) -> Summary:
    named = [summary for summary in sessions if summary.name == name]
    if named:
        roots = [summary for summary in named if summary.parent_id is None]
        return max(roots or named, key=lambda summary: summary.session_id)
    partial = [each for each in sessions if each.session_id.startswith(name) or each.session_id.endswith(name)]
    if len(partial) == 1 and name:
        return partial[0]
    if partial and name:
        some = ", ".join(summary.session_id for summary in partial[:5])
        raise NoSuchSession(f"expected one session for {name!r}, found {len(partial)}: {some}")
    raise NoSuchSession(f"no session has the id or name {name!r}; `sapwood sessions list` shows those there are")
