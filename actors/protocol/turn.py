"""The turn rules: the only place where a session's phase changes.

    phase     what is under way            what it hears, beside what every phase hears
    ────────  ───────────────────────────  ───────────────────────────────────────────────────────────
    idle      nothing                      Emptied: mail or a notice begins a run
    ready     nothing, a run is open       Emptied: call, or end the loop and wait, or settle
    asking    the supervisor is asked      Directed: Go, HandBack → calling, Compact → compacting, Refuse → ready
    calling   a model call                 ModelEnded → tools or ready, ModelFailed → judging
    tools     a batch of tools             ToolEnded, the last one → ready
    judging   the supervisor is asked      Directed: RetryAfter → pausing, Compact → compacting, GiveUp → ready
    pausing   the pause before a retry     TimerFired → asking, AbortRetry → ready
    compacting  a summary                  Summarised, SummaryFailed → asking, ready or idle
    waiting   children                     Emptied: a notice or mail → asking, nobody left → settle
    settling  the supervisor is asked      Directed: Check → gating, FollowUp → asking, Settle, Refuse → draining
    gating    a gate                       GateEnded: passed → ready, failed → settling
    describing  a model says what it came to  Described → draining, or the end; what came meanwhile → ready
    draining  the ledger                   LedgerDrained → idle
    aborting  what is being cancelled      its signals; when nothing is open → idle or stopped
    stopped   –                            –

Every phase hears Prompt, Abort, Stop, CompactNow, Change, MoveLeaf, SpawnChild, Asked, ChildEnded, ChildWoken, ChildRested, and
the timers of its waits. A signal whose id is not open changes nothing, so a late one harms nobody.
"""

from collections.abc import Callable
from typing import Any

from actors.protocol.effects import KeepTime, ReportRunning, Withdraw
from actors.protocol.mail import (
    Abort,
    AbortRetry,
    Asked,
    Change,
    ChildEnded,
    ChildRested,
    ChildWoken,
    CompactNow,
    Described,
    Directed,
    Emptied,
    GateEnded,
    LedgerDrained,
    Mail,
    ModelEnded,
    ModelFailed,
    MoveLeaf,
    Prompt,
    SpawnChild,
    Stop,
    Summarised,
    SummaryFailed,
    TimerFired,
    ToolEnded,
)
from actors.protocol.questions import Compact, Go, RetryAfter
from actors.protocol.rules.batch import tool_ended
from actors.protocol.rules.calling import (
    ask_to_call,
    directed_call,
    directed_retry,
    model_ended,
    model_failed,
    pause_ended,
    wait_on,
)
from actors.protocol.rules.changing import abort_retry, change, move_leaf, spawn_child
from actors.protocol.rules.compacting import (
    after_overflow,
    compact_now,
    start_summary,
    summarised,
    summary_failed,
)
from actors.protocol.rules.delivery import queue_change, take_prompt
from actors.protocol.rules.ending import (
    abort,
    call_closed,
    closed_if_quiet,
    described,
    description_closed,
    end_run,
    gate_closed,
    grace_ended,
    ledger_drained,
    summary_closed,
    tool_closed,
)
from actors.protocol.rules.family import (
    asked,
    child_ended,
    child_rested,
    child_woken,
    directed_spawn,
    wait_timed_out,
)
from actors.protocol.rules.settling import directed_settle, gate_ended
from actors.protocol.state import Step, TurnState

Rule = Callable[[TurnState, Any, float], Step]


def step(state: TurnState, mail: Mail, at: float) -> Step:
    """The state after `mail`, and what is to be carried out. `at`: when it arrived, in Unix seconds. Pure."""
    rule = _BY_PHASE.get((state.phase, type(mail))) or _BY_MAIL.get(type(mail))
    if rule is None:
        return state, []
    after, effects = rule(state, mail, at)
    return after, [*effects, *queue_change(state, after)]


def _begin_run(state: TurnState, mail: Emptied, at: float) -> Step:
    if not state.will_run:
        return state, []
    state, asking = ask_to_call(state.with_(run=state.run + 1, retry=0, ending=None, is_aborted=False))
    return state, [ReportRunning(), KeepTime(), *asking]


