"""The tools of one answer: run side by side, their results kept until all are there, written in call order."""

import msgspec

from actors.protocol.effects import AppendEntry, CancelTimer, Effect, EndTurn
from actors.protocol.mail import ToolEnded
from actors.protocol.state import OpenCall, Step, TurnState
from store.entries import MessageEntry
from store.messages import TextContent, ToolResultMessage
from store.wire import encode

NOT_RUN = "The run was aborted before this tool was run."


def tool_ended(state: TurnState, mail: ToolEnded, at: float) -> Step:
    """One tool is done. The last one closes the turn."""
    if mail.work != state.work:
        return state, []
    state = take_result(state, mail)
    if any(call.result is None for call in state.tools):
        return state, []
    effects: list[Effect] = [CancelTimer(wait.timer) for wait in state.waits]
    effects += results(state)
    state = state.with_(phase="ready", work=None, tools=(), notes=(), waits=(), is_turn_open=False, needs_call=True)
    return state, [*effects, EndTurn()]


def take_result(state: TurnState, mail: ToolEnded) -> TurnState:
    """The batch with this result in it. What the result hands to the model waits no longer."""
    tools = tuple(
        OpenCall(call.id, call.name, mail.message) if call.id == mail.call_id and call.result is None else call
        for call in state.tools
    )
    notices = tuple(notice for notice in state.notices if notice.id not in mail.delivers)
    return state.with_(tools=tools, notices=notices)


def results(state: TurnState) -> list[Effect]:
    """The entries of a batch, in call order; then what had to wait for them."""
    written = [AppendEntry(MessageEntry(message=call.result)) for call in state.tools if call.result is not None]
    return [*written, *state.notes]


def not_run(call_id: str, name: str, timestamp: int, reason: str = NOT_RUN) -> MessageEntry:
    """The result of a call that is never run."""
    message = ToolResultMessage(
        tool_call_id=call_id,
        tool_name=name,
        content=(TextContent(text=reason),),
        is_error=True,
        timestamp=timestamp,
    )
    return MessageEntry(message=msgspec.Raw(encode(message)))
