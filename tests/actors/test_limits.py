"""What bounds a tree: a refusal names the limit, its value and the option; what only waits does not count."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.mail import Abort
from actors.protocol.model import Hear, ModelFailure, ModelRequest, ReplyEnd, TextChunk
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, Answer, FunctionModel
from tests.actors.stage import (
    Bench,
    Line,
    Script,
    assert_sound,
    bodies,
    of_type,
    outcome,
    pausing,
    playing,
    requests,
    row,
    rows,
    run,
    saying,
    spawn,
    stage,
    told,
    tool,
    use,
    wait,
)


def refusals(tree: Bench) -> list[str]:
    """What models were told of spawns that were refused."""
    texts = [end["result"]["content"][0]["text"] for end in of_type(tree, "tool_execution_end") if end["isError"]]
    return [text for text in texts if "refused" in text]


async def test_a_child_below_the_deepest_level_is_refused_by_limit_value_and_option(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", wait=True), "done"], "a": [spawn("b"), "done alone"]}
    tree = stage(parts, limits=Limits(max_depth=1))

    await run(tree)

    (refusal,) = refusals(tree)
    assert all(word in refusal for word in ("max_depth", "2", "1", "--max-depth"))
    (event,) = of_type(tree, "limit_reached")
    assert (event["limit"], event["value"], event["allowed"]) == ("max_depth", 2, 1)
    assert event["holderSessionId"] == ROOT
    assert event["sessionId"] == row(tree, "a").id
    assert {one.name for one in rows(tree)} == {"root", "a"}
    assert outcome(tree, "a") == "completed"
    assert_sound(tree)


async def test_more_descendants_than_allowed_are_refused_wherever_they_are_asked_for(
    autojump_clock: MockClock,
) -> None:
    """C3."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), spawn("d", "e"), wait(), "done"],
        "a": [spawn("b", "c"), wait(), "done"],
    }
    tree = stage(parts, limits=Limits(max_children=4))

    await run(tree)

    (refusal,) = refusals(tree)
    assert all(word in refusal for word in ("max_children", "5", "4", "--max-children"))
    assert len(rows(tree)) == 5
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_has_ended_frees_no_place_among_all_that_are_allowed(autojump_clock: MockClock) -> None:
    """C3."""
    tree = stage({"root": [spawn("a", wait=True), spawn("b", wait=True), "done"]}, limits=Limits(max_children=1))

    await run(tree)

    assert len(refusals(tree)) == 1
    assert len(rows(tree)) == 2
    assert_sound(tree)


async def test_a_second_child_of_the_same_name_is_refused_and_another_parent_may_use_it(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "a"), spawn("b", wait=True), wait(), "done"],
        "b": [spawn("a", wait=True), "done"],
    }
    tree = stage(parts)

    await run(tree)

    (refusal,) = refusals(tree)
    assert "'a'" in refusal
    assert [one.name for one in rows(tree)].count("a") == 2
    assert_sound(tree)


async def test_children_without_a_name_get_one_of_their_own(autojump_clock: MockClock) -> None:
    nameless = [("spawn_agent", {"prompt": "x"}), ("spawn_agent", {"prompt": "y"})]
    tree = stage({"root": [spawn("agent-2"), nameless, wait(), "done"]})

    await run(tree)

    names = [one.name for one in rows(tree)]
    assert len(set(names)) == 4
    assert [body.name for body in bodies(tree.store, ROOT, "child_spawned")] == names[1:]
    assert_sound(tree)


async def test_the_limit_of_turns_ends_the_whole_tree_as_limit_reached(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "b"), pausing(50.0, "later"), "never said"],
        "a": [pausing(1.0, use("quick"))] * 9,
        "b": [pausing(1.0, use("quick"))] * 9,
    }
    tree = stage(parts, tool("quick", saying("quick")), limits=Limits(max_turns=8))

    await run(tree)

    # Each of those that were stopped had one more, to hand back what it has.
    assert sum(1 for request in requests(tree) if request.tools) == 8
    assert len(requests(tree)) == 8 + 3
    assert {one.outcome for one in rows(tree)} == {"limit_reached"}
    assert {event["limit"] for event in of_type(tree, "limit_reached")} == {"max_turns"}
    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert "--max-turns" in str(settled.error_message)
    assert_sound(tree)


