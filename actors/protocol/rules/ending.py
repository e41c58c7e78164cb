"""How a run ends: of itself, by an abort, by a stop."""

import msgspec

from actors.protocol.effects import (
    AbortChildren,
    AppendEntry,
    AppendPartial,
    CancelTimer,
    CancelWork,
    Describe,
    Effect,
    EndLoop,
    EndTools,
    EndTurn,
    PublishEvent,
    ReportRunning,
    SettleRun,
    StartLoop,
    StartTimer,
    Withdraw,
)
from actors.protocol.mail import (
    Abort,
    Described,
    GateEnded,
    LedgerDrained,
    ModelEnded,
    ModelFailed,
    Stop,
    Summarised,
    SummaryFailed,
    TimerFired,
    ToolEnded,
)
from actors.protocol.rules.batch import not_run, results, take_result
from actors.protocol.rules.calling import retry_failed
from actors.protocol.rules.compacting import failure_effects
from actors.protocol.rules.delivery import mail_message
from actors.protocol.rules.describing import ask_for_description, heard_description, wants_description
from actors.protocol.rules.settling import ask_to_settle, drain, end_gate
from actors.protocol.state import Ending, OpenCall, Step, TurnState
from actors.protocol.tools import text_result
from actors.protocol.trial import Trial
from store.context import interrupted
from store.entries import MessageEntry, RunSettledEntry
from store.events import CompactionEnd
from store.messages import ToolCall, ToolResultMessage
from store.wire import encode

# A model call ends as soon as it is cancelled. A tool has its process group killed after 2 s, and reaps it.
CALL_GRACE_S = 2.0
TOOL_GRACE_S = 4.0
UNFINISHED_GATE = "The gate was cancelled and did not end in time."


def end_run(state: TurnState) -> Step:
    """Nothing is left to do. The root's run ends only after its gates, and when everything that was spent below is folded."""
    effects: list[Effect] = [EndLoop()] if state.is_loop_open else []
    state, retry = retry_failed(state.with_(is_loop_open=False))
    effects += retry
    if state.running:
        return state.with_(phase="waiting"), effects
    if state.is_root:
        state, closing = ask_to_settle(state)
    else:
        state, closing = ask_for_description(state) if wants_description(state) else _settle(state)
    return state, [*effects, *closing]


def described(state: TurnState, mail: Described, at: float) -> Step:
    """It is known what the run has come to. Mail that came meanwhile belongs to this run, which then goes on."""
    if mail.work != state.work:
        return state, []
    state, effects = heard_description(state, mail)
    if state.running or ((state.queue or state.notices) and state.is_woken):
        return state.with_(phase="waiting" if state.running else "ready"), effects
    state, closing = drain(state) if state.is_root else _settle(state)
    return state, [*effects, *closing]


def description_closed(state: TurnState, mail: Described, at: float) -> Step:
    """The call that was cancelled has ended: what it was billed is kept."""
    if mail.work != state.work:
        return state, []
    return _closed(*heard_description(state, mail))


def ledger_drained(state: TurnState, mail: LedgerDrained, at: float) -> Step:
    """What was spent is folded. Mail that came meanwhile belongs to this run, so the run goes on with it."""
    if mail.work != state.work:
        return state, []
    state = state.with_(work=None)
    if state.running:
        return state.with_(phase="waiting"), []
    if (state.queue or state.notices) and state.is_woken and not (state.is_aborted or state.is_over):
        return state.with_(phase="ready"), []
    return _settle(state)


def _settle(state: TurnState) -> Step:
    ending = state.ending or Ending("completed")
    settled = RunSettledEntry(
        run=state.run, outcome=ending.outcome, stop_reason=ending.stop_reason, error_message=ending.error_message
    )
    effects: list[Effect] = [
        AppendEntry(settled),
        SettleRun(state.run, ending.outcome, state.is_aborted, ending.stop_reason, ending.error_message),
    ]
    if ending.outcome == "completed":
        effects.append(Describe(state.run, state.description))
    state = state.with_(
        phase="stopped" if state.is_stopping else "idle",
        work=None,
        tools=(),
        retry=0,
        needs_call=False,
        is_aborted=False,
        ending=None,
        description=None,
        trial=Trial(),
        has_said=False,
        short=None,
        handing_back=None,
    )
    # In the same breath, so that nobody above takes it for quiet in between.
    return state, [*effects, ReportRunning()] if state.will_run else effects


