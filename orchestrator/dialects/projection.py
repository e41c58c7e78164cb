"""The stream in the words of a relative: a fold over native lines, each of which gives one line of the dialect, or none."""

from collections.abc import Iterable
from typing import Any

import msgspec

from orchestrator.dialects.snapshot import Snapshot
from store.dialects import DIALECTS, Dialect
from store.events import (
    AgentEnd,
    AgentSettled,
    AssistantMessageEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    SessionActionUpdate,
    ToolcallStart,
    ToolExecutionEnd,
)
from store.lines import TaggedLine, parted
from store.messages import AssistantMessage
from store.usage import Usage
from store.wire import encode

# What the relatives say in the same words.
_ALIKE = frozenset(
    {
        "session",
        "agent_start",
        "turn_start",
        "turn_end",
        "tool_execution_start",
        "tool_execution_update",
        "compaction_start",
        "compaction_end",
        "auto_retry_start",
        "auto_retry_end",
    }
)
# What only sapwood knows, and who asks for the whole tree in a dialect wants to see.
_OF_A_TREE = frozenset({"child_spawned", "child_settled", "child_usage_attributed"})
_start: msgspec.json.Decoder[MessageStart] = msgspec.json.Decoder(MessageStart)
_update: msgspec.json.Decoder[MessageUpdate] = msgspec.json.Decoder(MessageUpdate)
_end: msgspec.json.Decoder[MessageEnd] = msgspec.json.Decoder(MessageEnd)
_tool_end: msgspec.json.Decoder[ToolExecutionEnd] = msgspec.json.Decoder(ToolExecutionEnd)
_agent_end: msgspec.json.Decoder[AgentEnd] = msgspec.json.Decoder(AgentEnd)
_settled: msgspec.json.Decoder[AgentSettled] = msgspec.json.Decoder(AgentSettled)
_actions: msgspec.json.Decoder[SessionActionUpdate] = msgspec.json.Decoder(SessionActionUpdate)
_assistant: msgspec.json.Decoder[AssistantMessage] = msgspec.json.Decoder(AssistantMessage)


class OpenMessage(msgspec.Struct, frozen=True):
    """An answer that is being told: its number in the stream, what it has cost so far, how far it has come."""

    number: int
    usage: Usage = Usage()
    snapshot: Snapshot | None = None


class Projection(msgspec.Struct, frozen=True):
    """Which dialect, and what of the stream so far its next lines depend on.

    `is_numbered`: with numbered messages instead of snapshots. `shows_tree`: all sessions, with their tags; otherwise the
    root alone, which is the session of the first line. `types`: of the lines that are told; empty: all. `open` and `queues`
    by session.
    """

    dialect: Dialect
    is_numbered: bool = False
    shows_tree: bool = False
    types: frozenset[str] = frozenset()
    root: str = ""
    messages: int = 0
    open: dict[str, OpenMessage] = {}
    queues: dict[str, Any] = {}

    @classmethod
    def of(
        cls, dialect: str, *, has_deltas: bool = False, shown: str | None = None, types: Iterable[str] = ()
    ) -> "Projection":
        """As the options say. `has_deltas` changes nothing where there are no snapshots. `shown` None: as the dialect does."""
        row = DIALECTS[dialect]
        tree = row.is_native if shown is None else shown == "tree"
        return cls(row, has_deltas and row.snapshots != "never", tree, frozenset(types))

    @property
    def changes_nothing(self) -> bool:
        return self.dialect.is_native and self.shows_tree and not self.types


NATIVE = Projection.of("native")


def project(state: Projection, line: bytes) -> tuple[Projection, bytes]:
    """The line in the dialect, newline included; empty where it has none for it. Lines without tags stay as they are."""
    parts = parted(line)
    if parts is None:
        return state, line
    if not state.root:
        state = msgspec.structs.replace(state, root=parts.session_id)
    if not state.shows_tree and parts.session_id != state.root:
        return state, b""
    if state.dialect.is_native:
        return state, line if not state.types or parts.kind in state.types else b""
    state, parts = _told(state, parts, line)
    if parts is None or (state.types and parts.kind not in state.types):
        return state, b""
    tags = parts.tags if state.shows_tree else b""
    return state, b'{"type":"%b"%b%b' % (parts.kind.encode(), tags, parts.tail)


def _told(state: Projection, parts: TaggedLine, line: bytes) -> tuple[Projection, TaggedLine | None]:
    """The line as the dialect has it, or None."""
    if parts.kind in _ALIKE or (parts.kind in _OF_A_TREE and state.shows_tree):
        return state, parts
    state, event = _reshaped(state, parts, line)
    if event is None:
        return state, None
    kind = str(event["type"])
    return state, TaggedLine(kind, parts.session_id, parts.tags, encode(event)[len(kind) + 10 :] + b"\n")


