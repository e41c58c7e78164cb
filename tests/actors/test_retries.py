"""A model call that fails: tried again with pauses, told in order, counted per prompt, and given up with a clear word."""

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.mail import Prompt
from actors.protocol.model import Hear, ModelFailure, ModelRequest, ReplyEnd, TextChunk
from actors.protocol.retry import RetryPolicy
from actors.testing import ROOT, Answer, FunctionModel
from tests.actors.stage import (
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
    use,
    wait,
)

BUSY = ModelFailure("overloaded", "busy")


def kinds(tree_types: list[str]) -> list[str]:
    """The brackets of loops and retries."""
    return [kind for kind in tree_types if kind.startswith(("agent_", "auto_"))]


async def test_a_retry_is_told_in_order_and_ends_once(autojump_clock: MockClock) -> None:
    tree = stage({"root": [BUSY, BUSY, "there"]})

    await run(tree)

    assert kinds(types(tree, "root")) == [
        "agent_start",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        "auto_retry_end",
        "agent_end",
        "agent_settled",
    ]
    assert [event["willRetry"] for event in of_type(tree, "agent_end")] == [True, True, False]
    assert [event["attempt"] for event in of_type(tree, "auto_retry_start")] == [1, 2]
    (end,) = of_type(tree, "auto_retry_end")
    assert (end["success"], end["attempt"]) == (True, 2)
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_retry_that_does_not_help_is_given_up_and_the_run_fails(autojump_clock: MockClock) -> None:
    tree = stage({"root": [BUSY] * 9}, retry=RetryPolicy(max_retries=2))

    await run(tree)

    assert len(requests(tree)) == 3
    assert kinds(types(tree, "root"))[-4:] == ["agent_start", "agent_end", "auto_retry_end", "agent_settled"]
    (end,) = of_type(tree, "auto_retry_end")
    assert (end["success"], end["attempt"], end["finalError"]) == (False, 2, "busy")
    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert (settled.outcome, settled.stop_reason, settled.error_message) == ("failed", "error", "busy")
    assert_sound(tree)


async def test_retries_are_counted_anew_for_each_prompt(autojump_clock: MockClock) -> None:
    tree = stage({"root": [BUSY, BUSY, "first", BUSY, BUSY, "second"]}, retry=RetryPolicy(max_retries=2))

    await run(tree)
    await run(tree, "another")

    assert [event["attempt"] for event in of_type(tree, "auto_retry_start")] == [1, 2, 1, 2]
    assert [event["outcome"] for event in of_type(tree, "agent_settled")] == ["completed", "completed"]
    assert_sound(tree)


async def test_retries_are_counted_anew_after_a_success_in_the_same_run(autojump_clock: MockClock) -> None:
    tree = stage(
        {"root": [BUSY, use("quick"), BUSY, use("quick"), "done"]},
        tool("quick", saying("quick")),
        retry=RetryPolicy(max_retries=1),
    )

    await run(tree)

    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_retries_of_one_session_do_not_count_for_another(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "b"), BUSY, wait(), "done"],
        "a": [BUSY, "x"],
        "b": [BUSY, "y"],
    }
    tree = stage(parts, retry=RetryPolicy(max_retries=1))

    await run(tree)

    assert {outcome(tree, name) for name in ("root", "a", "b")} == {"completed"}
    assert_sound(tree)


@pytest.mark.parametrize("kind", ["quota", "auth", "invalid_request", "refusal"])
async def test_what_no_second_try_helps_against_is_not_tried_again(autojump_clock: MockClock, kind: str) -> None:
    tree = stage({"root": [ModelFailure(kind, "no"), "never said"]})  # type: ignore[arg-type]

    await run(tree)

    assert len(requests(tree)) == 1
    assert "auto_retry_start" not in types(tree, "root")
    assert outcome(tree) == "failed"
    assert_sound(tree)


async def test_what_a_provider_asks_for_is_waited_and_no_longer_than_the_ceiling(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    tree = stage({"root": [ModelFailure("rate_limited", "slow down", 30.0), "there"]})
    await run(tree)
    assert trio.current_time() - began == pytest.approx(30.0, abs=0.1)

    tree = stage({"root": [ModelFailure("rate_limited", "come back in 90 s", 90.0), "never said"]})
    await run(tree)
    assert outcome(tree) == "failed"
    assert len(requests(tree)) == 1


async def test_the_answer_that_failed_is_kept_and_billed_and_stays_out_of_the_context(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [BUSY, "there"]})

    await run(tree)

    ends = [event["message"] for event in of_type(tree, "message_end") if event["message"]["role"] == "assistant"]
    assert [(end["stopReason"], end["usage"]["input"]) for end in ends] == [("error", 100), ("stop", 100)]
    assert tree.root.total.input == 200
    assert [type(message).__name__ for message in requests(tree)[-1].messages] == ["UserMessage"]
    assert_sound(tree)


