"""Children: asked for, admitted, ended, waited for."""

from typing import Any

from actors.protocol.effects import (
    AbortChildren,
    Answer,
    AppendEntry,
    CancelTimer,
    Consult,
    Disown,
    Effect,
    FamilyNow,
    HandleOf,
    PublishEvent,
    RefusalOf,
    ReportRunning,
    ReportsOn,
    StartChild,
    StartTimer,
)
from actors.protocol.mail import Asked, ChildEnded, ChildRested, ChildWoken, Directed, TimerFired
from actors.protocol.questions import Admit, MaySpawn, Refuse
from actors.protocol.state import Asking, Kin, Notice, Step, TurnState, Wait, without
from actors.protocol.tools import ListFamily, Spawn, WaitFor
from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.repair import bounded

RUN_ENDING = "the run is ending; no child was started"
SPAWN_PROMPT_BYTES = 4 * 1024


def asked(state: TurnState, mail: Asked, at: float) -> Step:
    """A tool asks. Whatever it is, it is answered once."""
    match mail.request:
        case Spawn() as request:
            if state.phase != "tools":
                return state, [Answer(mail.ask_id, RefusalOf(RUN_ENDING))]
            return ask_to_spawn(state, mail.ask_id, request, batch=state.work)
        case WaitFor() as request:
            return _wait(state, mail.ask_id, request)
        case ListFamily():
            return state, [Answer(mail.ask_id, FamilyNow())]


def ask_to_spawn(state: TurnState, ask_id: int, request: Spawn, batch: int | None = None) -> Step:
    """The supervisor holds the limits of the tree."""
    question = state.number + 1
    asking = Asking(question, ask_id, request, batch)
    state = state.with_(number=question, asking=(*state.asking, asking))
    return state, [Consult(question, MaySpawn(state.session_id, request))]


def directed_spawn(state: TurnState, asking: Asking, mail: Directed) -> Step:
    """The supervisor has said whether a child may be."""
    state = state.with_(asking=tuple(other for other in state.asking if other is not asking))
    if isinstance(mail.directive, Refuse):
        refuse = mail.directive
        told: list[Effect] = [PublishEvent(refuse.event)] if asking.request.tool_call_id else []
        return state, [*told, Answer(asking.ask_id, RefusalOf(refuse.reason))]
    if not isinstance(mail.directive, Admit):
        raise TypeError(f"expected Admit or Refuse, found {mail.directive!r}")
    admit = mail.directive
    # What a tool asked for is for nobody once its batch has ended; somebody outside waits all the same.
    is_late = state.is_aborted or state.is_stopped or asking.batch not in {None, state.work}
    if is_late:
        return state, [Disown(admit), Answer(asking.ask_id, RefusalOf(RUN_ENDING))]
    spawned = ChildSpawnedEntry(
        child_session_id=admit.session_id,
        name=admit.name,
        child_depth=admit.depth,
        prompt=bounded(asking.request.prompt, SPAWN_PROMPT_BYTES),
        model=admit.model,
        tool_call_id=asking.request.tool_call_id,
        limits=_limits(asking.request, admit),
    )
    state = state.with_(kin=(*state.kin, Kin(admit.session_id, admit.name, True)))
    effects: list[Effect] = [
        AppendEntry(spawned),
        StartChild(admit, asking.request),
        Answer(asking.ask_id, HandleOf(admit)),
    ]
    # A session at rest waits from now on for the child that it was given.
    return state, [*effects, ReportRunning()] if state.phase == "idle" else effects


def _limits(request: Spawn, admit: Admit) -> dict[str, Any]:
    """What is set for this child alone, so that it is the same one after a restart."""
    own: dict[str, Any] = dict(admit.limits)
    if request.tools is not None:
        own["tools"] = list(request.tools)
    if request.thinking is not None:
        own["thinking"] = request.thinking
    return own


