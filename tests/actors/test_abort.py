"""An abort is mail: whatever a session is about, everything open is closed in order, and nothing waits for a disk or a pipe."""

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from actors.flusher import JournalLike
from actors.protocol.mail import Abort, Command, Prompt, Stop
from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    UsageReported,
)
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, Answer, FunctionModel
from store.stream import check_stream
from store.usage import Usage
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    assert_totals,
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
    tool,
    types,
    until,
    use,
    wait,
)

BUSY = ModelFailure("overloaded", "busy")


async def abort_at(tree: Bench, seconds: float, command: Command | None = None) -> float:
    """Abort the root after these seconds; how long it took until the tree was at rest."""
    async with playing(tree):
        await trio.sleep(seconds)
        began = trio.current_time()
        tree.tree.tell(command or Abort("enough"))
    return trio.current_time() - began


SITUATIONS: dict[str, dict[str, list[Line]]] = {
    "a model call": {"root": [for_ever]},
    "the second call": {"root": [use("quick"), for_ever]},
    "a tool": {"root": [use("slow")]},
    "two tools, one of which is done": {"root": [use("quick", "slow")]},
    "a tool that does not let go": {"root": [use("stubborn")]},
    "a pause before a retry": {"root": [ModelFailure("rate_limited", "slow down", 50.0)]},
    "a wait for a child": {"root": [spawn("a"), wait()], "a": [for_ever]},
    "children after the loop": {"root": [spawn("a", "b"), "later"], "a": [for_ever], "b": [use("slow")]},
    "a grandchild": {"root": [spawn("a", wait=True)], "a": [spawn("b", wait=True)], "b": [use("slow")]},
    "children in a pause": {"root": [spawn("a"), wait()], "a": [ModelFailure("rate_limited", "slow down", 50.0)]},
    "an ended run": {"root": ["done"]},
}


@attrs.define
class Stubborn:
    """A tool that cleans up for as long as it likes."""

    seconds: float = 1_000.0

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep(self.seconds)
        return text_result("at last")


def tools(seconds: float = 3.0) -> list[Any]:
    return [tool("quick", saying("quick")), tool("slow", for_ever), tool("stubborn", Stubborn(seconds))]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("command", [Abort("enough"), Stop("stopped")])
async def test_an_abort_closes_every_bracket_in_order_whatever_is_under_way(
    autojump_clock: MockClock, situation: str, command: Command
) -> None:
    tree = stage(SITUATIONS[situation], *tools())

    took_s = await abort_at(tree, 1.0, command)

    assert took_s <= 5.0
    assert outcome(tree) == ("completed" if situation == "an ended run" else "aborted")
    for child in tree.root.children:
        assert child.outcome == "aborted"
    assert_sound(tree)


async def test_the_records_of_an_aborted_run_end_with_its_result_turn_loop_and_settling(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [use("slow")]}, *tools())

    await abort_at(tree, 1.0)

    assert types(tree, "root")[-7:] == [
        "tool_execution_end",
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
        "run_settled",
        "agent_settled",
    ]
    assert tree.store.types(ROOT)[-2:] == ["message", "run_settled"]
    assert of_type(tree, "agent_settled")[0]["aborted"] is True


@pytest.mark.parametrize("steps", range(2, 60))
async def test_an_abort_at_any_moment_of_the_first_steps_ends_the_tree(autojump_clock: MockClock, steps: int) -> None:
    tree = stage({"root": [spawn("a", "b"), wait(), "done"], "a": [use("quick"), "x"], "b": ["y"]}, *tools())

    async with playing(tree):
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        tree.tree.tell(Abort("enough"))

    ended = {session.outcome for session in (tree.root, *tree.root.children)}
    assert ended <= {"aborted", "completed"}
    assert of_type(tree, "agent_settled", "root")[-1]["aborted"] or tree.root.outcome == "completed"
    assert_sound(tree)


@attrs.define
class StalledFlusher:
    """A disk whose flushes do not come back once it has stalled."""

    is_stalled: bool = True

    def note(self, journal: JournalLike) -> None:
        pass

    async def durable(self, journal: JournalLike) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_stalled:
            await trio.sleep_forever()
        journal.sync()


async def test_a_stalled_flush_does_not_deafen_the_loop(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["never said"]}, flusher=StalledFlusher())

    await abort_at(tree, 1.0)

    assert outcome(tree) == "aborted"
    assert requests(tree) == []
    assert check_stream(tree.outlet.lines) == []


