"""A conversation as plain lines: who said what, tools folded to a line each."""

from collections.abc import Sequence

from orchestrator.views.doing import first_argument
from orchestrator.views.text import one_line, safe_lines
from store.entries import BranchSummaryEntry, CompactionEntry, CustomMessageEntry
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from store.records import Record, message_in

SPOKEN = frozenset({"message", "custom_message", "compaction", "branch_summary"})
_TEXT_LINES = 40
_TEXT_CHARS = 8_000
_FOLDED_CHARS = 160


def spoken(path: Sequence[Record]) -> list[Record]:
    """The records of a path that show in a conversation."""
    return [record for record in path if record.type in SPOKEN]


def conversation(records: Sequence[Record]) -> list[str]:
    """Lines that are safe for a terminal; long texts are cut, and say so."""
    lines: list[str] = []
    for record in records:
        shown = _record_lines(record)
        if shown:
            lines += [*shown, ""]
    return lines[:-1]


def _record_lines(record: Record) -> list[str]:
    if record.type == "message":
        message = message_in(record)
        return ["(a message that cannot be read)"] if message is None else _message_lines(message)
    match record.body():
        case CustomMessageEntry() as custom:
            return _said(one_line(custom.custom_type, 60), text_of(custom.content))
        case CompactionEntry() as compaction:
            return _said(f"summary of {compaction.tokens_before} tokens before", compaction.summary)
        case BranchSummaryEntry() as branch:
            return _said("summary of another branch", branch.summary)
    return []


def _message_lines(message: Message) -> list[str]:
    match message:
        case UserMessage():
            return _said("user", text_of(message.content), _images(message.content))
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            head = f"  {'✗' if message.is_error else '←'} {one_line(message.tool_name or 'tool', 40)}"
            return [f"{head}: {_folded(text_of(message.content))}{_images(message.content)}"]
        case BashExecutionMessage():
            status = "" if message.exit_code in {0, None} else f" (exit status {message.exit_code})"
            return [f"user ran: {_folded(message.command)}{status}", *_bounded(message.output)]
    content = getattr(message, "content", None) or getattr(message, "summary", "")
    return _said(type(message).__name__.removesuffix("Message").lower(), content if isinstance(content, str) else "")


def _assistant(message: AssistantMessage) -> list[str]:
    head = f"assistant ({one_line(message.model, 60)})" if message.model else "assistant"
    lines = [head]
    for block in message.content:
        match block:
            case TextContent():
                lines += _bounded(block.text)
            case ThinkingContent():
                lines.append(f"  (thinking) {_folded(block.thinking)}")
            case ToolCall():
                argument = _folded(first_argument(block.checked_arguments))
                lines.append(f"  → {one_line(block.name, 40)} {argument}".rstrip())
    if message.stop_reason in {"error", "aborted"}:
        lines.append(f"  {message.stop_reason}: {_folded(message.error_message or 'no reason given')}")
    return lines


def _said(who: str, text: str, note: str = "") -> list[str]:
    return [who + note, *_bounded(text)]


def _bounded(text: str) -> list[str]:
    lines = safe_lines(text.strip("\n")[:_TEXT_CHARS]) if text.strip() else []
    kept = lines[:_TEXT_LINES]
    left = len(text.strip("\n").split("\n")) - len(kept)
    if left > 0 or len(text.strip("\n")) > _TEXT_CHARS:
        more = f"{left} more lines" if left > 0 else f"{len(text) - _TEXT_CHARS} more characters"
        kept.append(f"[… {more}]")
    return [f"  {line}".rstrip() for line in kept]


def _folded(text: str) -> str:
    line = one_line(text, _FOLDED_CHARS + 1)
    return line if len(line) <= _FOLDED_CHARS else f"{line[:_FOLDED_CHARS]}…"


def _images(content: object) -> str:
    count = sum(isinstance(block, ImageContent) for block in content) if isinstance(content, tuple) else 0
    return f" [{count} image{'' if count == 1 else 's'}]" if count else ""
