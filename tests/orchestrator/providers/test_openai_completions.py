import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Chunk,
    ModelFailure,
    ReplyEnd,
    ResponseNamed,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from orchestrator.providers.openai_completions import CompletionReader
from orchestrator.providers.openai_usage import Counts
from orchestrator.providers.sse import SseParser
from store.usage import Usage
from tests.raw_server import each_byte, events


def piece(finish: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return chunk | ({"usage": usage} if usage is not None else {})


def call(index: int, id: str, name: str, arguments: str) -> list[dict[str, Any]]:
    return [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]


Heard = tuple[list[Chunk], ReplyEnd | ModelFailure]


async def listen(*chunks: bytes) -> tuple[Heard, list[str]]:
    """What a reader makes of a stream without a network, and what it complains of."""
    heard: list[Chunk] = []
    complaints: list[str] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    parser = SseParser()
    reader = CompletionReader(hear, Counts(complaints.append), "call_1")
    found = [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()
    for event in found:
        if await reader.take(event):
            break
    return (heard, await reader.end(None)), complaints


async def unheard(chunk: Chunk) -> None:
    pass


async def read(*values: Any, done: bool = True) -> Heard:
    outcome, complaints = await listen(events(*values, done=done))
    assert complaints == []
    return outcome


async def ended(*values: Any, done: bool = True) -> ReplyEnd | ModelFailure:
    return (await read(*values, done=done))[1]


def said(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


def usages(chunks: Sequence[Chunk]) -> list[Usage]:
    return [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)]


# --- blocks -----------------------------------------------------------------------------------------------------------


async def test_a_reply_is_told_block_by_block() -> None:
    assert await read(
        {"id": "r-1"} | piece(role="assistant", content=""),
        {"id": "r-2"} | piece(reasoning_content="hm"),
        piece(reasoning_content="m", content="I "),
        piece(content="look."),
        piece(tool_calls=call(0, "a", "bash", "{")),
        piece(tool_calls=call(0, "a", "bash", "}")),
        piece("tool_calls"),
    ) == (
        [
            ResponseNamed("r-1"),
            ThinkingChunk(0, "hm", "reasoning_content"),
            ThinkingChunk(0, "m"),
            BlockEnded(0),
            TextChunk(1, "I "),
            TextChunk(1, "look."),
            BlockEnded(1),
            CallStarted(2, "a", "bash"),
            CallArguments(2, "{"),
            CallArguments(2, "}"),
            BlockEnded(2),
        ],
        ReplyEnd("toolUse"),
    )


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "a"}, [TextChunk(0, "a")]),
        ({"content": None}, []),
        ({"content": 5}, []),
        ({"refusal": "I will not"}, [TextChunk(0, "I will not")]),
        ({"reasoning": "a"}, [ThinkingChunk(0, "a", "reasoning")]),
        ({"reasoning_text": "a"}, [ThinkingChunk(0, "a", "reasoning_text")]),
        ({"reasoning": "a", "reasoning_content": "a"}, [ThinkingChunk(0, "a", "reasoning_content")]),
        ({"reasoning": "", "reasoning_content": None, "content": "a"}, [TextChunk(0, "a")]),
        ({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}, [TextChunk(0, "a"), TextChunk(0, "b")]),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}, [ThinkingChunk(0, "a")]),
        ({"tool_calls": None, "content": "a"}, [TextChunk(0, "a")]),
    ],
)  # fmt: skip
async def test_text_and_thinking_are_found_where_servers_put_them(delta: dict[str, Any], expected: list[Chunk]) -> None:
    for choice in ({"index": 0, "delta": delta}, {"message": delta}, {"index": None, "delta": None, "message": delta}):
        chunks, end = await read({"choices": [choice]}, piece("stop"))

        assert [chunk for chunk in chunks if not isinstance(chunk, BlockEnded)] == expected
        assert end == ReplyEnd("stop")


async def test_other_choices_are_left_out() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}

    assert said((await read(piece(content="mine"), other, piece("stop")))[0]) == "mine"


async def test_a_character_cut_in_two_escapes_is_joined() -> None:
    cut = [r'{"choices":[{"delta":{"content":"a\ud83c"}}]}', r'{"choices":[{"delta":{"content":"\udf33b"}}]}']
    alone = r'{"choices":[{"delta":{"content":"\ud83c"}}]}'

    assert said((await read(*cut, piece("stop")))[0]) == "a🌳b"
    assert said((await read(piece(content="x"), alone, piece("stop")))[0]) == "x\ufffd"


