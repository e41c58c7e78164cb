"""Search in the catalog: over names, and over what people and parents said."""

import sqlite3

import msgspec

from store.disk.catalog_rows import text_value
from store.summary import Summary

NAME_HOLDS = "name LIKE ? ESCAPE '\\'"
_TEXT_HOLDS = "said.text LIKE ? ESCAPE '\\'"
_SELECT = "SELECT session.session_id, said.entry_id, said.text FROM said JOIN session ON session.number=said.session"
_AT_MOST = 2_000


class Said(msgspec.Struct, frozen=True):
    """What a person or a parent said."""

    entry_id: str
    text: str


class Found(msgspec.Struct, frozen=True):
    """A session that a search has found: by its name, or by what was said in it."""

    session: Summary
    said: list[Said]


def said(db: sqlite3.Connection, folder: int, words: list[str], has_full_text: bool) -> list[tuple[str, str, str]]:
    """Session, entry, text that holds all words, each as the beginning of one; where nothing does, anywhere in it."""
    end = f" AND session.folder=? ORDER BY session.modified DESC, said.seq LIMIT {_AT_MOST}"
    if has_full_text:
        query = " ".join(f'"{_quoted(word)}"*' for word in words)
        among = "said.number IN (SELECT rowid FROM said_text WHERE said_text MATCH ?)"
        found = db.execute(f"{_SELECT} WHERE {among}{end}", (query, folder)).fetchall()
        if found:
            return found
    parts = " AND ".join(_TEXT_HOLDS for _ in words)
    return db.execute(f"{_SELECT} WHERE {parts}{end}", (*map(pattern, words), folder)).fetchall()


def pattern(word: str) -> str:
    """What LIKE takes for text that holds `word`."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{text_value(escaped)}%"


def _quoted(word: str) -> str:
    """A word as a string of FTS5, where nothing in it is an operator."""
    return text_value(word).replace('"', '""')
