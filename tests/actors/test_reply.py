"""The answer that a model is giving: the same message however its pieces are cut, and updates that add up to it."""

from itertools import pairwise
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.mail import CallPart
from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Chunk,
    ModelInfo,
    ResponseNamed,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from actors.reply import Reply, parsed_arguments
from store.events import AssistantMessageEvent
from store.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from store.usage import Price, Usage
from store.wire import encode

MODEL = ModelInfo("test", "model", "test", Price(1_000_000, 10_000_000, 100_000, 2_000_000))


def a_reply(model: ModelInfo = MODEL) -> Reply:
    return Reply(model, 1_700_000_000_000, 5.0)


@attrs.frozen
class Block:
    kind: str
    text: str
    name: str = "quick"


arguments = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=8), max_size=3).map(
    lambda value: encode(value).decode()
)
broken = st.sampled_from(["", "  ", "[1]", '"x"', "null", "{", '{"a": 1', '{"a": 1}}', "not json", "12", "{'a': 1}"])
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
blocks = st.lists(
    st.builds(Block, st.sampled_from(["text", "thinking"]), plain)
    | st.builds(Block, st.just("call"), arguments | broken),
    max_size=4,
)


def chunks_of(block: Block, index: int, cuts: list[int]) -> list[Chunk]:
    places = sorted({0, len(block.text), *(cut % (len(block.text) + 1) for cut in cuts)})
    pieces = [block.text[begin:end] for begin, end in pairwise(places)] or [""]
    match block.kind:
        case "text":
            return [TextChunk(index, piece) for piece in pieces]
        case "thinking":
            return [ThinkingChunk(index, piece) for piece in pieces]
    return [CallStarted(index, f"id-{index}", block.name), *(CallArguments(index, piece) for piece in pieces)]


def message_of(chunks: list[Chunk], stop: str = "stop") -> tuple[AssistantMessage, list[AssistantMessageEvent]]:
    reply = a_reply()
    events = [event for chunk in chunks for event in reply.take(chunk)]
    events += reply.finish(stop)
    return reply.message(stop, 6.0), events


def shown(event: AssistantMessageEvent) -> dict[str, Any]:
    return msgspec.json.decode(encode(event))  # type: ignore[no-any-return]


@given(blocks, st.lists(st.integers(0, 60), max_size=6), st.booleans(), st.randoms())
def test_the_message_is_the_same_however_its_pieces_are_cut(
    content: list[Block], cuts: list[int], are_ended: bool, random: Any
) -> None:
    whole: list[Chunk] = [chunk for index, block in enumerate(content) for chunk in chunks_of(block, index, [])]
    cut: list[Chunk] = []
    for index, block in enumerate(content):
        cut += chunks_of(block, index, cuts)
        cut += [UsageReported(Usage(input=index, output=random.randint(0, 9)))]
        cut += [BlockEnded(index)] if are_ended else []

    expected, _ = message_of(whole)
    message, events = message_of([*cut, UsageReported(Usage(input=9, output=9))])

    assert message.content == expected.content
    assert [type(block) for block in message.content] == [
        {"text": TextContent, "thinking": ThinkingContent, "call": ToolCall}[block.kind] for block in content
    ]
    assert_balanced(events, message)


@given(st.permutations(["text", "thinking", "call", "call"]), st.lists(st.integers(0, 3), max_size=40))
def test_blocks_that_grow_side_by_side_add_up_too(kinds: list[str], order: list[int]) -> None:
    opened: list[Chunk] = []
    for index, kind in enumerate(kinds):
        opened += chunks_of(Block(kind, "" if kind == "call" else "x"), index, [])
    grown: list[Chunk] = []
    for index in order:
        piece = "y" if kinds[index] != "call" else " "
        match kinds[index]:
            case "text":
                grown.append(TextChunk(index, piece))
            case "thinking":
                grown.append(ThinkingChunk(index, piece))
            case "call":
                grown.append(CallArguments(index, piece))

    message, events = message_of([*opened, *grown])

    for index, kind in enumerate(kinds):
        if kind != "call":
            block = message.content[index]
            text = block.text if isinstance(block, TextContent) else block.thinking  # type: ignore[union-attr]
            assert text == "x" + "y" * order.count(index)
    assert_balanced(events, message)


