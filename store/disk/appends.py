"""What can be appended to a session: one method for every type of entry. Each returns the id of its entry."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from store.entries import (
    LEAF_MARK,
    AgentStatusEntry,
    ChildSettledEntry,
    ChildSpawnedEntry,
    ChildUsageAttributedEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    GateEndEntry,
    GitStateEntry,
    Known,
    LabelEntry,
    MailEntry,
    MessageEntry,
    ModelChangeEntry,
    RunSettledEntry,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from store.errors import StoreError
from store.messages import AssistantMessage, Message, ToolCall, Visible, decode_message
from store.usage import Usage
from store.wire import encode


class Appends(ABC):
    """All of them raise StoreError for what is no such entry or a session that is only read; else as `Journal.append`."""

    @abstractmethod
    def append_batch(self, bodies: Sequence[Known]) -> list[str]:
        """Append these entries, all or none, each hanging on the leaf that the one before it left."""

    def append_entry(self, body: Known) -> str:
        return self.append_batch((body,))[0]

    def append_message(self, message: Message | Mapping[str, Any]) -> str:
        """A mapping is a message in the words of the wire; members that we do not know are kept."""
        return self.append_entry(MessageEntry(message=msgspec.Raw(_encoded(message))))

    def append_thinking_level_change(self, level: str) -> str:
        return self.append_entry(ThinkingLevelChangeEntry(thinking_level=level))

    def append_service_tier_change(self, tier: str | None) -> str:
        return self.append_entry(ServiceTierChangeEntry(service_tier=tier))

    def append_model_change(self, provider: str, model_id: str) -> str:
        return self.append_entry(ModelChangeEntry(provider=provider, model_id=model_id))

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = None,
        from_hook: bool | None = None,
        custom_instructions: str | None = None,
        usage: Usage | None = None,
    ) -> str:
        """`usage`: what the summary itself has cost."""
        return self.append_entry(
            CompactionEntry(
                summary=summary,
                first_kept_entry_id=first_kept_entry_id,
                tokens_before=tokens_before,
                details=details,
                usage=usage,
                from_hook=from_hook,
                custom_instructions=custom_instructions,
            )
        )

    def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """State of an extension; not in context."""
        if custom_type == LEAF_MARK:
            raise StoreError(f"expected a custom type of your own, found {LEAF_MARK!r}: `branch_to` moves the leaf")
        return self.append_entry(CustomEntry(custom_type=custom_type, data=data))

    def append_custom_message_entry(
        self, custom_type: str, content: str | tuple[Visible, ...], display: bool, details: Any = None
    ) -> str:
        return self.append_entry(
            CustomMessageEntry(custom_type=custom_type, content=content, display=display, details=details)
        )

    def append_child_usage_attribution(
        self,
        target_id: str | None,
        child_usage: Usage,
        aggregate_usage: Usage | None = None,
        origin_session_id: str | None = None,
        origin_entry_id: str | None = None,
        child_session_id: str | None = None,
        origin: str | None = None,
    ) -> str:
        """The two `origin_…_id` are the key, by which nothing is counted twice."""
        return self.append_entry(
            ChildUsageAttributedEntry(
                target_id=target_id,
                child_usage=child_usage,
                aggregate_usage=aggregate_usage,
                origin_session_id=origin_session_id,
                origin_entry_id=origin_entry_id,
                child_session_id=child_session_id,
                origin=origin,
            )
        )

    def append_usage(self, kind: str, provider: str, model: str, usage: Usage) -> str:
        """A billed call that leaves no other entry."""
        return self.append_entry(UsageEntry(kind=kind, provider=provider, model=model, usage=usage))

    def append_session_info(self, name: str | None) -> str:
        return self.append_entry(SessionInfoEntry(name=name))

    def append_session_state(self, state: dict[str, Any]) -> str:
        return self.append_entry(SessionStateEntry(state=state))

    def append_agent_status(self, status: dict[str, Any]) -> str:
        return self.append_entry(AgentStatusEntry(status=status))

    def append_git_state(self, git: dict[str, Any]) -> str:
        return self.append_entry(GitStateEntry(git=git))

    def append_label_change(self, target_id: str, label: str | None) -> str:
        """None clears it."""
        return self.append_entry(LabelEntry(target_id=target_id, label=label))

    def append_context_edit(self, target_id: str, replacement: Any = None) -> str:
        """Members of a message that change in context; None takes it out."""
        return self.append_entry(ContextEditEntry(target_id=target_id, replacement=replacement))

    def append_mail(self, message_id: str, sender: str, mode: str, content: str | tuple[Visible, ...]) -> str:
        return self.append_entry(MailEntry(message_id=message_id, sender=sender, mode=mode, content=content))

    def append_run_settled(
        self, run: int, outcome: str, stop_reason: str | None = None, error_message: str | None = None
    ) -> str:
        return self.append_entry(
            RunSettledEntry(run=run, outcome=outcome, stop_reason=stop_reason, error_message=error_message)
        )

    def append_gate_end(self, gate: GateEndEntry) -> str:
        return self.append_entry(gate)

    def append_child_spawned(self, child: ChildSpawnedEntry) -> str:
        return self.append_entry(child)

    def append_child_settled(self, child: ChildSettledEntry) -> str:
        return self.append_entry(child)


def _encoded(message: Message | Mapping[str, Any]) -> bytes:
    """The message's JSON. A call whose arguments are no object is stored with none, and says so. Raises BadRecord."""
    raw = encode(message)
    read = decode_message(raw)
    if not isinstance(read, AssistantMessage) or all(isinstance(call.arguments, dict) for call in read.calls):
        return raw
    if not isinstance(message, Mapping):
        content = tuple(_with_arguments(block) if isinstance(block, ToolCall) else block for block in read.content)
        return encode(msgspec.structs.replace(read, content=content))
    members = msgspec.json.decode(raw)
    for block in members["content"]:
        if block["type"] == "toolCall" and not isinstance(block.get("arguments"), dict):
            block["argumentsError"] = _odd_arguments(block.get("arguments"))
            block["arguments"] = {}
    return encode(members)


def _with_arguments(call: ToolCall) -> ToolCall:
    if isinstance(call.arguments, dict):
        return call
    return msgspec.structs.replace(call, arguments={}, arguments_error=_odd_arguments(call.arguments))


def _odd_arguments(found: Any) -> str:
    return f"expected an object, found {encode(found)[:200].decode(errors='replace')}"
