"""How mail and notices reach the model: taken in, kept in order, handed over together where no call is open."""

from collections.abc import Sequence

import msgspec

from actors.protocol.effects import AppendEntry, Effect, PublishEvent, RefuseMail
from actors.protocol.mail import Prompt
from actors.protocol.rules.family import end_waits_for_message
from actors.protocol.state import Notice, Queued, Step, TurnState
from store.entries import AGENT_MESSAGE, CustomMessageEntry, MailEntry, MessageEntry
from store.events import SessionActionUpdate
from store.messages import TextContent, UserMessage, Visible, text_of
from store.size import content_chars
from store.wire import encode

MAX_QUEUED = 256
CHILDREN_NOTICE = "sapwood.children"


def take_prompt(state: TurnState, mail: Prompt, at: float) -> Step:
    """A prompt, steer, follow-up or agent message has arrived."""
    if mail.message_id in state.heard or any(queued.message_id == mail.message_id for queued in state.queue):
        return state, []
    if state.is_stopping or state.is_stopped:
        return state, [_refusal(mail, f"the session has been stopped: {state.reason or 'stopped'}")]
    if len(state.queue) >= MAX_QUEUED:
        return state, [_refusal(mail, f"{MAX_QUEUED} messages are waiting for this session already")]
    is_recorded = state.phase != "idle"
    queued = Queued(mail.message_id, mail.mode, mail.sender, mail.content, is_recorded)
    state = state.with_(queue=(*state.queue, queued), is_woken=True)
    if not is_recorded:
        return state, []
    effects: list[Effect] = [
        AppendEntry(MailEntry(message_id=mail.message_id, sender=mail.sender, mode=mail.mode, content=mail.content))
    ]
    if mail.mode in {"steer", "auto"}:
        state, ended = end_waits_for_message(state)
        effects += ended
    return state, effects


def _refusal(mail: Prompt, reason: str) -> RefuseMail:
    return RefuseMail(mail.message_id, mail.sender, mail.mode, reason)


def deliver(state: TurnState, at: float) -> Step:
    """Hand over what waits: before a call that is needed anyway notices and steers, else everything."""
    due = [queued for queued in state.queue if not state.needs_call or queued.mode in {"steer", "auto"}]
    effects: list[Effect] = []
    if state.notices:
        effects.append(AppendEntry(_notices_message(state.notices)))
    effects += [AppendEntry(mail_message(queued, at), queued.message_id) for queued in due]
    kept = tuple(queued for queued in state.queue if queued not in due)
    if any(queued.sender == "user" for queued in due):
        # What did not help or did not work before may do so with a new prompt.
        state = state.with_(passes=0, may_compact=True)
    state = state.having_heard(queued.message_id for queued in due)
    return state.with_(queue=kept, notices=(), is_woken=bool(kept)), effects


def incoming_chars(state: TurnState) -> int:
    """About how many characters the next call brings with it, beside what the context holds already."""
    notices = sum(len(notice.text) + len(notice.name) + len(notice.error_message or "") for notice in state.notices)
    return notices + sum(content_chars(queued.content) for queued in state.queue)


def _notices_message(notices: Sequence[Notice]) -> CustomMessageEntry:
    text = "\n\n".join(
        notice_text(notice.name, notice.outcome, notice.text, notice.error_message) for notice in notices
    )
    return CustomMessageEntry(
        custom_type=CHILDREN_NOTICE,
        content=text,
        display=True,
        details={"delivers": [notice.id for notice in notices]},
    )


def notice_text(name: str, outcome: str, text: str, error_message: str | None) -> str:
    """What a model reads of a child's end. An empty answer is never passed off as one."""
    error = f"\n{error_message}" if error_message else ""
    return f"## {name}: {outcome}{error}\n{text or '(no text)'}"


def mail_message(queued: Queued, at: float) -> MessageEntry | CustomMessageEntry:
    details = {"delivers": [queued.message_id]}
    if queued.kind:
        return CustomMessageEntry(custom_type=queued.kind, content=queued.content, display=True, details=details)
    if queued.sender == "user":
        content: tuple[Visible, ...] = (
            (TextContent(text=queued.content),) if isinstance(queued.content, str) else queued.content
        )
        message = UserMessage(
            content=content, details=details if queued.is_recorded else None, timestamp=int(at * 1000)
        )
        return MessageEntry(message=msgspec.Raw(encode(message)))
    text = f"Message from {queued.sender}:\n{text_of(queued.content)}"
    return CustomMessageEntry(
        custom_type=AGENT_MESSAGE, content=text, display=True, details={**details, "from": queued.sender}
    )


def queue_change(before: TurnState, after: TurnState) -> list[Effect]:
    """The event that shows the waiting queue, if it is another one now. A prompt that goes in at once never waited."""
    shown = [queued for queued in after.queue if queued.is_recorded]
    if [queued for queued in before.queue if queued.is_recorded] == shown:
        return []
    steering = [text_of(queued.content) for queued in shown if queued.mode in {"steer", "auto"}]
    follow_ups = [text_of(queued.content) for queued in shown if queued.mode not in {"steer", "auto"}]
    actions = {"queuedCount": len(shown), "steering": steering, "followUps": follow_ups}
    return [PublishEvent(SessionActionUpdate(actions=actions))]
