"""The answer that a model is giving: its blocks as they grow, the events that show them, the message that is left."""

import attrs
import msgspec

from actors.protocol.budgets import Used
from actors.protocol.mail import CallPart
from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Chunk,
    ModelFailure,
    ModelInfo,
    ReplyEnd,
    ResponseNamed,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from store.errors import BadUsage
from store.events import (
    AssistantMessageEvent,
    CallName,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolcallDelta,
    ToolcallEnd,
    ToolcallStart,
)
from store.messages import AssistantMessage, Block, TextContent, ThinkingContent, ToolCall
from store.usage import Usage, priced, spend_of


@attrs.define
class _Growing:
    """A block of the content: text, thinking or a call. `call` is (id, name) for a call."""

    kind: str
    index: int
    pieces: list[str] = attrs.field(factory=list)
    call: tuple[str, str] = ("", "")
    signature: str | None = None
    is_whole: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_half_a_call(self) -> bool:
        """Whether more may have been to come: a JSON object that is there to its end is no beginning of another."""
        return self.kind == "call" and (not self.text.strip() or parsed_arguments(self.text)[1] is not None)

    def block(self) -> Block:
        match self.kind:
            case "text":
                return TextContent(text=self.text)
            case "thinking":
                return ThinkingContent(thinking=self.text, thinking_signature=self.signature)
        arguments, error = parsed_arguments(self.text)
        return ToolCall(id=self.call[0], name=self.call[1], arguments=arguments, arguments_error=error or msgspec.UNSET)

    def end(self) -> AssistantMessageEvent:
        match self.block():
            case TextContent(text=text):
                return TextEnd(content_index=self.index, content=text)
            case ThinkingContent(thinking=text):
                return ThinkingEnd(content_index=self.index, content=text)
            case ToolCall() as call:
                return ToolcallEnd(content_index=self.index, tool_call=call)
        raise TypeError(f"no block of kind {self.kind!r}")


def parsed_arguments(text: str) -> tuple[dict[str, object], str | None]:
    """Arguments of a call, or `{}` and what is wrong with them. Blank text is no arguments."""
    if not text.strip():
        return {}, None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, f"expected a JSON object, found {text[:200]!r}: {error}"
    if not isinstance(value, dict):
        return {}, f"expected a JSON object, found {text[:200]!r}"
    return value, None


@attrs.define
class Reply:
    """Grows with every chunk. `started_s` from the steady clock, `timestamp` in Unix ms."""

    model: ModelInfo
    timestamp: int
    started_s: float
    usage: Usage = attrs.field(factory=Usage)
    response_id: str | None = None
    has_begun: bool = False
    refused_usage: str | None = None
    _blocks: dict[int, _Growing] = attrs.field(factory=dict)
    _ids: set[str] = attrs.field(factory=set)

    def take(self, chunk: Chunk) -> list[AssistantMessageEvent]:
        """Take in one chunk; the events that it gives."""
        self.has_begun = True
        match chunk:
            case TextChunk(index, text):
                return self._grow("text", index, text, TextStart(content_index=index))
            case ThinkingChunk(index, text, signature):
                events = self._grow("thinking", index, text, ThinkingStart(content_index=index))
                self._blocks[index].signature = signature or self._blocks[index].signature
                return events
            case CallStarted(index, call_id, name):
                return self._start_call(index, call_id, name)
            case CallArguments(index, json):
                self._blocks[index].pieces.append(json)
                return [ToolcallDelta(content_index=index, delta=json)] if json else []
            case BlockEnded(index):
                return self._end(self._blocks[index])
            case UsageReported(usage):
                self._take_usage(usage)
            case ResponseNamed(name):
                self.response_id = name
        return []

    async def hear(self, chunk: Chunk) -> None:
        """Take in one chunk, where nobody watches."""
        self.take(chunk)

    def _grow(self, kind: str, index: int, text: str, start: AssistantMessageEvent) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        if index not in self._blocks:
            self._blocks[index] = _Growing(kind, index)
            events.append(start)
        if text:
            self._blocks[index].pieces.append(text)
            delta = TextDelta if kind == "text" else ThinkingDelta
            events.append(delta(content_index=index, delta=text))
        return events

    def _start_call(self, index: int, call_id: str, name: str) -> list[AssistantMessageEvent]:
        # Two calls of one answer must not share an id: results are told apart by it.
        unique, number = call_id or f"call_{index}", 1
        while unique in self._ids:
            number += 1
            unique = f"{call_id}_{number}"
        self._ids.add(unique)
        self._blocks[index] = _Growing("call", index, call=(unique, name))
        return [ToolcallStart(content_index=index, tool_call=CallName(id=unique, name=name), id=unique, tool_name=name)]

    def _end(self, block: _Growing) -> list[AssistantMessageEvent]:
        if block.is_whole:
            return []
        block.is_whole = True
        return [block.end()]

    def _take_usage(self, counts: Usage) -> None:
        counts = msgspec.structs.replace(
            counts, total_tokens=counts.input + counts.output + counts.cache_read + counts.cache_write
        )
        usage = priced(counts, self.model.price, self.model.name)
        try:
            spend_of(usage)
        except BadUsage as error:
            self.refused_usage = str(error)
            return
        self.usage = usage

    def finish(self, stop_reason: str) -> list[AssistantMessageEvent]:
        """The reply came whole, so every block did; but a call that the token limit cut in two is left as it is."""
        whole = [block for block in self._in_order() if stop_reason != "length" or not block.is_half_a_call]
        return [event for block in whole for event in self._end(block)]

    def _in_order(self) -> list[_Growing]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    @property
    def whole_calls(self) -> tuple[CallPart, ...]:
        """The calls whose arguments came whole."""
        calls = [block.block() for block in self._in_order() if block.kind == "call" and block.is_whole]
        return tuple(
            CallPart(call.id, call.name, call.arguments_error or None) for call in calls if isinstance(call, ToolCall)
        )

    def used(self, end: ReplyEnd | ModelFailure | None) -> Used:
        """What the call used that ended so; None: it was cancelled."""
        heard_chars = sum(len(block.text) for block in self._blocks.values())
        if isinstance(end, ReplyEnd):
            return Used(self.usage, "whole", heard_chars)
        is_refused = end is not None and not self.has_begun
        return Used(self.usage, "refused" if is_refused else "cut", heard_chars)

    def _counted(self, content: tuple[Block, ...]) -> Usage:
        """What was reported. An answer that nobody counted was not free: where there is no price its cost is unknown."""
        if not content or self.model.price is not None or self.usage.total_tokens:
            return self.usage
        cost = msgspec.structs.replace(self.usage.cost, unpriced=(self.model.name,))
        return msgspec.structs.replace(self.usage, cost=cost)

    @property
    def has_text(self) -> bool:
        return any(block.kind == "text" and block.text.strip() for block in self._blocks.values())

    def beginning(self) -> AssistantMessage:
        """The message of `message_start`: nothing has been said yet."""
        return Reply(self.model, self.timestamp, self.started_s).message("pending", self.started_s)

    def message(
        self, stop_reason: str, now_s: float, error: str | None = None, raw: str | None = None
    ) -> AssistantMessage:
        """The message as far as it has come. Calls that did not come whole are left out: they are never run."""
        content = tuple(block.block() for block in self._in_order() if block.kind != "call" or block.is_whole)
        return AssistantMessage(
            content=content,
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=self._counted(content),
            stop_reason=stop_reason,
            error_message=error,
            timestamp=self.timestamp,
            response_id=self.response_id,
            raw_stop_reason=raw,
            duration_ms=max(0, round((now_s - self.started_s) * 1000)),
        )
