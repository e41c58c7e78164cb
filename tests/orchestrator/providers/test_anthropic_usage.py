"""The counts of Anthropic's messages: told twice or more per reply, never to be added up."""

from typing import Any

import pytest

from actors.protocol.model import Chunk, UsageReported
from orchestrator.providers.anthropic_messages import MessageReader
from orchestrator.providers.anthropic_usage import Counts
from orchestrator.providers.sse import SseParser
from store.usage import Usage
from tests.orchestrator.providers.apis import MESSAGES
from tests.orchestrator.providers.said import Json, framed


async def usages(*reported: Any) -> list[Usage]:
    first, *others = reported
    begin = {"type": "message_start", "message": {"id": "m", "usage": first}}
    told = [{"type": "message_delta", "delta": {}, "usage": usage} for usage in others]
    chunks, _ = await MESSAGES.listen(framed([begin, *told, {"type": "message_stop"}], named=True))
    return [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)]


async def test_counts_are_cumulative_and_the_latest_of_each_member_wins() -> None:
    assert await usages(
        {"input_tokens": 14, "output_tokens": 1, "cache_read_input_tokens": 120_000},
        {"input_tokens": 14, "output_tokens": 10, "cache_read_input_tokens": 120_000},
        {"output_tokens": 50, "input_tokens": None},
        {"output_tokens": 50},
        {"output_tokens": 100, "cache_read_input_tokens": 0},
    ) == [
        Usage(input=14, output=1, cache_read=120_000, total_tokens=120_015),
        Usage(input=14, output=10, cache_read=120_000, total_tokens=120_024),
        Usage(input=14, output=50, cache_read=120_000, total_tokens=120_064),
        Usage(input=14, output=100, total_tokens=114),
    ]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"input_tokens": 5, "cache_creation_input_tokens": 7}, Usage(input=5, cache_write=7, total_tokens=12)),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}},
            Usage(cache_write=7, total_tokens=7),
        ),
        (
            {
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            Usage(cache_write=7, total_tokens=7),
        ),
        (
            {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
            Usage(output=9, reasoning=4, total_tokens=9),
        ),
    ],
)
def test_the_input_is_as_reported_and_what_was_written_counts_once(reported: Json, expected: Usage) -> None:
    assert Counts(pytest.fail).take(reported) == expected


@pytest.mark.parametrize("nothing", [None, {}, [], "x", {"input_tokens": None}, {"server_tool_use": {"n": 1}}])
def test_what_holds_no_count_changes_none(nothing: Any) -> None:
    assert Counts(pytest.fail).take(nothing) is None


@pytest.mark.parametrize("bad", ["-1", "NaN", "Infinity", "1e300", "1.5", "true", '"7"', "[]", str(10**12 + 1)])
async def test_counts_that_no_provider_can_mean_are_refused_aloud_and_once(bad: str) -> None:
    complaints: list[str] = []
    usage = f'{{"input_tokens":{bad},"output_tokens":4}}'
    stream = f'data: {{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}\n\n' * 2
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    reader = MessageReader(hear, Counts(complaints.append), "call_1")
    for event in SseParser().feed(stream.encode()):
        await reader.take(event)

    assert heard == [UsageReported(Usage(output=4, total_tokens=4))]
    [complaint] = complaints
    assert "input tokens" in complaint