@pytest.mark.parametrize("stalls_at_s", [0.0, 0.5, 1.5, 2.5])
async def test_an_abort_ends_a_whole_tree_whose_disk_has_stalled(autojump_clock: MockClock, stalls_at_s: float) -> None:
    flusher = StalledFlusher(is_stalled=False)
    parts: dict[str, list[Line]] = {
        "root": [pausing(1.0, spawn("a", "b")), wait()],
        "a": [pausing(1.0, spawn("c")), for_ever],
        "b": [use("slow")],
        "c": [for_ever],
    }
    tree = stage(parts, *tools(), flusher=flusher)

    async with playing(tree):
        await trio.sleep(stalls_at_s)
        flusher.is_stalled = True
        await trio.sleep(3.0)
        began = trio.current_time()
        tree.tree.tell(Abort("enough"))
        await until(lambda: tree.root.outcome, 0.01)
        assert trio.current_time() - began <= 15.0

    assert outcome(tree) == "aborted"
    assert {child.outcome for child in tree.root.children} <= {"aborted"}
    assert check_stream(tree.outlet.lines) == []


async def test_a_child_that_waits_for_the_flush_of_its_parent_hears_an_abort(autojump_clock: MockClock) -> None:
    flusher = StalledFlusher(is_stalled=False)
    tree = stage({"root": [spawn("a"), for_ever], "a": ["never said"]}, flusher=flusher)

    async with playing(tree):
        await until(lambda: of_type(tree, "child_spawned"))
        flusher.is_stalled = True
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))

    assert outcome(tree, "a") == "aborted"
    assert "never said" not in str(tree.events())
    assert check_stream(tree.outlet.lines) == []


