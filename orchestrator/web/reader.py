"""What one page is told, frame by frame: first all rows, then what changed. A slow page misses frames, never the last value."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec

from orchestrator.views.states import STATES
from orchestrator.web.board import Board, Line
from orchestrator.web.shown import ShownRow, changes

CHUNK_ROWS = 1_000
CHUNK_LINES = 1_000
HEARTBEAT = b":\n\n"


@attrs.frozen
class Since:
    """The place that a page has come to: all of line `n` of this generation."""

    generation: str
    n: int

    @classmethod
    def read(cls, text: str) -> "Since | None":
        generation, colon, n = text.rpartition(":")
        return cls(generation, int(n)) if colon and n.isascii() and n.isdigit() and len(n) < 16 else None


@attrs.define(eq=False)
class Reader:
    """One page. `open_session`: the conversation that it shows."""

    board: Board
    id: str
    is_read_only: bool = False
    open_session: str | None = None
    is_hidden: bool = False
    version: int = -1
    _n: int = 0
    _sent: dict[str, ShownRow] = attrs.field(factory=dict)
    _written: tuple[str, int, int] = ("", 0, 0)
    _left_out: int = -1

    def first(self, since: Since | None, now: float) -> Iterator[bytes]:
        """`hello`, then all rows in chunks and the latest lines; or, for a page that was here before, what it missed.

        All is as of the first frame, however slowly the others are taken. A place to come back to is named when the rows
        are whole: who has half of them has nothing.
        """
        board = self.board
        is_resumed = since is not None and since.generation == board.generation and since.n <= board.n
        start = since.n if is_resumed and since is not None else board.n
        missed, lines = board.lines_after(start if is_resumed else max(0, start - CHUNK_LINES))
        keys = board.changed_since(start) if is_resumed else list(board.rows)
        gone = [key for key, n in board.gone_at.items() if n >= start] if is_resumed else []
        self.version, self._n, self._left_out = board.version, board.n, board.left_out
        sent = dict(board.rows)
        self._sent = dict(sent)
        yield self._hello(start if is_resumed or not keys else None, now, is_resumed=is_resumed)
        for begin in range(0, len(keys), CHUNK_ROWS):
            end = begin + CHUNK_ROWS
            rows = {key: changes(None, sent[key]) for key in keys[begin:end]}
            yield self._frame("rows", start if is_resumed or end >= len(keys) else None, {"rows": rows})
        if gone:
            yield self._frame("patch", start, {"gone": gone})
        if since is not None and (missed or not is_resumed):
            yield self._frame("gap", start, {"missed": missed if is_resumed else None, "why": "disconnected"})
        yield from self._feed(lines)

    def _hello(self, n: int | None, now: float, *, is_resumed: bool) -> bytes:
        states = [
            {
                "word": each.word,
                "glyph": each.glyph,
                "token": each.token,
                "isIssue": each.is_issue,
                "isWorking": each.is_working,
            }
            for each in STATES.values()
        ]
        return self._frame(
            "hello",
            n,
            {
                "generation": self.board.generation,
                "reader": self.id,
                "now": round(now * 1000),
                "readOnly": self.is_read_only,
                "resumed": is_resumed,
                "leftOut": self.board.left_out,
                "rows": len(self.board.rows),
                "states": states,
            },
        )

    def next(self) -> Iterator[bytes]:
        """What is newer than what was sent."""
        board, before = self.board, self._n
        missed, lines = board.lines_after(before)
        self.version, self._n = board.version, board.n
        patch = self._patch(before)
        if patch:
            yield self._frame("patch", before, patch)
        if missed:
            yield self._frame("gap", before, {"missed": missed, "why": "slow"})
        yield from self._feed(lines)

    def _patch(self, n: int) -> dict[str, Any]:
        board = self.board
        patch: dict[str, Any] = {}
        rows: dict[str, Any] = {}
        for key in board.changed_since(n):
            row = board.rows[key]
            if self._sent.get(key) is not row:
                rows[key] = changes(self._sent.get(key), row)
                self._sent[key] = row
        gone = list(self._sent.keys() - board.rows.keys()) if len(self._sent) != len(board.rows) else []
        for key in gone:
            del self._sent[key]
        if rows:
            patch["rows"] = rows
        if gone:
            patch["gone"] = gone
        if board.left_out != self._left_out:
            self._left_out = patch["leftOut"] = board.left_out
        written = self._newly_written()
        if written is not None:
            patch["written"] = written
        return patch

    def _newly_written(self) -> dict[str, Any] | None:
        """Of the open conversation, the text that has come since the last frame; all of it where another answer began."""
        writing = self.board.writing.get(self.open_session or "")
        if writing is None or self.open_session is None:
            return None
        session, message_id, sent = self._written
        is_same = (session, message_id) == (self.open_session, writing.message_id)
        start = sent if is_same else 0
        if start == len(writing.text):
            return None
        self._written = (self.open_session, writing.message_id, len(writing.text))
        return {
            "session": self.open_session,
            "messageId": writing.message_id,
            "at": start,
            "text": writing.text[start:],
        }

    def _feed(self, lines: Sequence[Line]) -> Iterator[bytes]:
        for begin in range(0, len(lines), CHUNK_LINES):
            chunk = lines[begin : begin + CHUNK_LINES]
            yield self._frame("feed", chunk[-1].n, {"lines": chunk})

    def _frame(self, event: str, n: int | None, data: object) -> bytes:
        """Source: HTML Living Standard, 9.2 Server-sent events. JSON has no newline, so one data line does."""
        place = "" if n is None else f"id: {self.board.generation}:{n}\n"
        return f"event: {event}\n{place}data: ".encode() + msgspec.json.encode(data) + b"\n\n"

    def shows(self, session: str | None) -> None:
        """The page opened another conversation: all that is known of what is being written there is new to it."""
        self.open_session, self._written = session, ("", 0, 0)


def bye(reason: str) -> bytes:
    return b"event: bye\ndata: " + msgspec.json.encode({"reason": reason}) + b"\n\n"
