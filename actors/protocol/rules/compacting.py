"""Summaries: begun because the context is full, has overflowed, or somebody asked; ended well, badly, or by an abort."""

from actors.protocol.effects import AppendEntry, Effect, EndLoop, PublishEvent, Summarise
from actors.protocol.mail import CompactNow, Summarised, SummaryFailed
from actors.protocol.rules.calling import ask_to_call
from actors.protocol.state import Compacting, Step, TurnState
from store.events import CompactionEnd, CompactionStart, Reason


def start_summary(state: TurnState, reason: Reason, *, is_alone: bool = False) -> Step:
    """Begin one. What is said meanwhile waits."""
    work = state.number + 1
    effects: list[Effect] = [PublishEvent(CompactionStart(reason=reason)), Summarise(work, state.instructions)]
    state = state.with_(
        phase="compacting",
        number=work,
        work=work,
        question=None,
        compacting=Compacting(reason, is_alone),
        is_asked_to_compact=False,
        instructions=None,
    )
    return state, effects


def compact_now(state: TurnState, mail: CompactNow, at: float) -> Step:
    """Somebody asks for a summary. In a run, or when one is about to begin, it is made before the next call."""
    if state.is_stopped or state.phase == "compacting":
        return state, []
    state = state.with_(is_asked_to_compact=True, instructions=mail.instructions)
    is_alone = state.phase == "idle" and not state.will_run
    return start_summary(state, "manual", is_alone=True) if is_alone else (state, [])


def after_overflow(state: TurnState) -> Step:
    """The provider would not take the context: summarise, then try again. Once per prompt."""
    state, effects = start_summary(state.with_(is_loop_open=False), "overflow")
    return state, [EndLoop(), *effects]


def summarised(state: TurnState, mail: Summarised, at: float) -> Step:
    """The summary stands from now on for what it covers."""
    if mail.work != state.work or state.compacting is None:
        return state, []
    reason = state.compacting.reason
    entry = mail.entry
    result = {
        "summary": entry.summary,
        "firstKeptEntryId": entry.first_kept_entry_id,
        "tokensBefore": entry.tokens_before,
        "details": entry.details,
        "usage": entry.usage,
    }
    end = CompactionEnd(reason=reason, result=result, aborted=False, will_retry=reason == "overflow")
    may_compact = state.may_compact and reason != "overflow"
    state, going_on = _go_on(state.with_(passes=state.passes + 1, may_compact=may_compact))
    return state, [AppendEntry(entry), PublishEvent(end), *going_on]


def summary_failed(state: TurnState, mail: SummaryFailed, at: float) -> Step:
    """The history stays as it is. After a threshold the call is made all the same: what is kept free may do."""
    if mail.work != state.work or state.compacting is None:
        return state, []
    effects = failure_effects(state, mail)
    is_over = state.compacting.reason == "overflow"
    state = state.with_(may_compact=False)
    if is_over:
        # `ending` says already that the call failed.
        return state.with_(phase="ready", work=None, compacting=None), effects
    state, going_on = _go_on(state)
    return state, [*effects, *going_on]


def failure_effects(state: TurnState, mail: SummaryFailed) -> list[Effect]:
    """What is told of a summary that is not there; what it cost is billed."""
    billed: list[Effect] = [AppendEntry(mail.usage)] if mail.usage is not None else []
    reason: Reason = state.compacting.reason if state.compacting is not None else "manual"
    end = CompactionEnd(reason=reason, aborted=mail.is_aborted, will_retry=False, error_message=mail.reason)
    return [*billed, PublishEvent(end)]


def _go_on(state: TurnState) -> Step:
    is_alone = state.compacting is not None and state.compacting.is_alone
    was_overflow = state.compacting is not None and state.compacting.reason == "overflow"
    state = state.with_(work=None, compacting=None)
    if is_alone:
        return state.with_(phase="stopped" if state.is_stopping else "idle"), []
    return ask_to_call(state.with_(ending=None, needs_call=True) if was_overflow else state)