# --- P2, P3, P6, P9, P11: how streams go wrong ------------------------------------------------------------------------


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_any_cut_of_the_bytes_gives_the_same_reply(line_end: str) -> None:
    stream = events(piece(content="中文🌳"), piece(content="é\u2028"), piece("stop"), line_end=line_end)
    whole, _ = await listen(stream)

    assert said(whole[0]) == "中文🌳é\u2028"
    for cut in range(1, len(stream)):
        assert (await listen(stream[:cut], stream[cut:]))[0] == whole
    assert (await listen(*each_byte(stream)))[0] == whole


@pytest.mark.parametrize("empty", [{"choices": []}, {"choices": None}, {}, {"choices": [None, {}]}, {"choices": "x"}])
async def test_a_chunk_without_choices_is_no_trouble(empty: dict[str, Any]) -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 2}
    chunks, end = await read(
        empty, piece(content="a"), empty | {"usage": None}, piece("stop"), empty | {"usage": counts}
    )

    assert said(chunks) == "a"
    assert usages(chunks) == [Usage(input=5, output=2, total_tokens=7)]
    assert end == ReplyEnd("stop")


@pytest.mark.parametrize(
    "values", [[], [piece(content="Part")], [piece(tool_calls=call(0, "a", "b", "{"))], [{"choices": []}]]
)
@pytest.mark.parametrize("done", [True, False])
async def test_a_stream_that_ends_without_a_finish_reason_is_incomplete(values: list[Any], done: bool) -> None:
    chunks, end = await read(*values, done=done)

    assert isinstance(end, ModelFailure)
    assert end.kind == "incomplete"
    assert end.is_retryable
    assert not any(isinstance(chunk, BlockEnded) for chunk in chunks)


async def test_an_event_that_was_cut_at_the_end_is_incomplete_too() -> None:
    stream = events(piece(content="Part"), piece("stop"), done=False)
    for cut in range(1, len(stream)):
        (chunks, end), _ = await listen(stream[:cut])
        assert said(chunks) in {"", "Part"}
        assert end == ReplyEnd("stop") or (isinstance(end, ModelFailure) and end.kind == "incomplete")


async def test_done_may_be_missing_behind_a_finish_reason() -> None:
    assert await ended(piece(content="a"), piece("stop"), done=False) == ReplyEnd("stop")


async def test_a_connection_that_breaks_behind_the_finish_reason_takes_nothing_away() -> None:
    broken = ModelFailure("network", "reset")
    for values, expected in (([piece("stop")], ReplyEnd("stop")), ([piece(content="a")], broken)):
        reader = CompletionReader(unheard, Counts(pytest.fail), "call_1")
        for event in SseParser().feed(events(*values, done=False)):
            await reader.take(event)
        assert await reader.end(broken) == expected


@pytest.mark.parametrize(
    ("finish", "reason", "raw"),
    [
        ("stop", "stop", None),
        ("end", "stop", "end"),
        ("eos", "stop", "eos"),
        ("STOP", "stop", None),
        ("length", "length", None),
        ("model_length", "length", "model_length"),
    ],
)
async def test_finish_reasons_that_are_known(finish: str, reason: Any, raw: str | None) -> None:
    assert await ended(piece(content="a"), piece(finish)) == ReplyEnd(reason, raw)


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("network_error", "network"),
        ("error", "server"),
        ("content_filter", "refusal"),
        ("sensitive", "refusal"),
        ("abort", "invalid_request"),
        ("MALFORMED_FUNCTION_CALL", "invalid_request"),
    ],
)
async def test_other_finish_reasons_are_failures_that_show_the_word(finish: str, kind: str) -> None:
    end = await ended(piece(content="a"), piece(finish))

    assert isinstance(end, ModelFailure)
    assert end.kind == kind
    assert end.raw == finish
    assert finish in end.message


async def test_calls_and_the_finish_reason_must_agree() -> None:
    calls = piece(tool_calls=call(0, "a", "b", "{}"))

    assert await ended(calls, piece("tool_calls")) == ReplyEnd("toolUse")
    assert await ended(calls, piece("function_call")) == ReplyEnd("toolUse", "function_call")
    assert await ended(calls, piece("stop")) == ReplyEnd("toolUse", "stop")
    assert await ended(calls, piece("length")) == ReplyEnd("length")
    end = await ended(piece(content="a"), piece("tool_calls"))
    assert isinstance(end, ModelFailure)
    assert end.kind == "incomplete"


