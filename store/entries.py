"""What a journal holds: the header and the bodies of entries.

A body is an entry without `id`, `parentId` and `timestamp`, which a `Record` adds (`store/records.py`). Where the wire has an
event of the same name, its members are the body's, so the same Struct is written to both.
"""

from typing import Any, Literal

import msgspec

from store.messages import Visible
from store.usage import Usage
from store.wire import Wire

VERSION = 3
FRAMING = 1

Outcome = Literal["completed", "failed", "aborted", "timed_out", "limit_reached", "lost"]
OUTCOMES: tuple[Outcome, ...] = ("completed", "failed", "aborted", "timed_out", "limit_reached", "lost")
Mode = Literal["prompt", "steer", "follow_up", "auto"]
Origin = Literal["spawn_task", "agent_message", "direct_user"]


class ForkedFrom(Wire, frozen=True, kw_only=True):
    """Where a fork's first `records` records come from. What they spent is not billed again."""

    session_id: str
    entry_id: str | None
    records: int


class Header(Wire, frozen=True, kw_only=True, tag="session", tag_field="type"):
    """Line 1. `parentSessionId` and `rootSessionId` are there for children only; `framing` in journals only."""

    version: int = msgspec.field(default_factory=lambda: 1)
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None
    parent_session_id: str | None = None
    root_session_id: str | None = None
    forked_from: ForkedFrom | None = None
    rlm_depth: int | None = None
    name: str | None = None
    git: Any = None
    framing: int | None = None

    @property
    def root_id(self) -> str:
        return self.root_session_id or self.id

    @property
    def depth(self) -> int:
        return self.rlm_depth or 0


class Body(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of the bodies of entries."""


class MessageEntry(Body, frozen=True, kw_only=True, tag="message"):
    """`message` is encoded once and spliced into every line that shows it."""

    message: msgspec.Raw


class ModelChangeEntry(Body, frozen=True, kw_only=True, tag="model_change"):
    provider: str
    model_id: str


class ThinkingLevelChangeEntry(Body, frozen=True, kw_only=True, tag="thinking_level_change"):
    thinking_level: str


class ServiceTierChangeEntry(Body, frozen=True, kw_only=True, tag="service_tier_change"):
    service_tier: str | None


class CompactionEntry(Body, frozen=True, kw_only=True, tag="compaction"):
    """`tokensBefore`: size of the context that the summary replaces."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = None
    usage: Usage | None = None
    from_hook: bool | None = None
    custom_instructions: str | None = None


class BranchSummaryEntry(Body, frozen=True, kw_only=True, tag="branch_summary"):
    from_id: str
    summary: str
    details: Any = None
    usage: Usage | None = None
    from_hook: bool | None = None


class CustomEntry(Body, frozen=True, kw_only=True, tag="custom"):
    custom_type: str
    data: Any = None


class CustomMessageEntry(Body, frozen=True, kw_only=True, tag="custom_message"):
    """Enters context. `details.delivers` names the mail and the notices that it hands to the model."""

    custom_type: str
    content: str | tuple[Visible, ...]
    display: bool
    details: Any = None


class ChildUsageAttributedEntry(Body, frozen=True, kw_only=True, tag="child_usage_attributed"):
    """What one billed entry of a descendant cost, in the journal of an ancestor. The key is (origin session, origin entry)."""

    target_id: str | None
    child_usage: Usage
    aggregate_usage: Usage | None = None
    origin_session_id: str | None = None
    origin_entry_id: str | None = None
    child_session_id: str | None = None
    origin: str | None = None


class UsageEntry(Body, frozen=True, kw_only=True, tag="usage"):
    """A billed call that left no other entry."""

    kind: str
    provider: str
    model: str
    usage: Usage


class LabelEntry(Body, frozen=True, kw_only=True, tag="label"):
    """No `label`: the label is cleared."""

    target_id: str
    label: str | None = None


class SessionInfoEntry(Body, frozen=True, kw_only=True, tag="session_info"):
    name: str | None = None


class SessionStateEntry(Body, frozen=True, kw_only=True, tag="session_state"):
    """`state.status`: `active` or `archived`; `crash`, `sleep` and `hidden` are read only."""

    state: dict[str, Any]


class AgentStatusEntry(Body, frozen=True, kw_only=True, tag="agent_status"):
    status: dict[str, Any]


class GitStateEntry(Body, frozen=True, kw_only=True, tag="git_state"):
    git: dict[str, Any]


class ContextEditEntry(Body, frozen=True, kw_only=True, tag="context_edit"):
    """pi's: `replacement` null removes the target from context."""

    target_id: str
    replacement: Any = None


class MailEntry(Body, frozen=True, kw_only=True, tag="mail"):
    """A prompt or message that has arrived and is not delivered yet."""

    message_id: str
    sender: str = msgspec.field(name="from")
    mode: str
    content: str | tuple[Visible, ...]


class RunSettledEntry(Body, frozen=True, kw_only=True, tag="run_settled"):
    run: int
    outcome: str
    stop_reason: str | None = None
    error_message: str | None = None


class GateEndEntry(Body, frozen=True, kw_only=True, tag="gate_end"):
    """How a gate ended, once per start. `attempt`: 1 and the gates that have failed in this run; `result` as of the tool `bash`.

    One that was cut off has not passed.
    """

    command: str
    attempt: int
    passed: bool
    result: Any
    duration_ms: int


class ChildSpawnedEntry(Body, frozen=True, kw_only=True, tag="child_spawned"):
    """Durable before the child's file exists. `prompt` is bounded; `limits` holds what was set for this child alone."""

    child_session_id: str
    name: str
    child_depth: int
    prompt: str
    model: str
    tool_call_id: str | None = None
    limits: dict[str, Any] = msgspec.field(default_factory=lambda: {})


class ChildSettledEntry(Body, frozen=True, kw_only=True, tag="child_settled"):
    """The notice to the parent, once per (child, run). `text` is bounded; the whole is in the child."""

    child_session_id: str
    run: int
    outcome: str
    stop_reason: str | None = None
    error_message: str | None = None
    text: str = msgspec.field(default_factory=str)


class UnknownEntry(msgspec.Struct, frozen=True):
    """An entry of a type, or a shape, that we do not know. It survives byte for byte."""

    raw: bytes


Known = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | ServiceTierChangeEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | ChildUsageAttributedEntry
    | UsageEntry
    | LabelEntry
    | SessionInfoEntry
    | SessionStateEntry
    | AgentStatusEntry
    | GitStateEntry
    | ContextEditEntry
    | MailEntry
    | RunSettledEntry
    | GateEndEntry
    | ChildSpawnedEntry
    | ChildSettledEntry
)
Entry = Known | UnknownEntry

MOVES_LEAF = frozenset(
    {
        "message",
        "custom_message",
        "compaction",
        "branch_summary",
        "model_change",
        "thinking_level_change",
        "service_tier_change",
        "context_edit",
    }
)
LEAF_MARK = "sapwood.leaf"
TERMS_MARK = "sapwood.terms"
AGENT_MESSAGE = "sapwood.message"