async def test_a_tree_that_stays_below_its_limits_is_told_of_none(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a"), wait(), "done"]}, limits=Limits(1, 1, 1, 4))

    await run(tree)

    assert len(requests(tree)) == 4
    assert of_type(tree, "limit_reached") == []
    assert outcome(tree) == "completed"
    assert_sound(tree)


# --- how many work at once -------------------------------------------------------------------------------------------


@attrs.define
class Counting(FunctionModel):
    """Counts the calls of children that are open at the same time; the root's is not counted."""

    now: int = 0
    most: int = 0

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        if not request.depth:
            return await FunctionModel.call(self, request, hear)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await FunctionModel.call(self, request, hear)
        finally:
            self.now -= 1


def by_name(parts: dict[str, list[Line]]) -> Callable[[ModelRequest], Any]:
    return Script(parts)


async def test_children_above_the_live_limit_wait_their_turn_and_all_complete(autojump_clock: MockClock) -> None:
    """C3."""
    names = [f"c{number}" for number in range(17)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names), wait(), "done"]}
    parts |= {name: [pausing(10.0, use("quick")), pausing(10.0, "done")] for name in names}
    model = Counting(by_name(parts))
    tree = stage(model, tool("quick", saying("quick")), limits=Limits(max_live_children=2))

    await run(tree)

    assert model.most == 2
    assert [outcome(tree, name) for name in names] == ["completed"] * 17
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_parents_that_wait_for_their_children_hold_no_slot_so_nobody_waits_for_ever(
    autojump_clock: MockClock,
) -> None:
    names = [f"p{number}" for number in range(6)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names, wait=True), "done"]}
    for name in names:
        parts[name] = [spawn(f"{name}-x", f"{name}-y", wait=True), pausing(1.0, "done")]
        parts |= {f"{name}-{end}": [pausing(5.0, "done")] for end in "xy"}
    model = Counting(by_name(parts))
    tree = stage(model, limits=Limits(max_live_children=1))

    await run(tree)

    assert model.most == 1
    assert {one.outcome for one in rows(tree)} == {"completed"}
    assert len(rows(tree)) == 19
    assert_sound(tree)


async def test_a_tool_of_a_child_counts_as_work_and_a_wait_does_not(autojump_clock: MockClock) -> None:
    inside: set[str] = set()
    most: list[int] = []

    async def work(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        inside.add(context.artifact_dir)
        most.append(len(inside))
        await trio.sleep(5.0)
        inside.discard(context.artifact_dir)
        return text_result("fine")

    names = [f"c{number}" for number in range(5)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names), wait(), "done"]}
    parts |= {name: [use("work", "work"), "done"] for name in names}
    tree = stage(parts, tool("work", work), limits=Limits(max_live_children=2))

    await run(tree)

    assert max(most) <= 2
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_waits_for_its_turn_is_shown_as_waiting_and_hears_an_abort(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", "b"), wait(), "done"]}
    parts |= {name: [pausing(100.0, "done")] for name in "ab"}
    tree = stage(parts, limits=Limits(max_live_children=1))

    async with playing(tree):
        await trio.sleep(10.0)
        statuses = {name: tree.tree.supervisor.status(row(tree, name)) for name in "ab"}
        assert sorted(statuses.values()) == ["running", "waiting"]
        waiting = next(name for name, status in statuses.items() if status == "waiting")
        tree.tree.supervisor.directory.deliver(row(tree, waiting), Abort("not needed"))

    assert sorted(outcome(tree, name) for name in "ab") == ["aborted", "completed"]
    assert outcome(tree, waiting) == "aborted"
    assert not tree.tree.supervisor.slots.is_waiting(row(tree, waiting).id)
    assert_sound(tree)


@pytest.mark.parametrize("children", [33, 64])
async def test_many_children_of_one_parent_all_arrive(autojump_clock: MockClock, children: int) -> None:
    names = [f"c{number}" for number in range(children)]
    answers: dict[str, list[Line]] = {name: [f"the answer of {name}."] for name in names}
    tree = stage({"root": [spawn(*names), "later", "done"]} | answers)

    await run(tree)

    read = "\n".join(told(request) for request in requests(tree) if not request.depth)
    assert all(f"the answer of {name}." in read for name in names)
    assert len(bodies(tree.store, ROOT, "child_settled")) == children
    assert_sound(tree)


class Words(FunctionModel):
    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        for word in ("one ", "two ", "three"):
            await trio.sleep(1.0)
            await hear(TextChunk(0, word))
        return ReplyEnd("stop")


async def test_an_answer_that_comes_in_pieces_is_one_answer(autojump_clock: MockClock) -> None:
    never: Answer = ""
    tree = stage(Words(lambda request: never))

    await run(tree)

    deltas = [event["assistantMessageEvent"] for event in of_type(tree, "message_update")]
    assert [delta["type"] for delta in deltas] == ["text_start", *["text_delta"] * 3, "text_end"]
    assert deltas[-1]["content"] == "one two three"
    assert_sound(tree)
