"""The turn rules in random lives: whatever comes in whatever order, what they promise holds after every step."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.effects import (
    AbortChildren,
    Answer,
    CallModel,
    Consult,
    Disown,
    RefuseMail,
    RunGate,
    RunTools,
    SettleRun,
    StartChild,
)
from actors.protocol.mail import (
    Abort,
    Asked,
    CallPart,
    ChildEnded,
    ChildWoken,
    CompactNow,
    Directed,
    Emptied,
    GateEnded,
    LedgerDrained,
    Mail,
    ModelEnded,
    Prompt,
    Stop,
    SummaryFailed,
    TimerFired,
    ToolEnded,
)
from actors.protocol.questions import Admit, Go, MayCall, MaySettle, RetryAfter
from actors.protocol.restore import restore
from actors.protocol.rules.calling import CUT_AT_LIMIT, NO_CALL, NOTHING_SAID, ending_of
from actors.protocol.settling import may_settle
from actors.protocol.state import Ending, TurnState
from actors.protocol.tools import Spawn, WaitFor, text_result
from actors.protocol.trial import AutonomyPolicy, GatePolicy, Trial
from actors.protocol.turn import step
from tests.actors.protocol.play import AT, World, answer, raw, result

seeds = st.integers(0, 2**32)


trials = st.fixed_dictionaries(
    {
        "gates": st.builds(GatePolicy, st.sampled_from([(), ("check",), ("build", "test", "lint")]), st.integers(0, 3)),
        "autonomy": st.builds(AutonomyPolicy, st.booleans(), st.integers(0, 3), st.sampled_from([None, "all is well"])),
    }
)


@given(seeds, st.integers(0, 120), st.booleans(), trials)
@settings(max_examples=400, deadline=None)
def test_a_random_life_keeps_every_promise_and_comes_to_rest(
    seed: int, steps: int, is_root: bool, trial: dict[str, Any]
) -> None:
    random = Random(seed)
    world = World.of(is_root=is_root, **trial)

    world.wander(random, steps)
    world.finish(random)

    assert world.settled == list(range(1, len(world.settled) + 1))
    everywhere = [*world.delivered, *world.queued(), *world.refused]
    assert sorted(name for name in everywhere if name.startswith("m")) == sorted(world.sent)


@given(seeds, st.integers(0, 60), st.booleans(), trials, st.sampled_from([Abort("enough"), Stop("stopped")]))
@settings(max_examples=200, deadline=None)
def test_an_abort_at_any_point_begins_no_work_and_settles(
    seed: int, steps: int, is_root: bool, trial: dict[str, Any], command: Abort | Stop
) -> None:
    random = Random(seed)
    world = World.of(is_root=is_root, **trial)
    world.wander(random, steps)
    was_open = world.state.phase not in {"idle", "stopped"}
    runs = len(world.settled)

    effects = world.hear(command)
    assert not any(isinstance(effect, CallModel | RunTools | RunGate | StartChild) for effect in effects)
    for name, child in world.children.items():
        if child.is_running:
            assert name in {one.session_id for one in world.state.running}
    world.finish(random)

    if was_open and world.state.compacting is None:
        assert len(world.settled) >= runs
    if isinstance(command, Stop):
        assert world.state.is_stopped


@given(seeds, st.integers(0, 80))
@settings(max_examples=150, deadline=None)
def test_after_a_stop_nothing_but_closing_happens(seed: int, steps: int) -> None:
    random = Random(seed)
    world = World.of()
    world.wander(random, steps)
    world.hear(Stop("stopped"))
    world.finish(random)
    assert world.state.is_stopped

    for mail in (Emptied(), Abort(), Stop(), *world.promises(random)):
        # A tool that has ended with a question open may still be told that it will get nothing.
        assert all(isinstance(effect, Answer) for effect in step(world.state, mail, AT)[1])
    effects = world.hear(Prompt("late", "late"))
    assert [type(effect) for effect in effects] == [RefuseMail]


@given(seeds, st.integers(0, 80))
@settings(max_examples=150, deadline=None)
def test_the_same_mail_gives_the_same_life(seed: int, steps: int) -> None:
    lives = []
    for _ in range(2):
        world = World.of()
        world.wander(Random(seed), steps)
        lives.append(world)

    assert lives[0].state == lives[1].state
    assert [one.raw for one in lives[0].journal.records] == [one.raw for one in lives[1].journal.records]


def test_a_step_does_not_change_the_state_that_it_is_given() -> None:
    world = World.of()
    before = TurnState("session-1", is_root=True, number=1_000)

    world.wander(Random(1), 50)

    assert before == TurnState("session-1", is_root=True, number=1_000)


# --- small ones, by hand ---------------------------------------------------------------------------------------------


def at_work(*, is_root: bool = True) -> World:
    """A session whose model is being called."""
    world = World.of(is_root=is_root)
    world.hear(Prompt("m0", "m0"))
    world.hear(Emptied())
    (question,) = world.questions
    world.hear(Directed(question, Go()))
    return world


def in_tools(*calls: str) -> World:
    world = at_work()
    (work,) = world.calls
    parts = tuple(CallPart(call, "tool") for call in calls)
    world.hear(ModelEnded(work, raw(answer("", calls)), "toolUse", parts, has_text=False))
    return world


def spawned(world: World, *names: str) -> None:
    for number, name in enumerate(names):
        world.hear(Asked(number + 1, Spawn("task", name)))
        (question,) = world.questions
        world.hear(Directed(question, Admit(f"id-{name}", name, 1, "test/model")))


@pytest.mark.parametrize(
    ("stop_reason", "has_text", "outcome", "error"),
    [
        ("stop", True, "completed", None),
        ("stop", False, "failed", NOTHING_SAID),
        ("length", True, "completed", None),
        ("length", False, "failed", CUT_AT_LIMIT),
        ("toolUse", True, "failed", NO_CALL),
        ("toolUse", False, "failed", NO_CALL),
    ],
)
def test_how_a_run_ends_that_asks_for_no_tool(
    stop_reason: str, has_text: bool, outcome: str, error: str | None
) -> None:
    ending = ending_of(stop_reason, has_text=has_text)

    assert (ending.outcome, ending.stop_reason, ending.error_message) == (outcome, stop_reason, error)


def test_a_root_may_end_its_work_without_a_word_and_a_child_may_not() -> None:
    assert ending_of("stop", has_text=False, is_root=True) == Ending("completed", "stop")
    assert ending_of("stop", has_text=False).outcome == "failed"
    assert ending_of("length", has_text=False, is_root=True).outcome == "failed"


def test_a_prompt_begins_a_run_only_when_all_that_came_with_it_was_heard() -> None:
    world = World.of()

    assert world.hear(Prompt("m1", "m1")) == []
    assert world.hear(Prompt("m2", "m2")) == []
    effects = world.hear(Emptied())

    assert [type(effect).__name__ for effect in effects] == ["ReportRunning", "KeepTime", "Consult"]
    (question,) = world.questions
    world.hear(Directed(question, Go()))
    assert world.delivered == ["m1", "m2"]


def test_a_prompt_whose_run_is_aborted_before_its_first_call_is_in_the_journal() -> None:
    world = World.of()
    world.hear(Prompt("m1", "m1"))
    world.hear(Emptied())
    assert world.state.phase == "asking"

    world.hear(Abort("enough"))
    world.finish(Random(0))

    assert world.delivered == ["m1"]
    assert world.queued() == []
    assert world.journal.records[0].type == "message"


def test_a_message_that_comes_twice_while_it_waits_is_delivered_once() -> None:
    world = at_work()
    world.hear(Prompt("m1", "m1", "follow_up"))

    assert world.hear(Prompt("m1", "m1", "follow_up")) == []
    assert world.queued() == ["m1"]


def test_what_comes_in_while_a_call_stands_by_is_counted_before_the_call_is_made() -> None:
    world = World.of()
    world.hear(Prompt("m1", "m1"))
    world.hear(Emptied())
    (question,) = world.questions
    world.hear(Prompt("m2", "much more", "steer"))

    effects = world.hear(Directed(question, Go(claim=1)))

    assert [type(effect).__name__ for effect in effects] == ["Withdraw", "Consult"]
    (asked,) = world.questions.values()
    assert isinstance(asked, MayCall)
    assert asked.incoming_chars == len("m1") + len("much more")
    world.finish(Random(1))
    assert world.delivered == ["m1", "m2"]


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_message_that_comes_again_after_its_delivery_is_not_delivered_again(is_restored: bool) -> None:
    world = at_work()
    world.hear(Prompt("m1", "m1", "steer"))
    world.finish(Random(1))
    assert "m1" in world.delivered
    if is_restored:
        world.state, _ = restore("session-1", world.journal, [], 9_000, is_root=True)

    assert world.hear(Prompt("m1", "m1", "steer")) == []
    assert not world.state.will_run


def test_a_child_that_asks_while_the_run_is_ending_gets_no_child() -> None:
    world = in_tools("c1")
    world.hear(Asked(1, Spawn("task")))
    (question,) = world.questions
    world.hear(Abort("enough"))
    world.asks.add(2)

    (refusal,) = step(world.state, Asked(2, Spawn("task")), AT)[1]
    assert isinstance(refusal, Answer)
    admitted = Admit("id", "x", 1, "m")
    _, (disown, refusal) = step(world.state, Directed(question, admitted), AT)
    assert disown == Disown(admitted)
    assert isinstance(refusal, Answer)


@pytest.mark.parametrize(
    ("mode", "ended", "is_over"), [("all", "ab", True), ("all", "a", False), ("any", "b", True), ("any", "", False)]
)
def test_a_wait_is_over_when_its_children_are(mode: str, ended: str, is_over: bool) -> None:
    world = in_tools("c1")
    spawned(world, "a", "b")
    world.hear(Asked(9, WaitFor(("a", "b"), mode)))  # type: ignore[arg-type]
    answers = []

    for name in ended:
        effects = world.hear(ChildEnded(f"id-{name}", 1, "completed"))
        answers += [effect.ask_id for effect in effects if isinstance(effect, Answer)]

    assert answers == ([9] if is_over else [])
    assert bool(world.timers) is not is_over


def test_a_parent_waits_for_its_children_and_settles_when_the_last_has_ended() -> None:
    world = in_tools("c1")
    spawned(world, "a")
    world.hear(Abort("enough"))
    assert not world.settled

    world.hear(ChildEnded("id-a", 1, "aborted"))
    for mail in world.promises(Random(0)):
        world.hear(mail)
    (work,) = world.ledgers
    effects = world.hear(LedgerDrained(work))
    assert isinstance(effects[-1], SettleRun)
    assert effects[-1].outcome == "aborted"


def test_an_abort_of_a_summary_outside_of_a_run_begins_none_with_what_waited_before_it() -> None:
    world = World.of()
    world.hear(CompactNow())
    world.hear(Prompt("m1", "m1"))
    world.hear(Abort("enough"))

    (work,) = world.summaries
    world.hear(SummaryFailed(work, "aborted", is_aborted=True))
    world.hear(Emptied())

    assert not world.questions
    assert world.queued() == ["m1"]
    world.hear(Prompt("m2", "m2"))
    world.hear(Emptied())
    (question,) = world.questions
    world.hear(Directed(question, Go()))
    assert world.delivered == ["m1", "m2"]


def test_a_summary_that_is_asked_for_together_with_a_prompt_is_made_in_the_run_of_that_prompt() -> None:
    world = World.of()
    world.hear(Prompt("m1", "m1"))
    assert world.hear(CompactNow()) == []
    world.hear(Emptied())

    (question,) = world.questions
    world.hear(Directed(question, Go()))

    assert world.summaries
    assert world.state.run == 1


def test_an_abort_of_a_summary_outside_of_a_run_reaches_the_children_that_run() -> None:
    world = in_tools("c1")
    spawned(world, "a")
    world.hear(ToolEnded(*_open_tool(world)))
    world.hear(Emptied())
    for mail in _go_and_say(world, "done"):
        world.hear(mail)
    world.hear(ChildEnded("id-a", 1, "completed"))
    world.finish(Random(0))
    world.hear(ChildWoken("id-a"))
    world.hear(CompactNow())

    effects = world.hear(Abort("enough"))

    assert AbortChildren(("id-a",), "enough") in effects


def _open_tool(world: World) -> tuple[int, str, msgspec.Raw]:
    ((work, (call, *_)),) = world.batches.items()
    return work, call, raw(result(call))


def _go_and_say(world: World, text: str) -> Iterator[Mail]:
    (question,) = world.questions
    yield Directed(question, Go())
    (work,) = world.calls
    yield ModelEnded(work, raw(answer(text)), "stop")
    yield Emptied()


def test_the_rest_of_a_pause_at_the_beginning_of_a_run_does_not_hold_back_the_prompt_that_began_it() -> None:
    world = World.of()
    world.hear(Prompt("m1", "m1"))
    world.hear(Emptied())
    (question,) = world.questions
    world.hear(Directed(question, RetryAfter(30.0, 1, 4)))
    (timer,) = world.timers
    world.hear(TimerFired(timer))
    (question,) = world.questions

    world.hear(Directed(question, Go()))

    assert world.delivered == ["m1"]
    assert world.calls


def test_every_model_call_is_asked_for() -> None:
    world = World.of()
    world.hear(Prompt("m1", "m1"))

    effects = world.hear(Emptied())

    assert any(isinstance(effect, Consult) for effect in effects)
    assert not world.calls


# --- gates ------------------------------------------------------------------------------------------------------------


def would_settle(*commands: str) -> World:
    """A root whose model has answered, and that asks whether it may settle. Its child has settled before."""
    world = at_work()
    world.gates = GatePolicy(commands, retries=1)
    (work,) = world.calls
    world.hear(ModelEnded(work, raw(answer("", ["c"])), "toolUse", (CallPart("c", "tool"),), has_text=False))
    spawned(world, "a")
    (work,) = world.batches
    world.hear(ChildEnded("id-a", 1, "completed"))
    world.hear(ToolEnded(work, "c", raw(result("c"))))
    world.hear(Emptied())
    answered(world)
    return world


def answered(world: World) -> None:
    """The model is called and answers."""
    (question,) = world.questions
    world.hear(Directed(question, Go()))
    (work,) = world.calls
    world.hear(ModelEnded(work, raw(answer("text")), "stop"))
    world.hear(Emptied())
    assert world.state.phase == "settling"


def directed(world: World) -> list[str]:
    """What the supervisor says is heard."""
    ((number, question),) = world.questions.items()
    assert isinstance(question, MaySettle)
    effects = world.hear(Directed(number, may_settle(world.gates, world.autonomy, question)))
    return [type(effect).__name__ for effect in effects]


def gate_ended(world: World, *, passes: bool) -> None:
    (work,) = world.open_gates
    world.hear(GateEnded(work, text_result("it says so", is_error=not passes), 5))
    world.hear(Emptied())


@pytest.mark.parametrize("commands", [(), ("check",)])
@pytest.mark.parametrize("news", [ChildWoken("id-a"), Prompt("late", "late", "steer")])
def test_what_comes_while_the_supervisor_decides_comes_before_gate_and_ledger(
    commands: tuple[str, ...], news: Mail
) -> None:
    world = would_settle(*commands)

    world.hear(news)

    assert not {"RunGate", "DrainLedger"} & set(directed(world))
    assert world.state.phase == "ready"


def test_a_run_is_held_to_its_own_retries_only() -> None:
    world = would_settle("check")
    directed(world)
    gate_ended(world, passes=False)
    assert world.state.trial.failures == 1
    directed(world)
    answered(world)
    directed(world)
    gate_ended(world, passes=True)
    assert directed(world) == ["DrainLedger"]
    (work,) = world.ledgers

    world.hear(LedgerDrained(work))

    assert world.settled == [1]
    assert world.state.trial == Trial()
