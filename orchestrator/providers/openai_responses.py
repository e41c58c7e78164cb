"""OpenAI's responses, and the servers that are compatible with them."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import attrs

from actors.protocol.model import Chunk, Hear, ModelFailure, ModelRequest, ReplyEnd, ResponseNamed, UsageReported
from orchestrator.providers.blocks import Blocks, Kind
from orchestrator.providers.endings import Endings
from orchestrator.providers.openai_usage import Counts
from orchestrator.providers.remote import Remote
from orchestrator.providers.responses_body import body_of, kept_reasoning
from orchestrator.providers.responses_quirks import quirks_of
from orchestrator.providers.sse import Event
from orchestrator.providers.stream_json import is_error, object_of, told_failure
from orchestrator.providers.text import encoded_json, list_in, object_in, text_in, word_in

_ENDINGS = Endings(
    reasons={
        **dict.fromkeys(("completed", "done"), "stop"),
        # An incomplete response without a reason is one that came to some limit: asked again, it would again.
        **dict.fromkeys(("max_output_tokens", "max_tokens", "length", "incomplete"), "length"),
    },
    failures={
        **dict.fromkeys(("content_filter", "safety"), "refusal"),
        **dict.fromkeys(("in_progress", "queued", "cancelled"), "incomplete"),
    },
    usual={"stop": "completed", "length": "max_output_tokens", "toolUse": "completed"},
)
_LAST = frozenset({"completed", "incomplete", "failed", "done", "cancelled"})


@attrs.define
class OpenAIResponses(Remote):
    """The port to a model, over `base_url` (with its `/v1`). One serves all models of its provider."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        quirks = quirks_of(self.base_url, request.model.provider)
        body = body_of(request, quirks, request.service_tier or self.service_tier)
        post = self.post("/responses", encoded_json(body), quirks.key_header)
        counts = Counts(lambda text: self.notice(request.session_id, text))
        reader = ResponseReader(hear, counts, f"call_{request.call}", post.redacted)
        end = await reader.end(await self.http.post(post, reader.take))
        return post.without_secrets(end) if isinstance(end, ModelFailure) else end


@attrs.define
class ResponseReader:
    """From the events of one stream to the chunks of one reply. `redacted` takes keys out of what is quoted.

    What is told piece by piece is told again as a whole, part by part and item by item: of that only what is new is heard.
    """

    hear: Hear
    counts: Counts
    call_id_prefix: str
    redacted: Callable[[str], str] = str
    _end: str | None = attrs.field(default=None, init=False)
    _failure: ModelFailure | None = attrs.field(default=None, init=False)
    _is_named: bool = attrs.field(default=False, init=False)
    _has_items: bool = attrs.field(default=False, init=False)
    _blocks: Blocks = attrs.field(init=False)

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
        phase = (text_in(value, "type") or event.type).removeprefix("response.")
        response = object_in(value, "response")
        for chunk in [*self._of_response(response), *self._chunks(phase, value)]:
            await self.hear(chunk)
        if phase not in _LAST:
            return False
        if not self._has_items:
            for place, item in enumerate(list_in(response, "output")):
                for chunk in self._whole_item(place, item):
                    await self.hear(chunk)
        status = text_in(response, "status") or phase
        if "failed" in {status, phase}:
            self._failure = told_failure(event, self.redacted)
        self._end = word_in(object_in(response, "incomplete_details"), "reason") or status
        return True

    async def end(self, failure: ModelFailure | None) -> ReplyEnd | ModelFailure:
        """How the reply ended, where the transport says `failure` or nothing."""
        if self._failure is not None:
            return self._failure
        if self._end is None:
            return failure or ModelFailure(kind="incomplete", message="the stream ended before the response did")
        end = _ENDINGS.end(self._end, has_calls=self._blocks.has_calls)
        if isinstance(end, ReplyEnd):
            for chunk in self._blocks.end_all(is_cut=end.stop_reason == "length"):
                await self.hear(chunk)
        return end

    def _of_response(self, response: dict[str, Any]) -> Iterator[Chunk]:
        if not self._is_named and (id := word_in(response, "id")):
            self._is_named = True
            yield ResponseNamed(id)
        if (usage := self.counts.take(response.get("usage"))) is not None:
            yield UsageReported(usage)

    def _chunks(self, phase: str, value: dict[str, Any]) -> Iterator[Chunk]:
        item = _key(value)
        place = value.get("content_index")
        part = item, place if isinstance(place, int) else 0
        match phase:
            case "output_item.added":
                yield from self._opened(item, object_in(value, "item"))
            case "output_item.done":
                yield from self._whole_item(item, object_in(value, "item"))
            case "output_text.delta" | "refusal.delta":
                self._has_items = True
                yield from self._blocks.grow(part, text_in(value, "delta"), "text")
            case "output_text.done" | "refusal.done":
                yield from self._whole_part(part, value)
            case "content_part.done" if text_in(object_in(value, "part"), "type") in {"output_text", "refusal"}:
                yield from self._whole_part(part, object_in(value, "part"))
            case "reasoning_summary_part.added" if self._blocks.said(item):
                yield from self._blocks.grow(item, "\n\n")
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                self._has_items = True
                yield from self._blocks.grow(item, text_in(value, "delta"), "thinking")
            case "function_call_arguments.delta":
                yield from self._blocks.grow(item, text_in(value, "delta"))
            case "function_call_arguments.done":
                yield from self._rest(item, text_in(value, "arguments"))
                yield from self._blocks.end(item)

    def _opened(self, key: Hashable, item: dict[str, Any]) -> Iterator[Chunk]:
        self._has_items = True
        match item.get("type"):
            case "reasoning":
                yield from self._blocks.open(key, "thinking")
            case "function_call":
                id = word_in(item, "call_id") or word_in(item, "id")
                yield from self._blocks.open_call(key, id, word_in(item, "name"))

    def _whole_item(self, key: Hashable, item: Any) -> Iterator[Chunk]:
        if not isinstance(item, dict):
            return
        match item.get("type"):
            case "message":
                for place, part in enumerate(list_in(item, "content")):
                    yield from self._whole_part((key, place), part)
            case "function_call":
                if key not in self._blocks:
                    yield from self._opened(key, item)
                yield from self._rest(key, text_in(item, "arguments"))
                yield from self._blocks.end(key)
            case "reasoning":
                yield from self._rest(key, _reasoned(item), "thinking")
                if kept := kept_reasoning(item):
                    yield from self._blocks.sign(key, kept)
                yield from self._blocks.end(key)
        self._has_items = True

    def _whole_part(self, key: Hashable, part: Any) -> Iterator[Chunk]:
        if isinstance(part, dict):
            yield from self._rest(key, text_in(part, "text") or text_in(part, "refusal"), "text")
            yield from self._blocks.end(key)

    def _rest(self, key: Hashable, whole: str, kind: Kind | None = None) -> Iterator[Chunk]:
        said = self._blocks.said(key)
        if whole.startswith(said):
            yield from self._blocks.grow(key, whole[len(said) :], kind)


def _key(value: dict[str, Any]) -> Hashable:
    """By which events of one item are known; some servers give it another id in each of them."""
    place = value.get("output_index")
    return place if isinstance(place, int) else text_in(value, "item_id") or text_in(object_in(value, "item"), "id")


def _reasoned(item: dict[str, Any]) -> str:
    parts = list_in(item, "summary") or list_in(item, "content")
    return "\n\n".join(text_in(part, "text") for part in parts if isinstance(part, dict))
