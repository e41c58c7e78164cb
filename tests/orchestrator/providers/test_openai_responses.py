"""OpenAI's responses: what only this format has."""

import json
from typing import Any

import msgspec
import pytest

from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Chunk,
    ModelFailure,
    ModelInfo,
    ModelRequest,
    ReplyEnd,
    ResponseNamed,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from orchestrator.providers.http import opened_http
from orchestrator.providers.openai_responses import OpenAIResponses
from store.messages import user_text
from store.usage import Usage
from tests.orchestrator.providers.apis import RESPONSES
from tests.orchestrator.providers.said import Json, Said, framed
from tests.raw_server import head, raw_server

Listened = tuple[list[Chunk], ReplyEnd | ModelFailure]


def event(phase: str, place: Any = 0, **members: Any) -> Json:
    return {"type": f"response.{phase}", "output_index": place} | members


def added(place: Any, type: str, **members: Any) -> Json:
    return event("output_item.added", place, item={"type": type, "id": f"i_{place}"} | members)


def done(place: Any, type: str, **members: Any) -> Json:
    return event("output_item.done", place, item={"type": type, "id": f"i_{place}"} | members)


def said(place: Any, words: str, part: int = 0) -> Json:
    return event("output_text.delta", place, content_index=part, delta=words)


def thought(place: Any, words: str) -> Json:
    return event("reasoning_summary_text.delta", place, summary_index=0, delta=words)


def argued(place: Any, words: str) -> Json:
    return event("function_call_arguments.delta", place, delta=words)


def last(status: str = "completed", **members: Any) -> Json:
    return {"type": f"response.{status}", "response": {"status": status} | members}


def words(*texts: str) -> list[Json]:
    return [{"type": "output_text", "text": text} for text in texts]


def call_of(place: Any, id: str = "a", name: str = "bash") -> Json:
    return added(place, "function_call", call_id=id, name=name, arguments="")


async def read(*values: Json, named: bool = True) -> Listened:
    return await RESPONSES.listen(framed(values, named=named))


async def ended(*values: Json) -> ReplyEnd | ModelFailure:
    return (await read(*values))[1]


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
async def test_a_reply_is_told_block_by_block(named: bool) -> None:
    kept = {"type": "reasoning", "id": "i_0", "summary": [], "encrypted_content": "gAAA"}
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 3}

    assert await read(
        {"type": "response.created", "response": {"id": "resp_1", "usage": None}},
        {"type": "response.in_progress", "response": {"id": "resp_1"}},
        added(0, "reasoning", summary=[]),
        thought(0, "hm"),
        done(0, "reasoning", summary=[], encrypted_content="gAAA"),
        added(1, "message", content=[]),
        said(1, "I "),
        said(1, "look."),
        event("output_text.done", 1, content_index=0, text="I look."),
        done(1, "message", content=words("I look.")),
        call_of(2),
        argued(2, '{"a"'),
        argued(2, ":1}"),
        event("function_call_arguments.done", 2, arguments='{"a":1}'),
        done(2, "function_call", call_id="a", name="bash", arguments='{"a":1}'),
        last(id="resp_1", usage=usage),
        named=named,
    ) == (
        [
            ResponseNamed("resp_1"),
            ThinkingChunk(0, "hm"),
            ThinkingChunk(0, "", msgspec.json.encode(kept).decode()),
            BlockEnded(0),
            TextChunk(1, "I "),
            TextChunk(1, "look."),
            BlockEnded(1),
            CallStarted(2, "a", "bash"),
            CallArguments(2, '{"a"'),
            CallArguments(2, ":1}"),
            BlockEnded(2),
            UsageReported(Usage(input=2, output=3, cache_read=8, total_tokens=13)),
        ],
        ReplyEnd("toolUse"),
    )


