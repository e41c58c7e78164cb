"""The stream in the words of each relative: as their pages show it, sound by their rules, with nothing lost on the way."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from trio.testing import MockClock

from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from actors.testing import FunctionModel
from orchestrator.dialects.projection import Projection, project
from store.dialects import DIALECTS
from store.events import Place, SessionActionUpdate
from store.lines import event_tail, tagged
from store.stream import check_stream
from store.usage import Usage
from tests.actors.stage import Bench, pausing, run, saying, spawn, stage, tool, use, wait

PLACE = Place("root", "root", None, 0)
RELATIVES = sorted(set(DIALECTS) - {"native"})
WITH_SNAPSHOTS = ["base-context", "prime-agent"]


def told(lines: Iterable[bytes], dialect: str, **options: Any) -> list[bytes]:
    """The lines of a native stream in the dialect."""

    def each() -> Iterator[bytes]:
        state = Projection.of(dialect, **options)
        for line in lines:
            state, out = project(state, line)
            if out:
                yield out

    return list(each())


def events(lines: Iterable[bytes], dialect: str, **options: Any) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in told(lines, dialect, **options)]


class Saying(FunctionModel):
    """One answer of everything: thinking, text, two calls side by side; then `done`."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        if request.call > 1:
            await hear(TextChunk(0, "done"))
            return ReplyEnd("stop")
        await hear(ThinkingChunk(0, "Let me "))
        await hear(ThinkingChunk(0, "think."))
        await hear(UsageReported(Usage(input=100, output=1)))
        await hear(TextChunk(1, "Hel"))
        await hear(TextChunk(1, "lo"))
        await hear(CallStarted(2, "call_1", "quick"))
        await hear(CallArguments(2, '{"path": "a'))
        await hear(CallStarted(3, "call_2", "quick"))
        await hear(CallArguments(2, '.txt", "n": 1'))
        await hear(CallArguments(3, "{}"))
        await hear(CallArguments(2, "}"))
        await hear(UsageReported(Usage(input=100, output=20)))
        return ReplyEnd("toolUse")


async def of_everything() -> Bench:
    tree = stage(Saying(lambda request: ""), tool("quick", saying("quick")))
    await run(tree)
    return tree


async def a_family() -> Bench:
    """Retries, tools and children at two levels, told across each other."""
    story = [use("quick"), pausing(1.0, ModelFailure("overloaded", "busy")), pausing(1.0, use("quick")), "the answer"]
    parts: Any = {
        "root": [spawn("a", "b"), wait(), ModelFailure("overloaded", "busy"), "done"],
        "a": story,
        "b": [spawn("c", wait=True), "done"],
        "c": story,
    }
    tree = stage(parts, tool("quick", saying("quick")))
    await run(tree)
    return tree


# --- as their pages show it -------------------------------------------------------------------------------------------

# The lines of the pages, with `…` for what they leave open; members that are not there must not be there.
PAGES: dict[str, tuple[str, ...]] = {
    "base-context": (
        '{"type":"session","version":3,"id":…,"timestamp":…,"cwd":"/","rlmDepth":0}',
        '{"type":"agent_start"}',
        '{"type":"turn_start"}',
        '{"type":"message_start","message":…}',
        '{"type":"message_update","message":…,"assistantMessageEvent":{"type":"text_delta","contentIndex":1,"delta":"Hel","partial":…}}',
        '{"type":"message_end","message":…}',
        '{"type":"tool_execution_start","toolCallId":"call_2","toolName":"quick","args":{}}',
        '{"type":"tool_execution_end","toolCallId":"call_2","toolName":"quick","result":…,"isError":false}',
        '{"type":"turn_end","message":…,"toolResults":[]}',
        '{"type":"agent_end","messages":…}',
    ),
    "base-context --json-deltas": (
        '{"type":"message_start","messageId":1,"message":…}',
        '{"type":"message_update","messageId":1,"assistantMessageEvent":{"type":"text_delta","contentIndex":1,"delta":"Hel"}}',
        '{"type":"message_update","messageId":1,"assistantMessageEvent":'
        '{"type":"toolcall_start","contentIndex":2,"toolCall":{"id":"call_1","name":"quick"}}}',
        '{"type":"message_update","messageId":1,"assistantMessageEvent":{"type":"toolcall_end","contentIndex":2,"toolCall":'
        '{"type":"toolCall","id":"call_1","name":"quick","arguments":{"path":"a.txt","n":1}}}}',
        '{"type":"message_update","messageId":2,"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"done"}}',
        '{"type":"message_end","messageId":2,"message":…}',
    ),
    "prime-agent": (
        '{"type":"message_start","message":…}',
        '{"type":"message_update","message":…,"assistantMessageEvent":{"type":"text_delta","contentIndex":1,"delta":"Hel"}}',
        '{"type":"message_update","message":…,"assistantMessageEvent":{"type":"toolcall_start","contentIndex":2}}',
        '{"type":"message_end","message":…}',
        '{"type":"turn_end","message":…,"toolResults":[]}',
        '{"type":"agent_end","messages":…}',
    ),
    "selesai": (
        '{"type":"message_start","message":…}',
        '{"type":"message_update","usage":…,"assistantMessageEvent":{"type":"text_delta","contentIndex":1,"delta":"Hel"}}',
        '{"type":"message_update","usage":…,"assistantMessageEvent":'
        '{"type":"toolcall_start","contentIndex":2,"id":"call_1","toolName":"quick"}}',
        '{"type":"message_end","message":…}',
        '{"type":"turn_end","message":…,"toolResults":[]}',
        '{"type":"tool_execution_end","toolCallId":"call_2","toolName":"quick","result":…,"isError":false,"durationMs":…}',
        '{"type":"agent_end","messages":…,"willRetry":false}',
        '{"type":"agent_settled","aborted":false}',
    ),
}
PAGES["pi"] = PAGES["selesai"]
PAGES["prime-agent --json-deltas"] = PAGES["base-context --json-deltas"]


