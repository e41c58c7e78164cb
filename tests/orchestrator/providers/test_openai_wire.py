"""Chat completions over a real socket."""

from typing import Any

import msgspec
import pytest

from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    Chunk,
    ModelFailure,
    ModelInfo,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    UsageReported,
)
from orchestrator.providers.http import opened_http
from orchestrator.providers.openai_completions import OpenAICompletions
from orchestrator.providers.post import HttpLimits
from store.messages import user_text
from store.usage import Usage
from tests.raw_server import Answer, chunked, cut_anywhere, each_byte, events, head, raw_server

CANARY = "sk-canary-7f3a9b2c5d"
REQUEST = ModelRequest("s-1", "root", 0, 1, ModelInfo("local", "fake-chat"), (user_text("hi", 0),))
LIMITS = HttpLimits(connect_s=60, first_byte_s=60, idle_s=60, total_s=60)


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CALL = [{"index": 0, "id": "a", "type": "function", "function": {"name": "now", "arguments": ""}}]
REPLY = events(
    {"id": "r-1"} | piece(content="Grüße, 中"),
    piece(tool_calls=CALL),
    piece("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
)


async def unheard(chunk: Chunk) -> None:
    pass


async def ask(url: str, limits: HttpLimits = LIMITS) -> tuple[list[Chunk], ReplyEnd | ModelFailure]:
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    async with opened_http(limits, uses_environment=False) as http:
        model = OpenAICompletions(http, f"{url}/v1/", CANARY, {"X-Extra": "1"})
        end = await model.call(REQUEST, hear)
        assert CANARY not in repr(model)
    assert CANARY not in repr(end)
    return heard, end


@pytest.mark.parametrize(
    "answer",
    [
        [head() + REPLY],
        each_byte(head() + REPLY),
        [head(transfer_encoding="chunked"), *each_byte(chunked(*each_byte(REPLY)))],
        *(cut_anywhere(head() + REPLY, seed) for seed in range(10)),
    ],
)
async def test_a_reply_arrives_however_it_was_cut(answer: Answer) -> None:
    async with raw_server(answer) as server:
        heard, end = await ask(server.url)

    assert end == ReplyEnd("toolUse")
    assert "".join(chunk.text for chunk in heard if isinstance(chunk, TextChunk)) == "Grüße, 中"
    assert heard[-2:] == [CallArguments(1, "{}"), BlockEnded(1)]
    assert [chunk.usage for chunk in heard if isinstance(chunk, UsageReported)] == [
        Usage(input=5, output=2, total_tokens=7)
    ]
    [request] = server.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {CANARY}"
    assert request.headers["x-extra"] == "1"
    assert request.json["model"] == "fake-chat"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([head(429, retry_after="3") + b'{"error":{"message":"no"}}'], "rate_limited"),
        ([head(429) + b'{"error":{"message":"no","code":"insufficient_quota"}}'], "quota"),
        ([head(401) + f'{{"error":{{"message":"bad key {CANARY}"}}}}'.encode()], "auth"),
        ([head() + events({"error": {"message": f"bad key {CANARY}", "type": "authentication_error"}})], "auth"),
        ([head() + events("x" * 190 + CANARY)], "server"),
        ([head() + events({"error": {"message": "x" * 7_990 + CANARY}})], "server"),
        ([head() + events(piece(content="a"), done=False)], "incomplete"),
        ([head(transfer_encoding="chunked") + chunked(events(piece(content="a")), is_whole=False)], "incomplete"),
        ([head() + events(done=False)], "incomplete"),
        ([], "network"),
    ],
)
async def test_what_goes_wrong_on_the_wire_is_a_failure_without_the_key(answer: Answer, kind: str) -> None:
    async with raw_server(answer) as server:
        _, end = await ask(server.url)

    assert isinstance(end, ModelFailure)
    assert end.kind == kind
    assert "sk-canary" not in end.message


async def test_a_server_that_forgets_to_hang_up_behind_the_finish_reason_costs_no_reply() -> None:
    async with raw_server([head() + events(piece(content="a"), piece("stop"), done=False), 600.0]) as server:
        _, end = await ask(server.url, msgspec.structs.replace(LIMITS, idle_s=0.1))

    assert end == ReplyEnd("stop")


async def test_a_bad_count_on_the_wire_is_told_with_its_session() -> None:
    notices: list[tuple[str, str]] = []
    answer = [head() + events(piece("stop"), {"usage": {"prompt_tokens": -5}})]
    async with raw_server(answer) as server, opened_http(LIMITS, uses_environment=False) as http:
        model = OpenAICompletions(http, server.url, notice=lambda session, text: notices.append((session, text)))
        await model.call(REQUEST, unheard)

    [(session, text)] = notices
    assert session == "s-1"
    assert "-5" in text
    assert "authorization" not in server.requests[0].headers
