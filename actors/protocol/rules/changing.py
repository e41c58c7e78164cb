"""What a person changes of a session from outside: settings, where it goes on, the wait for a retry, its children."""

from actors.protocol.effects import (
    Answer,
    AppendEntry,
    BranchOff,
    CancelTimer,
    Deny,
    Effect,
    Heed,
    RefusalOf,
)
from actors.protocol.mail import AbortRetry, Change, MoveLeaf, SpawnChild
from actors.protocol.rules.calling import retry_failed
from actors.protocol.rules.family import ask_to_spawn
from actors.protocol.state import Ending, Step, TurnState
from store.entries import LabelEntry, MessageEntry, SessionStateEntry

RUN_IS_OPEN = "the session is at work; wait for its end, or abort it first"
ENDING = "the session is ending; no child was started"
RETRY_ABORTED = "the wait for another try was ended by the user"


def change(state: TurnState, mail: Change, at: float) -> Step:
    """Write it at once. A message waits until no call is open: providers want a result right behind its call."""
    if isinstance(mail.body, MessageEntry) and state.tools:
        return state.with_(notes=(*state.notes, AppendEntry(mail.body, mail.message_id))), []
    effects: list[Effect] = [AppendEntry(mail.body, mail.message_id)]
    if not isinstance(mail.body, MessageEntry | LabelEntry | SessionStateEntry):
        effects.append(Heed(mail.body))
    return state, effects


def move_leaf(state: TurnState, mail: MoveLeaf, at: float) -> Step:
    """Go on from somewhere else. What a run that is open has yet to say belongs where it is."""
    if state.phase != "idle" or state.will_run or state.running:
        return state, [Deny(mail.message_id, RUN_IS_OPEN)]
    return state, [BranchOff(mail.message_id, mail.entry_id, mail.body)]


def spawn_child(state: TurnState, mail: SpawnChild, at: float) -> Step:
    """Somebody outside wants a child: by the same gate as a tool, at any time but at the end."""
    if state.phase in {"aborting", "stopped"} or state.is_stopping:
        return state, [Answer(mail.ask_id, RefusalOf(ENDING))]
    return ask_to_spawn(state, mail.ask_id, mail.request)


def abort_retry(state: TurnState, mail: AbortRetry, at: float) -> Step:
    """No other try: the run ends with the failure that there was."""
    effects: list[Effect] = [] if state.timer is None else [CancelTimer(state.timer)]
    state, failed = retry_failed(state)
    ending = state.ending or Ending("aborted", "aborted", RETRY_ABORTED)
    return state.with_(phase="ready", timer=None, needs_call=False, ending=ending), [*effects, *failed]
