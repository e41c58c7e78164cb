"""One reply in the three wire formats: the events that a server of each sends, with all that the real ones put into them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import attrs
import msgspec

from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Chunk,
    ModelFailure,
    ReplyEnd,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from orchestrator.providers import anthropic_usage, openai_usage
from orchestrator.providers.anthropic_messages import AnthropicMessages, MessageReader
from orchestrator.providers.openai_completions import CompletionReader, OpenAICompletions
from orchestrator.providers.openai_responses import OpenAIResponses, ResponseReader
from orchestrator.providers.ports import Port
from orchestrator.providers.sse import SseParser
from store.usage import Usage

Json = dict[str, Any]
Call = tuple[str, str, str]
"""Id, name, JSON of the arguments."""
Stop = Literal["stop", "toolUse", "length"]


@attrs.frozen
class Said:
    """What a model says. `tokens`: input, output, cache read, cache write, reasoning. `piece`: characters of a delta."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    stop: Stop = "stop"
    tokens: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    piece: int = 7

    def pieces(self, text: str) -> list[str]:
        return [text[start : start + self.piece] for start in range(0, len(text), self.piece)]


@attrs.frozen
class Heard:
    """What a reader made of it."""

    text: str
    thinking: str
    calls: Sequence[Call]
    usage: Usage
    end: ReplyEnd | ModelFailure
    signature: str | None = None


@attrs.frozen
class Api:
    """One wire format: how a server speaks it, and who of ours reads it. `path`: below the server's address."""

    name: str
    base: str
    path: str
    speak: Callable[[Said], bytes]
    port: type[Port]
    reader: Callable[..., CompletionReader | ResponseReader | MessageReader]
    failure: Callable[[str, str], bytes]
    """The event of an error in a stream: its code or type, and its message."""

    async def listen(self, *chunks: bytes) -> tuple[list[Chunk], ReplyEnd | ModelFailure]:
        """What our reader makes of the bytes of a stream, without a network."""
        heard: list[Chunk] = []

        async def hear(chunk: Chunk) -> None:
            heard.append(chunk)

        parser = SseParser()
        reader = self.reader(hear)
        found = [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()
        for event in found:
            if await reader.take(event):
                break
        return heard, await reader.end(None)


def heard(chunks: Sequence[Chunk], end: ReplyEnd | ModelFailure) -> Heard:
    arguments: dict[int, str] = {}
    for chunk in chunks:
        if isinstance(chunk, CallArguments):
            arguments[chunk.index] = arguments.get(chunk.index, "") + chunk.json
    started = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    usages = [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)]
    signatures = [chunk.signature for chunk in chunks if isinstance(chunk, ThinkingChunk) and chunk.signature]
    return Heard(
        "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)),
        "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk)),
        [(call.id, call.name, arguments.get(call.index, "")) for call in started],
        usages[-1] if usages else Usage(),
        end,
        signatures[-1] if signatures else None,
    )


def framed(values: Sequence[Json], *, named: bool) -> bytes:
    """`values` as events; `named` by their type."""
    return b"".join(
        (f"event: {value['type']}\n".encode() if named else b"") + b"data: " + msgspec.json.encode(value) + b"\n\n"
        for value in values
    )


# --- chat completions -------------------------------------------------------------------------------------------------


def completion(said: Said) -> bytes:
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"reasoning_content": piece} for piece in said.pieces(said.thinking)]
    deltas += [{"content": piece} for piece in said.pieces(said.text)]
    for index, (id, name, arguments) in enumerate(said.calls):
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in said.pieces(arguments)
        ]
    finish = {"stop": "stop", "toolUse": "tool_calls", "length": "length"}[said.stop]
    values = [_completion_chunk(delta, None) for delta in deltas] + [_completion_chunk({}, finish)]
    fresh, output, read, written, reasoning = said.tokens
    usage = {
        "prompt_tokens": fresh + read + written,
        "completion_tokens": output,
        "total_tokens": fresh + read + written + output,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }
    values.append(_completion_chunk({}, None) | {"choices": [], "usage": usage})
    return framed(values, named=False) + b"data: [DONE]\n\n"


def _completion_chunk(delta: Json, finish: str | None) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "gpt-5.4-2026-01-01",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
    }


def completion_failure(code: str, message: str) -> bytes:
    return framed([{"error": {"message": message, "type": code, "param": None, "code": code}}], named=False)


# --- messages ---------------------------------------------------------------------------------------------------------

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"


def message(said: Said) -> bytes:
    fresh, output, read, written, reasoning = said.tokens
    usage = {
        "input_tokens": fresh,
        "output_tokens": min(1, output),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
    started = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    stop = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}[said.stop]
    values: list[Json] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(_blocks(said)):
        values.append({"type": "content_block_start", "index": index, "content_block": block})
        values += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        values.append({"type": "content_block_stop", "index": index})
    counts = {"output_tokens": output, "output_tokens_details": {"thinking_tokens": reasoning}}
    delta = {"stop_reason": stop, "stop_sequence": None, "stop_details": None, "container": None}
    values += [{"type": "message_delta", "delta": delta, "usage": counts}, {"type": "message_stop"}]
    return framed(values, named=True)


