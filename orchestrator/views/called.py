"""The tool calls of a conversation, each with what came of it."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from orchestrator.views.doing import first_argument
from orchestrator.views.text import one_line, safe_lines
from store.messages import AssistantMessage, ToolCall, ToolResultMessage, text_of
from store.records import Record, message_in

CallState = Literal["ok", "failed", "open"]
_ARGUMENT_CHARS = 300
_OUTPUT_CHARS = 20_000


class Called(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One call. `startMs`: Unix milliseconds; `output` is bounded, `outputChars` is not; `spill`: the file with all of it."""

    id: str
    entry: str
    name: str
    argument: str
    state: CallState
    start_ms: int
    duration_ms: int | None
    arguments: str
    output: str
    output_chars: int
    spill: str | None


def called(path: Sequence[Record]) -> list[Called]:
    """The calls of a path, in order; each result belongs to the latest answer with its id before it."""
    calls: list[tuple[str, ToolCall, int]] = []
    latest: dict[str, int] = {}
    results: dict[int, ToolResultMessage] = {}
    for record in path:
        message = message_in(record)
        if isinstance(message, AssistantMessage) and message.stop_reason != "error":
            begin_ms = message.timestamp + (message.duration_ms or 0)
            for call in message.calls:
                latest[call.id] = len(calls)
                calls.append((record.id, call, begin_ms))
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in latest:
            results.setdefault(latest[message.tool_call_id], message)
    return [_called(entry, call, at, results.get(place)) for place, (entry, call, at) in enumerate(calls)]


def _called(entry: str, call: ToolCall, begin_ms: int, result: ToolResultMessage | None) -> Called:
    text = text_of(result.content) if result else ""
    details = result.details if result and isinstance(result.details, dict) else {}
    spill = details.get("fullOutputPath")
    took = took_ms(result, begin_ms) if result else None
    return Called(
        id=call.id,
        entry=entry,
        name=one_line(call.name, 80),
        argument=one_line(first_argument(call.checked_arguments), _ARGUMENT_CHARS),
        state="open" if result is None else "failed" if result.is_error else "ok",
        start_ms=result.timestamp - took if result and took is not None else begin_ms,
        duration_ms=took,
        arguments=shown_text(msgspec.json.format(msgspec.json.encode(call.arguments), indent=2).decode()),
        output=shown_text(text),
        output_chars=len(text),
        spill=one_line(spill, _ARGUMENT_CHARS) if isinstance(spill, str) else None,
    )


def took_ms(result: ToolResultMessage, called_ms: int) -> int:
    """What the tool says that it took; else the time from the call to its result."""
    details = result.details if isinstance(result.details, dict) else {}
    told = details.get("durationMs")
    return told if isinstance(told, int) and told >= 0 else max(0, result.timestamp - called_ms)


def shown_text(text: str, limit_chars: int = _OUTPUT_CHARS) -> str:
    """The beginning of a text of several lines, without what moves or turns it, and how much of it is left out."""
    left = len(text) - limit_chars
    shown = "\n".join(safe_lines(text[:limit_chars]))
    return f"{shown}\n[… {left:,} more characters]" if left > 0 else shown
