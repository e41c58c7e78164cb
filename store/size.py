"""About how many tokens a context holds."""

from collections.abc import Sequence
from typing import Any

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
from store.records import Record, message_in
from store.wire import encode

CHARS_PER_TOKEN = 4
RESERVE_TOKENS = 16_384
IMAGE_CHARS = 4_800


def context_tokens(path: Sequence[Record]) -> int | None:
    """About how many tokens the next request of a session holds; None while there is nothing.

    What the last answer was billed for, and a guess at what came after it: 4 characters a token. Children never count.
    Without an answer since the last compaction all of it is guessed.
    """
    chars = 0
    for record in reversed(path):
        if record.type == "compaction":
            return guessed(sum(message_chars(message) for message in build_context(path).messages))
        if record.type == "custom_message":
            body = record.body()
            chars += len(text_of(body.content)) if isinstance(body, CustomMessageEntry) else 0
        if record.type != "message" or (message := message_in(record)) is None:
            continue
        if isinstance(message, AssistantMessage):
            if message.stop_reason == "error":
                continue
            usage = message.usage
            billed = usage.input + usage.cache_read + usage.cache_write + usage.output
            if billed > 0:
                return billed + guessed(chars)
        chars += message_chars(message)
    return guessed(chars) if chars else None


def answered_tokens(path: Sequence[Record]) -> int | None:
    """About how many tokens the context held with the last answer; None without one since the last compaction."""
    for place in range(len(path) - 1, -1, -1):
        if path[place].type == "compaction":
            return None
        message = message_in(path[place]) if path[place].type == "message" else None
        if isinstance(message, AssistantMessage) and message.stop_reason not in {"error", "aborted"}:
            return context_tokens(path[: place + 1])
    return None


def reserve_tokens(window: int) -> int:
    """What stays free in a context for the answer, unless configured: above `window` without it a summary is made."""
    return min(RESERVE_TOKENS, window // 4)


def guessed(chars: int) -> int:
    """Tokens of so many characters, rounded up."""
    return -(-chars // CHARS_PER_TOKEN)


def message_chars(message: Message) -> int:
    """Characters of a message, as a model is sent it."""
    match message:
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else len(message.command) + len(message.output)
        case CompactionSummaryMessage() | BranchSummaryMessage():
            return len(message.summary)
    content = getattr(message, "content", "")
    return content_chars(content) if isinstance(content, str | tuple) else 0


def content_chars(content: str | tuple[Any, ...]) -> int:
    """Characters of text or blocks; a picture counts as many."""
    return len(content) if isinstance(content, str) else sum(_block_chars(block) for block in content)


def _block_chars(block: Any) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(encode(block.arguments))
        case ImageContent():
            return IMAGE_CHARS
    return 0
