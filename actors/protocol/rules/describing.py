"""Before a run ends well a model may be asked what it has come to: only the last answer, and only where that is configured."""

from actors.protocol.describing import Description
from actors.protocol.effects import AppendEntry, DescribeRun, Effect
from actors.protocol.mail import Described
from actors.protocol.state import Step, TurnState


def wants_description(state: TurnState) -> bool:
    """Whether this run is to be described, and was not since its last answer."""
    is_good = state.ending is not None and state.ending.outcome == "completed"
    return state.describer is not None and state.description is None and is_good and not state.is_over


def ask_for_description(state: TurnState) -> Step:
    work = state.number + 1
    state = state.with_(phase="describing", number=work, work=work, description=Description())
    return state, [DescribeRun(work, state.run, state.describer or "")]


def heard_description(state: TurnState, mail: Described) -> Step:
    """What was said, and what it cost. An empty one is kept, too: it is not asked for again."""
    effects: list[Effect] = [] if mail.usage is None else [AppendEntry(mail.usage)]
    return state.with_(work=None, description=mail.description or Description()), effects
