"""OpenAI's chat completions, and the many servers that are compatible with them."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from actors.protocol.model import (
    BlockEnded,
    Chunk,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    ResponseNamed,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from orchestrator.providers.endings import Endings
from orchestrator.providers.openai_body import THINKING_MEMBERS, encoded_body
from orchestrator.providers.openai_usage import Counts
from orchestrator.providers.quirks import quirks_of
from orchestrator.providers.remote import Remote
from orchestrator.providers.sse import Event
from orchestrator.providers.stream_json import is_error, object_of, told_failure
from orchestrator.providers.text import Halves, whole_characters
from orchestrator.providers.tool_calls import CallReader

_ENDINGS = Endings(
    reasons={
        **dict.fromkeys(("stop", "end", "eos", "end_turn", "stop_sequence"), "stop"),
        **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
        **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "toolUse"),
    },
    failures={
        **dict.fromkeys(("content_filter", "sensitive", "safety", "refusal"), "refusal"),
        "network_error": "network",
        "error": "server",
    },
    usual={"stop": "stop", "length": "length", "toolUse": "tool_calls"},
)


@attrs.define
class OpenAICompletions(Remote):
    """The port to a model, over `base_url` (with its `/v1`). One serves all models of its provider."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        quirks = quirks_of(self.base_url, request.model.provider)
        post = self.post(
            "/chat/completions",
            encoded_body(request, quirks, request.service_tier or self.service_tier),
            quirks.key_header,
        )
        counts = Counts(lambda text: self.notice(request.session_id, text), quirks.is_reasoning_extra)
        reader = CompletionReader(hear, counts, f"call_{request.call}", post.redacted)
        end = await reader.end(await self.http.post(post, reader.take))
        return post.without_secrets(end) if isinstance(end, ModelFailure) else end


@attrs.define
class CompletionReader:
    """From the events of one stream to the chunks of one reply. `redacted` takes keys out of what is quoted."""

    hear: Hear
    counts: Counts
    call_id_prefix: str
    redacted: Callable[[str], str] = str
    _finish: str | None = attrs.field(default=None, init=False)
    _failure: ModelFailure | None = attrs.field(default=None, init=False)
    _is_named: bool = attrs.field(default=False, init=False)
    _next_index: int = attrs.field(default=0, init=False)
    _open: "_OpenBlock | None" = attrs.field(default=None, init=False)
    _calls: CallReader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = CallReader(self.call_id_prefix, self._new_index)

    async def take(self, event: Event) -> bool:
        """Hear one event; True when no more is wanted."""
        if event.data.strip() == "[DONE]":
            return True
        value = object_of(event, self.redacted)
        if value is None:
            return False
        if isinstance(value, ModelFailure) or is_error(event, value):
            self._failure = value if isinstance(value, ModelFailure) else told_failure(event, self.redacted)
            return True
        for chunk in self._chunks(value):
            await self.hear(chunk)
        return False

    async def end(self, failure: ModelFailure | None) -> ReplyEnd | ModelFailure:
        """How the reply ended, where the transport says `failure` or nothing.

        A connection that breaks behind the finish reason took nothing away: to ask again would pay twice.
        """
        if self._failure is not None:
            return self._failure
        if self._finish is None:
            return failure or ModelFailure(kind="incomplete", message="the stream ended without a finish reason")
        end = _ENDINGS.end(self._finish, has_calls=bool(self._calls.calls))
        if isinstance(end, ReplyEnd):
            for chunk in [*self._closed(), *self._calls.end(is_cut=end.stop_reason == "length")]:
                await self.hear(chunk)
        return end

    def _new_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def _chunks(self, value: dict[str, Any]) -> Iterator[Chunk]:
        id = value.get("id")
        if isinstance(id, str) and id and not self._is_named:
            self._is_named = True
            yield ResponseNamed(whole_characters(id))
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                yield from self._of_choice(choice)
        extra = value.get("x_groq")
        for reported in (value.get("usage"), extra.get("usage") if isinstance(extra, dict) else None):
            if (usage := self.counts.take(reported)) is not None:
                yield UsageReported(usage)

    def _of_choice(self, choice: dict[str, Any]) -> Iterator[Chunk]:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            for kind, signature, text in _texts(delta):
                yield from self._text(kind, signature, text)
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                yield from self._closed()
                yield from self._calls.take(call)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = whole_characters(finish)
        if (usage := self.counts.take(choice.get("usage"))) is not None:
            yield UsageReported(usage)

    def _text(self, kind: str, signature: str | None, text: str) -> Iterator[Chunk]:
        if self._open is None or self._open.kind != kind:
            yield from self._closed()
            self._open = _OpenBlock(kind, self._new_index(), signature)
        yield from self._open.piece(text)

    def _closed(self) -> Iterator[Chunk]:
        if self._open is not None:
            yield from self._open.end()
            self._open = None


@attrs.define
class _OpenBlock:
    """The block of text or thinking that grows."""

    kind: str
    index: int
    signature: str | None
    halves: Halves = attrs.field(factory=Halves)

    def piece(self, text: str) -> Iterator[Chunk]:
        text = self.halves.joined(text)
        if text and self.kind == "text":
            yield TextChunk(self.index, text)
        elif text:
            yield ThinkingChunk(self.index, text, self.signature)
            self.signature = None

    def end(self) -> Iterator[Chunk]:
        if rest := self.halves.rest():
            yield TextChunk(self.index, rest) if self.kind == "text" else ThinkingChunk(self.index, rest)
        yield BlockEnded(self.index)


def _texts(delta: dict[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """Kind, signature and text of what a delta says, thinking first; two members may hold the same thought."""
    for member in THINKING_MEMBERS:
        if isinstance(thought := delta.get(member), str) and thought:
            yield "thinking", member, thought
            break
    yield from _parts(delta.get("content"), "text")
    yield from _parts(delta.get("refusal"), "text")


def _parts(content: Any, kind: str) -> Iterator[tuple[str, str | None, str]]:
    """A string, or a list of parts, of which some are thinking."""
    if isinstance(content, str) and content:
        yield kind, None, content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            inner = "thinking" if part.get("type") in {"thinking", "reasoning"} else kind
            yield from _parts(part.get("text"), inner)
            yield from _parts(part.get("thinking"), inner)