@pytest.mark.parametrize(
    ("arguments", "is_whole"), [("", False), ("{", False), ('{"a":1', False), ("{}", True), ('{"a":1}', True)]
)
async def test_a_call_that_the_token_limit_may_have_cut_does_not_end(arguments: str, is_whole: bool) -> None:
    chunks, end = await read(piece(content="a"), piece(tool_calls=call(0, "a", "b", arguments)), piece("length"))

    assert end == ReplyEnd("length")
    assert (BlockEnded(1) in chunks) == is_whole
    assert CallArguments(1, "{}") not in chunks or arguments == "{}"


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("stream", "kind", "word"),
    [
        (b"event: error\n" + events(OVERLOADED), "overloaded", "Overloaded (overloaded_error)"),
        (events(OVERLOADED), "overloaded", "Overloaded"),
        (events({"error": {"message": "Slow down", "code": 429}}), "rate_limited", "Slow down (HTTP 429)"),
        (events({"error": {"message": "bad", "type": "invalid_request_error"}}), "invalid_request", "bad"),
        (events({"object": "error", "message": "too long: context length", "code": 400}), "overflow", "too long"),
        (events({"error": "boom"}), "server", "boom"),
        (events(piece() | {"error": {"code": 502, "message": "Upstream"}}), "server", "Upstream (HTTP 502)"),
        (events({"error": {}}), "server", "the provider gave no message"),
        (b"event: error\ndata: {}\n\n", "server", "the provider gave no message"),
        (events(piece("stop"), OVERLOADED), "overloaded", "Overloaded"),
        (events("oops <html>"), "server", "oops <html>"),
        (events("[1]"), "server", "[1]"),
        (events("x" * 1_000), "server", "x" * 200 + "'"),
        (events("[" * 100_000), "server", "[[["),
    ],
)
@pytest.mark.parametrize("before", [b"", events({"error": None} | piece(content="Partial"), done=False)])
async def test_an_error_inside_of_a_good_stream_is_classified_by_what_it_says(
    before: bytes, stream: bytes, kind: str, word: str
) -> None:
    (chunks, end), _ = await listen(before + stream)

    assert said(chunks) == ("Partial" if before else "")
    assert isinstance(end, ModelFailure)
    assert end.kind == kind
    assert word in end.message
    assert len(end.message) < 300


# --- counts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["-1", "NaN", "Infinity", "1e999", "1e300", "1.5", "true", '"7"', "[]", str(10**12 + 1)]
)
async def test_counts_that_no_provider_can_mean_are_refused_aloud(bad: str) -> None:
    counts = f'{{"choices":[],"usage":{{"prompt_tokens":{bad},"completion_tokens":4}}}}'
    (chunks, end), complaints = await listen(events(piece(content="a"), counts, counts, piece("stop")))

    assert usages(chunks) == [Usage(output=4, total_tokens=4)]
    assert end == ReplyEnd("stop")
    [complaint] = complaints
    assert "prompt tokens" in complaint


@pytest.mark.parametrize("place", ["usage", "choice", "x_groq", "early", "late"])
async def test_usage_is_found_wherever_it_stands(place: str) -> None:
    counts = {"prompt_tokens": 5}
    first, last = piece(content="a"), piece("stop")
    after: list[Any] = []
    match place:
        case "usage":
            last["usage"] = counts
        case "choice":
            last["choices"][0]["usage"] = counts
        case "x_groq":
            last["x_groq"] = {"usage": counts}
        case "early":
            first["usage"] = counts
        case "late":
            after = [{"choices": [], "usage": counts}]

    assert usages((await read(first, last, *after))[0]) == [Usage(input=5, total_tokens=5)]


# --- nothing is too strange -------------------------------------------------------------------------------------------

WORDS = "choices index delta message content tool_calls function name arguments id finish_reason usage prompt_tokens"
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.text("a\ud83c\udf33 ", max_size=3)
    | st.just("stop")
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS.split()), inner, max_size=4),
)


@given(values=st.lists(st.dictionaries(st.sampled_from(WORDS.split()), VALUES, max_size=4) | VALUES, max_size=4))
async def test_no_stream_is_too_strange(values: list[Any]) -> None:
    stream = "".join(f"data: {json.dumps(value)}\n\n" for value in values).encode()
    (chunks, end), _ = await listen(stream)

    msgspec.json.encode([chunks, end])  # all of it can be written down