def assert_balanced(events: list[AssistantMessageEvent], message: AssistantMessage) -> None:
    """Each block starts once, ends once, and its deltas join to what its end says."""
    for index, block in enumerate(message.content):
        of_block = [line for line in map(shown, events) if line["contentIndex"] == index]
        kinds = [line["type"].partition("_")[2] for line in of_block]
        assert kinds == ["start", *["delta"] * (len(of_block) - 2), "end"]
        joined = "".join(line["delta"] for line in of_block[1:-1])
        match block:
            case TextContent(text=text) | ThinkingContent(thinking=text):
                assert of_block[-1]["content"] == joined == text
            case ToolCall() as call:
                assert of_block[0]["id"] == of_block[0]["toolCall"]["id"] == call.id
                assert of_block[0]["toolName"] == call.name
                assert of_block[-1]["toolCall"] == msgspec.json.decode(encode(call))


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_arguments_are_no_arguments(text: str) -> None:
    assert parsed_arguments(text) == ({}, None)


@pytest.mark.parametrize(
    "text",
    ["[]", '"x"', "12", "null", "true", "{", '{"a":1', "{]", "nope", '{"a": 1} x', "[" * 100_000, '{"a":' * 5_000],
)
def test_what_is_no_object_is_an_empty_one_and_an_error_that_shows_it(text: str) -> None:
    value, error = parsed_arguments(text)

    assert value == {}
    assert error is not None
    assert "expected a JSON object" in error
    assert len(error) < 500


def test_arguments_that_are_no_unicode_are_an_error_and_no_crash() -> None:
    value, error = parsed_arguments('{"a": "\ud800"}')

    assert value == {}
    assert error is not None
    encode(error)


def test_a_call_with_broken_arguments_is_named_so_that_it_is_not_run() -> None:
    reply = a_reply()
    for chunk in (CallStarted(0, "a", "quick"), CallArguments(0, "{"), CallStarted(1, "b", "quick")):
        reply.take(chunk)
    reply.finish("toolUse")

    first, second = reply.whole_calls
    assert first.error is not None
    assert second == CallPart("b", "quick", None)
    message = reply.message("toolUse", 5.0)
    assert message.calls[0].arguments == {}
    assert message.calls[0].arguments_error == first.error


@pytest.mark.parametrize("names", [["x", "x", "x"], ["", "", ""], ["x", "x_2", "x"], ["call_1", "", ""]])
def test_calls_of_one_answer_never_share_an_id(names: list[str]) -> None:
    reply = a_reply()
    for index, name in enumerate(names):
        reply.take(CallStarted(index, name, "quick"))
    reply.finish("toolUse")

    ids = [call.id for call in reply.whole_calls]
    assert len(set(ids)) == len(names)
    assert all(ids)
    assert ids[0] == (names[0] or "call_0")


@pytest.mark.parametrize(
    "usage",
    [Usage(input=-1), Usage(output=10**13), Usage(cache_read=-5), Usage(input=10**30)],
)
def test_counts_that_no_provider_can_mean_are_refused_and_the_last_good_ones_stay(usage: Usage) -> None:
    reply = a_reply()
    reply.take(UsageReported(Usage(input=10, output=1)))

    assert reply.take(UsageReported(usage)) == []

    assert reply.refused_usage is not None
    assert (reply.usage.input, reply.usage.output) == (10, 1)


def test_counts_are_cumulative_and_priced_and_the_latest_win() -> None:
    reply = a_reply()
    for output in (1, 15, 15):
        reply.take(UsageReported(Usage(input=1_000, output=output, cache_read=100)))

    assert (reply.usage.input, reply.usage.output, reply.usage.total_tokens) == (1_000, 15, 1_115)
    assert reply.usage.cost.total == pytest.approx(0.001 + 15 * 0.00001 + 100 * 0.0000001)
    assert reply.usage.cost.unpriced is msgspec.UNSET


