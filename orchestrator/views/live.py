"""The rows of trees out of their events: what they are doing while they run, or as they are replayed."""

from collections.abc import Sequence

import attrs
import msgspec

from orchestrator.views.live_events import HANDLERS
from orchestrator.views.live_session import HostFacts, LiveSession, counted_on, row_of, session_of, set_foreign
from orchestrator.views.rows import AgentRow
from store.entries import ChildSettledEntry, ChildSpawnedEntry, ChildUsageAttributedEntry
from store.errors import BadUsage
from store.events import Diagnostic, Event, Place
from store.lines import Tags, read_line
from store.summary import LINE_CHARS
from store.times import unix_s
from store.usage import spend_of

_NOTES = 100


@attrs.define
class LiveTree:
    """The fold. `take` is cheap enough to be called for every event, deltas included. `notes`: the last
    hundred of `note_count` diagnostics, newest last.

    A parent's total is its own part and its children's, whatever is written down of it already: so it is right at every
    moment, and what was billed below is counted once.
    """

    host: HostFacts = attrs.field(factory=HostFacts)
    sessions: dict[str, LiveSession] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    note_count: int = 0

    def seed(self, rows: Sequence[AgentRow]) -> None:
        """Go on from these rows, parents before children: whole trees, which replace what was known of them.

        A snapshot and the events after it are the same as all events. Raises BadUsage for spend that nobody can mean.
        """
        roots = {row.root_session_id for row in rows}
        self.sessions = {key: kept for key, kept in self.sessions.items() if kept.place.root_id not in roots}
        fresh = [session_of(row) for row in rows]
        for session in fresh:
            self._add(session)
        for session in reversed(fresh):
            set_foreign(session)

    def take(self, place: Place, event: Event, at: float) -> None:
        """The next event. `at` in Unix seconds."""
        at_ms = round(at * 1000)
        session = self.sessions.get(place.session_id) or self._add(LiveSession(place, is_begun=place.parent_id is None))
        session.last_ms = at_ms
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(session, event, at_ms)
        elif isinstance(event, ChildSpawnedEntry):
            self._spawned(session, event, at_ms)
        elif isinstance(event, ChildSettledEntry):
            self._child_settled(event, at_ms)
        elif isinstance(event, ChildUsageAttributedEntry):
            self._attributed(session, event)
        elif isinstance(event, Diagnostic) and event.level != "info":
            self.note_count += 1
            self.notes.append(event.text)
            del self.notes[:-_NOTES]
        self._changed(session)

    def take_line(self, line: bytes) -> tuple[Tags, Event] | None:
        """A line of the native stream; None for one that is not ours to understand."""
        try:
            tags, event = read_line(line)
        except msgspec.DecodeError:
            return None
        known = self.sessions.get(tags.session_id)
        root = tags.root_session_id or tags.session_id
        place = known.place if known else Place(tags.session_id, root, tags.parent_session_id, tags.depth)
        self.take(place, event, unix_s(tags.at) or 0.0)
        return tags, event

    def forget(self, root_id: str) -> None:
        """The tree is not watched any more."""
        self.sessions = {key: kept for key, kept in self.sessions.items() if kept.place.root_id != root_id}

    def rows(self, now: float | None = None) -> list[AgentRow]:
        """Rows in spawn order, parents first. `now` in Unix seconds; without it clocks stand at each session's last event.

        Without `now`, a row that did not change is the same object as before.
        """
        order = self._order()
        for session in reversed(order):
            if session.row is None:
                session.row = row_of(session, self.host)
        rows = [session.row for session in order if session.row is not None]
        return rows if now is None else [counted_on(row, round(now * 1000)) for row in rows]

    def _add(self, session: LiveSession) -> LiveSession:
        self.sessions[session.place.session_id] = session
        parent = self.sessions.get(session.place.parent_id or "")
        if parent is not None:
            parent.children.append(session)
            self._changed(parent)
        return session

    def _spawned(self, parent: LiveSession, event: ChildSpawnedEntry, at_ms: int) -> None:
        place = Place(event.child_session_id, parent.place.root_id, parent.place.session_id, event.child_depth)
        child = self.sessions.get(event.child_session_id) or self._add(LiveSession(place))
        child.name, child.model, child.last_ms = event.name, event.model, at_ms
        child.summary = child.summary or event.prompt[:LINE_CHARS]
        limit_usd = event.limits.get("max_cost")
        child.max_cost_usd = float(limit_usd) if isinstance(limit_usd, int | float) else None
        self._changed(child)

    def _child_settled(self, event: ChildSettledEntry, at_ms: int) -> None:
        """A child that never came to a stream of its own ends here."""
        child = self.sessions.get(event.child_session_id)
        if child is not None and (child.is_running or not child.is_begun):
            child.ends(event.outcome, at_ms)
            child.error = event.error_message
            self._changed(child)

    def _attributed(self, session: LiveSession, event: ChildUsageAttributedEntry) -> None:
        """What a session of the fold was billed is counted there; of others this is all that is known."""
        key = (event.origin_session_id, event.origin_entry_id)
        if event.origin_session_id in self.sessions or key in session.keys:
            return
        session.keys.add(key)
        try:
            spent = spend_of(event.child_usage)
        except BadUsage:
            return
        through = self.sessions.get(event.child_session_id or "")
        if through is None or through.place.parent_id != session.place.session_id:
            session.foreign = session.foreign + spent

    def _changed(self, session: LiveSession) -> None:
        """Its row and those above it are made anew, since they sum up what is below. Above one without a row all have none."""
        above: LiveSession | None = session
        while above is not None and above.row is not None:
            above.row = None
            above = self.sessions.get(above.place.parent_id or "")

    def _order(self) -> list[LiveSession]:
        """Without recursion: a chain of children may be long."""
        order: list[LiveSession] = []
        stack = [session for session in self.sessions.values() if session.place.parent_id not in self.sessions]
        stack.reverse()
        while stack:
            session = stack.pop()
            order.append(session)
            stack += reversed(session.children)
        return order
