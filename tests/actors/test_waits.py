"""Waits, notices and messages: bounded, ended early by who asks, each told once and in order."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.mail import Prompt
from actors.protocol.model import ModelRequest
from actors.protocol.rules.delivery import MAX_QUEUED
from actors.protocol.tools import WaitFor, text_result
from actors.testing import ROOT, Answer
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    bodies,
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
    types,
    until,
    use,
    wait,
)


def results(tree: Bench, name: str, session: str = "root") -> list[str]:
    """What calls of this tool gave to the model."""
    ends = [end for end in of_type(tree, "tool_execution_end", session) if end["toolName"] == name]
    return ["\n".join(block["text"] for block in end["result"]["content"]) for end in ends]


def root_requests(tree: Bench) -> list[str]:
    return [told(request) for request in requests(tree) if not request.depth]


TWO: dict[str, list[Line]] = {"a": [pausing(10.0, "answer of a")], "b": [pausing(20.0, "answer of b")]}


async def test_a_wait_for_all_ends_with_the_last(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", "b"), wait(), "done"]} | TWO)

    await run(tree)

    (text,) = results(tree, "wait_agents")
    assert "## a: completed" in text
    assert "## b: completed" in text
    assert "answer of a" in text
    assert "answer of b" in text
    (end,) = [end for end in of_type(tree, "tool_execution_end") if end["toolName"] == "wait_agents"]
    assert end["durationMs"] == pytest.approx(20_000, abs=100)
    assert_sound(tree)


async def test_a_wait_for_any_ends_with_the_first_and_the_next_with_the_next(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", "b"), wait(mode="any"), wait(mode="any"), "done"]} | TWO)

    await run(tree)

    first, second = results(tree, "wait_agents")
    assert "## a: completed" in first
    assert "## b: still running" in first
    assert "## b: completed" in second
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_wait_that_times_out_says_so_and_stops_nobody(autojump_clock: MockClock) -> None:
    """C4."""
    tree = stage({"root": [spawn("a", "b"), wait(timeout_s=15.0), wait(), "done"]} | TWO)

    await run(tree)

    first, second = results(tree, "wait_agents")
    assert "timed out after 15 s" in first
    assert "## b: still running" in first
    assert "## b: completed" in second
    assert {outcome(tree, name) for name in "ab"} == {"completed"}
    assert_sound(tree)


async def test_a_wait_for_nobody_ends_at_once_and_one_for_a_stranger_names_who_is_there(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [wait(), spawn("a"), wait("stranger"), wait("a"), "done"]} | TWO)

    await run(tree)

    none, stranger, known = results(tree, "wait_agents")
    assert "no children" in none
    assert "stranger" in stranger
    assert "children: a" in stranger
    assert "## a: completed" in known
    assert_sound(tree)


async def test_two_waits_side_by_side_each_end_when_theirs_does(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", "b"), [*wait("a"), *wait("b")], "done"]} | TWO)

    await run(tree)

    ends = [end for end in of_type(tree, "tool_execution_end") if end["toolName"] == "wait_agents"]
    assert [round(end["durationMs"], -2) for end in ends] == [10_000, 20_000]
    assert_sound(tree)


@pytest.mark.parametrize("mode", ["steer", "auto"])
async def test_a_steer_ends_a_wait_early_and_is_read_next(autojump_clock: MockClock, mode: Any) -> None:
    tree = stage({"root": [spawn("a"), wait(), wait(), "done"]} | TWO)

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Prompt("s", "mind this", mode))

    first, second = results(tree, "wait_agents")
    assert "ended early" in first
    assert "## a: completed" in second
    assert "mind this" in root_requests(tree)[2]
    assert_sound(tree)


@pytest.mark.parametrize("mode", ["prompt", "follow_up"])
async def test_a_follow_up_ends_no_wait_and_is_read_when_the_run_would_end(
    autojump_clock: MockClock, mode: Any
) -> None:
    tree = stage({"root": [spawn("a"), wait(), "nearly done", "done"]} | TWO)

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Prompt("f", "and then that", mode))

    assert ["and then that" in text for text in root_requests(tree)] == [False, False, False, True]
    assert len(of_type(tree, "agent_settled", "root")) == 1
    assert_sound(tree)


async def test_a_wait_that_begins_while_a_steer_waits_ends_at_once(autojump_clock: MockClock) -> None:
    both: Answer = [*use("slow"), *wait()]

    async def slow(arguments: dict[str, Any], context: Any) -> Any:
        await trio.sleep(3.0)
        return await saying("fine")(arguments, context)

    async def late(arguments: dict[str, Any], context: Any) -> Any:
        await trio.sleep(5.0)
        waited = await context.family.ask(WaitFor())
        return text_result(waited.ended)

    tree = stage({"root": [spawn("a"), use("late"), both, "done"]} | TWO, tool("slow", slow), tool("late", late))

    async with playing(tree):
        await trio.sleep(2.0)
        tree.tree.tell(Prompt("s", "mind this", "steer"))

    assert results(tree, "late") == ["message"]
    assert_sound(tree)


async def test_what_a_wait_has_told_is_not_told_again(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a"), wait(), "done"]} | TWO)

    await run(tree)

    assert root_requests(tree)[-1].count("answer of a") == 1
    assert len(requests(tree)) == 4
    assert "custom_message" not in tree.store.types(ROOT)
    assert_sound(tree)


async def test_a_notice_is_told_once_in_a_message_that_names_what_it_delivers(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a"), "later", "I see", "never said"]} | TWO)

    await run(tree)

    (notice,) = bodies(tree.store, ROOT, "custom_message")
    assert notice.details == {"delivers": [f"{row(tree, 'a').id}/1"]}
    assert root_requests(tree)[-1].count("answer of a") == 1
    assert len(root_requests(tree)) == 3
    assert_sound(tree)


async def test_a_parent_is_woken_once_for_a_batch_of_32_children_that_end_together(autojump_clock: MockClock) -> None:
    names = [f"c{number}" for number in range(32)]

    async def together(request: ModelRequest) -> Answer:
        await trio.sleep(60.0)
        return f"answer of {request.session_name}."

    tree = stage({"root": [spawn(*names), "later", "all heard"]} | {name: [together] for name in names})

    await run(tree)

    told_now = root_requests(tree)[-1]
    assert all(f"answer of {name}." in told_now for name in names)
    assert len(root_requests(tree)) <= 5
    delivered = [name for body in bodies(tree.store, ROOT, "custom_message") for name in body.details["delivers"]]
    assert sorted(delivered) == sorted(f"{row(tree, name).id}/1" for name in names)
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_32_children_that_end_while_their_parent_is_busy_all_arrive_with_the_next_call(
    autojump_clock: MockClock,
) -> None:
    names = [f"c{number}" for number in range(32)]
    tree = stage(
        {"root": [spawn(*names), pausing(60.0, use("quick")), "all heard"]}
        | {name: [pausing(5.0, f"answer of {name}.")] for name in names},
        tool("quick", saying("quick")),
    )

    await run(tree)

    assert len(root_requests(tree)) == 3
    assert all(f"answer of {name}." in root_requests(tree)[-1] for name in names)
    assert len(bodies(tree.store, ROOT, "custom_message")) == 1
    assert_sound(tree)


async def test_notices_are_never_put_between_a_call_and_its_result(autojump_clock: MockClock) -> None:
    async def slow(arguments: dict[str, Any], context: Any) -> Any:
        await trio.sleep(15.0)
        return await saying("fine")(arguments, context)

    tree = stage({"root": [spawn("a"), use("slow", "slow"), "done"]} | TWO, tool("slow", slow))

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Prompt("s", "mind this", "steer"))

    kinds = [type(message).__name__ for message in requests(tree)[-1].messages]
    assert kinds[-5:] == ["AssistantMessage", "ToolResultMessage", "ToolResultMessage", "UserMessage", "UserMessage"]
    texts = root_requests(tree)[-1]
    assert texts.index("fine") < texts.index("answer of a") < texts.index("mind this")
    assert_sound(tree)


async def test_steers_and_follow_ups_are_read_in_the_order_of_their_kind_and_then_of_their_arrival(
    autojump_clock: MockClock,
) -> None:
    async def slow(arguments: dict[str, Any], context: Any) -> Any:
        await trio.sleep(10.0)
        return await saying("fine")(arguments, context)

    tree = stage({"root": [use("slow"), "nearly", "done"]}, tool("slow", slow))

    async with playing(tree):
        await trio.sleep(1.0)
        for number, mode in enumerate(("follow_up", "steer", "follow_up", "auto", "prompt", "steer")):
            tree.tree.tell(Prompt(f"m{number}", f"message {number}.", mode))  # type: ignore[arg-type]

    _, steered, last = root_requests(tree)
    assert [number for number in range(6) if f"message {number}." in steered] == [1, 3, 5]
    places = [last.index(f"message {number}.") for number in (1, 3, 5, 0, 2, 4)]
    assert places == sorted(places)
    assert len(bodies(tree.store, ROOT, "mail")) == 6
    assert_sound(tree)


async def test_the_queue_is_shown_when_it_changes_and_only_then(autojump_clock: MockClock) -> None:
    tree = stage({"root": [pausing(10.0, "nearly"), "done"]})

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Prompt("f", "and then that", "follow_up"))
        tree.tree.tell(Prompt("f", "and then that", "follow_up"))

    counts = [event["actions"]["queuedCount"] for event in of_type(tree, "session_action_update")]
    assert counts == [1, 0]
    assert root_requests(tree)[-1].count("and then that") == 1
    assert_sound(tree)


async def test_messages_past_the_documented_number_are_refused_and_those_before_are_not(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [pausing(10.0, "nearly"), "done"]})

    async with playing(tree):
        await trio.sleep(1.0)
        for number in range(MAX_QUEUED + 3):
            tree.tree.tell(Prompt(f"m{number}", f"message {number}.", "follow_up"))

    refused = [event for event in of_type(tree, "agent_message") if event["delivery"] == "refused"]
    assert len(refused) == 3
    assert all(f"message {number}." in root_requests(tree)[-1] for number in range(MAX_QUEUED))
    assert f"message {MAX_QUEUED}." not in root_requests(tree)[-1]
    assert_sound(tree)


async def test_a_message_of_another_agent_is_told_with_its_sender(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a"), wait(), wait(), "done"]} | TWO)

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Prompt("q", "which file?", "auto", "a", "agent_message"))

    assert "Message from a:\nwhich file?" in root_requests(tree)[2]
    message = next(body for body in bodies(tree.store, ROOT, "custom_message") if body.custom_type == "sapwood.message")
    assert message.details == {"delivers": ["q"], "from": "a"}
    assert_sound(tree)


async def test_a_settled_child_goes_on_with_its_context_when_it_is_written_to(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", wait=True), pausing(60.0, "done"), "I see"], "a": ["first", "second"]})

    async with playing(tree):
        await until(lambda: row(tree, "root").children and not row(tree, "a").has_task, 0.01)
        await trio.sleep(1.0)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("p", "what else?"))

    (_, again) = [request for request in requests(tree) if request.depth]
    assert [type(message).__name__ for message in again.messages] == ["UserMessage", "AssistantMessage", "UserMessage"]
    assert again.call == 2
    assert [(event["run"], event["text"]) for event in of_type(tree, "child_settled")] == [(1, "first"), (2, "second")]
    assert types(tree, "a").count("agent_settled") == 2
    assert_sound(tree)


async def test_a_session_with_an_attribution_after_its_end_still_knows_what_was_said(
    autojump_clock: MockClock,
) -> None:
    """The ledger writes into the journals of sessions that have shed their records."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), pausing(60.0, "done"), "I see"],
        "a": [spawn("b", wait=True), "first", "second", "third"],
        "b": ["leaf", "leaf again"],
    }
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(5.0)
        middle = row(tree, "a")
        assert not middle.has_task
        assert middle.outbox is not None
        body = middle.aggregates.attribution(
            None, row(tree, "b").own, origin=("someone", "1"), child_session_id=row(tree, "b").id, why="spawn_task"
        )
        middle.outbox.append(body)
        tree.tree.supervisor.directory.deliver(middle, Prompt("p", "what else?"))

    again = [request for request in requests(tree) if request.session_name == "a"][-1]
    assert "task of a" in told(again)
    assert [body.run for body in bodies(tree.store, row(tree, "a").id, "run_settled")] == [1, 2]


async def test_a_wait_that_the_children_outlast_costs_no_call_of_the_model(autojump_clock: MockClock) -> None:
    """C4."""
    tree = stage({"root": [spawn("a", "b"), "later", "done"]} | TWO)

    await run(tree)

    assert len(root_requests(tree)) in (3, 4)
    assert tree.root.turns == len(root_requests(tree))
    assert_sound(tree)