def _go_on(state: TurnState, mail: Emptied, at: float) -> Step:
    if not state.is_over and (state.needs_call or state.queue or state.notices):
        return ask_to_call(state)
    return end_run(state)


def _wake(state: TurnState, mail: Emptied, at: float) -> Step:
    if state.is_woken and not state.is_over and (state.queue or state.notices):
        return ask_to_call(state)
    return end_run(state) if not state.running else (state, [])


def _directed(state: TurnState, mail: Directed, at: float) -> Step:
    if mail.question == state.question and isinstance(mail.directive, Compact):
        if state.phase != "asking":
            return after_overflow(state)
        return start_summary(state.with_(passes=mail.directive.passes), mail.directive.reason)
    if mail.question == state.question:
        if state.phase == "settling":
            return directed_settle(state, mail, at)
        if state.phase == "asking" and isinstance(mail.directive, RetryAfter):
            return wait_on(state, mail.directive, at)
        if state.phase == "asking" and state.is_asked_to_compact and isinstance(mail.directive, Go):
            # The summary asks for its own calls.
            state, summary = start_summary(state, "manual")
            return state, [Withdraw(), *summary]
        return directed_call(state, mail, at) if state.phase == "asking" else directed_retry(state, mail, at)
    asking = next((asking for asking in state.asking if asking.question == mail.question), None)
    return (state, []) if asking is None else directed_spawn(state, asking, mail)


def _timer_fired(state: TurnState, mail: TimerFired, at: float) -> Step:
    if state.phase == "pausing" and mail.timer == state.timer:
        return pause_ended(state, mail, at)
    if state.phase == "aborting":
        return grace_ended(state, mail, at)
    wait = next((wait for wait in state.waits if wait.timer == mail.timer), None)
    return (state, []) if wait is None else wait_timed_out(state, wait, mail)


def _last_child_ended(state: TurnState, mail: ChildEnded, at: float) -> Step:
    state, effects = child_ended(state, mail, at)
    state, closing = closed_if_quiet(state) if effects else (state, [])
    return state, [*effects, *closing]


def _last_child_rested(state: TurnState, mail: ChildRested, at: float) -> Step:
    after, effects = child_rested(state, mail, at)
    after, closing = closed_if_quiet(after) if after != state else (after, [])
    return after, [*effects, *closing]


_BY_PHASE: dict[tuple[str, type[Any]], Rule] = {
    ("idle", Emptied): _begin_run,
    ("ready", Emptied): _go_on,
    ("waiting", Emptied): _wake,
    ("calling", ModelEnded): model_ended,
    ("calling", ModelFailed): model_failed,
    ("tools", ToolEnded): tool_ended,
    ("pausing", AbortRetry): abort_retry,
    ("compacting", Summarised): summarised,
    ("compacting", SummaryFailed): summary_failed,
    ("gating", GateEnded): gate_ended,
    ("describing", Described): described,
    ("draining", LedgerDrained): ledger_drained,
    ("aborting", ModelEnded): call_closed,
    ("aborting", ModelFailed): call_closed,
    ("aborting", ToolEnded): tool_closed,
    ("aborting", GateEnded): gate_closed,
    ("aborting", Described): description_closed,
    ("aborting", Summarised): summary_closed,
    ("aborting", SummaryFailed): summary_closed,
    ("aborting", ChildEnded): _last_child_ended,
    ("aborting", ChildRested): _last_child_rested,
}
_BY_MAIL: dict[type[Any], Rule] = {
    Prompt: take_prompt,
    Abort: abort,
    Stop: abort,
    CompactNow: compact_now,
    Asked: asked,
    ChildEnded: child_ended,
    ChildWoken: child_woken,
    ChildRested: child_rested,
    Directed: _directed,
    TimerFired: _timer_fired,
    Change: change,
    MoveLeaf: move_leaf,
    SpawnChild: spawn_child,
}