def abort(state: TurnState, mail: Abort | Stop, at: float) -> Step:
    """End what is open: cancel work, abort children, then close every bracket and settle."""
    if state.phase == "stopped":
        return state, []
    effects: list[Effect]
    state = state.with_(is_stopping=state.is_stopping or isinstance(mail, Stop))
    if state.phase in {"aborting", "draining"}:
        return state.with_(is_aborted=True), []
    if state.compacting is not None and state.compacting.is_alone:
        below = tuple(kin.session_id for kin in state.running)
        effects = [CancelWork(), AbortChildren(below, mail.reason)] if below else [CancelWork()]
        return state.with_(is_woken=False, reason=mail.reason), effects
    effects = []
    if state.phase == "idle":
        if not state.will_run and not state.running:
            return state.with_(phase="stopped" if state.is_stopping else "idle", reason=mail.reason), []
        # Whoever waits for what was about to begin hears an end.
        state, effects = state.with_(phase="ready", run=state.run + 1, retry=0), [ReportRunning()]
    state, asked = _asked(state, at)
    effects += asked
    effects += [CancelTimer(wait.timer) for wait in state.waits]
    if state.phase == "asking":
        effects.append(Withdraw())
    if state.timer is not None:
        effects.append(CancelTimer(state.timer))
    outcome = mail.outcome if isinstance(mail, Abort) else "aborted"
    timer = None
    if state.work is not None:
        timer = state.number + 1
        grace = TOOL_GRACE_S if state.tools or state.gate is not None else CALL_GRACE_S
        effects += [CancelWork(), StartTimer(timer, grace)]
    if state.running:
        effects.append(AbortChildren(tuple(kin.session_id for kin in state.running), mail.reason))
    state = state.with_(
        phase="aborting",
        number=timer or state.number,
        question=None,
        timer=timer,
        waits=(),
        is_aborted=True,
        is_woken=False,
        reason=mail.reason,
        ending=Ending(outcome, "aborted", mail.reason),
    )
    return _closed(state, effects)


def _asked(state: TurnState, at: float) -> Step:
    """What began a run that an abort ends before its first call: it is written, so that the journal says what was asked."""
    asked = [queued for queued in state.queue if not queued.is_recorded]
    if not asked:
        return state, []
    messages = [AppendEntry(mail_message(queued, at), queued.message_id) for queued in asked]
    state = state.having_heard(queued.message_id for queued in asked)
    state = state.with_(queue=tuple(queued for queued in state.queue if queued.is_recorded))
    return state, [StartLoop(), *messages, EndLoop()]


def call_closed(state: TurnState, mail: ModelEnded | ModelFailed, at: float) -> Step:
    """The call that was cancelled has ended. Its answer is kept, with an error result for each whole call in it."""
    if mail.work != state.work or state.tools or state.compacting is not None:
        return state, []
    effects: list[Effect] = [AppendEntry(MessageEntry(message=mail.message))]
    if isinstance(mail, ModelEnded) or mail.failure is None:
        effects += [AppendEntry(not_run(call.id, call.name, int(at * 1000))) for call in mail.calls]
    return _closed(state.with_(work=None), effects)


def summary_closed(state: TurnState, mail: Summarised | SummaryFailed, at: float) -> Step:
    """The summary that was cancelled has ended; if it came whole all the same, it is kept."""
    if mail.work != state.work or state.compacting is None:
        return state, []
    if isinstance(mail, SummaryFailed):
        effects = failure_effects(state, mail)
    else:
        end = CompactionEnd(reason=state.compacting.reason, aborted=False, will_retry=False)
        effects = [AppendEntry(mail.entry), PublishEvent(end)]
    return _closed(state.with_(work=None, compacting=None), effects)


def tool_closed(state: TurnState, mail: ToolEnded, at: float) -> Step:
    """One of the tools that were cancelled has ended."""
    if mail.work != state.work:
        return state, []
    state = take_result(state, mail)
    if any(call.result is None for call in state.tools):
        return state, []
    return _closed(state.with_(work=None, notes=()), results(state))


def gate_closed(state: TurnState, mail: GateEnded, at: float) -> Step:
    """The gate that was cancelled has ended. However it did, nobody goes by it any more."""
    if mail.work != state.work or state.gate is None:
        return state, []
    return _closed(*end_gate(state, mail.result, mail.duration_ms))


def grace_ended(state: TurnState, mail: TimerFired, at: float) -> Step:
    """Something did not end in time. Its bracket is closed all the same."""
    if mail.timer != state.timer or state.work is None:
        return state, []
    if state.compacting is not None:
        effects = failure_effects(state, SummaryFailed(state.work, state.reason, is_aborted=True))
        return _closed(state.with_(work=None, compacting=None), effects)
    if state.description is not None:
        return _closed(state.with_(work=None), [])
    if state.gate is not None:
        return _closed(*end_gate(state, text_result(UNFINISHED_GATE, is_error=True), round(TOOL_GRACE_S * 1000)))
    if not state.tools:
        return _closed(state.with_(work=None), [AppendPartial(state.reason)])
    tools = tuple(
        call if call.result is not None else OpenCall(call.id, call.name, _encoded(_unfinished(call, at)))
        for call in state.tools
    )
    state = state.with_(tools=tools)
    return _closed(state.with_(work=None, notes=()), [EndTools(), *results(state)])


def _unfinished(call: OpenCall, at: float) -> ToolResultMessage:
    return interrupted(ToolCall(id=call.id, name=call.name), int(at * 1000))


def _encoded(message: ToolResultMessage) -> msgspec.Raw:
    return msgspec.Raw(encode(message))


def closed_if_quiet(state: TurnState) -> Step:
    """After a child has ended: is anything still open?"""
    return _closed(state, [])


def _closed(state: TurnState, effects: list[Effect]) -> Step:
    """Once nothing is open any more: close turn, loop and retry, in that order, and settle."""
    if state.work is not None or state.running:
        return state, effects
    if state.timer is not None:
        effects.append(CancelTimer(state.timer))
    if state.is_turn_open:
        effects.append(EndTurn())
    state, settling = end_run(state.with_(timer=None, tools=(), is_turn_open=False))
    return state, [*effects, *settling]