_Told = tuple[Projection, dict[str, Any] | None]


def _reshaped(state: Projection, parts: TaggedLine, line: bytes) -> _Told:
    match parts.kind:
        case "message_start":
            return _message_started(state, parts.session_id, _start.decode(line))
        case "message_update":
            return _message_grown(state, parts.session_id, _update.decode(line))
        case "message_end":
            return _message_ended(state, parts.session_id, _end.decode(line))
        case "tool_execution_end":
            return state, _tool_ended(state.dialect, _tool_end.decode(line))
        case "agent_end":
            end = _agent_end.decode(line)
            retry = {"willRetry": end.will_retry} if state.dialect.settles else {}
            return state, {"type": "agent_end", "messages": end.messages, **retry}
        case "agent_settled" if state.dialect.settles:
            return state, {"type": "agent_settled", "aborted": _settled.decode(line).aborted}
        case "session_action_update":
            return _queues_changed(state, parts.session_id, _actions.decode(line).actions)
    return state, None


def _message_started(state: Projection, session: str, event: MessageStart) -> _Told:
    if event.message_id is None:
        return state, {"type": "message_start", "message": event.message}
    number = state.messages + 1
    first = _assistant.decode(event.message)
    message: Any = event.message
    if state.dialect.snapshots != "never" and first.stop_reason == "pending":
        # These name no reason yet by naming the usual one.
        first = msgspec.structs.replace(first, stop_reason="stop")
        message = first
    snapshot = Snapshot(first) if state.dialect.snapshots != "never" and not state.is_numbered else None
    opened = {**state.open, session: OpenMessage(number, first.usage, snapshot)}
    state = msgspec.structs.replace(state, messages=number, open=opened)
    return state, {"type": "message_start", **_number(state, session), "message": message}


def _message_grown(state: Projection, session: str, update: MessageUpdate) -> _Told:
    opened = state.open.get(session)
    if opened is None:  # who began to look in the middle of it sees it at its end
        return state, None
    usage = update.usage or opened.usage
    snapshot = opened.snapshot.after(update) if opened.snapshot is not None else None
    opened = OpenMessage(opened.number, usage, snapshot)
    state = msgspec.structs.replace(state, open={**state.open, session: opened})
    event = _shaped(update.assistant_message_event, state)
    if snapshot is not None:
        message = encode(snapshot.message)
        if state.dialect.nests_snapshots:
            event = msgspec.Raw(b'%b,"partial":%b}' % (encode(event)[:-1], message))
        return state, {"type": "message_update", "message": msgspec.Raw(message), "assistantMessageEvent": event}
    told = _number(state, session) if state.is_numbered else {"usage": usage}
    return state, {"type": "message_update", **told, "assistantMessageEvent": event}


def _shaped(event: AssistantMessageEvent, state: Projection) -> Any:
    """The start of a call names the call in the members that the dialect knows."""
    if not isinstance(event, ToolcallStart):
        return event
    start: dict[str, Any] = {"type": "toolcall_start", "contentIndex": event.content_index}
    if state.is_numbered:
        start["toolCall"] = event.tool_call
    elif state.dialect.snapshots == "never":
        start |= {"id": event.id, "toolName": event.tool_name}
    return start


def _message_ended(state: Projection, session: str, event: MessageEnd) -> _Told:
    if event.message_id is None:
        return state, {"type": "message_end", "message": event.message}
    told = {"type": "message_end", **_number(state, session), "message": event.message}
    left = {name: opened for name, opened in state.open.items() if name != session}
    return msgspec.structs.replace(state, open=left), told


def _number(state: Projection, session: str) -> dict[str, int]:
    return {"messageId": state.open[session].number} if state.is_numbered and session in state.open else {}


def _tool_ended(dialect: Dialect, event: ToolExecutionEnd) -> dict[str, Any]:
    told = {
        "type": "tool_execution_end",
        "toolCallId": event.tool_call_id,
        "toolName": event.tool_name,
        "result": event.result,
        "isError": event.is_error,
    }
    return told | {"durationMs": event.duration_ms} if dialect.settles else told


def _queues_changed(state: Projection, session: str, actions: dict[str, Any]) -> _Told:
    """Where the queues have an event of their own, it tells them alone, and only when they are other ones now."""
    if state.dialect.queue_event == "session_action_update":
        return state, {"type": "session_action_update", "actions": actions}
    queues = {"steering": actions.get("steering", []), "followUp": actions.get("followUps", [])}
    if queues == state.queues.get(session, {"steering": [], "followUp": []}):
        return state, None
    return msgspec.structs.replace(state, queues={**state.queues, session: queues}), {"type": "queue_update", **queues}
