"""A limit ends a run: who is told, and what the model hears before its last turn."""

from actors.protocol.effects import AppendEntry, Effect, PublishEvent
from actors.protocol.questions import Refuse
from actors.protocol.state import Step, TurnState
from store.entries import CustomMessageEntry

LIMIT_NOTE = "sapwood.limit"
TOOLS_OFF = "Not run: a limit of the run is reached, and its last turn has no tools."
HAND_BACK = (
    "{reason}.\nThis is your last turn, and it has no tools. Answer now with what you have: what you found or did, where it is, "
    "and what is left to do."
)


def announce(state: TurnState, refuse: Refuse) -> Step:
    """The model is told that its last turn begins, and everybody why. Once, also if that turn is tried again."""
    if state.handing_back is not None:
        return state, []
    note = CustomMessageEntry(custom_type=LIMIT_NOTE, content=HAND_BACK.format(reason=refuse.reason), display=True)
    effects: list[Effect] = [PublishEvent(refuse.event), AppendEntry(note)]
    return state.with_(handing_back=refuse), effects
