"""Commands that change what a session is and works by; and those that make another one out of it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from actors.directory import Row
from actors.protocol import mail
from actors.protocol.model import ModelInfo
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data, Refused
from orchestrator.engine.control.mailing import Mailing
from orchestrator.engine.control.reading import entry_tree
from orchestrator.engine.planted import Planted
from store.disk.manager import SessionManager
from store.entries import (
    LEAF_MARK,
    BranchSummaryEntry,
    CustomEntry,
    LabelEntry,
    ModelChangeEntry,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    ThinkingLevelChangeEntry,
)
from store.errors import StoreError
from store.messages import UserMessage, text_of
from store.records import message_in

Wait = Callable[[], Awaitable[Data]]


def model_named(planted: Planted, name: str) -> ModelInfo:
    """Raises Refused: there is no such model."""
    try:
        return planted.tree.supervisor.workshop.model(name)[1]
    except KeyError as error:
        raise Refused("unknown_model", str(error.args[0])) from error


def set_model(planted: Planted, row: Row, command: requests.SetModel) -> Wait:
    """The model has to be there: else the session would fail with its next request."""
    provider, name = command.provider, command.model_id
    if command.model is not None:
        provider, _, name = command.model.partition("/")
    if not provider or not name:
        raise Refused("wrong_shape", "expected provider and modelId, or model as PROVIDER/ID")
    info = model_named(planted, f"{provider}/{name}")
    data = {"provider": info.provider, "id": info.id, "contextWindow": info.context_window or None}
    return _changed(planted, row, ModelChangeEntry(provider=info.provider, model_id=info.id), data)


def set_thinking_level(planted: Planted, row: Row, command: requests.SetThinkingLevel) -> Wait:
    return _changed(planted, row, ThinkingLevelChangeEntry(thinking_level=command.level))


def set_service_tier(planted: Planted, row: Row, command: requests.SetServiceTier) -> Wait:
    return _changed(planted, row, ServiceTierChangeEntry(service_tier=command.service_tier))


def set_session_name(planted: Planted, row: Row, command: requests.SetSessionName) -> Wait:
    name = command.name.strip()
    if not name:
        raise Refused("wrong_shape", "expected a name, found nothing but space")
    return _changed(planted, row, SessionInfoEntry(name=name))


def set_label(planted: Planted, row: Row, command: requests.SetLabel) -> Wait:
    _must_have(planted, row, command.entry_id)
    return _changed(planted, row, LabelEntry(target_id=command.entry_id, label=command.label or None))


def archive(planted: Planted, row: Row, command: requests.Archive) -> Wait:
    return _changed(planted, row, SessionStateEntry(state={"status": "active" if command.undo else "archived"}))


def branch(planted: Planted, row: Row, command: requests.Branch) -> Wait:
    """Only at rest; refused while a run is open."""
    if command.entry_id is not None:
        _must_have(planted, row, command.entry_id)
    left = entry_tree(planted, row).leaf_id
    body: CustomEntry | BranchSummaryEntry = CustomEntry(custom_type=LEAF_MARK)
    if command.summary:
        body = BranchSummaryEntry(from_id=left or "root", summary=command.summary)
    mailing = Mailing(planted, row)
    branch_id = mailing.new_id("branch")
    slip = mailing.expect(branch_id)
    mailing.deliver(mail.MoveLeaf(branch_id, command.entry_id, body))

    async def moved() -> Data:
        await mailing.receipt(branch_id, slip)
        return {"leafId": entry_tree(planted, row).leaf_id}

    return moved


def _must_have(planted: Planted, row: Row, entry_id: str) -> None:
    if entry_tree(planted, row).get(entry_id) is None:
        raise Refused("unknown_entry", f"session {row.id} has no entry {entry_id[:80]!r}")


def _changed(planted: Planted, row: Row, body: mail.Changing, data: Data = None) -> Wait:
    mailing = Mailing(planted, row)
    change_id = mailing.new_id("change")
    slip = mailing.expect(change_id)
    mailing.deliver(mail.Change(change_id, body))

    async def written() -> Data:
        await mailing.receipt(change_id, slip)
        return data

    return written


# Sessions out of sessions


def clone(planted: Planted, row: Row, command: requests.Clone) -> Data:
    return _forked(planted, row, None, command.name)


def fork(planted: Planted, row: Row, command: requests.Fork) -> Data:
    """`text`: what was said at that place, where it is a user's message."""
    if command.entry_id is None:
        return _forked(planted, row, None, command.name)
    _must_have(planted, row, command.entry_id)
    record = entry_tree(planted, row).get(command.entry_id)
    message = None if record is None else message_in(record)
    text = text_of(message.content) if isinstance(message, UserMessage) else None
    at = record.parent_id if command.before and record is not None else command.entry_id
    if at is None:
        raise Refused("nothing_before", "nothing stands before the first entry; begin a new session instead")
    return {**(_forked(planted, row, at, command.name) or {}), "text": text}


def _forked(planted: Planted, row: Row, entry_id: str | None, name: str | None) -> Data:
    if not planted.job.is_kept or row.outbox is None:
        raise Refused("not_stored", "a session that is not stored, or has not begun, cannot be forked")
    path = planted.home.journal_path(row.id)
    try:
        with SessionManager.fork_from(
            path, Path(planted.job.cwd), from_id=entry_id, name=name, home=planted.home
        ) as made:
            return {"sessionId": made.id, "sessionFile": str(made.file), "forkedFrom": made.header.forked_from}
    except (StoreError, OSError) as error:
        raise Refused("not_forked", str(error)) from error