TEXT = [TextChunk(0, "ab"), BlockEnded(0)]
CALL = [CallStarted(0, "a", "bash"), CallArguments(0, '{"a":1}'), BlockEnded(0)]
WHOLE_CALL = {"call_id": "a", "name": "bash", "arguments": '{"a":1}'}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([event("output_text.done", text="ab")], TEXT, id="the part as a whole"),
        pytest.param([event("content_part.done", part=words("ab")[0])], TEXT, id="the part as it is"),
        pytest.param([done(0, "message", content=words("ab"))], TEXT, id="the item as a whole"),
        pytest.param([last(output=[{"type": "message", "content": words("ab")}])], TEXT, id="the end alone"),
        pytest.param(
            [said(0, "a"), event("output_text.done", text="ab")],
            [TextChunk(0, "a"), TextChunk(0, "b"), BlockEnded(0)],
            id="a delta was lost",
        ),
        pytest.param(
            [said(0, "x"), done(0, "message", content=words("ab"))],
            [TextChunk(0, "x"), BlockEnded(0)],
            id="another text in the end",
        ),
        pytest.param(
            [said(0, "a", 0), said(0, "b", 1), done(0, "message", content=words("a", "b"))],
            [TextChunk(0, "a"), TextChunk(1, "b"), BlockEnded(0), BlockEnded(1)],
            id="two parts",
        ),
        pytest.param([event("refusal.delta", delta="ab"), event("refusal.done", refusal="ab")], TEXT, id="a refusal"),
        pytest.param([done(0, "function_call", **WHOLE_CALL)], CALL, id="a whole call"),
        pytest.param([last(output=[{"type": "function_call"} | WHOLE_CALL])], CALL, id="a call in the end alone"),
        pytest.param(
            [argued(0, '{"a"'), done(0, "function_call", **WHOLE_CALL)], CALL, id="arguments before their call"
        ),
        pytest.param(
            [call_of(0), event("function_call_arguments.done", arguments='{"a":1}')], CALL, id="arguments as a whole"
        ),
        pytest.param(
            [added(0, "function_call", name="bash"), argued(0, "{}")],
            [CallStarted(0, "i_0", "bash"), CallArguments(0, "{}"), BlockEnded(0)],
            id="an id of the item alone",
        ),
        pytest.param(
            [event("reasoning_text.delta", delta="hm"), done(0, "reasoning", content=[{"text": "hm"}])],
            [ThinkingChunk(0, "hm"), BlockEnded(0)],
            id="reasoning that is shown as it is",
        ),
        pytest.param(
            [done(0, "reasoning", summary=[{"text": "a"}, {"text": "b"}])],
            [ThinkingChunk(0, "a\n\nb"), BlockEnded(0)],
            id="a summary as a whole",
        ),
        pytest.param(
            [thought(0, "a"), event("reasoning_summary_part.added"), thought(0, "b")],
            [ThinkingChunk(0, "a"), ThinkingChunk(0, "\n\n"), ThinkingChunk(0, "b"), BlockEnded(0)],
            id="a summary of two parts",
        ),
        pytest.param(
            [added(0, "web_search_call", status="in_progress"), done(0, "web_search_call"), said(1, "ab")],
            TEXT,
            id="a tool that runs at the provider",
        ),
        pytest.param(
            [said(0, "a\ud83c"), said(0, "\udf33")], [TextChunk(0, "a"), TextChunk(0, "🌳"), BlockEnded(0)], id="halves"
        ),
    ],
)
async def test_what_is_told_twice_is_heard_once_and_what_is_told_once_is_heard(
    values: list[Json], expected: list[Chunk]
) -> None:
    stream = "".join(f"data: {json.dumps(value)}\n\n" for value in [*values, last()]).encode()
    chunks, end = await RESPONSES.listen(stream)

    assert chunks == expected
    assert end == ReplyEnd("toolUse" if any(isinstance(chunk, CallStarted) for chunk in expected) else "stop")


async def test_servers_that_only_tell_items_apart_by_id_are_understood() -> None:
    def anonymous(value: Json, id: str) -> Json:
        return {key: member for key, member in value.items() if key != "output_index"} | {"item_id": id}

    values = [
        {"type": "response.output_item.added", "item": {"type": "function_call", "id": id, "call_id": id, "name": "x"}}
        for id in ("f1", "f2")
    ]
    values += [anonymous(argued(0, '{"n":2}'), "f2"), anonymous(argued(0, '{"n":1}'), "f1")]
    chunks, _ = await read(*values, last())

    assert [chunk for chunk in chunks if isinstance(chunk, CallArguments)] == [
        CallArguments(1, '{"n":2}'),
        CallArguments(0, '{"n":1}'),
    ]


