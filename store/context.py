"""From the entries of a path to the messages that a model sees."""

from collections.abc import Iterator, Sequence

import msgspec

from store.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomMessageEntry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
)
from store.errors import BadRecord
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
    text_of,
)
from store.records import Record
from store.wire import encode

INTERRUPTED = (
    "The tool was interrupted before its result was recorded; its side effects are unknown. It was not run again."
)
ModelMessage = UserMessage | AssistantMessage | ToolResultMessage


class Context(msgspec.Struct, frozen=True):
    """What the next model call of a session is made of."""

    messages: tuple[Message, ...]
    model: tuple[str, str] | None = None
    thinking_level: str | None = None


def build_context(path: Sequence[Record]) -> Context:
    """Context of the session at the end of `path` (root first).

    Source: seeds/base-context-session-format.md, "Context Building"; pi 1.6 for `context_edit`.
    """
    model: tuple[str, str] | None = None
    thinking: str | None = None
    start = 0
    summary: CompactionEntry | None = None
    edits: dict[str, ContextEditEntry] = {}
    for place, record in enumerate(path):
        if record.type not in _SETTINGS:
            continue
        match record.body():
            case ModelChangeEntry() as change:
                model = (change.provider, change.model_id)
            case ThinkingLevelChangeEntry() as change:
                thinking = change.thinking_level
            case ContextEditEntry() as edit:
                edits[edit.target_id] = edit
            case CompactionEntry() as compaction:
                summary = compaction
                start = _first_kept(path, compaction, place)
    messages: list[Message] = []
    if summary is not None:
        messages.append(CompactionSummaryMessage(summary=summary.summary, tokens_before=summary.tokens_before))
    for record in path[start:]:
        message = _message(record, edits.get(record.id))
        if message is not None:
            messages.append(message)
    return Context(tuple(messages), model, thinking)


_SETTINGS = frozenset({"model_change", "thinking_level_change", "context_edit", "compaction"})


def _first_kept(path: Sequence[Record], compaction: CompactionEntry, place: int) -> int:
    for kept in range(place):
        if path[kept].id == compaction.first_kept_entry_id:
            return kept
    return place


def _message(record: Record, edit: ContextEditEntry | None) -> Message | None:
    """The message that a record puts into context, if any. What we cannot read stays out, never in half.

    pi's `replacement` holds the members that change, mostly `content` alone; null takes the message away.
    """
    message = _unedited(record)
    if edit is None or message is None:
        return message
    if not isinstance(edit.replacement, dict):
        return None
    return _decoded(encode(msgspec.json.decode(encode(message)) | edit.replacement))


def _unedited(record: Record) -> Message | None:
    if record.type not in {"message", "custom_message", "branch_summary"}:
        return None
    match record.body():
        case MessageEntry(message=raw):
            return _decoded(raw)
        case CustomMessageEntry() as custom:
            return CustomMessage(
                custom_type=custom.custom_type, content=custom.content, display=custom.display, details=custom.details
            )
        case BranchSummaryEntry() as branch:
            return BranchSummaryMessage(summary=branch.summary, from_id=branch.from_id)
    return None


def _decoded(raw: bytes | msgspec.Raw) -> Message | None:
    try:
        message = decode_message(raw)
    except BadRecord:
        return None
    if isinstance(message, SystemMessage) or (isinstance(message, AssistantMessage) and message.stop_reason == "error"):
        return None
    if isinstance(message, BashExecutionMessage) and message.exclude_from_context:
        return None
    return message


def for_model(messages: Sequence[Message]) -> tuple[ModelMessage, ...]:
    """`messages` in the three roles that providers know, each call followed by its result, in call order.

    A call without a result gets an error result, and a result without a call is left out: providers refuse both.
    """
    sent: list[ModelMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            if message.content:
                sent.append(message)
            results = _results_behind(messages, place) if message.calls else {}
            sent.extend(results.get(call.id) or interrupted(call, message.timestamp) for call in message.calls)
        elif not isinstance(message, ToolResultMessage):
            sent.append(_as_user(message))
    return tuple(sent)


def _results_behind(messages: Sequence[Message], place: int) -> dict[str, ToolResultMessage]:
    """Results up to the next answer, by call id. Ids are unique in one message only: some servers count from 1 in each."""
    results: dict[str, ToolResultMessage] = {}
    for behind in range(place + 1, len(messages)):  # no slice: it would copy the rest of the history per answer
        message = messages[behind]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResultMessage):
            results.setdefault(message.tool_call_id, message)
    return results


def _as_user(message: Message) -> UserMessage:
    match message:
        case UserMessage():
            return message
        case CustomMessage(content=content):
            return UserMessage(content=content, timestamp=message.timestamp)
        case CompactionSummaryMessage():
            text = f"What happened before, summarised:\n\n{message.summary}"
        case BranchSummaryMessage():
            text = f"Another branch of this conversation was left; it is summarised here:\n\n{message.summary}"
        case BashExecutionMessage():
            ending = "" if message.exit_code in {0, None} else f"\n(exit status {message.exit_code})"
            text = f"I ran this command: {message.command}\n\n{message.output}{ending}"
        case _:
            text = text_of(getattr(message, "content", ""))
    return UserMessage(content=(TextContent(text=text),), timestamp=message.timestamp)


def interrupted(call: ToolCall, timestamp: int, started: Sequence[str] = ()) -> ToolResultMessage:
    """The error result of a call that a crash or an abort cut off. `started`: the children that it has started."""
    text = f"{INTERRUPTED} It had started {', '.join(started)}; you are told how they end." if started else INTERRUPTED
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextContent(text=text),),
        is_error=True,
        timestamp=timestamp,
    )


def dangling_calls(path: Sequence[Record]) -> list[tuple[ToolCall, int]]:
    """Calls on the path that have no result yet, with their message's time in Unix ms, in call order."""
    open_calls: list[tuple[ToolCall, int]] = []
    for message in _tool_traffic(path):
        if isinstance(message, AssistantMessage):
            open_calls.extend((call, message.timestamp) for call in message.calls)
            continue
        for place in range(len(open_calls) - 1, -1, -1):
            if open_calls[place][0].id == message.tool_call_id:
                del open_calls[place]
                break
    return open_calls


def _tool_traffic(path: Sequence[Record]) -> Iterator[AssistantMessage | ToolResultMessage]:
    for record in path:
        if record.type == "message":
            message = _message(record, None)
            if isinstance(message, AssistantMessage | ToolResultMessage):
                yield message


def last_assistant(path: Sequence[Record]) -> AssistantMessage | None:
    """The last assistant message on the path, failed ones included."""
    for record in reversed(path):
        if record.type == "message" and isinstance(body := record.body(), MessageEntry):
            try:
                message = decode_message(body.message)
            except BadRecord:
                continue
            if isinstance(message, AssistantMessage):
                return message
    return None
