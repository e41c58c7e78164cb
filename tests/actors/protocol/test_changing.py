"""What a person may change of a session while it works, and what has to wait."""

import msgspec
import pytest

from actors.protocol.effects import (
    Answer,
    AppendEntry,
    BranchOff,
    CancelTimer,
    Consult,
    Deny,
    EndTurn,
    Heed,
    RefusalOf,
    ReportRunning,
    StartChild,
)
from actors.protocol.mail import AbortRetry, Change, Directed, Emptied, MoveLeaf, SpawnChild, ToolEnded
from actors.protocol.questions import Admit, MaySpawn, Refuse
from actors.protocol.state import Ending, Kin, OpenCall, Queued, TurnState
from actors.protocol.tools import Spawn
from actors.protocol.turn import step
from store.entries import (
    LEAF_MARK,
    CustomEntry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
)

S = "00000000-0000-7000-8000-00000000000a"
NOTE = MessageEntry(message=msgspec.Raw(b'{"role":"bashExecution","command":"ls","output":""}'))
RESULT = msgspec.Raw(b'{"role":"toolResult"}')
MODEL = ModelChangeEntry(provider="test", model_id="other")
PHASES = ("idle", "ready", "calling", "tools", "pausing", "waiting", "aborting")


def at_work(phase: str = "calling", **members: object) -> TurnState:
    return TurnState(S).with_(phase=phase, run=1, number=7, work=7, **members)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("body", "is_heeded"),
    [
        (MODEL, True),
        (SessionInfoEntry(name="new"), True),
        (LabelEntry(target_id="00000001", label="here"), False),
        (SessionStateEntry(state={"status": "archived"}), False),
    ],
)
def test_a_setting_is_written_at_once_whatever_the_session_does(phase: str, body: object, is_heeded: bool) -> None:
    state = at_work(phase, tools=(OpenCall("c", "bash"),) if phase == "tools" else ())
    after, effects = step(state, Change("m", body), 0.0)  # type: ignore[arg-type]
    assert after == state
    assert effects == [AppendEntry(body, "m"), *([Heed(body)] if is_heeded else [])]  # type: ignore[arg-type]


def test_a_command_of_the_person_waits_for_the_results_of_an_open_batch() -> None:
    state = at_work("tools", tools=(OpenCall("c", "bash"),), is_turn_open=True)
    state, effects = step(state, Change("m", NOTE), 0.0)
    assert effects == []
    state, effects = step(state, ToolEnded(7, "c", RESULT), 0.0)
    assert effects == [AppendEntry(MessageEntry(message=RESULT)), AppendEntry(NOTE, "m"), EndTurn()]
    assert state.notes == ()


def test_an_abort_of_the_batch_writes_it_too() -> None:
    state = at_work("aborting", tools=(OpenCall("c", "bash"),), ending=Ending("aborted"), is_aborted=True)
    state, _ = step(state, Change("m", NOTE), 0.0)
    state, effects = step(state, ToolEnded(7, "c", RESULT), 0.0)
    assert [effect for effect in effects if isinstance(effect, AppendEntry)][:2] == [
        AppendEntry(MessageEntry(message=RESULT)),
        AppendEntry(NOTE, "m"),
    ]
    assert state.notes == ()


LEAF = CustomEntry(custom_type=LEAF_MARK)


def test_a_session_at_rest_goes_on_from_where_it_is_told() -> None:
    assert step(TurnState(S), MoveLeaf("m", "00000002", LEAF), 0.0)[1] == [BranchOff("m", "00000002", LEAF)]


@pytest.mark.parametrize(
    "state",
    [
        at_work("calling"),
        at_work("waiting"),
        TurnState(S).with_(kin=(Kin("child", "child", True),)),
        TurnState(S).with_(queue=(Queued("p", "prompt", "user", "hi", False),), is_woken=True),
    ],
    ids=["calling", "waiting", "a child runs", "a prompt is there"],
)
def test_one_that_is_at_work_does_not(state: TurnState) -> None:
    after, effects = step(state, MoveLeaf("m", "00000002", LEAF), 0.0)
    assert after == state
    assert [type(effect) for effect in effects] == [Deny]


def test_a_pause_can_be_ended_and_the_run_ends_as_the_call_left_it() -> None:
    failed = Ending("failed", "error", "overloaded")
    state = at_work("pausing", timer=9, retry=2, needs_call=True, ending=failed)
    after, effects = step(state, AbortRetry(), 0.0)
    assert (after.phase, after.ending, after.needs_call, after.timer) == ("ready", failed, False, None)
    assert effects[0] == CancelTimer(9)
    assert step(after, Emptied(), 0.0)[0].phase != "asking"
    for phase in PHASES:
        if phase != "pausing":
            assert step(at_work(phase), AbortRetry(), 0.0) == (at_work(phase), [])


def spawned(state: TurnState) -> tuple[TurnState, list[object]]:
    state, effects = step(state, SpawnChild(5, Spawn("do it", name="kid")), 0.0)
    (consult,) = effects
    assert isinstance(consult, Consult)
    assert consult.question == MaySpawn(S, Spawn("do it", name="kid"))
    state, effects = step(state, Directed(consult.question_id, Admit("kid-id", "kid", 1, "test/model")), 0.0)
    return state, list(effects)


@pytest.mark.parametrize("phase", ["idle", "ready", "calling", "tools", "pausing", "waiting", "draining"])
def test_somebody_outside_can_give_a_session_a_child_at_any_time(phase: str) -> None:
    before = at_work(phase) if phase != "idle" else TurnState(S)
    state, effects = spawned(before)
    kinds = [type(effect) for effect in effects]
    assert kinds == [AppendEntry, StartChild, Answer, *([ReportRunning] if phase == "idle" else [])]
    assert [kin.session_id for kin in state.running] == ["kid-id"]
    assert not state.is_settled


@pytest.mark.parametrize("state", [at_work("aborting"), at_work("calling", is_stopping=True), at_work("stopped")])
def test_but_not_at_its_end(state: TurnState) -> None:
    _, effects = step(state, SpawnChild(5, Spawn("do it")), 0.0)
    assert [type(effect.value) for effect in effects if isinstance(effect, Answer)] == [RefusalOf]


def test_the_gate_refuses_it_as_it_refuses_a_tool() -> None:
    state, effects = step(TurnState(S), SpawnChild(5, Spawn("do it")), 0.0)
    (consult,) = effects
    assert isinstance(consult, Consult)
    refuse = Refuse("max_depth", 3, 2, S, "too deep")
    state, effects = step(state, Directed(consult.question_id, refuse), 0.0)
    assert effects[-1] == Answer(5, RefusalOf("too deep"))
    assert state.kin == ()