def test_a_model_without_a_price_is_named_beside_its_counts() -> None:
    reply = a_reply(ModelInfo("test", "free", "test", None))
    reply.take(UsageReported(Usage(input=1)))

    assert reply.usage.cost.unpriced == ("test/free",)
    assert reply.usage.cost.total == 0.0


def test_what_an_answer_costs_that_nobody_counted_is_unknown_where_there_is_no_price() -> None:
    """M3: some servers report no usage. Nothing said is nothing spent, as far as anybody knows."""
    silent, said = (a_reply(ModelInfo("test", "free", "test", None)) for _ in range(2))
    said.take(TextChunk(0, "an answer"))

    assert said.message("stop", 7.0).usage.cost.unpriced == ("test/free",)
    assert silent.message("error", 7.0, "refused").usage.cost.unpriced is msgspec.UNSET


def test_a_call_that_did_not_come_whole_is_left_out_and_never_run() -> None:
    reply = a_reply()
    reply.take(TextChunk(0, "let me"))
    reply.take(CallStarted(1, "a", "quick"))
    reply.take(CallArguments(1, '{"pa'))

    message = reply.message("aborted", 7.0, "the call was aborted")

    assert message.content == (TextContent(text="let me"),)
    assert reply.whole_calls == ()
    assert (message.stop_reason, message.error_message, message.duration_ms) == (
        "aborted",
        "the call was aborted",
        2_000,
    )


@pytest.mark.parametrize(
    ("text", "is_kept"), [("", False), ('{"a": ', False), ("{}", True), ('{"a": 1}', True), ('{"a": {"b": 2}', False)]
)
def test_at_the_token_limit_only_a_call_that_is_there_to_its_end_is_whole(text: str, is_kept: bool) -> None:
    reply = a_reply()
    reply.take(CallStarted(0, "a", "quick"))
    reply.take(CallArguments(0, text))

    events = reply.finish("length")

    assert bool(reply.whole_calls) is is_kept
    assert bool(events) is is_kept


def test_a_call_that_the_provider_has_ended_is_whole_also_at_the_token_limit() -> None:
    reply = a_reply()
    for chunk in (CallStarted(0, "a", "quick"), BlockEnded(0), TextChunk(1, "and")):
        reply.take(chunk)

    reply.finish("length")

    assert [call.id for call in reply.whole_calls] == ["a"]


def test_only_text_that_shows_something_is_text() -> None:
    for chunks, expected in (
        ([], False),
        ([TextChunk(0, " \n")], False),
        ([ThinkingChunk(0, "hm")], False),
        ([TextChunk(0, " "), TextChunk(1, "x")], True),
    ):
        reply = a_reply()
        for chunk in chunks:
            reply.take(chunk)
        assert reply.has_text is expected


def test_the_beginning_of_a_message_says_nothing_yet() -> None:
    reply = a_reply()
    reply.take(ResponseNamed("resp_1"))
    reply.take(TextChunk(0, "x"))
    reply.take(UsageReported(Usage(input=5)))

    beginning = reply.beginning()

    assert (beginning.content, beginning.stop_reason, beginning.usage) == ((), "pending", Usage())
    assert reply.message("stop", 5.0).response_id == "resp_1"


def test_a_signature_replaces_the_one_before_and_none_keeps_it() -> None:
    reply = a_reply()
    for signature in ("first", None, "second", None):
        reply.take(ThinkingChunk(0, "", signature))

    (block,) = reply.message("stop", 5.0).content
    assert isinstance(block, ThinkingContent)
    assert block.thinking_signature == "second"


def test_a_second_end_of_a_block_gives_no_second_event() -> None:
    reply = a_reply()
    reply.take(TextChunk(0, "x"))

    assert len(reply.take(BlockEnded(0))) == 1
    assert reply.take(BlockEnded(0)) == []
    assert reply.finish("stop") == []
