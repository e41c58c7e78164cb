"""About how large the next model request of a session will be."""

from typing import Any

from orchestrator.views.digest import message_of
from store.context import build_context
from store.entries import CustomMessageEntry
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    text_of,
)
from store.records import Record
from store.wire import encode

_CHARS_PER_TOKEN = 4
_IMAGE_CHARS = 4_800


def context_tokens(path: list[Record]) -> int | None:
    """About how many tokens the next request holds: what the last answer was billed for, and a guess at what came after.

    Children never count. Without an answer since the last compaction all of it is guessed; None while there is nothing.
    """
    chars = 0
    for record in reversed(path):
        if record.type == "compaction":
            return _guess(sum(_chars(message) for message in build_context(path).messages))
        if record.type == "custom_message":
            body = record.body()
            chars += len(text_of(body.content)) if isinstance(body, CustomMessageEntry) else 0
        if record.type != "message" or (message := message_of(record)) is None:
            continue
        if isinstance(message, AssistantMessage):
            if message.stop_reason == "error":
                continue
            usage = message.usage
            billed = usage.input + usage.cache_read + usage.cache_write + usage.output
            if billed > 0:
                return billed + _guess(chars)
        chars += _chars(message)
    return _guess(chars) if chars else None


def _guess(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def _chars(message: Message) -> int:
    match message:
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else len(message.command) + len(message.output)
        case CompactionSummaryMessage() | BranchSummaryMessage():
            return len(message.summary)
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return len(content)
    return sum(_block_chars(block) for block in content) if isinstance(content, tuple) else 0


def _block_chars(block: Any) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(encode(block.arguments))
        case ImageContent():
            return _IMAGE_CHARS
    return 0
