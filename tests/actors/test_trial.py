"""A root that would settle, and what comes before that: gates, continuations, and whatever happens meanwhile."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.performer import Performer
from actors.protocol.effects import Effect, RunGate
from actors.protocol.limits import Limits
from actors.protocol.mail import Abort, Prompt, Stop
from actors.protocol.model import ModelFailure
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.protocol.trial import CONTINUATION_MARK, DONE, GATE_MARK, AutonomyPolicy, GatePolicy
from actors.testing import ROOT, FunctionTool
from store.goals import GOAL_MARK
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
    spawn,
    stage,
    told,
    tool,
    types,
    until,
    use,
)

ALONE = AutonomyPolicy(enabled=True, max_continuations=3)


def shell(*passes: bool, wait_s: float = 0.0) -> FunctionTool:
    """A shell in which commands pass or fail as told, in turn; who is not told of fails."""
    left = list(passes)

    async def run_command(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.sleep(wait_s)
        is_fine = left.pop(0) if left else False
        return text_result("ok" if is_fine else f"{arguments['command']}: broken", is_error=not is_fine)

    return tool("bash", run_command)


def gated(says: list[Line], *tools: FunctionTool, commands: tuple[str, ...] = ("check",), **more: Any) -> Bench:
    policy = GatePolicy(commands, more.pop("retries", 3), 30.0)
    return stage({"root": says, **more.pop("children", {})}, *tools, gates=policy, **more)


def gate_ends(tree: Bench) -> list[tuple[str, int, bool]]:
    return [(end["command"], end["attempt"], end["passed"]) for end in of_type(tree, "gate_end")]


def settled(tree: Bench) -> list[tuple[str, str | None]]:
    return [(body.outcome, body.error_message) for body in bodies(tree.store, ROOT, "run_settled")]


def marks(tree: Bench, kind: str) -> list[str]:
    found = bodies(tree.store, ROOT, "custom_message")
    return [str(body.content) for body in found if body.custom_type == kind]


async def test_a_run_ends_well_only_after_its_gates_in_their_order(autojump_clock: MockClock) -> None:
    tree = gated(["done"], shell(True, True), commands=("build", "test"))

    await run(tree)

    assert gate_ends(tree) == [("build", 1, True), ("test", 1, True)]
    assert types(tree, "root")[-7:] == [
        "agent_end", "gate_start", "gate_end", "gate_start", "gate_end", "run_settled", "agent_settled",
    ]  # fmt: skip
    assert settled(tree) == [("completed", None)]
    assert_sound(tree)


async def test_a_failed_gate_is_a_prompt_and_all_gates_are_run_again(autojump_clock: MockClock) -> None:
    tree = gated(["done", "mended"], shell(True, False, True, True), commands=("build", "test"))

    await run(tree)

    assert gate_ends(tree) == [("build", 1, True), ("test", 1, False), ("build", 2, True), ("test", 2, True)]
    assert "test: broken" in told(requests(tree)[1])
    assert len(marks(tree, GATE_MARK)) == 1
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_gate_that_fails_too_often_fails_the_run(autojump_clock: MockClock) -> None:
    tree = gated(["done"], shell(), retries=2)

    await run(tree)

    assert [passed for _, _, passed in gate_ends(tree)] == [False, False, False]
    ((outcome_, error),) = settled(tree)
    assert outcome_ == "failed"
    assert error is not None
    assert "check: broken" in error
    assert [event["limit"] for event in of_type(tree, "limit_reached")] == ["gate_retries"]
    assert len(requests(tree)) == 3
    assert_sound(tree)


async def test_a_run_that_a_limit_ends_has_passed_no_gate(autojump_clock: MockClock) -> None:
    tree = gated(["done"], shell(False, True), limits=Limits(max_turns=1))

    await run(tree)

    assert gate_ends(tree) == [("check", 1, False)]
    assert outcome(tree) == "limit_reached"
    assert_sound(tree)


async def test_gates_wait_for_children_and_are_the_roots_alone(autojump_clock: MockClock) -> None:
    says: list[Line] = [spawn("a"), "done", "heard of it"]
    tree = gated(says, shell(True), children={"a": [pausing(5.0, "late")]})

    await run(tree)

    assert gate_ends(tree) == [("check", 1, True)]
    events = [(event["type"], event["sessionId"]) for event in tree.events()]
    assert events.index(("agent_settled", row(tree, "a").id)) < events.index(("gate_start", ROOT))
    assert_sound(tree)


@pytest.mark.parametrize("passes", [True, False])
async def test_what_is_said_while_a_gate_runs_belongs_to_the_run_and_the_gates_come_again(
    autojump_clock: MockClock, passes: bool
) -> None:
    tree = gated(["done", "more is done"], shell(passes, True, wait_s=5.0))

    async with playing(tree):
        await until(lambda: of_type(tree, "gate_start"))
        tree.tree.tell(Prompt("p2", "one thing more", "steer"))

    assert [passed for _, _, passed in gate_ends(tree)] == [passes, True]
    last = told(requests(tree)[-1])
    assert "one thing more" in last
    assert ("check: broken" in last) is not passes
    assert settled(tree) == [("completed", None)]
    assert_sound(tree)


@pytest.mark.parametrize("command", [Abort("enough"), Abort("time is over", "timed_out"), Stop("stopped")])
async def test_an_abort_ends_the_gate_that_runs_and_it_has_not_passed(
    autojump_clock: MockClock, command: Abort | Stop
) -> None:
    tree = gated(["done"], tool("bash", for_ever))

    async with playing(tree):
        await until(lambda: of_type(tree, "gate_start"))
        tree.tree.tell(command)

    assert gate_ends(tree) == [("check", 1, False)]
    expected = command.outcome if isinstance(command, Abort) else "aborted"
    assert outcome(tree) == expected
    assert of_type(tree, "agent_settled")[0]["aborted"] is True
    assert_sound(tree)


async def test_a_gate_that_does_not_let_go_is_closed_all_the_same(autojump_clock: MockClock) -> None:
    async def stubborn(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep(100.0)
        return text_result("after all")

    tree = gated(["done"], tool("bash", stubborn))

    async with playing(tree):
        await until(lambda: of_type(tree, "gate_start"))
        tree.tree.tell(Abort("enough"))
        began = trio.current_time()
        await until(lambda: of_type(tree, "agent_settled"), every_s=0.1)
        assert trio.current_time() - began < 5.0

    assert gate_ends(tree) == [("check", 1, False)]
    assert_sound(tree)


async def test_where_there_is_no_shell_a_gate_has_not_passed(autojump_clock: MockClock) -> None:
    tree = gated(["done"], retries=0)

    await run(tree)

    assert gate_ends(tree) == [("check", 1, False)]
    assert outcome(tree) == "failed"


async def test_a_shell_that_breaks_is_a_gate_that_failed(autojump_clock: MockClock) -> None:
    async def broken(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a bug in the shell")

    tree = gated(["done"], tool("bash", broken), retries=0)

    await run(tree)

    ((_, error),) = settled(tree)
    assert error is not None
    assert "a bug in the shell" in error
    assert_sound(tree)


async def test_a_restart_between_gates_runs_them_again_and_forgets_no_failure(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = crash_on_gates(monkeypatch, {3})
    tree = gated(["done", "mended", "mended again"], shell(True, False, True, False), commands=("a", "b"), retries=1)

    await run(tree)

    assert crash == ["root"]
    assert settled(tree)[0][0] == "failed"
    assert len(marks(tree, GATE_MARK)) == 1
    assert_sound(tree)


async def test_a_session_that_crashes_over_its_gates_has_not_passed_them(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = crash_on_gates(monkeypatch, set(range(1, 99)))
    tree = gated(["done"], shell(True))

    await run(tree)

    assert len(crash) > 1
    assert [passed for _, _, passed in gate_ends(tree)] == [False] * len(crash)
    assert outcome(tree) == "failed"
    assert_sound(tree)


def crash_on_gates(monkeypatch: pytest.MonkeyPatch, numbers: set[int]) -> list[str]:
    """The performer breaks when it is to start these gates, counted from 1."""
    carry_out, crashes, seen = Performer._carry_out, [], [0]

    def break_or_go_on(self: Performer, effect: Effect, written: Any) -> None:
        seen[0] += isinstance(effect, RunGate)
        if isinstance(effect, RunGate) and seen[0] in numbers:
            crashes.append(self.row.name)
            raise RuntimeError("a bug")
        carry_out(self, effect, written)

    monkeypatch.setattr(Performer, "_carry_out", break_or_go_on)
    return crashes


# --- on its own -------------------------------------------------------------------------------------------------------


async def test_an_autonomous_run_goes_on_until_it_says_that_it_is_done(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["shall I?", "and now?", f"done\n{DONE}"]}, autonomy=ALONE)

    await run(tree)

    assert len(requests(tree)) == 3
    assert len(marks(tree, CONTINUATION_MARK)) == 2
    assert settled(tree) == [("completed", None)]
    assert_sound(tree)


async def test_one_that_never_says_so_ends_at_its_limit(autojump_clock: MockClock) -> None:
    tree = stage({"root": []}, autonomy=ALONE)

    await run(tree)

    assert len(requests(tree)) == 4
    assert [event["limit"] for event in of_type(tree, "limit_reached")] == ["max_continuations"]
    assert outcome(tree) == "limit_reached"
    assert_sound(tree)


async def test_turns_of_children_count_towards_the_limit_that_ends_it(autojump_clock: MockClock) -> None:
    says: list[Line] = [spawn("a", wait=True), *(["and now?"] * 9)]
    children: dict[str, list[Line]] = {"a": [use("list_agents"), use("list_agents"), "done"]}
    tree = stage({"root": says, **children}, autonomy=AutonomyPolicy(True, 9), limits=Limits(max_turns=6))

    await run(tree)

    # And one more, to hand back what there is.
    assert len(requests(tree)) == 6 + 1
    assert [event["limit"] for event in of_type(tree, "limit_reached")] == ["max_turns"]
    assert outcome(tree) == "limit_reached"
    assert_sound(tree)


@pytest.mark.parametrize("limit", ["max_tokens", "max_cost"])
async def test_what_children_spend_counts_towards_the_limit_that_ends_it(autojump_clock: MockClock, limit: str) -> None:
    says: list[Line] = [spawn("a", wait=True), *(["and now?"] * 99)]
    parts: dict[str, list[Line]] = {"root": says, "a": [use("list_agents")] * 9}
    allowed = {"max_tokens": 4_000.0, "max_cost": 0.012}[limit]
    tree = stage(parts, autonomy=AutonomyPolicy(True, 99), budgets={limit: allowed}, max_output=500)

    await run(tree)

    assert row(tree, "a").own.tokens > 0
    assert [event["limit"] for event in of_type(tree, "limit_reached") if event["depth"] == 0] == [limit]
    assert outcome(tree) == "limit_reached"
    assert_sound(tree)


async def test_a_failure_is_not_gone_on_from(autojump_clock: MockClock) -> None:
    failure = ModelFailure("auth", "no such key")
    tree = stage({"root": [failure]}, shell(True), autonomy=ALONE, gates=GatePolicy(("check",)))

    await run(tree)

    assert len(requests(tree)) == 1
    assert gate_ends(tree) == []
    assert outcome(tree) == "failed"
    assert_sound(tree)


async def test_that_a_goal_is_reached_is_in_the_journal_and_holds_no_later_run(autojump_clock: MockClock) -> None:
    goal = AutonomyPolicy(goal="ship it", max_continuations=3)
    tree = stage({"root": ["not yet", f"shipped\n{DONE}"]}, shell(True), autonomy=goal, gates=GatePolicy(("check",)))

    await run(tree)

    kept = [body.data for body in bodies(tree.store, ROOT, "custom") if body.custom_type == GOAL_MARK]
    assert kept == [{"text": "ship it", "status": "complete"}]
    assert gate_ends(tree) == [("check", 1, True)]
    assert tree.tree.supervisor.state.autonomy.goal is None
    assert_sound(tree)
