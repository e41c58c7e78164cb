"""How a run ended is told as it was, from the leaf to the root: nothing that failed or was cut passes for a success."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.mail import Abort
from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Chunk,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, FunctionModel
from store.usage import Usage
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    bodies,
    for_ever,
    of_type,
    outcome,
    pausing,
    playing,
    requests,
    row,
    run,
    saying,
    spawn,
    stage,
    told,
    tool,
    use,
    wait,
)


class Chunks(FunctionModel):
    """The root starts one child and waits; the child says these chunks."""

    def __init__(self, chunks: list[Chunk], end: ReplyEnd | ModelFailure) -> None:
        super().__init__(
            lambda request: [spawn("a", wait=True), "I see"][request.call - 1] if not request.depth else ""
        )
        self.chunks, self.end = chunks, end

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        if not request.depth:
            return await super().call(request, hear)
        self.requests.append(request)
        await hear(UsageReported(Usage(input=5, output=5)))
        for chunk in self.chunks:
            await hear(chunk)
        return self.end


HALF_A_CALL: list[Chunk] = [CallStarted(0, "c", "quick"), CallArguments(0, '{"path": "/etc')]
NO_SUCCESS: dict[str, tuple[list[Chunk], ReplyEnd]] = {
    "nothing at all": ([], ReplyEnd("stop")),
    "an empty text": ([TextChunk(0, "")], ReplyEnd("stop")),
    "blank text": ([TextChunk(0, " \n")], ReplyEnd("stop")),
    "thinking only": ([ThinkingChunk(0, "let me see")], ReplyEnd("stop")),
    "a tool call that was announced and did not come": ([], ReplyEnd("toolUse")),
    "a text before a tool call that did not come": ([TextChunk(0, "let me see")], ReplyEnd("toolUse")),
    "nothing before the token limit": ([], ReplyEnd("length")),
    "thinking up to the token limit": ([ThinkingChunk(0, "let me see")], ReplyEnd("length")),
    "half a call at the token limit": (HALF_A_CALL, ReplyEnd("length")),
    "a call without arguments yet at the token limit": ([CallStarted(0, "c", "quick")], ReplyEnd("length")),
}


@pytest.mark.parametrize("said", NO_SUCCESS)
async def test_an_answer_without_a_text_is_no_success(autojump_clock: MockClock, said: str) -> None:
    """C5."""
    ran: list[str] = []

    async def quick(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        ran.append(context.call_id)
        return text_result("")

    tree = stage(Chunks(*NO_SUCCESS[said]), tool("quick", quick))

    await run(tree)

    assert outcome(tree, "a") == "failed"
    (settled,) = of_type(tree, "child_settled")
    assert settled["outcome"] == "failed"
    assert settled["errorMessage"]
    (end,) = of_type(tree, "tool_execution_end")
    assert end["isError"]
    assert settled["errorMessage"] in told(requests(tree)[-1])
    assert ran == []
    assert_sound(tree)


async def test_a_text_that_was_cut_at_the_token_limit_is_an_answer_and_says_that_it_was_cut(
    autojump_clock: MockClock,
) -> None:
    tree = stage(Chunks([TextChunk(0, "the first half")], ReplyEnd("length")))

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["stopReason"], settled["text"]) == ("completed", "length", "the first half")
    assert_sound(tree)


async def test_the_whole_calls_of_an_answer_that_was_cut_are_run_and_the_half_one_is_not(
    autojump_clock: MockClock,
) -> None:
    whole: list[Chunk] = [CallStarted(0, "c1", "quick"), CallArguments(0, '{"n": 1}')]
    half: list[Chunk] = [CallStarted(1, "c2", "quick"), CallArguments(1, '{"n": ')]
    ran: list[Any] = []

    async def quick(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        ran.append(arguments)
        return text_result("fine")

    class Once(Chunks):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if request.depth and request.call > 1:
                await hear(TextChunk(0, "done"))
                return ReplyEnd("stop")
            return await super().call(request, hear)

    tree = stage(Once([*whole, *half], ReplyEnd("length")), tool("quick", quick))

    await run(tree)

    assert ran == [{"n": 1}]
    assert outcome(tree, "a") == "completed"
    assert_sound(tree)


async def test_outcomes_stay_distinct_up_to_the_root(autojump_clock: MockClock) -> None:
    """C7."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("good", "bad", "stopped", "late"), wait("good", "bad", "stopped", "late"), "all heard"],
        "good": ["fine"],
        "bad": [ModelFailure("auth", "no key")],
        "stopped": [for_ever],
        "late": [for_ever],
    }
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(5.0)
        directory = tree.tree.supervisor.directory
        directory.deliver(row(tree, "stopped"), Abort("not needed"))
        directory.deliver(row(tree, "late"), Abort("out of time", "timed_out"))

    expected = {"good": "completed", "bad": "failed", "stopped": "aborted", "late": "timed_out"}
    for name, ended in expected.items():
        assert outcome(tree, name) == ended
        assert row(tree, name).outcome == ended
        (settled,) = bodies(tree.store, row(tree, name).id, "run_settled")
        assert settled.outcome == ended
        assert f"## {name}: {ended}" in told(requests(tree)[-1])
    notices = {body.child_session_id: body.outcome for body in bodies(tree.store, ROOT, "child_settled")}
    assert notices == {row(tree, name).id: ended for name, ended in expected.items()}
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_a_limit_stopped_is_not_reported_as_completed(autojump_clock: MockClock) -> None:
    """C7."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), "never said"],
        "a": [use("quick"), use("quick"), "never said"],
    }
    tree = stage(parts, tool("quick", saying("fine")), limits=Limits(max_turns=3))

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert settled["outcome"] == "limit_reached"
    assert "--max-turns" in settled["errorMessage"]
    (end,) = [end for end in of_type(tree, "tool_execution_end") if end["toolName"] == "spawn_agent"]
    assert end["isError"]
    assert outcome(tree) == "limit_reached"
    assert_sound(tree)


async def test_error_words_in_what_a_tool_says_fail_nobody(autojump_clock: MockClock) -> None:
    """C6."""
    parts: dict[str, list[Line]] = {"root": [spawn("a", wait=True), "done"], "a": [use("diff"), "fine"]}
    tree = stage(parts, tool("diff", saying("error: timeout, fatal, Traceback (most recent call last)")))

    await run(tree)

    assert (outcome(tree, "a"), outcome(tree)) == ("completed", "completed")
    assert_sound(tree)


async def test_the_whole_text_of_a_child_is_in_the_child_and_a_bounded_one_in_its_parent(
    autojump_clock: MockClock,
) -> None:
    text = "ä" * 100_000
    tree = stage({"root": [spawn("a"), wait(), "done"], "a": [text]})

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert len(settled["text"].encode()) < 49_500
    assert settled["text"].startswith("ää")
    assert "bytes more in the session itself" in settled["text"]
    answer = bodies(tree.store, row(tree, "a").id, "message")[-1]
    assert len(bytes(answer.message)) > 200_000
    assert_sound(tree)


async def test_a_failed_root_is_told_as_failed_once_and_last(autojump_clock: MockClock) -> None:
    tree = stage({"root": [ModelFailure("quota", "insufficient_quota")]})

    await run(tree)

    assert [event["type"] for event in tree.events()][-1] == "agent_settled"
    assert len(of_type(tree, "agent_settled")) == 1
    assert outcome(tree) == "failed"
    assert tree.root.outcome == "failed"
    assert_sound(tree)


async def test_a_run_goes_on_after_a_failed_child_and_its_own_outcome_is_its_own(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a"), pausing(5.0, "I go on"), "noted"],
        "a": [ModelFailure("auth", "no key")],
    }
    tree = stage(parts)

    await run(tree)

    assert (outcome(tree, "a"), outcome(tree)) == ("failed", "completed")
    assert "## a: failed" in told(requests(tree)[-1])
    assert "no key" in told(requests(tree)[-1])
    assert_sound(tree)


def ends(tree: Bench) -> list[str]:
    return [event["sessionId"] for event in tree.events() if event["type"] == "agent_settled"]


async def test_the_terminal_events_of_children_come_before_that_of_their_parent(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "b"), "later", "done", "done"],
        "a": [spawn("c"), pausing(2.0, "later"), "done"],
        "b": [pausing(9.0, "done")],
        "c": [pausing(5.0, "done")],
    }
    tree = stage(parts)

    await run(tree)

    order = [row(tree, name).id for name in ("c", "a", "b", "root")]
    assert [session for session in ends(tree) if session != ROOT] == order[:3]
    assert ends(tree)[-1] == ROOT
    assert_sound(tree)


async def test_a_root_that_ends_its_work_without_a_word_has_completed(autojump_clock: MockClock) -> None:
    tree = stage({"root": [use("quick"), ""]}, tool("quick", saying("done and written")))

    await run(tree)

    assert outcome(tree) == "completed"
    assert_sound(tree)