async def test_a_steer_in_the_pause_goes_in_with_the_next_try_and_a_follow_up_does_not(
    autojump_clock: MockClock,
) -> None:
    slow = ModelFailure("rate_limited", "slow down", 30.0)
    tree = stage({"root": [slow, "first", "second"]})

    async with playing(tree):
        await trio.sleep(5.0)
        tree.tree.tell(Prompt("f", "and then that", "follow_up"))
        tree.tree.tell(Prompt("s", "mind this", "steer"))

    _, again, last = (told(request) for request in requests(tree))
    assert "mind this" in again
    assert "and then that" not in again
    assert "and then that" in last
    assert len(of_type(tree, "agent_settled")) == 1
    assert_sound(tree)


async def test_a_limit_that_ends_a_retry_closes_the_retry_too(autojump_clock: MockClock) -> None:
    tree = stage({"root": [BUSY, BUSY, "never said"]}, limits=Limits(max_turns=2))

    await run(tree)

    assert outcome(tree) == "limit_reached"
    assert kinds(types(tree, "root"))[-4:] == ["agent_start", "agent_end", "auto_retry_end", "agent_settled"]
    assert_sound(tree)


async def test_a_child_that_recovers_from_an_error_is_no_failed_child(autojump_clock: MockClock) -> None:
    """C6."""
    tree = stage({"root": [spawn("a", wait=True), "done"], "a": [BUSY, "the whole report with a timeout in it"]})

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["text"]) == ("completed", "the whole report with a timeout in it")
    assert "errorMessage" not in settled
    (end,) = of_type(tree, "tool_execution_end")
    assert not end["isError"]
    assert_sound(tree)


async def test_what_failed_and_aborted_calls_have_used_counts_in_every_ancestor(autojump_clock: MockClock) -> None:
    """C1."""
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), "done"],
        "a": [BUSY, spawn("b", wait=True), "done"],
        "b": [BUSY, BUSY, "done"],
    }
    tree = stage(parts)

    await run(tree)

    assert (row(tree, "b").own.input, row(tree, "a").own.input, tree.root.own.input) == (300, 300, 200)
    assert (row(tree, "a").total.input, tree.root.total.input) == (600, 800)
    assert_sound(tree)


async def test_a_child_whose_provider_fails_for_good_is_no_empty_success(autojump_clock: MockClock) -> None:
    """C5."""
    tree = stage({"root": [spawn("a", wait=True), "I see"], "a": [ModelFailure("auth", "the key is not valid")]})

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["stopReason"], settled["text"]) == ("failed", "error", "")
    assert settled["errorMessage"] == "the key is not valid"
    (end,) = of_type(tree, "tool_execution_end")
    assert end["isError"]
    assert "the key is not valid" in told(requests(tree)[-1])
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_partial_text_of_a_failed_call_reaches_the_parent_with_the_error(autojump_clock: MockClock) -> None:
    """C5."""

    class Cut(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if not request.depth:
                return await FunctionModel.call(self, request, hear)
            await hear(TextChunk(0, "half of the rep"))
            return ModelFailure("incomplete", "the stream ended")

    parts: list[Answer] = [spawn("a", wait=True), "I see"]
    tree = stage(Cut(lambda request: parts[request.call - 1]), retry=RetryPolicy(max_retries=1))

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["text"]) == ("failed", "half of the rep")
    assert settled["errorMessage"] == "the stream ended"
    assert_sound(tree)


async def test_a_pause_is_of_a_length_that_its_event_says(autojump_clock: MockClock) -> None:
    # Not one that closes the gate to its provider, which is a pause of its own.
    tree = stage({"root": [ModelFailure("server", "broken"), pausing(0.0, "there")]})
    began = trio.current_time()

    await run(tree)

    (start,) = of_type(tree, "auto_retry_start")
    assert start["maxAttempts"] == 4
    assert start["errorMessage"] == "broken"
    assert trio.current_time() - began == pytest.approx(start["delayMs"] / 1000, abs=0.01)