def _wait(state: TurnState, ask_id: int, request: WaitFor) -> Step:
    by_name = {kin.session_id: kin.session_id for kin in state.kin} | {kin.name: kin.session_id for kin in state.kin}
    unknown = [name for name in request.names if name not in by_name]
    if unknown:
        known = ", ".join(kin.name for kin in state.kin) or "none"
        return state, [Answer(ask_id, RefusalOf(f"no child is named {', '.join(unknown)}; children: {known}"))]
    wanted = tuple(dict.fromkeys(by_name[name] for name in request.names)) or tuple(kin.session_id for kin in state.kin)
    wait = Wait(ask_id, wanted, request.mode, state.number + 1)
    if _is_over(state, wait):
        return state, [Answer(ask_id, ReportsOn(wanted, "settled"))]
    if any(queued.mode in {"steer", "auto"} for queued in state.queue):
        return state, [Answer(ask_id, ReportsOn(wanted, "message"))]
    state = state.with_(number=wait.timer, waits=(*state.waits, wait))
    return state, [StartTimer(wait.timer, max(0.0, request.timeout_s))]


def _is_over(state: TurnState, wait: Wait) -> bool:
    """`all`: none of them runs. `any`: one has ended that the model has not heard of, or none runs."""
    running = {kin.session_id for kin in state.running}
    if not running.intersection(wait.session_ids):
        return True
    untold = {notice.session_id for notice in state.notices}
    return wait.mode == "any" and bool(untold.intersection(wait.session_ids))


def child_ended(state: TurnState, mail: ChildEnded, at: float) -> Step:
    """A child's run has settled: the notice is written, waits for it end, an idle session wakes up."""
    child = next((kin for kin in state.running if kin.session_id == mail.session_id), None)
    if child is None:
        return state, []
    notice = Notice(mail.session_id, child.name, mail.run, mail.outcome, mail.text, mail.error_message)
    state = state.with_(
        kin=without(state.kin, mail.session_id),
        notices=(*state.notices, notice),
        is_woken=state.is_woken or not (state.is_aborted or state.is_over),
    )
    state, effects = _end_waits(state, "settled")
    return state, [AppendEntry(child_settled(mail)), *effects]


def child_settled(mail: ChildEnded) -> ChildSettledEntry:
    """What the parent's journal says of it, which is the notice."""
    return ChildSettledEntry(
        child_session_id=mail.session_id,
        run=mail.run,
        outcome=mail.outcome,
        stop_reason=mail.stop_reason,
        error_message=mail.error_message,
        text=mail.text,
    )


def child_woken(state: TurnState, mail: ChildWoken, at: float) -> Step:
    """A settled child will run again, so this session's run does not end before it. An abort that is under way is for it too."""
    kin = tuple(
        Kin(child.session_id, child.name, True) if child.session_id == mail.session_id else child for child in state.kin
    )
    effects: list[Effect] = []
    if state.phase == "idle" and kin != state.kin:
        effects = [ReportRunning()]
    elif state.phase == "aborting" and kin != state.kin:
        effects = [AbortChildren((mail.session_id,), state.reason)]
    return state.with_(kin=kin), effects


def child_rested(state: TurnState, mail: ChildRested, at: float) -> Step:
    """A child that was woken had nothing to do after all, so there is no end to tell of."""
    state = state.with_(kin=without(state.kin, mail.session_id))
    return _end_waits(state, "settled")


def end_waits_for_message(state: TurnState) -> Step:
    """Agent messages and steers end a wait early, so that a child can always ask."""
    effects: list[Effect] = []
    for wait in state.waits:
        effects += [CancelTimer(wait.timer), Answer(wait.ask_id, ReportsOn(wait.session_ids, "message"))]
    return state.with_(waits=()), effects


def wait_timed_out(state: TurnState, wait: Wait, mail: TimerFired) -> Step:
    """The time of one wait is over. What it waited for goes on."""
    state = state.with_(waits=tuple(other for other in state.waits if other is not wait))
    return state, [Answer(wait.ask_id, ReportsOn(wait.session_ids, "timeout"))]


def _end_waits(state: TurnState, ended: str) -> Step:
    over = [wait for wait in state.waits if _is_over(state, wait)]
    effects: list[Effect] = []
    for wait in over:
        effects += [CancelTimer(wait.timer), Answer(wait.ask_id, ReportsOn(wait.session_ids, ended))]
    return state.with_(waits=tuple(wait for wait in state.waits if wait not in over)), effects
