"""Anthropic's messages, and the servers that are compatible with them."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import msgspec

from actors.protocol.model import Chunk, Hear, ModelFailure, ModelRequest, ReplyEnd, ResponseNamed, UsageReported
from orchestrator.providers.anthropic_body import REDACTED, beta_of, body_of
from orchestrator.providers.anthropic_quirks import quirks_of
from orchestrator.providers.anthropic_usage import Counts
from orchestrator.providers.blocks import Blocks
from orchestrator.providers.endings import Endings
from orchestrator.providers.post import Post
from orchestrator.providers.remote import Remote
from orchestrator.providers.sse import Event
from orchestrator.providers.stream_json import is_error, object_of, told_failure
from orchestrator.providers.text import encoded_json, object_in, text_in, word_in

_VERSION = "2023-06-01"
_BETA = "anthropic-beta"
_ENDINGS = Endings(
    reasons={
        # A turn that only pauses does so for tools that run at the provider, of which none is asked for.
        **dict.fromkeys(("end_turn", "stop_sequence", "pause_turn", "stop", "end", "eos"), "stop"),
        **dict.fromkeys(("max_tokens", "length"), "length"),
        **dict.fromkeys(("tool_use", "tool_calls"), "toolUse"),
    },
    failures={
        **dict.fromkeys(("refusal", "content_filter", "sensitive", "safety"), "refusal"),
        "model_context_window_exceeded": "overflow",
        "network_error": "network",
        "error": "server",
    },
    usual={"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"},
)


@attrs.define
class AnthropicMessages(Remote):
    """The port to a model, over `base_url` (without `/v1`). One serves all models of its provider."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        post = self._post(request)
        counts = Counts(lambda text: self.notice(request.session_id, text))
        reader = MessageReader(hear, counts, f"call_{request.call}", post.redacted)
        end = await reader.end(await self.http.post(post, reader.take))
        return post.without_secrets(end) if isinstance(end, ModelFailure) else end

    def _post(self, request: ModelRequest) -> Post:
        quirks = quirks_of(self.base_url, request.model.provider)
        body = body_of(request, quirks, request.service_tier or self.service_tier)
        is_below_v1 = self.base_url.partition("?")[0].rstrip("/").endswith("/v1")
        path = "/messages" if is_below_v1 else "/v1/messages"
        post = self.post(path, encoded_json(body), quirks.key_header, anthropic_version=_VERSION)
        if beta := beta_of(body):
            betas = ",".join(filter(None, (post.headers.get(_BETA), beta)))
            post = attrs.evolve(post, headers=dict(post.headers) | {_BETA: betas})
        return post


@attrs.define
class MessageReader:
    """From the events of one stream to the chunks of one reply. `redacted` takes keys out of what is quoted."""

    hear: Hear
    counts: Counts
    call_id_prefix: str
    redacted: Callable[[str], str] = str
    _stop: str | None = attrs.field(default=None, init=False)
    _why: str = attrs.field(default="", init=False)
    _failure: ModelFailure | None = attrs.field(default=None, init=False)
    _blocks: Blocks = attrs.field(init=False)
    _inputs: dict[Any, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._blocks = Blocks(self.call_id_prefix)

    async def take(self, event: Event) -> bool:
        """Hear one event; True when no more is wanted."""
        value = object_of(event, self.redacted)
        if value is None:
            return False
        if isinstance(value, ModelFailure) or is_error(event, value):
            self._failure = value if isinstance(value, ModelFailure) else told_failure(event, self.redacted)
            return True
        for chunk in self._chunks(value, event.type):
            await self.hear(chunk)
        return "message_stop" in {event.type, text_in(value, "type")}

    async def end(self, failure: ModelFailure | None) -> ReplyEnd | ModelFailure:
        """How the reply ended, where the transport says `failure` or nothing.

        A connection that breaks behind the stop reason took nothing away: to ask again would pay twice.
        """
        if self._failure is not None:
            return self._failure
        if self._stop is None:
            return failure or ModelFailure(kind="incomplete", message="the stream ended without a stop reason")
        end = _ENDINGS.end(self._stop, has_calls=self._blocks.has_calls, why=self._why)
        if isinstance(end, ReplyEnd):
            for key in list(self._inputs):
                for chunk in self._given_input(key):
                    await self.hear(chunk)
            for chunk in self._blocks.end_all(is_cut=end.stop_reason == "length"):
                await self.hear(chunk)
        return end

    def _chunks(self, value: dict[str, Any], event_type: str) -> Iterator[Chunk]:
        key = _key(value.get("index"))
        match value.get("type", event_type):
            case "message_start":
                yield from self._started(object_in(value, "message"))
            case "content_block_start":
                yield from self._opened(key, object_in(value, "content_block"))
            case "content_block_delta":
                yield from self._grown(key, object_in(value, "delta"))
            case "content_block_stop":
                yield from self._given_input(key)
                yield from self._blocks.end(key)
            case "message_delta":
                self._take_stop(object_in(value, "delta"))
                yield from self._counted(value.get("usage"))

    def _started(self, message: dict[str, Any]) -> Iterator[Chunk]:
        if id := word_in(message, "id"):
            yield ResponseNamed(id)
        yield from self._counted(message.get("usage"))

    def _counted(self, reported: Any) -> Iterator[Chunk]:
        if (usage := self.counts.take(reported)) is not None:
            yield UsageReported(usage)

    def _opened(self, key: int, block: dict[str, Any]) -> Iterator[Chunk]:
        """Some servers put into the start what others send in pieces. Blocks of other types are not ours to show."""
        match block.get("type"):
            case "text":
                yield from self._blocks.open(key, "text")
                yield from self._blocks.grow(key, text_in(block, "text"))
            case "thinking":
                yield from self._blocks.open(key, "thinking")
                yield from self._blocks.grow(key, text_in(block, "thinking"))
                yield from self._signed(key, word_in(block, "signature"))
            case "redacted_thinking":
                yield from self._blocks.open(key, "thinking")
                kept = {"type": REDACTED, "data": word_in(block, "data")}
                yield from self._signed(key, msgspec.json.encode(kept).decode())
            case "tool_use":
                yield from self._blocks.open_call(key, word_in(block, "id"), word_in(block, "name"))
                if block.get("input"):
                    self._inputs[key] = text_in(block, "input") or encoded_json(block["input"]).decode()

    def _grown(self, key: int, delta: dict[str, Any]) -> Iterator[Chunk]:
        match delta.get("type"):
            case "text_delta":
                yield from self._blocks.grow(key, text_in(delta, "text"), "text")
            case "thinking_delta":
                yield from self._blocks.grow(key, text_in(delta, "thinking"), "thinking")
            case "signature_delta":
                yield from self._signed(key, word_in(delta, "signature"))
            case "input_json_delta":
                yield from self._blocks.grow(key, text_in(delta, "partial_json"))

    def _signed(self, key: int, signature: str) -> Iterator[Chunk]:
        if signature:
            yield from self._blocks.sign(key, signature)

    def _given_input(self, key: int) -> Iterator[Chunk]:
        """The arguments that came with the start of a call, where no piece of them came behind it."""
        given = self._inputs.pop(key, "")
        if given and not self._blocks.said(key):
            yield from self._blocks.grow(key, given)

    def _take_stop(self, delta: dict[str, Any]) -> None:
        self._stop = word_in(delta, "stop_reason") or self._stop
        self._why = word_in(object_in(delta, "stop_details"), "explanation") or self._why


def _key(index: Any) -> int:
    return index if isinstance(index, int) else 0