def matches(shown: Any, found: Any) -> bool:
    """The same members in the same order, each of them the same or left open."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return list(shown) == list(found) and all(matches(shown[name], found[name]) for name in shown)
    return shown in ("…", found)


@pytest.mark.parametrize("page", PAGES)
async def test_each_line_that_a_page_shows_is_told_so(page: str, autojump_clock: MockClock) -> None:
    dialect, _, has_deltas = page.partition(" ")
    tree = await of_everything()
    found = events(tree.outlet.lines, dialect, has_deltas=bool(has_deltas))

    for line in PAGES[page]:
        shown = msgspec.json.decode(line.replace("…", '"…"'))
        assert any(matches(shown, event) for event in found), line


# --- sound by their rules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows_tree", [False, True])
@pytest.mark.parametrize("has_deltas", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_is_told_is_sound_in_its_dialect(
    dialect: str, has_deltas: bool, shows_tree: bool, autojump_clock: MockClock
) -> None:
    tree = await a_family()

    lines = told(tree.outlet.lines, dialect, has_deltas=has_deltas, shown="tree" if shows_tree else "root")

    is_filtered = dialect == "native" and not shows_tree
    assert check_stream(lines, dialect, exit_status=0, is_filtered=is_filtered) == []


async def test_the_whole_tree_in_our_own_dialect_is_the_stream_as_it_is(autojump_clock: MockClock) -> None:
    tree = await a_family()

    assert told(tree.outlet.lines, "native") == tree.outlet.lines
    assert told(tree.outlet.lines, "native", has_deltas=True) == tree.outlet.lines


@pytest.mark.parametrize("dialect", RELATIVES)
async def test_only_the_root_is_told_and_without_tags_unless_the_tree_is_asked_for(
    dialect: str, autojump_clock: MockClock
) -> None:
    tree = await a_family()

    alone = events(tree.outlet.lines, dialect)
    assert all({"sessionId", "seq", "at", "depth"}.isdisjoint(event) for event in alone)
    assert not any(event["type"].startswith("child_") for event in alone)

    of_all = events(tree.outlet.lines, dialect, shown="tree")
    assert {event["sessionId"] for event in of_all} == {event["sessionId"] for event in tree.events()}
    tags = {"sessionId", "seq", "at", "rootSessionId", "depth"}
    mine = [
        {name: value for name, value in event.items() if name not in tags}
        for event in of_all
        if event["sessionId"] == tree.root.id and not event["type"].startswith("child_")
    ]
    assert mine == alone


@pytest.mark.parametrize("dialect", RELATIVES)
async def test_the_messages_arrive_whole_whatever_the_dialect(dialect: str, autojump_clock: MockClock) -> None:
    tree = await of_everything()
    ends = [event["message"] for event in tree.events() if event["type"] == "message_end"]

    seen = events(tree.outlet.lines, dialect)

    assert [event["message"] for event in seen if event["type"] == "message_end"] == ends
    (loop,) = [event for event in seen if event["type"] == "agent_end"]
    assert loop["messages"] == ends
    assert ("willRetry" in loop) is DIALECTS[dialect].settles


# --- snapshots, numbers, usage, queues --------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", WITH_SNAPSHOTS)
async def test_a_snapshot_holds_what_the_deltas_have_told_so_far(dialect: str, autojump_clock: MockClock) -> None:
    tree = await of_everything()
    seen = events(tree.outlet.lines, dialect)
    updates = [event for event in seen if event["type"] == "message_update"]
    path = [event["message"]["content"][2]["arguments"] for event in updates if len(event["message"]["content"]) > 2]

    assert path[:3] == [{}, {"path": "a"}, {"path": "a"}]
    assert {"path": "a.txt"} in path
    assert path[-1] == {"path": "a.txt", "n": 1}


@pytest.mark.parametrize("dialect", WITH_SNAPSHOTS)
async def test_the_last_snapshot_of_an_answer_is_its_content(dialect: str, autojump_clock: MockClock) -> None:
    tree = await a_family()
    last: dict[str, Any] = {}
    ended = 0
    for event in events(tree.outlet.lines, dialect):
        if event["type"] == "message_update":
            last = event["message"]
            inner = event["assistantMessageEvent"].get("partial")
            assert inner == (last if DIALECTS[dialect].nests_snapshots else None)
        elif event["type"] == "message_end" and event["message"]["role"] == "assistant" and last:
            assert last["content"] == event["message"]["content"]
            assert last["usage"] == event["message"]["usage"]
            assert last["stopReason"] == "stop"
            last, ended = {}, ended + 1
    assert ended == 3


async def test_messages_are_numbered_over_the_whole_stream(autojump_clock: MockClock) -> None:
    tree = await a_family()
    lines = events(tree.outlet.lines, "base-context", has_deltas=True, shown="tree")

    starts = [event["messageId"] for event in lines if event["type"] == "message_start" and "messageId" in event]
    assert starts == list(range(1, len(starts) + 1))
    opened: dict[str, int] = {}
    for event in lines:
        if event["type"] == "message_start" and "messageId" in event:
            opened[event["sessionId"]] = event["messageId"]
        elif "messageId" in event:
            assert event["messageId"] == opened[event["sessionId"]]


async def test_usage_is_told_with_every_update_as_far_as_it_is_known(autojump_clock: MockClock) -> None:
    tree = await of_everything()
    updates = [event for event in events(tree.outlet.lines, "pi") if event["type"] == "message_update"]

    counts = [(event["usage"]["input"], event["usage"]["output"]) for event in updates]
    assert counts[:3] == [(0, 0)] * 3  # thinking: the start, two pieces
    assert counts[3] == (100, 1)
    assert sorted(counts[:-3]) == counts[:-3]


def action(seq: int, *steering: str, active: dict[str, str] | None = None) -> bytes:
    actions: dict[str, Any] = {"queuedCount": len(steering), "steering": list(steering), "followUps": ["later"]}
    kind, tail = event_tail(SessionActionUpdate(actions=actions | ({"active": active} if active else {})))
    return tagged(tail, kind, PLACE, seq, "2026-01-02T03:04:05.678Z")


def test_queues_are_told_when_they_are_other_ones_and_not_when_only_the_work_is() -> None:
    lines = [action(1, "a"), action(2, "a", active={"kind": "turn", "phase": "running"}), action(3)]

    assert events(lines, "pi") == [
        {"type": "queue_update", "steering": ["a"], "followUp": ["later"]},
        {"type": "queue_update", "steering": [], "followUp": ["later"]},
    ]
    assert [event["type"] for event in events(lines, "base-context")] == ["session_action_update"] * 3


def test_lines_of_a_connection_have_no_tags_and_pass() -> None:
    lines = [
        b'{"type":"gap","rootSessionId":"x","missed":3}\n',
        b'{"type":"response","command":"hello","success":true}\n',
    ]

    assert told(lines, "pi") == lines


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "has_deltas"), [("pi", False), ("selesai", False), ("base-context", True)])
async def test_a_reply_of_twice_the_length_costs_twice_the_bytes(
    dialect: str, has_deltas: bool, autojump_clock: MockClock
) -> None:
    class Long(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            for _ in range(int(request.messages[-1].content[0].text)):  # type: ignore[union-attr]
                await hear(TextChunk(0, "word"))
            return ReplyEnd("stop")

    async def cost(deltas: int) -> int:
        tree = stage(Long(lambda request: ""))
        await run(tree, str(deltas))
        return sum(map(len, told(tree.outlet.lines, dialect, has_deltas=has_deltas)))

    small, large = await cost(500), await cost(1_000)

    assert large < 2.5 * small
    if has_deltas:
        assert large < 1_000 * (120 + 4) + 5 * 4_000
