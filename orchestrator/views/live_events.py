"""One small function per event that changes a row: (session, event, Unix milliseconds)."""

from collections.abc import Callable
from typing import Any

import msgspec

from orchestrator.views.doing import first_argument
from orchestrator.views.live_session import LiveSession
from orchestrator.views.pulse import Call
from orchestrator.views.rows import Retry
from store.entries import (
    AgentStatusEntry,
    GateEndEntry,
    Header,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
    UsageEntry,
)
from store.errors import BadRecord, BadUsage
from store.events import (
    AgentSettled,
    AgentStart,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    GateStart,
    LimitReached,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    SessionActionUpdate,
    TextDelta,
    ThinkingDelta,
    ToolcallDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from store.folding import ARCHIVED
from store.messages import AssistantMessage, CustomMessage, Message, UserMessage, decode_message, text_of
from store.size import guessed, message_chars
from store.summary import LINE_CHARS
from store.times import iso
from store.usage import NOTHING, Usage, spend_of

GATE = "gate"
Handler = Callable[[LiveSession, Any, int], None]


def _header(session: LiveSession, event: Header, at: int) -> None:
    session.name, session.cwd = event.name or session.name, event.cwd
    session.created = event.timestamp or session.created
    if session.place.parent_id is None:
        session.is_begun = True


def _start(session: LiveSession, event: AgentStart, at: int) -> None:
    session.begins(at)


def _turn(session: LiveSession, event: TurnStart, at: int) -> None:
    session.phase, session.phase_ms = "thinking", at


def _message_start(session: LiveSession, event: MessageStart, at: int) -> None:
    if event.message_id is not None:
        session.phase, session.written_chars = "thinking", 0


def _update(session: LiveSession, event: MessageUpdate, at: int) -> None:
    inner = event.assistant_message_event
    if isinstance(inner, TextDelta | ToolcallDelta):
        session.written_chars += len(inner.delta)
        if session.phase != "writing":
            session.phase, session.phase_ms = "writing", at
    elif isinstance(inner, ThinkingDelta) and session.phase != "thinking":
        session.phase, session.phase_ms = "thinking", at


def _message_end(session: LiveSession, event: MessageEnd, at: int) -> None:
    try:
        message = decode_message(event.message)
    except BadRecord:
        return
    if not isinstance(message, CustomMessage):
        session.messages = (session.messages or 0) + 1
    if isinstance(message, AssistantMessage):
        _answered(session, message, at)
        return
    if isinstance(message, UserMessage) and session.summary is None:
        session.summary = text_of(message.content)[:LINE_CHARS]
    _grow(session, message)


def _answered(session: LiveSession, message: AssistantMessage, at: int) -> None:
    session.turns = (session.turns or 0) + 1
    session.phase, session.phase_ms = "between", at
    session.error = message.error_message
    if session.model is None and message.model:
        session.model = f"{message.provider}/{message.model}" if message.provider else message.model
    lines = (line.strip() for line in message.text.split("\n"))
    session.answer = next((line[:LINE_CHARS] for line in lines if line), None)
    usage = message.usage
    _bill(session, usage)
    if message.stop_reason == "error":
        return
    billed = usage.input + usage.cache_read + usage.cache_write + usage.output
    if billed > 0:
        session.context_tokens = billed
    else:
        _grow(session, message)


def _grow(session: LiveSession, message: Message) -> None:
    """What came after the last answer is guessed, message by message."""
    session.context_tokens = (session.context_tokens or 0) + guessed(message_chars(message))


def _bill(session: LiveSession, usage: Usage) -> None:
    try:
        session.own = (session.own or NOTHING) + spend_of(usage)
    except BadUsage:
        return


def _tool_start(session: LiveSession, event: ToolExecutionStart, at: int) -> None:
    arguments = event.args if isinstance(event.args, dict) else {}
    names = arguments.get("names")
    session.calls[event.tool_call_id] = Call(
        id=event.tool_call_id,
        name=event.tool_name,
        argument=first_argument(arguments),
        names=tuple(map(str, names)) if isinstance(names, list) else (),
        since_ms=at,
    )


def _tool_end(session: LiveSession, event: ToolExecutionEnd, at: int) -> None:
    session.calls.pop(event.tool_call_id, None)


def _gate_start(session: LiveSession, event: GateStart, at: int) -> None:
    """A gate is work like a call, and there is one at a time."""
    session.calls[GATE] = Call(id=GATE, name=GATE, argument=event.command[:LINE_CHARS], since_ms=at)


def _gate_end(session: LiveSession, event: GateEndEntry, at: int) -> None:
    session.calls.pop(GATE, None)


def _retrying(session: LiveSession, event: AutoRetryStart, at: int) -> None:
    until = iso((at + event.delay_ms) / 1000)
    session.phase_ms = at
    session.retry = Retry(
        attempt=event.attempt, of=event.max_attempts, until=until, kind=retry_kind(event.error_message)
    )


def retry_kind(error: str) -> str:
    """Why a call is tried again, in a few words; the provider's own where we have none for it."""
    said = error.lower()
    for words, kind in _RETRY_KINDS:
        if any(word in said for word in words):
            return kind
    return error.strip().partition("\n")[0][:LINE_CHARS] or "it failed"


_RETRY_KINDS = (
    (("overloaded", "529"), "overloaded"),
    (("rate limit", "rate_limit", "too many requests", "429"), "rate limited"),
)


def _compacting(session: LiveSession, event: CompactionStart | CompactionEnd, at: int) -> None:
    session.is_compacting = isinstance(event, CompactionStart)
    session.phase_ms = at
    if isinstance(event, CompactionStart) or not isinstance(event.result, dict):
        return
    session.context_tokens = None
    usage = event.result.get("usage")
    if usage is not None:
        _bill(session, msgspec.convert(usage, Usage, from_attributes=True))


def _billed(session: LiveSession, event: UsageEntry, at: int) -> None:
    _bill(session, event.usage)


def _queue(session: LiveSession, event: SessionActionUpdate, at: int) -> None:
    queued = event.actions.get("queuedCount")
    session.queued = queued if isinstance(queued, int) else 0


def _limit(session: LiveSession, event: LimitReached, at: int) -> None:
    if session.error is None:
        session.error = f"{event.limit} limit {event.allowed:g} reached"


def _run_settled(session: LiveSession, event: RunSettledEntry, at: int) -> None:
    session.outcome = event.outcome
    session.error = event.error_message or session.error


def _settled(session: LiveSession, event: AgentSettled, at: int) -> None:
    session.ends(event.outcome, at)


def _model(session: LiveSession, event: ModelChangeEntry, at: int) -> None:
    session.model, session.context_window = f"{event.provider}/{event.model_id}", None


def _named(session: LiveSession, event: SessionInfoEntry, at: int) -> None:
    session.name = event.name


def _state(session: LiveSession, event: SessionStateEntry, at: int) -> None:
    session.rest = "archived" if event.state.get("status") in ARCHIVED else "idle"


def _status(session: LiveSession, event: AgentStatusEntry, at: int) -> None:
    summary, task_state = event.status.get("summary"), event.status.get("taskState")
    session.summary = summary if isinstance(summary, str) else session.summary
    session.task_state = task_state if isinstance(task_state, str) else None


HANDLERS: dict[type[Any], Handler] = {
    Header: _header,
    AgentStart: _start,
    TurnStart: _turn,
    MessageStart: _message_start,
    MessageUpdate: _update,
    MessageEnd: _message_end,
    ToolExecutionStart: _tool_start,
    ToolExecutionEnd: _tool_end,
    GateStart: _gate_start,
    GateEndEntry: _gate_end,
    AutoRetryStart: _retrying,
    CompactionStart: _compacting,
    CompactionEnd: _compacting,
    UsageEntry: _billed,
    SessionActionUpdate: _queue,
    LimitReached: _limit,
    RunSettledEntry: _run_settled,
    AgentSettled: _settled,
    ModelChangeEntry: _model,
    SessionInfoEntry: _named,
    SessionStateEntry: _state,
    AgentStatusEntry: _status,
}