async def test_parallel_calls_may_take_turns() -> None:
    values = [call_of(0, "a"), call_of(1, "b"), argued(0, '{"n":'), argued(1, "{}"), argued(0, "1}")]
    chunks, end = await read(*values, done(1, "function_call", arguments="{}"), last())

    assert end == ReplyEnd("toolUse")
    assert chunks[-2:] == [BlockEnded(1), BlockEnded(0)]


# --- how it ends, P6 and P9 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (last("completed"), ReplyEnd("stop")),
        ({"type": "response.done", "response": {"status": "completed"}}, ReplyEnd("stop")),
        ({"type": "response.completed"}, ReplyEnd("stop")),
        (last("incomplete", incomplete_details={"reason": "max_output_tokens"}), ReplyEnd("length")),
        (last("incomplete", incomplete_details={"reason": "length"}), ReplyEnd("length", "length")),
        (last("incomplete", incomplete_details=None), ReplyEnd("length", "incomplete")),
        (
            {
                "type": "response.completed",
                "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            },
            ReplyEnd("length"),
        ),
    ],
)
async def test_ends_that_are_known(value: Json, expected: ReplyEnd) -> None:
    assert await ended(said(0, "a"), value) == expected


@pytest.mark.parametrize(
    ("value", "kind", "word"),
    [
        (last("incomplete", incomplete_details={"reason": "content_filter"}), "refusal", "content_filter"),
        (last("incomplete", incomplete_details={"reason": "max_messages"}), "invalid_request", "max_messages"),
        (last("cancelled"), "incomplete", "cancelled"),
        (last("failed", error={"code": "rate_limit_exceeded", "message": "Slow"}), "rate_limited", "Slow"),
        (last("failed", error={"code": "invalid_image_format", "message": "No"}), "invalid_request", "No"),
        (last("failed", error={"code": "bio_policy", "message": "No"}), "refusal", "bio_policy"),
        (last("failed", error=None), "server", "the provider gave no message"),
        ({"type": "response.failed"}, "server", "the provider gave no message"),
        ({"type": "error", "code": "server_error", "message": "Boom", "param": None}, "server", "Boom (server_error)"),
        ({"type": "error", "error": {"code": "insufficient_quota", "message": "Pay"}}, "quota", "Pay"),
        ({"error": {"code": 429, "message": "Slow"}}, "rate_limited", "Slow"),
    ],
)
async def test_other_ends_are_failures_in_the_providers_words(value: Json, kind: str, word: str) -> None:
    end = await ended(said(0, "a"), value)

    assert isinstance(end, ModelFailure)
    assert end.kind == kind
    assert word in end.message
    assert len(end.message) < 100


async def test_a_stream_without_its_last_event_is_incomplete_however_whole_its_items_are() -> None:
    end = await ended(said(0, "ab"), done(0, "message", status="completed", content=words("ab")))

    assert isinstance(end, ModelFailure)
    assert (end.kind, end.is_retryable) == ("incomplete", True)


async def test_usage_counts_also_where_the_response_failed() -> None:
    failed = last("failed", error={"code": "server_error", "message": "x"}, usage={"input_tokens": 5})
    chunks, _ = await read(failed)

    assert chunks == [UsageReported(Usage(input=5, total_tokens=5))]


# --- the request on the wire ------------------------------------------------------------------------------------------


async def test_what_the_request_carries() -> None:
    info = ModelInfo("local", "gpt-5.4", "openai-responses")
    request = ModelRequest("s-1", "root", 0, 1, info, (user_text("hi", 0),), thinking="low")
    answer = [head() + RESPONSES.speak(Said(text="a"))]
    async with raw_server(answer) as server, opened_http(uses_environment=False) as http:
        model = OpenAIResponses(
            http, f"{server.url}/v1/?api-version=1", "sk-canary-1", {"X-Extra": "1"}, service_tier="flex"
        )

        async def hear(chunk: Chunk) -> None:
            pass

        await model.call(request, hear)

    [sent] = server.requests
    assert sent.line == "POST /v1/responses?api-version=1 HTTP/1.1"
    assert sent.headers["authorization"] == "Bearer sk-canary-1"
    assert sent.headers["x-extra"] == "1"
    assert (sent.json["store"], sent.json["service_tier"]) == (False, "flex")
    assert sent.json["reasoning"] == {"effort": "low", "summary": "auto"}
