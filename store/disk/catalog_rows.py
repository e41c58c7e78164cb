"""The catalog's table of sessions: its columns, and a summary as a row of them."""

import zlib
from typing import Any

import msgspec

from store.disk.folder import Stamp
from store.disk.scan import Scan
from store.disk.summarizing import Known
from store.summary import Rest, Summary
from store.usage import Spend

_SPENDS = ("own", "total")
_COUNTS = tuple(field for field in Spend.__struct_fields__ if field != "unpriced")
# Summary and Spend are made from their values in this order: the plain ones first.
_PLAIN = tuple(field for field in Summary.__struct_fields__ if field not in _SPENDS)
_FILE = ("inode", "size", "mtime_ns", "good_bytes", "next_seq", "epoch", "durable", "last_frame", "inherited", "rest")
# SQLite notices a torn page, not a flipped bit: each row says what it was.
_SHOWN = (*_PLAIN, *(f"{spend}_{name}" for spend in _SPENDS for name in (*_COUNTS, "unpriced")), "shown_crc")
COLUMNS = (*_SHOWN, *_FILE, "file_crc")
_I64_MAX = (1 << 63) - 1

_KEYS = {"session_id": "TEXT NOT NULL", "root_id": "TEXT NOT NULL"}
SCHEMA = (
    "CREATE TABLE folder(number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, names_ns INTEGER)",
    # A count without a declared type stays what it is: an integer, or the text of one that 64 bits do not hold.
    "CREATE TABLE session(number INTEGER PRIMARY KEY, folder INTEGER NOT NULL, "
    + ", ".join(f"{column} {_KEYS.get(column, '')}".strip() for column in COLUMNS)
    + ", UNIQUE(folder, session_id))",
    "CREATE INDEX session_newest ON session(folder, modified) WHERE parent_id IS NULL",
    "CREATE TABLE said(number INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, "
    "entry_id TEXT NOT NULL, text TEXT NOT NULL, UNIQUE(session, seq))",
    "CREATE TABLE dead(folder INTEGER NOT NULL, root_id TEXT NOT NULL, inode, size, mtime_ns, PRIMARY KEY(folder, root_id))",
)
FULL_TEXT = (
    "CREATE VIRTUAL TABLE said_text USING fts5(text, content='said', content_rowid='number', "
    "tokenize='unicode61 remove_diacritics 2')",
    "CREATE TRIGGER said_new AFTER INSERT ON said BEGIN "
    "INSERT INTO said_text(rowid, text) VALUES (new.number, new.text); END",
    "CREATE TRIGGER said_gone AFTER DELETE ON said BEGIN "
    "INSERT INTO said_text(said_text, rowid, text) VALUES ('delete', old.number, old.text); END",
)
_updates = ", ".join(f"{column}=excluded.{column}" for column in COLUMNS if column != "session_id")
UPSERT = (
    f"INSERT INTO session(folder, {', '.join(COLUMNS)}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))}) "
    f"ON CONFLICT(folder, session_id) DO UPDATE SET {_updates}"
)
SELECT = f"SELECT {', '.join(_SHOWN)} FROM session WHERE folder=?"
NUMBER = "(SELECT number FROM session WHERE folder=? AND session_id=?)"
NOT_ARCHIVED = " HAVING NOT max(session_id=root_id AND is_archived AND NOT is_open AND trouble='')"
"""Behind a grouping by root: the trees whose root no view shows as archived."""
SELECT_WHOLE = f"SELECT {', '.join(COLUMNS)} FROM session WHERE folder=? AND session_id=?"

_OWN = len(_PLAIN)
_TOTAL = _OWN + len(_COUNTS) + 1
_END = _TOTAL + len(_COUNTS) + 2


def row_of(folder: int, known: Known) -> tuple[Any, ...]:
    """The values for `UPSERT`."""
    summary, scan = known.summary, known.scan
    shown = (
        *map(_value, msgspec.structs.astuple(summary)[:_OWN]),
        *_spend_values(summary.own),
        *_spend_values(summary.total),
    )
    end = (scan.good_bytes, scan.next_seq, scan.epoch, scan.durable, scan.last)
    file = (*known.stamp, *end, known.inherited, msgspec.json.encode(known.rest))
    return (folder, *shown, _crc(shown), *file, _crc(file))


def summary_of(row: tuple[Any, ...]) -> Summary:
    """The summary in a row of `SELECT`. Raises ValueError, TypeError for what was not written by `row_of`."""
    shown = row[: _END - 1]
    if _crc(shown) != row[_END - 1]:
        raise ValueError(f"expected the row that was written for session {row[0]!r}, found another one")
    values: list[Any] = [*shown[:_OWN], _spend_of(shown[_OWN:_TOTAL]), _spend_of(shown[_TOTAL:])]
    found = Summary(*values)
    found.is_archived, found.is_open = bool(found.is_archived), bool(found.is_open)
    children: Any = found.children
    found.children = msgspec.json.decode(children, type=tuple[str, ...]) if children else ()
    return found


def known_of(row: tuple[Any, ...]) -> Known:
    """What is known of a session, in a row of `SELECT_WHOLE`. Raises as `summary_of`, and msgspec.DecodeError."""
    summary, file = summary_of(row), row[_END:-1]
    if _crc(file) != row[-1]:
        raise ValueError(f"expected what was written about the file of session {row[0]!r}, found something else")
    inode, size, mtime_ns, good, seq, epoch, durable, last, inherited, rest = file
    scan = Scan(summary.session_id, None, good, seq, epoch, durable, last)
    return Known(Stamp(inode, size, mtime_ns), scan, summary, msgspec.json.decode(rest, type=Rest), inherited)


def _crc(values: tuple[Any, ...]) -> int:
    return zlib.crc32(msgspec.msgpack.encode(values))


def text_value(text: str) -> str:
    """SQLite takes no half of a surrogate pair, which an argument of a command may hold."""
    return text.encode("utf-8", "replace").decode()


def _value(value: Any) -> Any:
    """As SQLite gives it back. No text of a journal holds half of a surrogate pair."""
    if value is True or value is False:
        return int(value)
    if isinstance(value, tuple):
        return msgspec.json.encode(value).decode() if value else ""
    return value


def _spend_values(spend: Spend) -> list[Any]:
    counts = [getattr(spend, name) for name in _COUNTS]
    unpriced = msgspec.json.encode(sorted(spend.unpriced)).decode() if spend.unpriced else ""
    return [*(count if count <= _I64_MAX else str(count) for count in counts), unpriced]


def _spend_of(values: tuple[Any, ...]) -> Spend:
    *counts, unpriced = values
    found = map(int, counts)
    return Spend(*found, frozenset(msgspec.json.decode(unpriced)) if unpriced else frozenset())  # type: ignore
