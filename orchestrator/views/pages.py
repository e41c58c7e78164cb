"""A conversation in pages: what was said, newest last, with the tool calls folded into the answers that made them."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from orchestrator.views.called import Called, called, shown_text
from orchestrator.views.conversation import spoken
from orchestrator.views.text import one_line
from store.entries import BranchSummaryEntry, CompactionEntry, CustomMessageEntry
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from store.records import Record, message_in

PAGE_ENTRIES = 200
Who = Literal["user", "assistant", "note", "summary", "bash"]


class Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry. `name`: of the model, or of what kind of note it is. `at`: an ISO time."""

    id: str
    at: str
    who: Who
    name: str
    text: str
    thinking: str = ""
    error: str = ""
    calls: tuple[Called, ...] = ()


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`before`: how many entries lie before the first of these."""

    entries: tuple[Said, ...]
    before: int


def page(path: Sequence[Record], before: str | None = None, after: str | None = None) -> Page:
    """The latest page; with `before`, an entry id, the page before it; with `after`, what came after it, at most a page.

    Raises ValueError for an entry that is not on the path.
    """
    shown = [record for record in spoken(path) if not isinstance(message_in(record), ToolResultMessage)]
    begin, end = max(0, len(shown) - PAGE_ENTRIES), len(shown)
    if before is not None:
        end = _place(shown, before)
        begin = max(0, end - PAGE_ENTRIES)
    elif after is not None:
        begin = max(begin, _place(shown, after) + 1)
    calls: dict[str, list[Called]] = {}
    for each in called(path):
        calls.setdefault(each.entry, []).append(each)
    return Page(entries=tuple(_said(record, calls.get(record.id, [])) for record in shown[begin:end]), before=begin)


def _place(shown: Sequence[Record], entry: str) -> int:
    for place, record in enumerate(shown):
        if record.id == entry:
            return place
    raise ValueError(f"expected an entry of this conversation, found {entry[:40]!r}")


def _said(record: Record, calls: Sequence[Called]) -> Said:
    who, name, text, thinking, error = _parts(record)
    return Said(
        id=record.id,
        at=record.timestamp,
        who=who,
        name=one_line(name, 80),
        text=shown_text(text),
        thinking=shown_text(thinking),
        error=shown_text(error),
        calls=tuple(calls),
    )


def _parts(record: Record) -> tuple[Who, str, str, str, str]:
    if record.type != "message":
        match record.body():
            case CustomMessageEntry() as custom:
                return "note", custom.custom_type, text_of(custom.content), "", ""
            case CompactionEntry() as compaction:
                return "summary", f"summary of {compaction.tokens_before} tokens before", compaction.summary, "", ""
            case BranchSummaryEntry() as branch:
                return "summary", "summary of another branch", branch.summary, "", ""
    match message_in(record):
        case None:
            return "note", "unreadable", "a message that cannot be read", "", ""
        case UserMessage() as user:
            return "user", "you", text_of(user.content), "", ""
        case AssistantMessage() as answer:
            thinking = "\n".join(block.thinking for block in answer.content if isinstance(block, ThinkingContent))
            error = ""
            if answer.stop_reason in {"error", "aborted"}:
                error = f"{answer.stop_reason}: {answer.error_message or 'no reason given'}"
            return "assistant", answer.model or "assistant", answer.text, thinking, error
        case BashExecutionMessage() as bash:
            status = "" if bash.exit_code in {0, None} else f" (exit status {bash.exit_code})"
            return "bash", f"you ran {bash.command}{status}", bash.output, "", ""
        case other:
            content = getattr(other, "content", None) or getattr(other, "summary", "")
            kind = type(other).__name__.removesuffix("Message").lower()
            return "note", kind, content if isinstance(content, str) else "", "", ""
