"""Model calls: asked for, made, ended, failed, tried again."""

import msgspec

from actors.protocol.effects import (
    AppendEntry,
    CallModel,
    Consult,
    Effect,
    EndLoop,
    EndTurn,
    Heed,
    PublishEvent,
    RunTools,
    StartLoop,
    StartTimer,
    StartTurn,
    Withdraw,
)
from actors.protocol.mail import Directed, ModelEnded, ModelFailed, TimerFired
from actors.protocol.questions import CallFailed, GiveUp, Go, HandBack, MayCall, Refuse, RetryAfter, SwitchModel
from actors.protocol.rules.batch import not_run
from actors.protocol.rules.delivery import deliver, incoming_chars
from actors.protocol.rules.limit import TOOLS_OFF, announce
from actors.protocol.state import Ending, OpenCall, Step, TurnState
from store.entries import CustomEntry, MessageEntry, ModelChangeEntry, Outcome
from store.events import AutoRetryEnd, AutoRetryStart, Diagnostic
from store.messages import AssistantMessage
from store.times import iso
from store.wire import encode

CUT_AT_LIMIT = "the reply was cut at the token limit before any text or whole tool call came"
LONG_PAUSE_S = 60.0
PAUSE_MARK = "sapwood.pause"
NO_CALL = "the reply announced a tool call, and none came"
NOTHING_SAID = "the reply holds neither text nor a tool call"


def ask_to_call(state: TurnState) -> Step:
    """Every model call is asked for: the supervisor holds the limits of the tree."""
    question = state.number + 1
    incoming = incoming_chars(state)
    state = state.with_(
        phase="asking",
        number=question,
        question=question,
        is_woken=False,
        short=None,
        asked_chars=incoming,
        description=None,
    )
    may_call = MayCall(
        state.session_id,
        state.passes if state.may_compact and state.handing_back is None else None,
        paused_until=state.paused_until,
        incoming_chars=incoming,
        has_said=state.has_said,
        is_last=state.handing_back is not None,
    )
    return state, [Consult(question, may_call)]


def directed_call(state: TurnState, mail: Directed, at: float) -> Step:
    """Go: the turn starts, what waits is delivered, the model is called. Refused: the run ends here."""
    if isinstance(mail.directive, Go | HandBack) and mail.directive.claim and incoming_chars(state) > state.asked_chars:
        # While it stood by, more has come in than was counted.
        state, asking = ask_to_call(state)
        return state, [Withdraw(), *asking]
    opening: list[Effect] = [] if state.is_loop_open else [StartLoop()]
    state, delivered = deliver(state, at)
    state = state.with_(
        question=None, is_loop_open=True, is_turn_open=True, needs_call=False, ending=None, trial=state.trial.outdated
    )
    effects = [*opening, StartTurn(), *delivered]
    match mail.directive:
        case Go(claim, max_output, short):
            state, calling = _call(state.with_(short=short), CallModel(0, 0, claim, max_output))
            return state, [*effects, *calling]
        case HandBack(claim, max_output, refuse):
            state, announced = announce(state, refuse)
            state, calling = _call(state, CallModel(0, 0, claim, max_output, is_last=True))
            return state, [*effects, *announced, *calling]
        case Refuse() as refuse:
            # The journal says why the conversation stops here; an answer that is an error never enters context.
            message = AssistantMessage(
                content=(), stop_reason="error", error_message=refuse.reason, timestamp=int(at * 1000)
            )
            shown = [] if state.handing_back is not None else [PublishEvent(refuse.event)]
            # A context that cannot be made to fit is no limit that somebody set.
            outcome: Outcome = "failed" if refuse.limit == "context" else "limit_reached"
            state = state.with_(phase="ready", is_turn_open=False, ending=Ending(outcome, "error", refuse.reason))
            return state, [*effects, AppendEntry(_entry(message)), *shown, EndTurn()]
    raise TypeError(f"expected Go, HandBack or Refuse, found {mail.directive!r}")


def _call(state: TurnState, call: CallModel) -> Step:
    work = state.number + 1
    state = state.with_(phase="calling", number=work, work=work, call=state.call + 1)
    return state, [msgspec.structs.replace(call, work=work, call=state.call)]


def _entry(message: AssistantMessage) -> MessageEntry:
    return MessageEntry(message=msgspec.Raw(encode(message)))


def model_ended(state: TurnState, mail: ModelEnded, at: float) -> Step:
    """An answer has come whole: run its tools, or end the turn."""
    if mail.work != state.work:
        return state, []
    effects: list[Effect] = [AppendEntry(MessageEntry(message=mail.message))]
    if state.retry:
        effects.append(PublishEvent(AutoRetryEnd(success=True, attempt=state.retry)))
    state = state.with_(retry=0, work=None, has_said=True)
    if state.handing_back is not None:
        effects += [AppendEntry(not_run(call.id, call.name, int(at * 1000), TOOLS_OFF)) for call in mail.calls]
        ending = Ending("limit_reached", mail.stop_reason, state.handing_back.reason)
        return state.with_(phase="ready", is_turn_open=False, ending=ending), [*effects, EndTurn()]
    if mail.calls:
        work = state.number + 1
        tools = tuple(OpenCall(call.id, call.name) for call in mail.calls)
        state = state.with_(phase="tools", number=work, work=work, tools=tools)
        return state, [*effects, RunTools(work, tuple(call.id for call in mail.calls))]
    ending = ending_of(mail.stop_reason, has_text=mail.has_text, is_root=state.is_root)
    if mail.stop_reason == "length" and state.short is not None:
        effects.append(PublishEvent(state.short.event))
        ending = Ending("limit_reached", mail.stop_reason, f"the answer was cut: {state.short.reason}")
    return state.with_(phase="ready", is_turn_open=False, ending=ending), [*effects, EndTurn()]


