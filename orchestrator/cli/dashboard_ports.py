"""The dashboard's ports on real things: hosts that are watched, journals in the home, commands to hosts."""

import time
from collections.abc import AsyncIterator, Callable, Sequence

import attrs
import msgspec
import trio

from orchestrator.cli.common import known_header, whole_tree
from orchestrator.cli.stored_trees import StoredTrees
from orchestrator.engine.errors import EngineError
from orchestrator.engine.watch import Watch
from orchestrator.views.doing import Activity
from orchestrator.views.feed import Feed
from orchestrator.views.rows import AgentRow
from orchestrator.views.stored import Stored
from orchestrator.web.ports import Began, HostEnded, Missed, News, Told, Wrote
from store.disk.forest import read_node
from store.disk.home import Home
from store.events import Event, MessageUpdate, TextDelta, TurnStart
from store.lines import Tags
from store.times import unix_s

READERS = 2
LOOK_S = 1.0
SILENT_S = 2.0
"""A connection that was cut is made anew before that."""


@attrs.define(eq=False)
class WatchedForest:
    """All hosts of the home as one forest, and their events as lines of the feed."""

    watch: Watch
    stored: StoredTrees
    feed: Feed = attrs.field(factory=Feed)
    _batch: list[News] = attrs.field(factory=list)
    _writing: dict[str, int] = attrs.field(factory=dict)
    _ended: int = 0
    _missed: int = 0

    def __attrs_post_init__(self) -> None:
        self.watch.heard.append(self._hear)

    @property
    def left_out(self) -> int:
        return self.stored.left_out

    def rows(self) -> Sequence[AgentRow]:
        """What works in a host that does not answer is not known to work."""
        rows = self.watch.rows()
        now = time.time()
        lost = [link for link in self.watch.links.values() if link.state == "lost" and now - link.since >= SILENT_S]
        silent = {session for link in lost for session in link.fold.sessions}
        return [_silent(row) if row.session_id in silent and row.state.is_working else row for row in rows]

    def show_all(self) -> None:
        self.stored.shows_all = True
        self.watch.read_again()

    async def news(self) -> AsyncIterator[Sequence[News]]:
        while True:
            with trio.move_on_after(LOOK_S):
                await self.watch.changed()
            batch, self._batch = self._batch, []
            yield [*batch, *self._of_hosts()]

    def _of_hosts(self) -> list[News]:
        """What is told of hosts as a whole: lines that they dropped, and their ends."""
        told: list[News] = []
        missed = sum(gap.missed for link in self.watch.links.values() for gap in link.gaps)
        if missed > self._missed:
            told.append(Missed(missed - self._missed))
        self._missed = missed
        for host in self.watch.ended[self._ended :]:
            told.append(HostEnded(host.pid, host.at, host.roots))
        self._ended = len(self.watch.ended)
        return told

    def _hear(self, tags: Tags, event: Event, line: bytes) -> None:
        if isinstance(event, MessageUpdate):
            if self._writing.get(tags.session_id) != event.message_id:
                self._writing[tags.session_id] = event.message_id
                self._batch.append(Began(tags.session_id, unix_s(tags.at) or 0.0))
            delta = event.assistant_message_event
            if isinstance(delta, TextDelta):
                self._batch.append(Wrote(tags.session_id, event.message_id, delta.delta))
            return
        if tags.session_id not in self.feed.turns:
            self.feed.turns[tags.session_id] = self._turns(tags.session_id) - isinstance(event, TurnStart)
        at = unix_s(tags.at) or 0.0
        for each in self.feed.take(tags.session_id, event):
            self._batch.append(Told(tags.session_id, tags.seq, at, each))

    def _turns(self, session_id: str) -> int:
        """As its host counts them: the session may be older than this dashboard."""
        folds = [link.fold.sessions.get(session_id) for link in self.watch.links.values()]
        return next((fold.turns or 0 for fold in folds if fold is not None), 0)


def _silent(row: AgentRow) -> AgentRow:
    activity = Activity(kind="silent", label="host does not answer", since=row.last_event_at)
    return msgspec.structs.replace(row, status="unknown", activity=activity, retry=None, pulse=msgspec.UNSET)


@attrs.frozen
class WatchedJournals:
    """Reads for the detail pane. Readers take no lock and disturb nobody; of all pages together, few read at a time."""

    home: Home
    _limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(READERS))

    async def session(self, session_id: str) -> Stored:
        return await self._in_thread(self._session, session_id)

    async def tree(self, session_id: str) -> Stored:
        return await self._in_thread(self._tree, session_id)

    async def _in_thread(self, read: Callable[[str], Stored], session_id: str) -> Stored:
        try:
            return await trio.to_thread.run_sync(read, session_id, limiter=self._limiter)
        except EngineError as error:
            raise OSError(str(error)) from error

    def _session(self, session_id: str) -> Stored:
        node, trouble = read_node(self.home.fs, self.home, known_header(self.home, session_id).id)
        if node is None:
            raise KeyError(session_id)
        return Stored(session_id, {session_id: node}, "unknown", troubles={session_id: trouble} if trouble else {})

    def _tree(self, session_id: str) -> Stored:
        return whole_tree(self.home, session_id)
