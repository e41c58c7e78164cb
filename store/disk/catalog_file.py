"""The catalog's file: opened, made anew where it is of no use, done without where it cannot be had."""

import os
import sqlite3
from contextlib import suppress

import attrs

from store.disk.catalog_rows import FULL_TEXT, SCHEMA
from store.disk.fs import RealFs, open_own
from store.disk.home import Home
from store.errors import StoreError

VERSION = 1
BUSY_S = 1.0
"""So long another process is waited for."""
_NOT_TO_BE_HAD = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS,
}


@attrs.define(eq=False)
class CatalogFile:
    """`is_kept`: the rows are in a file, not in the memory of this process."""

    home: Home
    connection: sqlite3.Connection
    is_kept: bool
    has_full_text: bool = False
    _was_made_anew: bool = False

    @classmethod
    def open(cls, home: Home) -> "CatalogFile":
        file = cls(home, _memory(), is_kept=False)
        if isinstance(home.fs, RealFs):  # SQLite reaches no other
            file._open_kept()
        file._prepare()
        return file

    def replace(self, error: Exception) -> None:
        """`error` came of using it: go on with an empty one, in the file if that was corrupt and can be made anew."""
        self.close()
        was_kept, self.is_kept, self.connection = self.is_kept, False, _memory()
        if was_kept and _is_corrupt(error) and not self._was_made_anew:
            self._was_made_anew = True
            remove(self.home)
            self._open_kept()
        self._prepare()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.connection.close()

    def _open_kept(self) -> None:
        """Use the file, if there is a home to put it in. One of an older version, or a corrupt one, is made anew."""
        for _ in range(2):
            connection = None
            try:
                connection = self._connected()
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    connection.close()  # a newer program's: it is left to it
                    return
                if version in (0, VERSION):
                    self.connection.close()
                    self.connection, self.is_kept = connection, True
                    return
                connection.close()
            except (OSError, StoreError):
                return
            except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: its message quotes what is corrupt
                if connection is not None:
                    connection.close()
                if not _is_corrupt(error):
                    return
            remove(self.home)

    def _connected(self) -> sqlite3.Connection:
        fs, path = self.home.fs, self.home.catalog_path
        fs.lstat(self.home.root)  # reading makes no home
        fd, _ = open_own(fs, path, os.O_RDWR | os.O_CREAT)
        fs.close(fd)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        try:
            self._create()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if not self.is_kept:
                raise
            self.replace(error)

    def _create(self) -> None:
        """The tables, in one step."""
        db = self.connection
        db.execute("BEGIN IMMEDIATE" if db.execute("PRAGMA user_version").fetchone()[0] != VERSION else "BEGIN")
        try:
            if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                for statement in SCHEMA:
                    db.execute(statement)
                _add_full_text(db)
                db.execute(f"PRAGMA user_version={VERSION}")
            self.has_full_text = bool(db.execute("SELECT 1 FROM sqlite_master WHERE name='said_text'").fetchone())
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def trouble(home: Home) -> str | None:
    """What is wrong with the file, which is left as it is. None: nothing, or there is none. Raises OSError."""
    path = home.catalog_path
    try:
        home.fs.lstat(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    except FileNotFoundError:
        return None
    except sqlite3.Error as error:
        return str(error)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)
    finally:
        connection.close()
    return None if found == "ok" else str(found)


def remove(home: Home) -> None:
    """Whoever asks next makes it anew. Raises nothing: at worst it stays."""
    path = home.catalog_path
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            home.fs.unlink(each)


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _add_full_text(db: sqlite3.Connection) -> None:
    """Search goes without it where this SQLite was built without."""
    db.execute("SAVEPOINT full_text")
    try:
        for statement in FULL_TEXT:
            db.execute(statement)
    except sqlite3.OperationalError:
        db.execute("ROLLBACK TO full_text")
    db.execute("RELEASE full_text")


def _is_corrupt(error: Exception) -> bool:
    """Whether a file that this came of is of no use to anybody; else it is only not to be had now."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return not isinstance(error, sqlite3.Error) or code not in _NOT_TO_BE_HAD
