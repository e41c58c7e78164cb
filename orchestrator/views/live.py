"""The same rows out of a stream of events: what a tree is doing while it runs, or as it is replayed."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from orchestrator.views.doing import Activity, first_argument
from orchestrator.views.rows import AgentRow, Retry, Status
from orchestrator.views.states import state
from store.entries import (
    ChildSettledEntry,
    ChildSpawnedEntry,
    ChildUsageAttributedEntry,
    Header,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    UsageEntry,
)
from store.errors import BadUsage
from store.events import (
    AgentSettled,
    AgentStart,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Diagnostic,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Place,
    SessionActionUpdate,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from store.times import iso
from store.usage import NOTHING, Spend, Usage, spend_of, usage_of

_CHARS_PER_TOKEN = 4


class _Said(msgspec.Struct):
    """Of a message only what a row shows."""

    role: str = ""
    usage: Usage | None = None
    error_message: str | None = msgspec.field(name="errorMessage", default=None)
    content: Any = None


_said: msgspec.json.Decoder[_Said] = msgspec.json.Decoder(_Said)


@attrs.define(eq=False)
class LiveSession:
    """What the events of one session add up to. Times in Unix seconds."""

    place: Place
    name: str | None = None
    cwd: str | None = None
    model: str | None = None
    created: float | None = None
    last_at: float = 0.0
    own: Spend = NOTHING
    below: Spend = NOTHING
    keys: set[tuple[str | None, str | None]] = attrs.field(factory=set)
    messages: int = 0
    turns: int = 0
    queued: int = 0
    context_tokens: int | None = None
    open_since: float | None = None
    worked_s: float = 0.0
    outcome: str | None = None
    error: str | None = None
    answer: str | None = None
    tools: dict[str, tuple[str, float]] = attrs.field(factory=dict)
    writing_chars: int = 0
    phase: tuple[str, float] = ("thinking", 0.0)
    retry: Retry | None = None
    is_compacting: bool = False
    is_running: bool = False
    children: list["LiveSession"] = attrs.field(factory=list)


@attrs.define
class LiveTree:
    """The fold. `take` is cheap enough to be called for every event, deltas included. `notes`: diagnostics, newest last."""

    sessions: dict[str, LiveSession] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)

    def take(self, place: Place, event: Event, at: float) -> None:
        session = self.sessions.get(place.session_id) or self._new(place)
        session.last_at = at
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(session, event, at)
        elif isinstance(event, ChildSpawnedEntry):
            self._spawned(session, event, at)
        elif isinstance(event, Diagnostic) and event.level != "info":
            self.notes.append(event.text)
            del self.notes[:-100]

    def _new(self, place: Place) -> LiveSession:
        session = self.sessions[place.session_id] = LiveSession(place)
        parent = self.sessions.get(place.parent_id or "")
        if parent is not None:
            parent.children.append(session)
        return session

    def _spawned(self, parent: LiveSession, event: ChildSpawnedEntry, at: float) -> None:
        place = Place(event.child_session_id, parent.place.root_id, parent.place.session_id, event.child_depth)
        child = self.sessions.get(event.child_session_id) or self._new(place)
        child.name, child.model, child.last_at = event.name, event.model, at
        child.is_running, child.open_since = True, at

    def rows(self, now: float) -> list[AgentRow]:
        """Rows in spawn order, parents first."""
        roots = [session for session in self.sessions.values() if session.place.parent_id not in self.sessions]
        return [row for root in roots for row in _rows(root, now)]


def _rows(top: LiveSession, now: float) -> list[AgentRow]:
    """A session and what is below it. Without recursion: a chain of children may be long."""
    order: list[LiveSession] = []
    stack = [top]
    while stack:
        session = stack.pop()
        order.append(session)
        stack += reversed(session.children)
    done: dict[str, AgentRow] = {}
    for session in reversed(order):
        done[session.place.session_id] = _row(
            session, [done[child.place.session_id] for child in session.children], now
        )
    return [done[session.place.session_id] for session in order]


def _row(session: LiveSession, below: list[AgentRow], now: float) -> AgentRow:
    status = _status(session, below)
    outcome = None if session.is_running else session.outcome
    total = session.own + session.below
    open_s = max(0.0, now - session.open_since) if session.open_since is not None else 0.0
    return AgentRow(
        session_id=session.place.session_id,
        parent_session_id=session.place.parent_id,
        root_session_id=session.place.root_id,
        name=session.name,
        depth=session.place.depth,
        status=status,
        outcome=outcome,
        model=session.model,
        cwd=session.cwd,
        created=iso(session.created) if session.created is not None else None,
        modified=iso(session.last_at),
        elapsed_ms=int((session.worked_s + open_s) * 1000),
        last_event_at=iso(session.last_at),
        message_count=session.messages,
        context_tokens=session.context_tokens,
        context_window=None,
        own=usage_of(session.own),
        total=usage_of(total),
        unpriced_models=tuple(sorted(total.unpriced)),
        summary=None,
        task_state=None,
        activity=_activity(session, status, outcome, below),
        retry=session.retry,
        queued=session.queued,
        turns=session.turns,
        working=sum(row.working + row.state.is_working for row in below),
        descendants=sum(row.descendants + 1 for row in below),
        issues=sum(row.issues for row in below) + state(status, outcome).is_issue,
        host_pid=None,
        path=None,
    )


def _status(session: LiveSession, below: list[AgentRow]) -> Status:
    if not session.is_running:
        return "idle"
    if session.retry is not None:
        return "retrying"
    if session.is_compacting:
        return "compacting"
    is_idle_itself = session.phase[0] in {"children", "waiting"} and not session.tools
    only_waits = bool(session.tools) and all(name in _WAITS for name, _ in map(_first_word, session.tools.values()))
    has_work_below = any(row.state.is_working for row in below)
    return "waiting" if has_work_below and (is_idle_itself or only_waits) else "running"


_WAITS = frozenset({"wait_agents", "spawn_agent"})


def _first_word(tool: tuple[str, float]) -> tuple[str, float]:
    return tool[0].partition(" ")[0], tool[1]


def _activity(session: LiveSession, status: str, outcome: str | None, below: list[AgentRow]) -> Activity | None:
    if not session.is_running:
        if outcome not in {None, "completed"}:
            label = session.error or str(outcome).replace("_", " ")
            return Activity(kind="error", label=label, since=iso(session.last_at))
        return Activity(kind="answer", label=session.answer, since=iso(session.last_at)) if session.answer else None
    if status == "waiting":
        working = sum(row.state.is_working for row in below)
        return Activity(kind="children", label=f"for {working} of {len(below)} children", since=None)
    if session.tools:
        label, since = next(iter(session.tools.values()))
        more = f" · +{len(session.tools) - 1}" if len(session.tools) > 1 else ""
        return Activity(kind="tool", label=label + more, since=iso(since))
    if session.phase[0] == "writing":
        return Activity(kind="thinking", label=f"writing · {session.writing_chars // _CHARS_PER_TOKEN} tok", since=None)
    return Activity(kind="thinking", label="thinking", since=iso(session.phase[1]))


# One small function per event that changes a row.


def _header(session: LiveSession, event: Header, at: float) -> None:
    session.name, session.cwd = event.name or session.name, event.cwd
    session.created = at if session.created is None else session.created


def _start(session: LiveSession, event: AgentStart, at: float) -> None:
    if not session.is_running or session.open_since is None:
        session.open_since = at
    session.is_running, session.retry, session.outcome, session.error = True, None, None, None
    session.phase = ("thinking", at)


def _turn(session: LiveSession, event: TurnStart, at: float) -> None:
    session.turns += 1
    session.phase = ("thinking", at)


def _message_start(session: LiveSession, event: MessageStart, at: float) -> None:
    if event.message_id is not None:
        session.phase, session.writing_chars = ("thinking", at), 0


def _update(session: LiveSession, event: MessageUpdate, at: float) -> None:
    inner = event.assistant_message_event
    if isinstance(inner, TextDelta):
        session.writing_chars += len(inner.delta)
        if session.phase[0] != "writing":
            session.phase = ("writing", at)
    elif isinstance(inner, ThinkingDelta) and session.phase[0] != "thinking":
        session.phase = ("thinking", at)


def _message_end(session: LiveSession, event: MessageEnd, at: float) -> None:
    session.messages += 1
    message = _said.decode(event.message)
    if message.role != "assistant":
        return
    session.phase = ("waiting", at)
    session.error = message.error_message
    if message.usage is not None:
        try:
            session.own = session.own + spend_of(message.usage)
        except BadUsage:
            return
        session.context_tokens = message.usage.total_tokens or session.context_tokens
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and str(block.get("text", "")).strip():
            session.answer = str(block["text"]).strip().partition("\n")[0]


def _tool_start(session: LiveSession, event: ToolExecutionStart, at: float) -> None:
    argument = first_argument(event.args) if isinstance(event.args, dict) else ""
    session.tools[event.tool_call_id] = (f"{event.tool_name} {argument}".strip(), at)


def _tool_end(session: LiveSession, event: ToolExecutionEnd, at: float) -> None:
    session.tools.pop(event.tool_call_id, None)


def _retrying(session: LiveSession, event: AutoRetryStart, at: float) -> None:
    session.retry = Retry(
        attempt=event.attempt, of=event.max_attempts, until=iso(at + event.delay_ms / 1000), kind=event.error_message
    )


def _compacting(session: LiveSession, event: CompactionStart | CompactionEnd, at: float) -> None:
    session.is_compacting = isinstance(event, CompactionStart)
    usage = event.result.get("usage") if isinstance(event, CompactionEnd) and isinstance(event.result, dict) else None
    if usage is not None:
        session.own = session.own + spend_of(msgspec.convert(usage, Usage, from_attributes=True))


def _billed(session: LiveSession, event: UsageEntry, at: float) -> None:
    session.own = session.own + spend_of(event.usage)


def _queue(session: LiveSession, event: SessionActionUpdate, at: float) -> None:
    queued = event.actions.get("queuedCount")
    session.queued = queued if isinstance(queued, int) else 0


def _run_settled(session: LiveSession, event: RunSettledEntry, at: float) -> None:
    session.outcome = event.outcome
    session.error = event.error_message or session.error


def _settled(session: LiveSession, event: AgentSettled, at: float) -> None:
    if session.open_since is not None:
        session.worked_s += max(0.0, at - session.open_since)
    session.is_running, session.open_since, session.outcome = False, None, event.outcome
    session.tools.clear()


def _attributed(session: LiveSession, event: ChildUsageAttributedEntry, at: float) -> None:
    key = (event.origin_session_id, event.origin_entry_id)
    if key not in session.keys:
        session.keys.add(key)
        session.below = session.below + spend_of(event.child_usage)


def _model(session: LiveSession, event: ModelChangeEntry, at: float) -> None:
    session.model = f"{event.provider}/{event.model_id}"


def _named(session: LiveSession, event: SessionInfoEntry, at: float) -> None:
    session.name = event.name


def _child_settled(session: LiveSession, event: ChildSettledEntry, at: float) -> None:
    """A child that never came to a stream of its own ends here."""
    for child in session.children:
        if child.place.session_id == event.child_session_id and child.is_running:
            child.is_running, child.open_since = False, None
            child.outcome, child.error = event.outcome, event.error_message


_HANDLERS: dict[type[Any], Callable[[LiveSession, Any, float], None]] = {
    Header: _header,
    AgentStart: _start,
    TurnStart: _turn,
    MessageStart: _message_start,
    MessageUpdate: _update,
    MessageEnd: _message_end,
    ToolExecutionStart: _tool_start,
    ToolExecutionEnd: _tool_end,
    AutoRetryStart: _retrying,
    CompactionStart: _compacting,
    CompactionEnd: _compacting,
    UsageEntry: _billed,
    SessionActionUpdate: _queue,
    RunSettledEntry: _run_settled,
    AgentSettled: _settled,
    ChildUsageAttributedEntry: _attributed,
    ModelChangeEntry: _model,
    SessionInfoEntry: _named,
    ChildSettledEntry: _child_settled,
}
