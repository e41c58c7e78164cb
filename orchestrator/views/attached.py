"""One session as it streams, in text: what it says as it comes, its tools and children a line each."""

from collections.abc import Callable
from typing import Any

import attrs

from orchestrator.views.doing import first_argument
from orchestrator.views.text import one_line, safe_lines
from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.errors import BadRecord
from store.events import (
    AgentSettled,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Diagnostic,
    Event,
    LimitReached,
    MessageEnd,
    MessageUpdate,
    TextDelta,
    TextEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from store.ids import short
from store.messages import AssistantMessage, BashExecutionMessage, CustomMessage, UserMessage, decode_message, text_of


@attrs.define
class AttachedText:
    """A fold: `take` gives the text that an event adds. Nothing in it can harm a terminal."""

    _is_mid_line: bool = False
    _has_streamed: bool = False
    _told: list[tuple[str, str]] = attrs.field(factory=list)

    def take(self, event: Event) -> str:
        inner = event.assistant_message_event if isinstance(event, MessageUpdate) else None
        if isinstance(inner, TextDelta):
            self._has_streamed = True
            return self._piece(inner.delta)
        if isinstance(inner, TextEnd):
            return self._line("") if self._is_mid_line else ""
        if isinstance(event, MessageEnd):
            streamed, self._has_streamed = self._has_streamed, False
            return self._message(event, has_streamed=streamed)
        tell = _TOLD.get(type(event))
        line = tell(event) if tell is not None else None
        return "" if line is None else self._line(line)

    def ran(self, command: str, output: str, exit_code: int | None) -> str:
        """A command of our own that is written down later: its entry is not told again."""
        self._told.append((command, output))
        return self._ran(command, output, exit_code)

    def missed(self, count: int) -> str:
        """Lines that came too fast for this reader."""
        return self._line(f"… {count} lines missed")

    def _piece(self, delta: str) -> str:
        text = "\n".join(safe_lines(delta))
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line
        return text

    def _line(self, line: str) -> str:
        start = "\n" if self._is_mid_line else ""
        self._is_mid_line = False
        return f"{start}{line}\n" if line else start

    def _message(self, event: MessageEnd, *, has_streamed: bool) -> str:
        try:
            message = decode_message(event.message)
        except BadRecord:
            return ""
        match message:
            case UserMessage() | CustomMessage():
                who = ">" if isinstance(message, UserMessage) else "<"
                return "".join(self._line(f"{who} {line}") for line in safe_lines(text_of(message.content)))
            case AssistantMessage(stop_reason="error") | AssistantMessage(stop_reason="aborted"):
                return self._line(f"! {one_line(message.error_message or message.stop_reason)}")
            case AssistantMessage() if message.text and not has_streamed:
                return "".join(self._line(line) for line in safe_lines(message.text))
            case BashExecutionMessage() if (message.command, message.output) in self._told:
                self._told.remove((message.command, message.output))
            case BashExecutionMessage():
                return self._ran(message.command, message.output, message.exit_code)
        return ""

    def _ran(self, command: str, output: str, exit_code: int | None) -> str:
        ending = "" if exit_code == 0 else f" (exit status {exit_code})"
        lines = safe_lines(output.removesuffix("\n")) if output else []
        return self._line(f"$ {one_line(command)}{ending}") + "".join(map(self._line, lines))


def _tool_start(event: ToolExecutionStart) -> str:
    argument = first_argument(event.args) if isinstance(event.args, dict) else ""
    return f"* {one_line(event.tool_name)} {one_line(argument, 160)}".rstrip()


def _tool_end(event: ToolExecutionEnd) -> str | None:
    if not event.is_error:
        return None
    content = event.result.get("content") if isinstance(event.result, dict) else None
    texts = [part.get("text", "") for part in content or () if isinstance(part, dict)]
    return f"! {one_line(event.tool_name)}: {one_line(' '.join(map(str, texts)), 300)}"


def _settled(event: AgentSettled) -> str:
    return f"-- {event.outcome.replace('_', ' ')}"


def _summarised(event: CompactionEnd) -> str:
    if event.result is None:
        return f"! no summary: {one_line(event.error_message or 'aborted')}"
    return "~ summarised what came before"


_TOLD: dict[type[Any], Callable[[Any], str | None]] = {
    ToolExecutionStart: _tool_start,
    ToolExecutionEnd: _tool_end,
    ChildSpawnedEntry: lambda event: f"+ {one_line(event.name)}: {one_line(event.prompt, 160)}",
    ChildSettledEntry: lambda event: f"+ {short(event.child_session_id)} {event.outcome.replace('_', ' ')}",
    AutoRetryStart: lambda event: f"! again in {event.delay_ms / 1000:.0f} s: {one_line(event.error_message, 300)}",
    CompactionStart: lambda event: "~ summarising what came before",
    CompactionEnd: _summarised,
    LimitReached: lambda event: f"! the limit {one_line(event.limit)} of {event.allowed:g} is reached",
    Diagnostic: lambda event: f"! {one_line(event.text)}" if event.level != "info" else None,
    AgentSettled: _settled,
}
