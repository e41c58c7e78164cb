"""What holds for every wire format: the same reply, the same failures, however the bytes come."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    ModelFailure,
    ReplyEnd,
    ResponseNamed,
)
from store.usage import Usage
from tests.orchestrator.providers.apis import APIS, CANARY, COMPLETIONS, Api, Heard, ask, heard
from tests.orchestrator.providers.said import Said
from tests.raw_server import Answer, chunked, cut_anywhere, each_byte, head, raw_server

REPLY = Said(
    text="Grüße, 中文 🌲\u2028.",
    thinking="Hm – 二つ.",
    calls=(("call_a", "bash", '{"command":"echo \\"中\\""}'), ("call_b", "now", "{}")),
    stop="toolUse",
    tokens=(900, 41, 1_200, 300, 17),
    piece=3,
)
USAGE = Usage(input=900, output=41, cache_read=1_200, cache_write=300, total_tokens=2_441, reasoning=17)

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def whole(said: Said) -> tuple[str, str, list[tuple[str, str, str]]]:
    return said.text, said.thinking, [(id, name, arguments.strip() or "{}") for id, name, arguments in said.calls]


def told(found: Heard) -> tuple[str, str, list[tuple[str, str, str]]]:
    return found.text, found.thinking, list(found.calls)


# --- the bytes, P1 and P2 ---------------------------------------------------------------------------------------------


@each_api
@pytest.mark.parametrize("way", ["whole", "each byte", "chunked", *range(8)])
async def test_a_reply_arrives_however_it_was_cut(api: Api, way: str | int) -> None:
    stream = api.speak(REPLY)
    answers: dict[str | int, Answer] = {
        "whole": [head() + stream],
        "each byte": each_byte(head() + stream),
        "chunked": [head(transfer_encoding="chunked"), *each_byte(chunked(*each_byte(stream)))],
    }
    answer = answers[way] if isinstance(way, str) else cut_anywhere(head() + stream, way)
    async with raw_server(answer) as server:
        found = heard(*await ask(api, server.url))

    assert told(found) == whole(REPLY)
    assert found.usage == USAGE
    assert found.end == ReplyEnd("toolUse")
    [request] = server.requests
    assert request.line == f"POST {api.path} HTTP/1.1"
    assert request.headers["x-extra"] == "1"
    assert request.json["model"] == "fake"
    assert request.json["stream"] is True
    assert CANARY.encode() not in request.body


@each_api
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_every_single_cut_gives_the_same_reply(api: Api, line_end: bytes) -> None:
    said = Said(text="中🌲", thinking="é", calls=[("call_a", "now", "{}")], stop="toolUse", piece=1)
    stream = api.speak(said).replace(b"\n", line_end)
    expected = await api.listen(stream)

    assert told(heard(*expected)) == whole(said)
    assert await api.listen(*each_byte(stream)) == expected
    for cut in range(1, len(stream), 7):  # every byte was cut at above; this is about one cut alone
        assert await api.listen(stream[:cut], stream[cut:]) == expected


ARGUMENTS = st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(-9, 9) | st.none(), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from(["bash", "now"]), ARGUMENTS.map(json.dumps) | st.just("")), max_size=3)
REPLIES = st.builds(
    lambda text, thinking, calls, tokens, piece: Said(
        text,
        thinking,
        [(f"call_{place}", name, arguments) for place, (name, arguments) in enumerate(calls)],
        "toolUse" if calls else "stop",
        (*tokens, min(tokens[1], 5)),
        piece,
    ),
    st.text(max_size=20),
    st.text(max_size=12),
    CALLS,
    st.tuples(*[st.integers(0, 10**6)] * 4),
    st.integers(1, 9),
)


@each_api
@given(said=REPLIES, cuts=st.lists(st.integers(0, 10_000), max_size=12), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
@settings(deadline=None)
async def test_any_reply_arrives_at_any_chunking(api: Api, said: Said, cuts: list[int], end: bytes) -> None:
    stream = api.speak(said).replace(b"\n", end)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks, reply_end = await api.listen(*[stream[start:stop] for start, stop in pairwise(places)])
    found = heard(chunks, reply_end)

    assert told(found) == whole(said)
    assert reply_end == ReplyEnd(said.stop)
    fresh, output, read, written, _ = said.tokens
    assert (found.usage.input, found.usage.output) == (fresh, output)
    assert (found.usage.cache_read, found.usage.cache_write) == (read, written)
    ended = [chunk.index for chunk in chunks if isinstance(chunk, BlockEnded)]
    assert sorted(ended) == list(range(len(ended)))  # each block once
    assert len(ended) == bool(said.thinking) + bool(said.text) + len(said.calls)
    msgspec.json.encode(chunks)  # all of it can be written down


@each_api
@pytest.mark.parametrize(
    "noise", [b": ping\n\n", b":\n\n", b": OPENROUTER PROCESSING\n\n", b"data:\n\n", b"retry: 5\n\n"]
)
async def test_comments_and_blank_events_between_are_no_trouble(api: Api, noise: bytes) -> None:
    stream = noise + api.speak(REPLY).replace(b"\n\n", b"\n\n" + noise)

    assert await api.listen(stream) == await api.listen(api.speak(REPLY))


@each_api
async def test_half_a_character_at_the_cut_end_is_no_error_of_its_own(api: Api) -> None:
    stream = api.speak(Said(text="a中"))
    chunks, end = await api.listen(stream[: stream.index("中".encode()) + 2])

    assert "\ufffd" not in heard(chunks, end).text
    assert isinstance(end, ModelFailure)
    assert end.kind == "incomplete"


# --- streams that end too early, P6 and P12 ---------------------------------------------------------------------------


@each_api
async def test_a_stream_that_just_ends_is_incomplete_at_every_byte_until_the_end_was_told(api: Api) -> None:
    stream = api.speak(REPLY)
    whole_reply = await api.listen(stream)
    kinds = set()
    for size in range(0, len(stream), 3):
        chunks, end = await api.listen(stream[:size])
        if isinstance(end, ModelFailure):
            kinds.add((end.kind, end.is_retryable))
            assert heard(chunks, end).text == REPLY.text[: len(heard(chunks, end).text)]  # the partial text stays
        else:
            assert end == whole_reply[1]
            assert told(heard(chunks, end)) == whole(REPLY)

    assert kinds == {("incomplete", True)}


@each_api
@pytest.mark.parametrize("arguments", ["", "{", '{"a":', '{"a":1', "[1]", '"x"'])
async def test_a_call_that_the_token_limit_may_have_cut_never_ends(api: Api, arguments: str) -> None:
    said = Said(text="Look:", calls=[("call_a", "bash", arguments)], stop="length")
    chunks, end = await api.listen(api.speak(said))

    assert isinstance(end, ReplyEnd)
    assert end.stop_reason == "length"
    [call] = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    assert BlockEnded(call.index) not in chunks
    assert CallArguments(call.index, "{}") not in chunks


@each_api
async def test_a_reply_cut_by_the_token_limit_with_nothing_in_it_says_so(api: Api) -> None:
    chunks, end = await api.listen(api.speak(Said(stop="length", tokens=(5, 32_000, 0, 0, 32_000))))

    assert isinstance(end, ReplyEnd)
    assert end.stop_reason == "length"
    assert (heard(chunks, end).text, heard(chunks, end).usage.output) == ("", 32_000)


@each_api
@pytest.mark.parametrize("blank", ["", " ", "\n"])
async def test_blank_arguments_are_an_empty_object(api: Api, blank: str) -> None:
    chunks, end = await api.listen(api.speak(Said(calls=[("call_a", "now", blank)], stop="toolUse")))

    assert end == ReplyEnd("toolUse")
    assert [arguments.strip() for _, _, arguments in heard(chunks, end).calls] == ["{}"]


@each_api
async def test_broken_arguments_stay_what_they_are_for_the_model_to_be_told(api: Api) -> None:
    chunks, end = await api.listen(api.speak(Said(calls=[("call_a", "now", '{"a"')], stop="toolUse")))

    assert heard(chunks, end).calls == [("call_a", "now", '{"a"')]
    assert BlockEnded(0) in chunks


# --- failures, P7, P8 and P11 -----------------------------------------------------------------------------------------


@each_api
@pytest.mark.parametrize("before", ["", "Partial"])
@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("overloaded_error", "Overloaded", "overloaded"),
        ("server_is_overloaded", "Slow down", "overloaded"),
        ("rate_limit_exceeded", "Rate limit reached", "rate_limited"),
        ("rate_limit_error", "Number of requests has exceeded", "rate_limited"),
        ("insufficient_quota", "You exceeded your current quota", "quota"),
        ("billing_error", "Your credit balance is too low", "quota"),
        ("context_length_exceeded", "Your input exceeds the context window of this model", "overflow"),
        ("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum", "overflow"),
        ("invalid_request_error", "messages: bad", "invalid_request"),
        ("invalid_prompt", "flagged", "refusal"),
        ("server_error", "An error occurred", "server"),
        ("api_error", "Internal server error", "server"),
        ("authentication_error", f"bad key {CANARY}", "auth"),
    ],
)
async def test_a_failure_inside_of_a_good_stream_is_classified_by_what_it_says(
    api: Api, before: str, code: str, message: str, kind: str
) -> None:
    stream = api.speak(Said(text=before, piece=99))
    beginning = stream[: stream.index(b"\n\n", stream.index(b"Partial")) + 2] if before else b""
    async with raw_server([head() + beginning + api.failure(code, message)]) as server:
        chunks, end = await ask(api, server.url)

    assert heard(chunks, end).text == before
    assert isinstance(end, ModelFailure)
    assert end.kind == kind
    assert message.replace(CANARY, "[redacted]") in end.message
    assert code in end.message


@each_api
@pytest.mark.parametrize(
    ("answer", "kind", "wait_s", "words"),
    [
        ([head(429, retry_after="3") + b'{"error":{"message":"no"}}'], "rate_limited", 3.0, "no (HTTP 429"),
        ([head(429, retry_after="inf") + b'{"error":{"message":"no"}}'], "rate_limited", None, "no"),
        ([head(429) + b'{"error":{"message":"no","code":"insufficient_quota"}}'], "quota", None, "no"),
        (
            [
                head(529, request_id="req_01A")
                + b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
            ],
            "overloaded",
            None,
            "Overloaded (overloaded_error, HTTP 529, request req_01A)",
        ),
        ([head(401) + f'{{"error":{{"message":"bad key {CANARY}"}}}}'.encode()], "auth", None, "bad key [redacted]"),
        ([head(503)], "server", None, "the provider gave no message"),
        ([head(content_type="text/html") + b"<html>"], "invalid_request", None, "found text/html"),
        ([head() + b"data: oops\n\n"], "server", None, "oops"),
        ([head() + b"data: [1]\n\n"], "server", None, "[1]"),
        ([head() + b"data: " + b"x" * 190 + CANARY.encode() + b"\n\n"], "server", None, "expected JSON objects"),
        ([head() + b": ping\n\n"], "incomplete", None, "without an event"),
        ([head() + b"data: [DONE]\n\n"], "incomplete", None, "ended"),
        ([head()], "incomplete", None, "empty"),
        ([], "network", None, ""),
    ],
)
async def test_what_goes_wrong_on_the_wire_is_a_failure_without_the_key(
    api: Api, answer: Answer, kind: str, wait_s: float | None, words: str
) -> None:
    async with raw_server(answer) as server:
        _, end = await ask(api, server.url)

    assert isinstance(end, ModelFailure)
    assert (end.kind, end.retry_after_s) == (kind, wait_s)
    assert words in end.message


@each_api
async def test_a_connection_that_breaks_after_the_end_was_told_takes_nothing_away(api: Api) -> None:
    stream = api.speak(REPLY)
    if api is COMPLETIONS:
        stream = stream.removesuffix(b"data: [DONE]\n\n")
    async with raw_server([head(transfer_encoding="chunked") + chunked(stream, is_whole=False)]) as server:
        found = heard(*await ask(api, server.url))

    assert (told(found), found.end) == (whole(REPLY), ReplyEnd("toolUse"))


@each_api
async def test_the_response_is_named_once(api: Api) -> None:
    chunks, _ = await api.listen(api.speak(REPLY))

    assert len([chunk for chunk in chunks if isinstance(chunk, ResponseNamed)]) == 1
