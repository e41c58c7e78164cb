"""Anthropic's messages: what only this format has."""

import json
from typing import Any

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
from orchestrator.providers.anthropic_messages import AnthropicMessages
from orchestrator.providers.http import opened_http
from store.messages import user_text
from store.usage import Usage
from tests.orchestrator.providers.apis import MESSAGES
from tests.orchestrator.providers.said import Json, Said, framed
from tests.raw_server import head, raw_server

Listened = tuple[list[Chunk], ReplyEnd | ModelFailure]


def start(index: Any, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, type: str, **members: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type} | members}


def stop(index: Any) -> Json:
    return {"type": "content_block_stop", "index": index}


def text(index: Any, words: str) -> list[Json]:
    return [start(index, type="text", text=""), delta(index, "text_delta", text=words), stop(index)]


def call(index: Any, *pieces: str, id: str = "a", name: str = "bash", **block: Any) -> list[Json]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, type="tool_use", id=id, name=name, **block), *deltas, stop(index)]


def end(reason: Any = "end_turn", usage: Any = None, **members: Any) -> list[Json]:
    told = {"type": "message_delta", "delta": {"stop_reason": reason} | members, "usage": usage}
    return [told, {"type": "message_stop"}]


async def read(*values: Json, named: bool = True) -> Listened:
    return await MESSAGES.listen(framed(values, named=named))


async def ended(*values: Json) -> ReplyEnd | ModelFailure:
    return (await read(*values))[1]


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
async def test_a_reply_is_told_block_by_block(named: bool) -> None:
    assert await read(
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "ping"},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        delta(0, "signature_delta", signature="EqQB"),
        stop(0),
        *text(1, "I look."),
        *call(2, "", '{"a"', ":1}"),
        *end("tool_use", {"output_tokens": 9}),
        named=named,
    ) == (
        [
            ResponseNamed("msg_1"),
            UsageReported(Usage(input=5, output=1, total_tokens=6)),
            ThinkingChunk(0, "h"),
            ThinkingChunk(0, "m"),
            ThinkingChunk(0, "", "EqQB"),
            BlockEnded(0),
            TextChunk(1, "I look."),
            BlockEnded(1),
            CallStarted(2, "a", "bash"),
            CallArguments(2, '{"a"'),
            CallArguments(2, ":1}"),
            BlockEnded(2),
            UsageReported(Usage(input=5, output=9, total_tokens=14)),
        ],
        ReplyEnd("toolUse"),
    )


async def test_thinking_that_the_provider_keeps_to_itself_is_a_block_all_the_same() -> None:
    omitted = [start(0, type="thinking", thinking=""), delta(0, "signature_delta", signature="EqQB"), stop(0)]
    redacted = [start(1, type="redacted_thinking", data="EmwK"), stop(1)]
    chunks, _ = await read(*omitted, *redacted, *text(2, "a"), *end())

    assert chunks == [
        ThinkingChunk(0, "", "EqQB"),
        BlockEnded(0),
        ThinkingChunk(1, "", '{"type":"redacted_thinking","data":"EmwK"}'),
        BlockEnded(1),
        TextChunk(2, "a"),
        BlockEnded(2),
    ]


async def test_blocks_of_tools_that_run_at_the_provider_are_left_out() -> None:
    searched = [
        start(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        stop(0),
        start(1, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[]),
        stop(1),
    ]
    cited = [delta(2, "citations_delta", citation={"type": "char_location"})]

    assert await read(*searched, *text(2, "a"), *cited, *end()) == (
        [TextChunk(0, "a"), BlockEnded(0)],
        ReplyEnd("stop"),
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([start(0, type="text", text="ab"), stop(0)], [TextChunk(0, "ab"), BlockEnded(0)]),
        ([delta(0, "text_delta", text="ab")], [TextChunk(0, "ab"), BlockEnded(0)]),
        ([*text(0, "a"), *text(0, "b")], [TextChunk(0, "a"), BlockEnded(0), TextChunk(1, "b"), BlockEnded(1)]),
        ([*text(None, "a"), delta(None, "text_delta", text=" late")], [TextChunk(0, "a"), BlockEnded(0)]),
        (
            [start(0, type="text"), delta(0, "thinking_delta", thinking="hm"), stop(0)],
            [ThinkingChunk(0, "hm"), BlockEnded(0)],
        ),
        (
            [start(0, type="thinking", thinking="hm", signature="EqQB")],
            [ThinkingChunk(0, "hm"), ThinkingChunk(0, "", "EqQB"), BlockEnded(0)],
        ),
        (
            [delta(0, "text_delta", text="a\ud83c"), delta(0, "text_delta", text="\udf33"), stop(0)],
            [TextChunk(0, "a"), TextChunk(0, "🌳"), BlockEnded(0)],
        ),
    ],
)
async def test_servers_that_send_it_otherwise_are_understood(values: list[Json], expected: list[Chunk]) -> None:
    stream = "".join(f"data: {json.dumps(value)}\n\n" for value in [*values, *end()]).encode()

    assert await MESSAGES.listen(stream) == (expected, ReplyEnd("stop"))


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        (call(0, "{}"), "{}"),
        (call(0), "{}"),
        (call(0, "", ""), "{}"),
        (call(0, input={}), "{}"),
        (call(0, input={"a": 1}), '{"a":1}'),
        (call(0, input={"a": 1})[:-1], '{"a":1}'),
        (call(0, input='{"a":1}'), '{"a":1}'),
        (call(0, '{"b":2}', input={"a": 1}), '{"b":2}'),
        (call(0, input=[1]), "[1]"),
    ],
)
async def test_arguments_come_in_pieces_or_with_the_start_or_not_at_all(values: list[Json], arguments: str) -> None:
    chunks, reply_end = await read(*values, *end("tool_use"))

    assert "".join(chunk.json for chunk in chunks if isinstance(chunk, CallArguments)) == arguments
    assert chunks[-1] == BlockEnded(0)
    assert reply_end == ReplyEnd("toolUse")


