"""What the stream tells: events in the native dialect, without the tags that publication adds."""

from typing import Any, Literal

import msgspec

from store.entries import (
    AgentStatusEntry,
    ChildSettledEntry,
    ChildSpawnedEntry,
    ChildUsageAttributedEntry,
    GateEndEntry,
    Header,
    ModelChangeEntry,
    RunSettledEntry,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from store.messages import ToolCall
from store.usage import Usage
from store.wire import Wire

Reason = Literal["manual", "threshold", "overflow"]


class Body(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of the events that are no entries."""


class AgentStart(Body, frozen=True, kw_only=True, tag="agent_start"):
    pass


class AgentEnd(Body, frozen=True, kw_only=True, tag="agent_end"):
    """One loop has ended; the run may go on."""

    messages: tuple[msgspec.Raw, ...]
    will_retry: bool


class AgentSettled(Body, frozen=True, kw_only=True, tag="agent_settled"):
    """Once per run, its last event but for bookkeeping."""

    aborted: bool
    outcome: str


class TurnStart(Body, frozen=True, kw_only=True, tag="turn_start"):
    pass


class TurnEnd(Body, frozen=True, kw_only=True, tag="turn_end"):
    message: msgspec.Raw
    tool_results: tuple[msgspec.Raw, ...]


class MessageStart(Body, frozen=True, kw_only=True, tag="message_start"):
    """`messageId` for assistants: 1, 2 … per session."""

    message_id: int | None = None
    message: msgspec.Raw


class MessageEnd(Body, frozen=True, kw_only=True, tag="message_end"):
    message_id: int | None = None
    message: msgspec.Raw


class TextStart(Body, frozen=True, kw_only=True, tag="text_start"):
    content_index: int


class TextDelta(Body, frozen=True, kw_only=True, tag="text_delta"):
    content_index: int
    delta: str


class TextEnd(Body, frozen=True, kw_only=True, tag="text_end"):
    content_index: int
    content: str


class ThinkingStart(Body, frozen=True, kw_only=True, tag="thinking_start"):
    content_index: int


class ThinkingDelta(Body, frozen=True, kw_only=True, tag="thinking_delta"):
    content_index: int
    delta: str


class ThinkingEnd(Body, frozen=True, kw_only=True, tag="thinking_end"):
    content_index: int
    content: str


class CallName(Wire, frozen=True, kw_only=True):
    id: str
    name: str


class ToolcallStart(Body, frozen=True, kw_only=True, tag="toolcall_start"):
    """Names the call in both shapes that the seeds know."""

    content_index: int
    tool_call: CallName
    id: str
    tool_name: str


class ToolcallDelta(Body, frozen=True, kw_only=True, tag="toolcall_delta"):
    content_index: int
    delta: str


class ToolcallEnd(Body, frozen=True, kw_only=True, tag="toolcall_end"):
    content_index: int
    tool_call: ToolCall


AssistantMessageEvent = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolcallStart
    | ToolcallDelta
    | ToolcallEnd
)


class MessageUpdate(Body, frozen=True, kw_only=True, tag="message_update"):
    """`usage` when the counts changed; no snapshots."""

    message_id: int
    usage: Usage | None = None
    assistant_message_event: AssistantMessageEvent


class ToolExecutionStart(Body, frozen=True, kw_only=True, tag="tool_execution_start"):
    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionUpdate(Body, frozen=True, kw_only=True, tag="tool_execution_update"):
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Any


class ToolExecutionEnd(Body, frozen=True, kw_only=True, tag="tool_execution_end"):
    """One per start, always. `result` is `{content, details?}`."""

    tool_call_id: str
    tool_name: str
    result: Any
    is_error: bool
    duration_ms: int


class GateStart(Body, frozen=True, kw_only=True, tag="gate_start"):
    """A gate of the root is run, between its loops; its end is an entry."""

    command: str
    attempt: int


class SessionActionUpdate(Body, frozen=True, kw_only=True, tag="session_action_update"):
    """`actions`: `{queuedCount, steering, followUps, active?: {kind, phase, label?}}`."""

    actions: dict[str, Any]


class CompactionStart(Body, frozen=True, kw_only=True, tag="compaction_start"):
    reason: Reason


class CompactionEnd(Body, frozen=True, kw_only=True, tag="compaction_end"):
    reason: Reason
    result: Any = None
    aborted: bool
    will_retry: bool
    error_message: str | None = None


class AutoRetryStart(Body, frozen=True, kw_only=True, tag="auto_retry_start"):
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Body, frozen=True, kw_only=True, tag="auto_retry_end"):
    success: bool
    attempt: int
    final_error: str | None = None


class AgentMessage(Body, frozen=True, kw_only=True, tag="agent_message"):
    sender: str = msgspec.field(name="from")
    to: str
    mode: str
    delivery: Literal["delivered", "queued", "refused"]


class LimitReached(Body, frozen=True, kw_only=True, tag="limit_reached"):
    limit: str
    value: float
    allowed: float
    holder_session_id: str


class Diagnostic(Body, frozen=True, kw_only=True, tag="diagnostic"):
    """Something that a person may want to know and that ends nothing."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str


Event = (
    Header
    | AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | GateStart
    | SessionActionUpdate
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | AgentMessage
    | LimitReached
    | Diagnostic
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | ServiceTierChangeEntry
    | SessionInfoEntry
    | SessionStateEntry
    | AgentStatusEntry
    | RunSettledEntry
    | GateEndEntry
    | ChildSpawnedEntry
    | ChildSettledEntry
    | ChildUsageAttributedEntry
    | UsageEntry
)

# Entries that the stream shows under their own name. Messages become brackets; the others are seen in the journal only.
SHOWN_ENTRIES = (
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    AgentStatusEntry,
    RunSettledEntry,
    GateEndEntry,
    ChildSpawnedEntry,
    ChildSettledEntry,
    ChildUsageAttributedEntry,
    UsageEntry,
)


class Place(msgspec.Struct, frozen=True):
    """Where in the tree a session stands: what tags its lines."""

    session_id: str
    root_id: str
    parent_id: str | None
    depth: int
