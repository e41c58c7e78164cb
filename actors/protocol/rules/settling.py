"""The last steps of a root's run: may it settle, the gates that come first, what is told to the model instead, the ledger."""

import msgspec

from actors.protocol.effects import AppendEntry, Consult, DrainLedger, Effect, PublishEvent, RunGate
from actors.protocol.mail import Directed, GateEnded
from actors.protocol.questions import Check, FollowUp, MaySettle, Refuse, Settle
from actors.protocol.rules.calling import ask_to_call
from actors.protocol.rules.describing import ask_for_description, wants_description
from actors.protocol.state import Ending, Queued, Step, TurnState
from actors.protocol.tools import ToolResult, shown
from actors.protocol.trial import CONTINUATION_MARK, GateFailure, Trial
from store.entries import GateEndEntry, Outcome
from store.events import GateStart
from store.goals import goal_entry
from store.messages import text_of


def ask_to_settle(state: TurnState) -> Step:
    """The supervisor knows what a run has to stand before it ends well. One that ends otherwise is not asked about."""
    if state.is_over:
        return drain(state)
    question = state.number + 1
    state = state.with_(phase="settling", number=question, question=question)
    return state, [Consult(question, MaySettle(state.session_id, state.trial))]


def drain(state: TurnState) -> Step:
    """What was spent below is folded first."""
    work = state.number + 1
    return state.with_(phase="draining", number=work, work=work), [DrainLedger(work)]


def directed_settle(state: TurnState, mail: Directed, at: float) -> Step:
    """Settle, or what comes before that."""
    state = state.with_(question=None)
    is_news = bool(state.running or state.queue or state.notices)
    match mail.directive:
        case Settle(goal):
            # What came meanwhile belongs to this run, which then asks again.
            achieved: list[Effect] = [] if goal is None else [AppendEntry(goal_entry(goal, "complete"))]
            if is_news:
                return state.with_(phase="ready"), achieved
            state, ending = ask_for_description(state) if wants_description(state) else drain(state)
            return state, [*achieved, *ending]
        case Check() if is_news:
            # It would look at what is about to change.
            return state.with_(phase="ready"), []
        case Check(command, timeout_s):
            work = state.number + 1
            start = GateStart(command=command, attempt=state.trial.failures + 1)
            state = state.with_(phase="gating", number=work, work=work, gate=command)
            return state, [PublishEvent(start), RunGate(work, command, timeout_s)]
        case FollowUp() as follow_up:
            return _go_on(state, follow_up)
        case Refuse() as refuse:
            outcome: Outcome = "limit_reached" if refuse.limit == "max_continuations" else "failed"
            stop_reason = state.ending.stop_reason if state.ending else None
            state, draining = drain(state.with_(ending=Ending(outcome, stop_reason, refuse.reason)))
            return state, [PublishEvent(refuse.event), *draining]
    raise TypeError(f"expected Settle, Check, FollowUp or Refuse, found {mail.directive!r}")


def _go_on(state: TurnState, follow_up: FollowUp) -> Step:
    """The run goes on with a prompt of ours, and with what came meanwhile."""
    trial = state.trial
    number = trial.failures
    if follow_up.kind == CONTINUATION_MARK:
        number = trial.continuations + 1
        trial = msgspec.structs.replace(trial, continuations=number)
    name = f"{follow_up.kind}/{state.run}.{number}"
    prompt = Queued(name, "follow_up", "sapwood", follow_up.text, is_recorded=False, kind=follow_up.kind)
    return ask_to_call(state.with_(queue=(*state.queue, prompt), trial=trial))


def gate_ended(state: TurnState, mail: GateEnded, at: float) -> Step:
    """A gate is done. What comes after one that passed is decided when all that came with it is heard."""
    if mail.work != state.work or state.gate is None:
        return state, []
    command, trial = state.gate, state.trial
    state, end = end_gate(state, mail.result, mail.duration_ms)
    if not mail.result.is_error:
        trial = msgspec.structs.replace(trial, passed=trial.passed + 1)
        return state.with_(phase="ready", trial=trial), end
    failure = GateFailure(command, text_of(mail.result.content))
    state, asking = ask_to_settle(state.with_(trial=Trial(0, trial.failures + 1, trial.continuations, failure)))
    return state, [*end, *asking]


def end_gate(state: TurnState, result: ToolResult, duration_ms: int) -> Step:
    """Close the bracket of the open gate."""
    end = GateEndEntry(
        command=state.gate or "",
        attempt=state.trial.failures + 1,
        passed=not result.is_error,
        result=shown(result),
        duration_ms=duration_ms,
    )
    return state.with_(work=None, gate=None), [AppendEntry(end)]
