"""A reader of stdout that does not read holds back the readers of models and tools, and nothing else."""

from typing import Any

import trio
from trio.testing import MockClock

from actors.protocol.mail import Abort, Prompt
from actors.protocol.model import Hear, ModelFailure, ModelRequest, ReplyEnd, TextChunk
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, FunctionModel, RecordingOutlet
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    for_ever,
    of_type,
    outcome,
    pausing,
    playing,
    spawn,
    stage,
    tool,
    use,
    wait,
)


class Talkative(FunctionModel):
    """Says a lot, one word after the other, without a pause of its own."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        self.requests.append(request)
        for _ in range(100):
            await hear(TextChunk(0, "word "))
        return ReplyEnd("stop")


def deltas(tree: Bench) -> int:
    return len(of_type(tree, "message_update"))


async def test_a_model_is_read_no_further_while_stdout_is_full(autojump_clock: MockClock) -> None:
    tree = stage(Talkative(lambda request: ""))

    async with playing(tree):
        await trio.lowlevel.checkpoint()
        tree.outlet.is_open = False
        await trio.sleep(3_600.0)
        assert deltas(tree) == 0
        tree.outlet.open()

    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_tool_can_wait_for_room_before_it_shows_more(autojump_clock: MockClock) -> None:
    async def chatty(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        for number in range(10):
            await context.wait_for_room()
            context.update(text_result(f"line {number}"))
            await trio.sleep(1.0)
        return text_result("all lines")

    tree = stage({"root": [use("chatty"), "done"]}, tool("chatty", chatty))

    async with playing(tree):
        await trio.sleep(4.5)
        shown = len(of_type(tree, "tool_execution_update"))
        tree.outlet.is_open = False
        await trio.sleep(3_600.0)
        assert len(of_type(tree, "tool_execution_update")) == shown < 10
        tree.outlet.open()

    assert len(of_type(tree, "tool_execution_update")) == 10
    assert_sound(tree)


async def test_an_abort_ends_a_tree_whose_stdout_is_full(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a"), for_ever], "a": [pausing(5.0, "never heard")]}
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(1.0)
        tree.outlet.is_open = False
        await trio.sleep(100.0)
        began = trio.current_time()
        tree.tree.tell(Abort("enough"))
    took_s = trio.current_time() - began

    assert took_s <= 5.0
    assert (outcome(tree), outcome(tree, "a")) == ("aborted", "aborted")
    assert_sound(tree)


async def test_journals_mail_tools_and_settling_go_on_while_stdout_is_full(autojump_clock: MockClock) -> None:
    async def slow(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.sleep(50.0)
        return text_result("the result")

    tree = stage({"root": [use("slow"), "done"]}, tool("slow", slow))

    async with playing(tree):
        await trio.sleep(1.0)
        tree.outlet.is_open = False
        tree.tree.tell(Prompt("steer", "mind this", "steer"))
        await trio.sleep(100.0)
        written = tree.store.types(ROOT)
        assert written[-2:] == ["message", "message"]  # the result of the tool, and the message that steers
        assert "mail" in written
        assert len(of_type(tree, "turn_start")) == 2
        tree.outlet.open()

    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_says_nothing_new_settles_while_stdout_is_full(autojump_clock: MockClock) -> None:
    class Quiet(FunctionModel):
        """The child has said all and only then the pipe fills up; its end is still to come."""

        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if request.depth:
                await hear(TextChunk(0, "the answer"))
                await trio.sleep(50.0)
                return ReplyEnd("stop")
            return await FunctionModel.call(self, request, hear)

    parts = [spawn("a"), wait(), "done"]
    tree = stage(Quiet(lambda request: parts[request.call - 1]))

    async with playing(tree):
        await trio.sleep(1.0)
        tree.outlet.is_open = False
        await trio.sleep(100.0)
        assert outcome(tree, "a") == "completed"
        assert [event["text"] for event in of_type(tree, "child_settled")] == ["the answer"]
        tree.outlet.open()

    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_only_outlets_without_room_are_waited_for(autojump_clock: MockClock) -> None:
    tree = stage(Talkative(lambda request: ""))
    other = RecordingOutlet()
    tree.tree.supervisor.sink.outlets.append(other)

    await tree.run()

    assert other.lines == tree.outlet.lines
    assert deltas(tree) == 102