async def test_calls_that_have_no_id_get_one_each() -> None:
    chunks, _ = await read(*call(0, "{}", id=""), *call(1, "{}", id=""), *end("tool_use"))

    assert [chunk.id for chunk in chunks if isinstance(chunk, CallStarted)] == ["call_1_1", "call_1_2"]


# --- how it ends, P6 and P9 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason", "raw"),
    [
        ("end_turn", "stop", None),
        ("stop_sequence", "stop", "stop_sequence"),
        ("pause_turn", "stop", "pause_turn"),
        ("end", "stop", "end"),
        ("max_tokens", "length", None),
    ],
)
async def test_stop_reasons_that_are_known(word: str, reason: Any, raw: str | None) -> None:
    assert await ended(*text(0, "a"), *end(word)) == ReplyEnd(reason, raw)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "overflow"),
        ("network_error", "network"),
        ("compaction", "invalid_request"),
        ("MALFORMED_FUNCTION_CALL", "invalid_request"),
    ],
)
async def test_other_stop_reasons_are_failures_that_show_the_word(word: str, kind: str) -> None:
    failure = await ended(*text(0, "a"), *end(word))

    assert isinstance(failure, ModelFailure)
    assert (failure.kind, failure.raw) == (kind, word)
    assert word in failure.message


async def test_a_refusal_says_why_where_the_provider_does() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "That could be malware."}
    failure = await ended(*text(0, "a"), *end("refusal", stop_details=details))

    assert isinstance(failure, ModelFailure)
    assert "That could be malware." in failure.message


async def test_calls_and_the_stop_reason_must_agree() -> None:
    assert await ended(*call(0, "{}"), *end("end_turn")) == ReplyEnd("toolUse", "end_turn")
    assert await ended(*call(0, "{}"), *end("max_tokens")) == ReplyEnd("length")
    failure = await ended(*text(0, "a"), *end("tool_use"))
    assert isinstance(failure, ModelFailure)
    assert failure.kind == "incomplete"


async def test_the_end_is_told_by_the_stop_reason_not_by_the_last_event() -> None:
    told, last = end()

    assert await ended(*text(0, "a"), told) == ReplyEnd("stop")
    for values in ([*text(0, "a"), last], [*text(0, "a"), *end(None)], [last], text(0, "a")):
        failure = await ended(*values)
        assert isinstance(failure, ModelFailure)
        assert failure.kind == "incomplete"


async def test_a_failure_behind_the_stop_reason_is_one_and_what_follows_the_last_event_is_not_read() -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    told, last = end()

    failure = await ended(*text(0, "a"), told, failed)
    assert isinstance(failure, ModelFailure)
    assert failure.kind == "overloaded"
    assert await ended(*text(0, "a"), told, last, failed) == ReplyEnd("stop")


async def test_the_id_of_a_request_is_kept_word_for_word() -> None:
    _, failure = await MESSAGES.listen(MESSAGES.failure("overloaded_error", "Overloaded"))

    assert failure == ModelFailure(
        "overloaded", "Overloaded (overloaded_error, request req_011CSHoEeqs5C35K2UUqR7Fy)", raw="overloaded_error"
    )


# --- the request on the wire ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_what_the_request_carries(suffix: str) -> None:
    headers = {"Anthropic-Beta": "mine-2026-01-01", "X-Extra": "1"}
    info = ModelInfo("anthropic", "claude-opus-5-5", "anthropic-messages")
    request = ModelRequest("s-1", "root", 0, 1, info, (user_text("hi", 0),))
    answer = [head() + MESSAGES.speak(Said(text="a"))]
    async with raw_server(answer) as server, opened_http(uses_environment=False) as http:
        model = AnthropicMessages(http, server.url + suffix, "sk-ant-canary", headers, service_tier="default")

        async def hear(chunk: Chunk) -> None:
            pass

        await model.call(request, hear)

    [sent] = server.requests
    assert sent.line == "POST /v1/messages HTTP/1.1"
    assert sent.headers["x-api-key"] == "sk-ant-canary"
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert sent.headers["anthropic-beta"] == "mine-2026-01-01,thinking-binding-controls-2026-08-01"
    assert sent.headers["x-extra"] == "1"
    assert "authorization" not in sent.headers
    assert sent.json["service_tier"] == "standard_only"