def _blocks(said: Said) -> Iterator[tuple[Json, list[Json]]]:
    if said.thinking:
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in said.pieces(said.thinking)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, signed]
    if said.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in said.pieces(said.text)]
        yield {"type": "text", "text": "", "citations": None}, pieces
    for id, name, arguments in said.calls:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *said.pieces(arguments)]]
        yield {"type": "tool_use", "id": id, "name": name, "input": {}}, pieces


def message_failure(code: str, message: str) -> bytes:
    value = {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}
    return framed([value], named=True)


# --- responses --------------------------------------------------------------------------------------------------------

ENCRYPTED = (
    "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT-3uiErKInHDC-lgAaXeky44N77j7aibc2elHISjAvX7OmUwMU1r7NgaiHSVWL5BtWgXVBp4BMFkWZ"
)


def response(said: Said) -> bytes:
    values: list[Json] = [
        {"type": f"response.{phase}", "response": _response("in_progress", [], None)}
        for phase in ("created", "in_progress")
    ]
    output: list[Json] = []
    if said.thinking:
        item, events = _reasoning_item(said)
        output.append(item)
        values += events
    if said.text:
        item, events = _message_item(said, len(output))
        output.append(item)
        values += events
    for call in said.calls:
        item, events = _call_item(said, call, len(output))
        output.append(item)
        values += events
    fresh, spent, read, written, reasoning = said.tokens
    usage = {
        "input_tokens": fresh + read + written,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": spent,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": fresh + read + written + spent,
    }
    status = "incomplete" if said.stop == "length" else "completed"
    values.append({"type": f"response.{status}", "response": _response(status, output, usage)})
    return framed([value | {"sequence_number": number} for number, value in enumerate(values)], named=True)


def _response(status: str, output: list[Json], usage: Json | None) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5.4-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "low", "summary": "auto"},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def _item_events(place: int, begun: Json, inner: list[Json], done: Json) -> list[Json]:
    at = {"item_id": done["id"], "output_index": place}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": begun},
        *(event | at for event in inner),
        {"type": "response.output_item.done", "output_index": place, "item": done},
    ]


def _reasoning_item(said: Said) -> tuple[Json, list[Json]]:
    part = {"type": "summary_text", "text": said.thinking}
    begun = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    done = begun | {"summary": [part], "encrypted_content": ENCRYPTED}
    at = {"summary_index": 0}
    prefix = "response.reasoning_summary_"
    inner: list[Json] = [{"type": f"{prefix}part.added", "part": part | {"text": ""}} | at]
    inner += [{"type": f"{prefix}text.delta", "delta": piece} | at for piece in said.pieces(said.thinking)]
    inner += [
        {"type": f"{prefix}text.done", "text": said.thinking} | at,
        {"type": f"{prefix}part.done", "part": part} | at,
    ]
    return done, _item_events(0, begun, inner, done)


def _message_item(said: Said, place: int) -> tuple[Json, list[Json]]:
    part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    begun = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    done = begun | {"status": "completed", "content": [part]}
    at = {"content_index": 0}
    inner: list[Json] = [{"type": "response.content_part.added", "part": part | {"text": ""}} | at]
    inner += [
        {"type": "response.output_text.delta", "delta": piece, "logprobs": [], "obfuscation": "x"} | at
        for piece in said.pieces(said.text)
    ]
    inner += [
        {"type": "response.output_text.done", "text": said.text, "logprobs": []} | at,
        {"type": "response.content_part.done", "part": part} | at,
    ]
    return done, _item_events(place, begun, inner, done)


def _call_item(said: Said, call: Call, place: int) -> tuple[Json, list[Json]]:
    id, name, arguments = call
    begun = {"id": f"fc_{place}", "type": "function_call", "call_id": id, "name": name}
    begun |= {"status": "in_progress", "arguments": ""}
    done = begun | {"status": "completed", "arguments": arguments}
    prefix = "response.function_call_arguments."
    inner: list[Json] = [{"type": f"{prefix}delta", "delta": piece} for piece in said.pieces(arguments)]
    inner.append({"type": f"{prefix}done", "name": name, "arguments": arguments})
    return done, _item_events(place, begun, inner, done)


def response_failure(code: str, message: str) -> bytes:
    failed = _response("failed", [], None) | {"error": {"code": code, "message": message}}
    return framed([{"type": "response.failed", "response": failed, "sequence_number": 9}], named=True)


# --- the three --------------------------------------------------------------------------------------------------------


def _complain(text: str) -> None:
    raise AssertionError(text)


COMPLETIONS = Api(
    "openai-completions",
    "/v1",
    "/v1/chat/completions",
    completion,
    OpenAICompletions,
    lambda hear: CompletionReader(hear, openai_usage.Counts(_complain), "call_1"),
    completion_failure,
)
RESPONSES = Api(
    "openai-responses",
    "/v1",
    "/v1/responses",
    response,
    OpenAIResponses,
    lambda hear: ResponseReader(hear, openai_usage.Counts(_complain), "call_1"),
    response_failure,
)
MESSAGES = Api(
    "anthropic-messages",
    "",
    "/v1/messages",
    message,
    AnthropicMessages,
    lambda hear: MessageReader(hear, anthropic_usage.Counts(_complain), "call_1"),
    message_failure,
)
APIS = (COMPLETIONS, RESPONSES, MESSAGES)
