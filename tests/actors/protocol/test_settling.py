"""Whether a root may settle: a table of what is asked first, and that the asking comes to an end."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.questions import Check, Directive, FollowUp, MaySettle, Refuse, Settle
from actors.protocol.settling import may_settle
from actors.protocol.trial import (
    CONTINUATION_MARK,
    DONE,
    GATE_MARK,
    AutonomyPolicy,
    GateFailure,
    GatePolicy,
    Trial,
    autonomy_text,
    says_done,
)

NONE = GatePolicy()
TWO = GatePolicy(("build", "test"), retries=1, timeout_s=9)
ALONE = AutonomyPolicy(enabled=True, max_continuations=2)
HELD = AutonomyPolicy(goal="ship it", max_continuations=2)
FAILED = GateFailure("build", "no such file\n[exit status 2]")
HALFWAY, FINISHED = "I stop here.", f"All is well.\n\n{DONE}"


def verdict(gates: GatePolicy, autonomy: AutonomyPolicy, trial: Trial, answer: str) -> Directive:
    return may_settle(gates, autonomy, MaySettle("root", trial, answer))


@pytest.mark.parametrize(
    ("gates", "autonomy", "trial", "answer", "expected"),
    [
        (NONE, AutonomyPolicy(), Trial(), HALFWAY, Settle()),
        (TWO, AutonomyPolicy(), Trial(), HALFWAY, Check("build", 9)),
        (TWO, AutonomyPolicy(), Trial(passed=1), HALFWAY, Check("test", 9)),
        (TWO, AutonomyPolicy(), Trial(passed=2), HALFWAY, Settle()),
        (TWO, AutonomyPolicy(), Trial(failures=1), HALFWAY, Check("build", 9)),
        (NONE, ALONE, Trial(), FINISHED, Settle()),
        (NONE, ALONE, Trial(continuations=2), FINISHED, Settle()),
        (TWO, ALONE, Trial(), HALFWAY, Check("build", 9)),
        (TWO, ALONE, Trial(passed=2), HALFWAY, Settle()),
        (NONE, HELD, Trial(), FINISHED, Settle("ship it")),
        (TWO, HELD, Trial(), FINISHED, Check("build", 9)),
        (TWO, HELD, Trial(passed=2), FINISHED, Settle("ship it")),
    ],
)
def test_what_comes_before_the_end_of_a_run(
    gates: GatePolicy, autonomy: AutonomyPolicy, trial: Trial, answer: str, expected: Directive
) -> None:
    assert verdict(gates, autonomy, trial, answer) == expected


def test_a_gate_that_failed_goes_back_to_the_model_with_what_it_said() -> None:
    told = verdict(TWO, HELD, Trial(failures=1, failure=FAILED), FINISHED)

    assert isinstance(told, FollowUp)
    assert told.kind == GATE_MARK
    assert all(word in told.text for word in ("`build`", "no such file", "exit status 2", " 0 more"))


def test_a_gate_that_fails_once_more_than_it_may_ends_the_run_and_says_which_and_how() -> None:
    refused = verdict(TWO, ALONE, Trial(failures=2, failure=FAILED), FINISHED)

    assert isinstance(refused, Refuse)
    assert (refused.limit, refused.value, refused.allowed) == ("gate_retries", 2, 1)
    assert all(word in refused.reason for word in ("`build`", "[exit status 2]", "--gate-retries", "2 times"))


def test_without_the_word_it_is_told_to_go_on_and_of_its_goal() -> None:
    alone, held = (verdict(NONE, autonomy, Trial(continuations=1), HALFWAY) for autonomy in (ALONE, HELD))

    assert isinstance(alone, FollowUp)
    assert isinstance(held, FollowUp)
    assert {alone.kind, held.kind} == {CONTINUATION_MARK}
    assert all(DONE in told.text and "2 of 2" in told.text for told in (alone, held))
    assert ("ship it" in alone.text, "ship it" in held.text) == (False, True)


def test_it_is_not_told_so_more_often_than_allowed() -> None:
    refused = verdict(TWO, HELD, Trial(continuations=2), HALFWAY)

    assert isinstance(refused, Refuse)
    assert (refused.limit, refused.value, refused.allowed) == ("max_continuations", 3, 2)
    assert "--max-continuations" in refused.reason


policies = st.tuples(
    st.builds(GatePolicy, st.lists(st.sampled_from("abc"), max_size=3).map(tuple), st.integers(0, 4)),
    st.builds(AutonomyPolicy, st.booleans(), st.integers(0, 4), st.sampled_from([None, "a goal"])),
)


@given(policies, st.lists(st.booleans(), min_size=60, max_size=60), st.data())
def test_whatever_gates_and_model_do_the_asking_ends_within_its_limits(
    policy: tuple[GatePolicy, AutonomyPolicy], passes: list[bool], data: st.DataObject
) -> None:
    gates, autonomy = policy
    trial, calls = Trial(), 1
    for is_fine in passes:
        answer = data.draw(st.sampled_from([HALFWAY, FINISHED]))
        told = verdict(gates, autonomy, trial, answer)
        if isinstance(told, Settle | Refuse):
            assert not isinstance(told, Settle) or trial.passed == len(gates.commands)
            break
        if isinstance(told, FollowUp):
            calls += 1
            went_on = told.kind == CONTINUATION_MARK
            trial = msgspec.structs.replace(trial.outdated, continuations=trial.continuations + went_on)
        elif is_fine:
            trial = msgspec.structs.replace(trial, passed=trial.passed + 1)
        else:
            assert isinstance(told, Check)
            trial = Trial(0, trial.failures + 1, trial.continuations, GateFailure(told.command, "no"))
    else:
        raise AssertionError("it never ends")
    assert calls <= 1 + gates.retries + autonomy.max_continuations


@pytest.mark.parametrize(
    "dressed",
    [DONE, f"**{DONE}**", f"`{DONE}`\n", f"# {DONE}.", f"```\n{DONE}\n```", f"- {DONE}", f"Well.\r\n{DONE}!\r\n\n "],
)
def test_the_word_is_heard_however_it_is_dressed_up(dressed: str) -> None:
    assert says_done(dressed)


@pytest.mark.parametrize(
    "answer",
    ["", " \n", DONE.lower(), f"{DONE}: almost", f"I will say {DONE}", f"{DONE}\nbut one thing is left", "NOT " + DONE],
)
def test_the_word_has_to_stand_alone_at_the_end(answer: str) -> None:
    assert not says_done(answer)


def test_a_model_that_works_alone_is_told_the_word_and_the_goal() -> None:
    assert DONE in autonomy_text(ALONE)
    assert "ship it" in autonomy_text(HELD)
