"""Messages with receipts, aborts of one child, limits on one child: what tools ask of the tree beside spawns and waits."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.model import ModelRequest
from actors.testing import ROOT, Bench, FunctionModel, bench
from orchestrator.tools.registry import builtin_tools
from store.stream import check_stream


def tree(answer: Any, **options: Any) -> Bench:
    return bench(FunctionModel(answer), builtin_tools(), **options)


def said(request: ModelRequest) -> str:
    return str([message.content for message in request.messages])


def results(tested: Bench, name: str) -> list[dict[str, Any]]:
    return [e for e in tested.events() if e["type"] == "tool_execution_end" and e["toolName"] == name]


async def test_a_childs_message_ends_its_parents_wait_and_is_read_before_the_next_call(
    autojump_clock: MockClock,
) -> None:
    seen: list[str] = []

    async def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            seen.append(said(request))
            if request.call == 1:
                return [("spawn_agent", {"prompt": "go", "name": "scout"})]
            return [("wait_agents", {})] if request.call in {2, 3} else "done"
        if request.call == 1:
            await trio.sleep(5)
            return [("message_agent", {"to": "parent", "message": "which secret?"})]
        return "scout is done"

    tested = tree(answer)
    await tested.run()

    assert tested.root.outcome == "completed"
    assert "Message from scout:\\nwhich secret?" in seen[2]
    assert sum("which secret?" in text for text in seen) == len(seen) - 2, "told once, and kept in context"
    assert [end["isError"] for end in results(tested, "message_agent")] == [False]
    types = tested.store.types(ROOT)
    assert types.index("mail") < len(types)
    assert [e["delivery"] for e in tested.events() if e["type"] == "agent_message"] == ["queued"]
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_a_message_to_a_child_that_has_ended_makes_it_go_on_with_its_context(autojump_clock: MockClock) -> None:
    heard: list[str] = []

    def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            if request.call == 1:
                return [("spawn_agent", {"prompt": "remember 42", "name": "clerk", "wait": True})]
            if request.call == 2:
                return [("message_agent", {"to": "clerk", "message": "what was it?"})]
            return [("wait_agents", {})] if request.call == 3 else "done"
        heard.append(said(request))
        return f"answer {request.call}"

    tested = tree(answer)
    await tested.run()

    (clerk,) = tested.root.children
    assert (clerk.runs, clerk.outcome) == (2, "completed")
    assert "remember 42" in heard[1]
    assert "what was it?" in heard[1]
    settled = [e for e in tested.events() if e["type"] == "child_settled"]
    assert [(e["run"], e["text"]) for e in settled] == [(1, "answer 1"), (2, "answer 2")]
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_siblings_reach_each_other_and_strangers_are_refused_by_name(autojump_clock: MockClock) -> None:
    async def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            spawns = [("spawn_agent", {"prompt": "go", "name": name}) for name in ("left", "right")]
            return spawns if request.call == 1 else [("wait_agents", {})] if request.call == 2 else "done"
        if request.call == 1 and request.session_name == "left":
            await trio.sleep(1)
            return [
                ("message_agent", {"to": "right", "message": "hello"}),
                ("message_agent", {"to": "nobody", "message": "?"}),
            ]
        if request.call == 1:
            await trio.sleep(5)
        return f"{request.session_name}: {said(request)[-400:]}"

    tested = tree(answer)
    await tested.run()

    ends = {e["toolCallId"]: e for e in results(tested, "message_agent")}
    assert [ends[name]["isError"] for name in sorted(ends)] == [False, True]
    assert "left, parent" in str(ends) or "parent, right" in str(ends)
    assert any("Message from left" in str(e) for e in tested.events() if e["type"] == "message_end")
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_one_child_is_aborted_and_its_siblings_go_on(autojump_clock: MockClock) -> None:
    async def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            spawns = [("spawn_agent", {"prompt": "go", "name": name}) for name in ("slow", "quick")]
            if request.call == 1:
                return spawns
            if request.call == 2:
                return [("abort_agent", {"name": "slow"})]
            return [("wait_agents", {})] if request.call == 3 else "done"
        await trio.sleep(1000 if request.session_name == "slow" else 10)
        return "finished"

    tested = tree(answer)
    await tested.run()

    outcomes = {child.name: child.outcome for child in tested.root.children}
    assert outcomes == {"slow": "aborted", "quick": "completed"}
    (abort,) = results(tested, "abort_agent")
    assert "aborted by root" in str(abort["result"])
    assert trio.current_time() < 100
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_a_child_whose_time_is_over_has_timed_out_with_all_below_it(autojump_clock: MockClock) -> None:
    async def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            return (
                [("spawn_agent", {"prompt": "go", "name": "late", "timeout_s": 7, "wait": True})]
                if request.call == 1
                else "done"
            )
        if request.depth == 1:
            return [("spawn_agent", {"prompt": "go", "name": "below", "wait": True})]
        await trio.sleep(1000)
        return "never"

    tested = tree(answer)
    await tested.run()

    (late,) = tested.root.children
    assert (late.outcome, late.children[0].outcome) == ("timed_out", "aborted")
    assert 7 <= trio.current_time() < 60
    (spawned,) = [e for e in results(tested, "spawn_agent") if e["sessionId"] == ROOT]
    assert spawned["isError"]
    assert not check_stream(tested.outlet.lines, exit_status=0)


@pytest.mark.parametrize("limits", [{"max_tokens": 6_000}, {"max_cost": 0.01}], ids=["tokens", "cost"])
async def test_a_childs_spending_with_all_below_it_ends_at_its_limit_and_its_parent_goes_on(
    limits: dict[str, float], autojump_clock: MockClock
) -> None:
    # Each call bills 100 and 10 tokens: 0.0002 dollars.
    def answer(request: ModelRequest) -> Any:
        if request.depth == 0:
            return (
                [("spawn_agent", {"prompt": "go", "name": "eager", "wait": True, **limits})]
                if request.call == 1
                else "done"
            )
        if request.depth == 1:
            return [("spawn_agent", {"prompt": "go", "wait": True})] if request.tools else "so far"
        return "small"

    tested = tree(answer, max_output=500)
    await tested.run()

    (eager,) = tested.root.children
    assert (eager.outcome, tested.root.outcome) == ("limit_reached", "completed")
    assert 2 < len(eager.children) < 40
    assert eager.total.tokens <= limits.get("max_tokens", 6_000)
    assert eager.total.total_pico <= limits.get("max_cost", 0.01) * 10**12
    reached = [e for e in tested.events() if e["type"] == "limit_reached"]
    assert {e["holderSessionId"] for e in reached} == {eager.id}
    assert not check_stream(tested.outlet.lines, exit_status=0)
