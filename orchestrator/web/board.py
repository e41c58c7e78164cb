"""What all pages look at: the rows as of now, the latest lines of the feed, and since when each of them holds."""

import secrets
from collections import deque
from collections.abc import Iterable, Sequence

import attrs
import msgspec
import trio

from orchestrator.views.feed import FeedLine
from orchestrator.views.rows import AgentRow
from orchestrator.web.ports import Began, HostEnded, Missed, News, Told, Wrote
from orchestrator.web.shown import ShownRow, shown

KEPT_LINES = 5_000
_WRITTEN_CHARS = 400_000
_BEGINNINGS = 500


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A line of the feed. `n` counts all lines of this dashboard; one that says how many were `missed` has no more."""

    n: int
    at: float
    seq: int = 0
    session: str = ""
    line: FeedLine | None = None
    missed: int = 0
    ended: HostEnded | None = None


@attrs.define
class Writing:
    """The answer that a session is writing; what is longer than can be read is not kept."""

    message_id: int
    text: str = ""


@attrs.define(eq=False)
class Board:
    """Whoever has seen line `n` misses the lines above it and the rows that changed at `n` or later.

    `begun`: when answers of a session gave their first piece, Unix milliseconds; a journal does not know.
    """

    generation: str = attrs.field(factory=lambda: secrets.token_hex(8))
    rows: dict[str, ShownRow] = attrs.field(factory=dict)
    changed_at: dict[str, int] = attrs.field(factory=dict)
    gone_at: dict[str, int] = attrs.field(factory=dict)
    lines: deque[Line] = attrs.field(factory=lambda: deque(maxlen=KEPT_LINES))
    writing: dict[str, Writing] = attrs.field(factory=dict)
    begun: dict[str, deque[int]] = attrs.field(factory=dict)
    n: int = 0
    version: int = 0
    left_out: int = 0
    _sources: dict[str, AgentRow] = attrs.field(factory=dict)
    _news: trio.Event = attrs.field(factory=trio.Event)

    def take(self, news: Iterable[News], open_sessions: Iterable[str] = ()) -> None:
        """The next news. What is written is kept for conversations that somebody has open."""
        wanted = set(open_sessions)
        for session in self.writing.keys() - wanted:
            del self.writing[session]
        for each in news:
            match each:
                case Told(session, seq, at, line):
                    self._add(Line(n=self.n + 1, at=at, seq=seq, session=session, line=line))
                case Wrote(session, message_id, text) if session in wanted:
                    self._wrote(session, message_id, text)
                case Began(session, at):
                    self.begun.setdefault(session, deque(maxlen=_BEGINNINGS)).append(round(at * 1000))
                case Missed(count):
                    self._add(Line(n=self.n + 1, at=self.lines[-1].at if self.lines else 0.0, missed=count))
                case HostEnded():
                    self._add(Line(n=self.n + 1, at=each.at, ended=each))

    def _add(self, line: Line) -> None:
        self.n = line.n
        self.lines.append(line)
        self.version += 1

    def _wrote(self, session: str, message_id: int, text: str) -> None:
        now = self.writing.get(session)
        if now is None or now.message_id != message_id:
            now = self.writing[session] = Writing(message_id)
        if len(now.text) < _WRITTEN_CHARS:
            now.text += text
            self.version += 1

    def put(self, rows: Sequence[AgentRow], left_out: int = 0) -> None:
        """All rows as they are now. Only those that are another object than before are looked at."""
        if left_out != self.left_out:
            self.left_out = left_out
            self.version += 1
        sources = {row.session_id: row for row in rows}
        before = self._sources
        for key in before.keys() - sources.keys():
            del self.rows[key], self.changed_at[key]
            self.gone_at[key] = self.n
            self.version += 1
        for key, row in sources.items():
            if before.get(key) is row:
                continue
            fresh = shown(row)
            if self.rows.get(key) == fresh:
                continue
            self.rows[key] = fresh
            self.changed_at.pop(key, None)
            self.changed_at[key] = self.n
            self.gone_at.pop(key, None)
            self.version += 1
        self._sources = sources

    def tree(self, root_id: str) -> list[AgentRow]:
        """The rows of one tree, as they came."""
        return [row for row in self._sources.values() if row.root_session_id == root_id]

    def tell(self) -> None:
        """Wake whoever waits."""
        self._news.set()
        self._news = trio.Event()

    async def after(self, version: int) -> None:
        """Return when something is newer than this."""
        while self.version <= version:
            await self._news.wait()

    def lines_after(self, n: int) -> tuple[int, list[Line]]:
        """How many lines above `n` are not kept any more, and those that are."""
        if not self.lines or self.lines[-1].n <= n:
            return 0, []
        missed = max(0, self.lines[0].n - n - 1)
        start = max(0, n + 1 - self.lines[0].n)
        return missed, [self.lines[place] for place in range(start, len(self.lines))]

    def changed_since(self, n: int) -> list[str]:
        """The sessions whose rows changed when line `n` was the last, or later; parents before children."""
        recent: list[str] = []
        for key in reversed(self.changed_at):
            if self.changed_at[key] < n:
                break
            recent.append(key)
        recent.reverse()
        return sorted(recent, key=lambda key: self.rows[key].depth)