def ending_of(stop_reason: str, *, has_text: bool, is_root: bool = False) -> Ending:
    """How a run ends whose last answer asks for no tool. A child's answer without text is never a success.

    A root may end its work without a word.
    """
    if stop_reason == "toolUse":
        return Ending("failed", stop_reason, NO_CALL)
    if not has_text and not (is_root and stop_reason == "stop"):
        return Ending("failed", stop_reason, CUT_AT_LIMIT if stop_reason == "length" else NOTHING_SAID)
    return Ending("completed", stop_reason)


def model_failed(state: TurnState, mail: ModelFailed, at: float) -> Step:
    """A call failed. What had come is kept, out of context; the supervisor says what now."""
    if mail.work != state.work or mail.failure is None:
        return state, []
    question = state.number + 1
    may_compact = state.may_compact and state.handing_back is None
    asked = CallFailed(state.session_id, mail.failure, state.retry, may_compact)
    ending = Ending("failed", "error", mail.failure.message)
    if state.handing_back is not None:
        reason = f"{state.handing_back.reason}; nothing was handed back: {mail.failure.message}"
        ending = Ending("limit_reached", "error", reason)
    state = state.with_(
        phase="judging", number=question, question=question, work=None, is_turn_open=False, ending=ending
    )
    return state, [AppendEntry(MessageEntry(message=mail.message)), EndTurn(), Consult(question, asked)]


def directed_retry(state: TurnState, mail: Directed, at: float) -> Step:
    """Try again after a pause, or let the run end as it is."""
    state = state.with_(question=None, is_loop_open=False)
    error = (state.ending.error_message if state.ending else None) or ""
    match mail.directive:
        case RetryAfter() as retry:
            timer = state.number + 1
            start = AutoRetryStart(
                attempt=retry.attempt,
                max_attempts=retry.max_attempts,
                delay_ms=round(retry.delay_s * 1000),
                error_message=error,
            )
            # What waits for the end of the run is not delivered with the next try.
            state = state.with_(phase="pausing", number=timer, timer=timer, retry=retry.attempt, needs_call=True)
            effects: list[Effect] = [EndLoop(will_retry=True), PublishEvent(start), StartTimer(timer, retry.delay_s)]
            return state, [*_long_pause(retry.delay_s, at, error), *effects]
        case SwitchModel(model):
            state, ended = retry_failed(state)
            provider, _, name = model.partition("/")
            change = ModelChangeEntry(provider=provider, model_id=name)
            state, asking = ask_to_call(state.with_(ending=None, needs_call=True))
            return state, [EndLoop(), *ended, AppendEntry(change), Heed(change), *asking]
        case GiveUp():
            state, given_up = retry_failed(state)
            return state.with_(phase="ready"), [EndLoop(), *given_up]
    raise TypeError(f"expected RetryAfter, SwitchModel or GiveUp, found {mail.directive!r}")


def _long_pause(delay_s: float, at: float, reason: str) -> list[Effect]:
    """A pause that outlasts what a process may: the journal says until when, so that a later one waits for the rest of it."""
    if delay_s < LONG_PAUSE_S:
        return []
    until = iso(at + delay_s)
    pause = CustomEntry(custom_type=PAUSE_MARK, data={"until": at + delay_s, "reason": reason})
    note = Diagnostic(level="info", code="paused", text=f"waiting until {until} for the provider: {reason}")
    return [AppendEntry(pause), PublishEvent(note)]


def wait_on(state: TurnState, retry: RetryAfter, at: float) -> Step:
    """The rest of a pause that an earlier life of this session had begun."""
    timer = state.number + 1
    text = f"waiting until {iso(at + retry.delay_s)} for the provider, as before"
    state = state.with_(phase="pausing", number=timer, timer=timer, question=None)
    return state, [PublishEvent(Diagnostic(level="info", code="paused", text=text)), StartTimer(timer, retry.delay_s)]


def retry_failed(state: TurnState) -> Step:
    """The end of a retry that did not help, if one was under way."""
    if not state.retry:
        return state, []
    error = state.ending.error_message if state.ending else None
    return state.with_(retry=0), [PublishEvent(AutoRetryEnd(success=False, attempt=state.retry, final_error=error))]


def pause_ended(state: TurnState, mail: TimerFired, at: float) -> Step:
    return ask_to_call(state.with_(timer=None, ending=None, paused_until=0.0))
