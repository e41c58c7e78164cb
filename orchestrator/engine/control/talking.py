"""Commands that say something to a session, or end what it does."""

from collections.abc import Awaitable, Callable

from actors.directory import Row
from actors.protocol import mail
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data, Refused
from orchestrator.engine.control.mailing import Mailing
from orchestrator.engine.planted import Planted
from store.entries import Mode
from store.events import CompactionEnd
from store.messages import ImageContent, TextContent, Visible

Wait = Callable[[], Awaitable[Data]]


def prompt(planted: Planted, row: Row, command: requests.Prompt) -> Wait:
    if row.is_running and command.streaming_behavior is None:
        raise Refused("busy", "a run is open; say with streamingBehavior (steer or followUp) how it is to be taken")
    modes: dict[str | None, Mode] = {"steer": "steer", "followUp": "follow_up", None: "prompt"}
    return _said(planted, row, command.message, command.images, modes[command.streaming_behavior])


def steer(planted: Planted, row: Row, command: requests.Steer) -> Wait:
    return _said(planted, row, command.message, command.images, "steer")


def follow_up(planted: Planted, row: Row, command: requests.FollowUp) -> Wait:
    return _said(planted, row, command.message, command.images, "follow_up")


def _said(planted: Planted, row: Row, text: str, images: tuple[ImageContent, ...], mode: Mode) -> Wait:
    """Answered once it is in the session's journal, or refused."""
    if not text.strip() and not images:
        raise Refused("wrong_shape", "expected a message, found nothing but space")
    content: str | tuple[Visible, ...] = (TextContent(text=text), *images) if images else text
    mailing = Mailing(planted, row)
    message_id = mailing.new_id("user")
    slip = mailing.expect(message_id)
    was_running = row.is_running
    mailing.deliver(mail.Prompt(message_id, content, mode))

    async def receipt() -> Data:
        await mailing.receipt(message_id, slip)
        return {"disposition": "queued" if was_running else "started", "messageId": message_id}

    return receipt


def abort(planted: Planted, row: Row, command: requests.Abort) -> Wait:
    return _ended(planted, row, mail.Abort())


def stop(planted: Planted, row: Row, command: requests.Stop) -> Wait:
    """A root that was kept at hand is let go of with its tree: when this is answered, others may open it."""
    is_let_go = planted.is_kept and row.parent is None
    if is_let_go:
        planted.leaving.set()
    return _ended(planted, row, mail.Stop("stopped by the user"), is_let_go=is_let_go)


def _ended(planted: Planted, row: Row, command: mail.Abort | mail.Stop, *, is_let_go: bool = False) -> Wait:
    """Answered when no run is open any more."""
    Mailing(planted, row).deliver(command)

    async def ended() -> Data:
        await planted.settled(row)
        if is_let_go:
            await planted.gone.wait()
        return {"outcome": row.outcome or None}

    return ended


def abort_retry(planted: Planted, row: Row, command: requests.AbortRetry) -> Data:
    Mailing(planted, row).deliver(mail.AbortRetry())
    return None


def compact(planted: Planted, row: Row, command: requests.Compact) -> Wait:
    """Answered with the summary. It listens before it asks: a summary of nothing has failed at once."""
    ear = planted.hearing.listen(planted.event_of(row, CompactionEnd))
    Mailing(planted, row).deliver(mail.CompactNow(command.custom_instructions))

    async def compacted() -> Data:
        with ear:
            end = await ear.heard()
        if not isinstance(end, CompactionEnd) or end.result is None:
            raise Refused("not_compacted", getattr(end, "error_message", None) or "there is no summary")
        return end.result  # type: ignore[no-any-return]

    return compacted
