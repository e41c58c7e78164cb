"""What a search has found: rows, and lines for people."""

from collections.abc import Iterator, Sequence

import msgspec

from orchestrator.views.session_text import age
from orchestrator.views.signs import plain, signs
from orchestrator.views.text import cut, one_line
from store.ids import short
from store.summary import Summary

_SHOWN = 3
_BEFORE_CHARS = 60
_EXCERPT_CHARS = 400


class Match(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where it was said, and what, cut around the first word."""

    entry_id: str
    text: str


class FoundRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that holds all words: in what was said, or, without a match, in its name."""

    session_id: str
    root_session_id: str
    parent_session_id: str | None
    name: str | None
    cwd: str
    modified: str | None
    summary: str | None
    matches: tuple[Match, ...]


def found_row(session: Summary, said: Sequence[tuple[str, str]], words: Sequence[str]) -> FoundRow:
    return FoundRow(
        session_id=session.session_id,
        root_session_id=session.root_id,
        parent_session_id=session.parent_id,
        name=session.name,
        cwd=session.cwd,
        modified=session.modified,
        summary=session.summary or session.first_prompt,
        matches=tuple(Match(entry_id=entry, text=excerpt(text, words)) for entry, text in said),
    )


def excerpt(text: str, words: Sequence[str], limit_chars: int = _EXCERPT_CHARS) -> str:
    """A stretch of `text` with the first of `words` near its beginning."""
    folded = text.casefold() if len(text.casefold()) == len(text) else text.lower()
    places = [place for word in words if (place := folded.find(word.casefold())) >= 0]
    start = max(0, min(places, default=0) - _BEFORE_CHARS)
    return ("…" if start else "") + text[start : start + limit_chars]


def found_lines(rows: Sequence[FoundRow], now: float, width: int = 80, ascii: bool = False) -> Iterator[str]:
    """A line per session, and below it where the words stand."""
    drawn = signs(ascii=ascii)
    for row in rows:
        title = one_line(row.name or "", 200) or one_line(row.summary or "", 60) or "–"
        line = f"{short(row.session_id)}  {title}  {age(row.modified, now)}  {one_line(row.cwd, 400)}"
        yield cut(plain(line, ascii=ascii), width, drawn.cut)
        for match in row.matches[:_SHOWN]:
            yield cut(plain(f"  {one_line(match.entry_id, 40)}  {one_line(match.text)}", ascii=ascii), width, drawn.cut)
        if len(row.matches) > _SHOWN:
            yield f"  and {len(row.matches) - _SHOWN} more"
