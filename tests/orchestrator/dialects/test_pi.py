"""Recorded streams of pi 1.6.0, and what sapwood streams in its dialect for the same replies.

Compared value by value, without ids and times. Whatever else differs is named, with its reason.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from store.stream import check_stream
from tests.orchestrator.dialects.differences import (
    PI,
    Difference,
    assert_alike,
    kinds,
    no_event,
    plain_tool_text,
    without_differences,
)
from tests.orchestrator.dialects.played import played
from tests.orchestrator.dialects.recorded import DATA, Event, Events, Recording


def no_late_refusal(events: Events) -> Events:
    """A `compaction_end` that nothing began."""
    return [event for event in events if not (event["type"] == "compaction_end" and "errorMessage" in event)]


def summaries_alike(events: Events) -> Events:
    result = {"summary": "…", "tokensBefore": 0, "usage": {}, "estimatedTokensAfter": 0}

    def plain(event: Event) -> Event:
        return event | {"result": event["result"] | result} if event.get("result") and "reason" in event else event

    return [plain(event) for event in events]


def compaction_before_the_next_run(events: Events) -> Events:
    """Summaries behind the end of a run, as ours are: they are made when the next call needs the room."""
    found: Events = []
    for event in events:
        is_end = event["type"] == "agent_settled" and [each["type"] for each in found[-2:]] == [
            "compaction_start",
            "compaction_end",
        ]
        found[len(found) - 2 * is_end : len(found) - 2 * is_end] = [event]
    return found


def only_as_far(stop: str) -> Callable[[Events], Events]:
    """Up to the first event of this type."""
    return lambda events: events[: next(place for place, event in enumerate(events) if event["type"] == stop) + 1]


SUMMARY = Difference(
    "how a history is parted for its summary, and what that costs, is each one's own", summaries_alike, summaries_alike
)
TOOL_TEXT = Difference("what a failed tool tells the model is in our own words", plain_tool_text, plain_tool_text)
BROKEN_OFF = "the peer leaves everything open when a signal ends it; ours closes message, tools, turn, loop and run"
THRESHOLD = Difference(
    "pi looks behind each run, also the last; ours before each call, so never for nothing",
    compaction_before_the_next_run,
)
OWN: dict[str, dict[str, Difference]] = {
    "pi.toolfail_openai": {"text": TOOL_TEXT},
    "pi.badtool_openai": {"text": TOOL_TEXT},
    "pi.badargs_openai": {"text": TOOL_TEXT},
    "pi.badargs_anthropic": {"text": TOOL_TEXT},
    "pi.overflow_openai": {"summary": SUMMARY},
    "pi.overflow_twice_openai": {
        "summary": SUMMARY,
        "a summary that nobody began": Difference(
            "pi ends a second compaction that it never started; ours says why in the answer", no_late_refusal
        ),
    },
    "pi.overflow_first_message_openai": {
        "a summary of one prompt": Difference(
            "pi summarises the only prompt there is, and asks again with the same prompt; to us there is nothing to "
            "summarise, and the run ends with that",
            only_as_far("compaction_start"),
            only_as_far("compaction_start"),
        ),
    },
    "pi.threshold_compaction_openai": {"summary": SUMMARY, "when the threshold is looked at": THRESHOLD},
    "pi.threshold_summary_retry_openai": {
        "tries for a summary": Difference(
            "pi tells how often it asks for a summary; to us that is part of the one compaction",
            no_event(
                "summarization_retry_scheduled", "summarization_retry_attempt_start", "summarization_retry_finished"
            ),
        ),
        "summary": SUMMARY,
        "when the threshold is looked at": THRESHOLD,
    },
    "pi.threshold_split_turn_openai": {"summary": SUMMARY},
}
NOT_PLAYED = {
    "pi.no_prompt": "pi ends with 0 when there is nothing to do; to us that is wrong usage, before any header"
}
PI_RECORDINGS = sorted({path.stem for path in DATA.glob("pi.*.jsonl")} - set(NOT_PLAYED))
POLICY = {"reserve_tokens": 2000, "keep_recent_tokens": 30}
POLICIES = {
    "pi.threshold_split_turn_openai": POLICY | {"keep_recent_tokens": 200},
    "pi.compaction_disabled_overflow": {"enabled": False},
}


@pytest.mark.parametrize("name", PI_RECORDINGS)
async def test_we_stream_what_pi_streamed(name: str, tmp_path: Path) -> None:
    recording = Recording.read(name)
    differences = {**PI, **OWN.get(name, {})}

    result = await played(recording, tmp_path, {}, **POLICIES.get(name, POLICY))

    ours = without_differences(result.told("pi"), differences, "ours")
    theirs = without_differences(list(recording.events), differences, "theirs")
    if recording.is_broken_off:
        rest = kinds(ours[len(theirs) :])
        assert rest[0].startswith(("message_end", "tool_execution_end")), BROKEN_OFF
        assert rest[-1] == "agent_settled None"
        assert ours[-1]["aborted"] is True
        ours = ours[: len(theirs)]
    assert_alike(theirs, ours)
    assert result.told("selesai") == result.told("pi")
    lines = [msgspec.json.encode(event) + b"\n" for event in result.told("pi")]
    assert check_stream(lines, "pi", exit_status=result.ends[-1].status) == []


def test_no_difference_is_named_in_vain() -> None:
    """Each changes what pi has streamed, or stands for something that only ours has."""
    streams = [list(Recording.read(name).events) for name in PI_RECORDINGS]
    for name, difference in PI.items():
        assert difference.is_ours_alone or any(difference.theirs(stream) != stream for stream in streams), name
    for recording, table in OWN.items():
        stream = list(Recording.read(recording).events)
        for name, difference in table.items():
            before, stream = stream, difference.theirs(stream)
            assert stream != before, (recording, name)
