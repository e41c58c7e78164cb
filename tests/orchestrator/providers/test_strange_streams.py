"""Whatever a server sends as JSON: nothing raises, and all that is heard can be written down."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.protocol.model import BlockEnded, CallArguments, CallStarted, Chunk, ModelFailure, TextChunk, ThinkingChunk
from actors.reply import Reply
from orchestrator.providers import anthropic_usage, openai_usage
from orchestrator.providers.anthropic_messages import MessageReader
from orchestrator.providers.openai_responses import ResponseReader
from orchestrator.providers.post import Post
from orchestrator.providers.sse import SseParser
from tests.orchestrator.providers.apis import INFO

MESSAGE_TYPES = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"),
    *("message_stop", "ping", "text", "thinking", "tool_use", "redacted_thinking", "text_delta", "thinking_delta"),
    *("signature_delta", "input_json_delta"),
]
RESPONSE_TYPES = [
    *("response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta"),
    *("response.output_text.done", "response.content_part.done", "response.reasoning_summary_part.added"),
    *("response.reasoning_summary_text.delta", "response.function_call_arguments.delta", "response.incomplete"),
    *("response.function_call_arguments.done", "response.completed", "response.failed", "message", "reasoning"),
    *("function_call", "output_text", "refusal", "summary_text"),
]
MEMBERS = [
    *("type", "index", "message", "content_block", "delta", "usage", "id", "name", "input", "text", "thinking"),
    *("signature", "data", "partial_json", "stop_reason", "stop_details", "explanation", "input_tokens", "error"),
    *("item", "item_id", "output_index", "content_index", "part", "arguments", "call_id", "summary", "content"),
    *("encrypted_content", "response", "status", "output", "incomplete_details", "reason", "refusal"),
]
LEAVES = st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | st.text("a{}\ud83c\udf33 ", max_size=3)


def events(types: list[str], top: list[str]) -> st.SearchStrategy[list[Any]]:
    """Lists of events, most of which have a type that means something, and so have the objects in them."""

    def objects(inner: st.SearchStrategy[Any], types: list[str] = types) -> st.SearchStrategy[Any]:
        members = st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5)
        return st.builds(lambda type, rest: {"type": type} | rest, st.sampled_from(types), members)

    values = st.recursive(
        LEAVES | st.sampled_from(types), lambda inner: st.lists(inner, max_size=2) | objects(inner), max_leaves=8
    )
    return st.lists(objects(values, top) | values, max_size=8)


async def hears_all(reader: Any, heard: list[Chunk], values: list[Any]) -> None:
    stream = "".join(f"data: {json.dumps(value)}\n\n" for value in values).encode()
    for event in SseParser().feed(stream):
        if await reader.take(event):
            break
    end = await reader.end(None)
    if isinstance(end, ModelFailure):
        end = Post("", {}, b"").without_secrets(end)
    msgspec.json.encode([heard, end])

    opened: set[int] = set()
    ended: set[int] = set()
    reply = Reply(INFO, 0, 0.0)
    for chunk in heard:
        reply.take(chunk)
        if isinstance(chunk, TextChunk | ThinkingChunk | CallStarted):
            assert chunk.index in opened or chunk.index == len(opened)  # blocks stand in the order in which they begin
            opened.add(chunk.index)
        if isinstance(chunk, TextChunk | ThinkingChunk | CallArguments | BlockEnded):
            assert chunk.index in opened
            assert chunk.index not in ended
        if isinstance(chunk, BlockEnded):
            ended.add(chunk.index)


@given(values=events(MESSAGE_TYPES, MESSAGE_TYPES[:6]))
async def test_no_stream_of_messages_is_too_strange(values: list[Any]) -> None:
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    await hears_all(MessageReader(hear, anthropic_usage.Counts(lambda text: None), "call_1"), heard, values)


@example(values=[{"type": "response.content_part.done", "part": {"type": []}}])
@given(values=events(RESPONSE_TYPES, RESPONSE_TYPES[:13]))
async def test_no_stream_of_responses_is_too_strange(values: list[Any]) -> None:
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    await hears_all(ResponseReader(hear, openai_usage.Counts(lambda text: None), "call_1"), heard, values)


@pytest.mark.parametrize("type", ["error", ["error"], {"error": 1}, None, 5])
@pytest.mark.parametrize("reader", [MessageReader, ResponseReader])
async def test_a_type_that_is_no_word_is_no_trouble(type: Any, reader: Any) -> None:
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    counts = (anthropic_usage if reader is MessageReader else openai_usage).Counts(lambda text: None)
    await hears_all(reader(hear, counts, "call_1"), heard, [{"type": type}])