async def test_an_abort_reaches_three_levels_and_children_settle_before_their_parents(
    autojump_clock: MockClock,
) -> None:
    """C2."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "b"), wait()],
        "a": [spawn("c", "d"), wait()],
        "b": [spawn("e"), "later"],
        "c": [for_ever],
        "d": [use("slow")],
        "e": [use("stubborn")],
    }
    tree = stage(parts, *tools())

    await abort_at(tree, 1.0)

    ends = [event["sessionId"] for event in tree.events() if event["type"] == "agent_settled"]
    places = {name: ends.index(row(tree, name).id) for name in ("root", *"abcde")}
    assert len(ends) == 6
    assert max(places["c"], places["d"]) < places["a"] < places["root"]
    assert places["e"] < places["b"] < places["root"]
    assert {outcome(tree, name) for name in places} == {"aborted"}
    assert {event["outcome"] for event in of_type(tree, "child_settled")} == {"aborted"}
    assert_sound(tree)


@pytest.mark.parametrize("command", [Abort("enough"), Stop("stopped")])
async def test_a_child_that_is_aborted_before_its_first_step_settles_as_aborted_and_its_parent_hears_it(
    autojump_clock: MockClock, command: Command
) -> None:
    tree = stage({"root": [spawn("a"), for_ever], "a": ["never said"]})

    async with playing(tree):
        await until(lambda: of_type(tree, "child_spawned"))
        tree.tree.tell(command)

    assert outcome(tree, "a") == "aborted"
    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["text"], settled["run"]) == ("aborted", "", 1)
    assert "never said" not in str(tree.events())
    assert types(tree, "a")[-2:] == ["run_settled", "agent_settled"]
    assert b"task of a" in bytes(bodies(tree.store, row(tree, "a").id, "message")[0].message)
    assert_sound(tree)


async def test_only_the_aborted_child_ends_and_its_siblings_go_on(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", "b"), wait(), "done"], "a": [for_ever], "b": [pausing(5.0, "fine")]})

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Abort("not needed"))

    assert (outcome(tree, "a"), outcome(tree, "b"), outcome(tree)) == ("aborted", "completed", "completed")
    assert_sound(tree)


async def test_an_abort_in_a_pause_before_a_retry_ends_at_once(autojump_clock: MockClock) -> None:
    tree = stage({"root": [ModelFailure("rate_limited", "slow down", 50.0), "never said"]})

    took_s = await abort_at(tree, 10.0)

    assert took_s <= 0.05
    assert len(requests(tree)) == 1
    assert types(tree, "root")[-4:] == ["auto_retry_start", "auto_retry_end", "run_settled", "agent_settled"]
    (end,) = of_type(tree, "auto_retry_end")
    assert (end["success"], end["attempt"]) == (False, 1)
    assert outcome(tree) == "aborted"
    assert_sound(tree)


async def test_an_abort_in_the_second_try_closes_the_retry_behind_the_loop(autojump_clock: MockClock) -> None:
    tree = stage({"root": [BUSY, for_ever]})

    await abort_at(tree, 100.0)

    assert types(tree, "root")[-5:] == ["turn_end", "agent_end", "auto_retry_end", "run_settled", "agent_settled"]
    assert_sound(tree)


async def test_an_abort_that_comes_twice_ends_a_run_once(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a"), use("stubborn")], "a": [use("stubborn")]}, *tools(3.0))

    async with playing(tree):
        await trio.sleep(1.0)
        for _ in range(3):
            tree.tree.tell(Abort("enough"))
            await trio.sleep(0.5)

    assert len(of_type(tree, "agent_settled", "root")) == 1
    assert_sound(tree)


async def test_an_idle_session_goes_on_after_an_abort_with_what_was_said(autojump_clock: MockClock) -> None:
    tree = stage({"root": [for_ever, "second answer"]})

    await abort_at(tree, 1.0)
    await run(tree, "once more")

    texts = [str(message.content) for message in requests(tree)[-1].messages]
    assert "go" in texts[0]
    assert "once more" in texts[-1]
    assert [event["outcome"] for event in of_type(tree, "agent_settled")] == ["aborted", "completed"]
    assert_sound(tree)


async def test_a_prompt_that_an_abort_covers_is_refused_and_one_behind_it_is_not(autojump_clock: MockClock) -> None:
    tree = stage({"root": [for_ever, "second answer"]})

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Prompt("covered", "before"))
        tree.tree.tell(Abort("enough"))
        tree.tree.tell(Prompt("kept", "behind"))

    (refused,) = of_type(tree, "agent_message")
    assert refused["delivery"] == "refused"
    assert [event["outcome"] for event in of_type(tree, "agent_settled")] == ["aborted", "completed"]
    assert "before" not in str(requests(tree)[-1].messages)
    assert "behind" in str(requests(tree)[-1].messages)
    assert_sound(tree)


# --- what does not end in time, and what comes late ------------------------------------------------------------------


@attrs.define
class HalfSaid(FunctionModel):
    """Its first answer is a whole call, the beginning of a text, and then a shielded silence, at last with an end."""

    silence_s: float = 100.0
    rest: str = "too late"

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        if request.call > 1 or request.depth:
            return await super().call(request, hear)
        self.requests.append(request)
        await hear(UsageReported(Usage(input=7, output=3)))
        await hear(CallStarted(0, "call_1", "quick"))
        await hear(CallArguments(0, "{}"))
        await hear(BlockEnded(0))
        await hear(TextChunk(1, "half a "))
        with trio.CancelScope(shield=True):
            await trio.sleep(self.silence_s)
            await hear(TextChunk(1, self.rest))
        return ReplyEnd("toolUse")


async def test_a_call_that_does_not_end_in_time_leaves_what_it_said_and_a_result_for_its_whole_call(
    autojump_clock: MockClock,
) -> None:
    tree = stage(HalfSaid(lambda request: "done"), *tools())

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))
        await trio.sleep(2.0)
        await until(lambda: tree.root.outcome, 0.01)
        assert trio.current_time() <= 6.0

    answer = next(event["message"] for event in of_type(tree, "message_end") if event["message"]["role"] == "assistant")
    assert answer["stopReason"] == "aborted"
    assert answer["content"][1]["text"] == "half a "
    assert tree.root.total.input == 7
    results = [event["message"] for event in of_type(tree, "message_end") if event["message"]["role"] == "toolResult"]
    assert [result["isError"] for result in results] == [True]
    assert "too late" not in str(tree.events())
    assert_sound(tree)


async def test_a_late_chunk_does_not_show_up_in_the_next_answer(autojump_clock: MockClock) -> None:
    tree = stage(HalfSaid(lambda request: pausing(200.0, "second answer")(request)), *tools())  # type: ignore[operator]

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))
        await trio.sleep(10.0)
        tree.tree.tell(Prompt("more", "once more"))

    assert "too late" not in str(tree.events())
    assert [event["outcome"] for event in of_type(tree, "agent_settled")] == ["aborted", "completed"]
    assert_sound(tree)


async def test_a_late_tool_does_not_end_a_tool_of_the_next_run_that_has_the_same_call_id(
    autojump_clock: MockClock,
) -> None:
    @attrs.define
    class CountsFromOne(FunctionModel):
        """Some servers name the calls of each answer call_1, call_2 …"""

        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if request.call > 2:
                return await super().call(request, hear)
            self.requests.append(request)
            await hear(CallStarted(0, "call_1", "stubborn" if request.call == 1 else "patient"))
            return ReplyEnd("toolUse")

    async def patient(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.sleep(100.0)
        return text_result("patience")

    tree = stage(CountsFromOne(lambda request: "done"), *tools(50.0), tool("patient", patient))

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))
        await trio.sleep(10.0)
        tree.tree.tell(Prompt("more", "once more"))

    ends = [(end["toolName"], end["result"]["content"][0]["text"]) for end in of_type(tree, "tool_execution_end")]
    assert ends[1] == ("patient", "patience")
    assert "at last" not in str(tree.events())
    assert_sound(tree)


async def test_a_prompt_after_an_abort_is_worked_on_while_something_of_the_old_run_does_not_let_go(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [use("stubborn"), "second answer"]}, *tools(1_000.0))

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))
        await trio.sleep(10.0)
        tree.tree.tell(Prompt("more", "once more"))

    assert [event["outcome"] for event in of_type(tree, "agent_settled")] == ["aborted", "completed"]
    assert_sound(tree)


async def test_what_an_aborted_call_has_used_counts_in_every_ancestor(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", wait=True)], "a": [spawn("b", wait=True)], "b": [for_ever]})

    await abort_at(tree, 1.0)

    assert tree.root.own.input == 100
    assert row(tree, "a").own.input == row(tree, "b").own.input == 100
    assert (row(tree, "a").total.input, tree.root.total.input) == (200, 300)
    assert_totals(tree)
    assert_sound(tree)


# --- idle sessions with work below them ------------------------------------------------------------------------------


def settled_family() -> dict[str, list[Line]]:
    async def slow_second(request: ModelRequest) -> Answer:
        await trio.sleep(10.0)
        return "again"

    return {
        "root": [spawn("a", wait=True), pausing(30.0, "done"), "I see", "I see"],
        "a": [spawn("b", wait=True), "a is done", "a has heard"],
        "b": ["b is done", slow_second],
    }


async def test_a_prompt_to_a_settled_grandchild_wakes_the_session_between_when_it_has_ended(
    autojump_clock: MockClock,
) -> None:
    tree = stage(settled_family())

    async with playing(tree):
        await trio.sleep(5.0)
        assert not row(tree, "a").has_task
        tree.tree.supervisor.directory.deliver(row(tree, "b"), Prompt("p", "go on"))

    assert (row(tree, "b").runs, row(tree, "a").runs) == (2, 2)
    assert [event["outcome"] for event in of_type(tree, "child_settled")] == ["completed"] * 4
    assert_sound(tree)


async def test_an_abort_of_an_idle_session_reaches_the_children_that_work_below_it(autojump_clock: MockClock) -> None:
    tree = stage(settled_family())

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.supervisor.directory.deliver(row(tree, "b"), Prompt("p", "go on"))
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))

    assert (outcome(tree, "a"), outcome(tree, "b"), outcome(tree)) == ("aborted", "aborted", "aborted")
    assert (row(tree, "b").runs, row(tree, "a").runs) == (2, 2)
    assert_sound(tree)


async def test_a_woken_child_whose_prompt_is_refused_keeps_nobody_waiting(autojump_clock: MockClock) -> None:
    tree = stage(settled_family())

    async with playing(tree):
        await trio.sleep(5.0)
        directory = tree.tree.supervisor.directory
        directory.deliver(row(tree, "b"), Prompt("p", "go on"))
        directory.deliver(row(tree, "b"), Abort("never mind"))

    assert (row(tree, "b").runs, row(tree, "a").runs) == (1, 1)
    assert [event["delivery"] for event in of_type(tree, "agent_message", "b")] == ["refused"]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_is_woken_while_its_parent_is_being_aborted_is_aborted_too(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), use("stubborn"), "I see"],
        "a": ["a is done", for_ever],
    }
    tree = stage(parts, *tools(20.0))

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Abort("enough"))
        await trio.sleep(1.0)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("p", "go on"))

    assert (row(tree, "a").runs, row(tree, "a").outcome) in ((2, "aborted"), (1, "completed"))
    assert outcome(tree) == "aborted"
    assert_sound(tree)


async def test_an_aborted_run_does_not_pass_off_the_answer_of_the_run_before_as_its_own(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", wait=True), for_ever], "a": ["the old answer", for_ever]}
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("p", "go on"))
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))

    first, second = of_type(tree, "child_settled")
    assert (first["text"], first["outcome"]) == ("the old answer", "completed")
    assert (second["text"], second["outcome"]) == ("", "aborted")
    assert_sound(tree)
