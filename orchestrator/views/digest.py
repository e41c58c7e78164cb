"""What one journal says of its session, read once from front to back."""

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from store.attribution import own_records
from store.context import last_assistant
from store.entries import (
    AgentStatusEntry,
    ChildSpawnedEntry,
    CustomMessageEntry,
    MailEntry,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
)
from store.messages import (
    UserMessage,
    text_of,
)
from store.records import Record, message_in
from store.repair import Node
from store.times import unix_s

ARCHIVED = frozenset({"archived", "sleep", "hidden"})
_PROMPT_CHARS = 200


class _Role(msgspec.Struct):
    role: str = ""
    model: str = ""
    provider: str = ""
    details: Any = None


class _Peek(msgspec.Struct):
    message: _Role


_peek: msgspec.json.Decoder[_Peek] = msgspec.json.Decoder(_Peek)


@attrs.define
class Digest:
    """`runs`: begin and end of each run that has ended, in Unix seconds. `open_since`: begin of the run that is open.

    `prompt`: the first words that a person or a parent said. `last_run`: how the latest run ended.
    """

    name: str | None = None
    model: str | None = None
    prompt: str | None = None
    summary: str | None = None
    task_state: str | None = None
    is_archived: bool = False
    is_open: bool = False
    messages: int = 0
    turns: int = 0
    last_at: str | None = None
    last_run: RunSettledEntry | None = None
    open_since: float | None = None
    worked_s: float | None = None
    waiting_mail: set[str] = attrs.field(factory=set)

    def elapsed_ms(self, end_s: float | None) -> int | None:
        """Time at work, pauses between runs left out. `end_s`: when the open run ended, or the time now."""
        worked = self.worked_s
        if self.open_since is not None and end_s is not None:
            worked = (worked or 0.0) + max(0.0, end_s - self.open_since)
        return None if worked is None else int(worked * 1000)


def digest(node: Node) -> Digest:
    """The whole of a journal in a few values."""
    found = Digest(name=node.header.name, last_at=node.header.timestamp or None)
    own = own_records(node.header, node.records)
    inherited = node.records[: len(node.records) - len(own)]
    _read(found, inherited)
    if inherited:  # what a fork copied gives it a past, but neither runs nor mail, and no state
        found = Digest(
            name=node.header.name,
            model=found.model,
            prompt=found.prompt,
            messages=found.messages,
            last_at=node.header.timestamp or found.last_at,
        )
    _read(found, own)
    return found


def _read(found: Digest, records: Sequence[Record]) -> None:
    for record in records:
        found.last_at = record.timestamp or found.last_at
        if record.type == "message":
            _message(found, record)
        elif record.type in _READERS:
            _READERS[record.type](found, record)


def _message(found: Digest, record: Record) -> None:
    try:
        message = _peek.decode(record.raw).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = _Role()
    found.messages += 1
    if message.role == "bashExecution":  # a command of the person begins no run
        return
    _work_begins(found, record)
    if message.role == "assistant":
        found.turns += 1
        if found.model is None and message.model:
            found.model = f"{message.provider}/{message.model}" if message.provider else message.model
    elif message.role == "user" and found.prompt is None:
        found.prompt = _first_words(record)
    _delivered(found, message.details)


def _work_begins(found: Digest, record: Record) -> None:
    """A message opens a run. What was said of the session's state before it no longer holds."""
    if not found.is_open:
        found.is_open = True
        found.open_since = unix_s(record.timestamp)
    found.task_state = None


def _custom_message(found: Digest, record: Record) -> None:
    _work_begins(found, record)
    body = record.body()
    if isinstance(body, CustomMessageEntry):
        _delivered(found, body.details)


def _delivered(found: Digest, details: Any) -> None:
    ids = details.get("delivers") if isinstance(details, dict) else None
    if isinstance(ids, list):
        found.waiting_mail.difference_update(name for name in ids if isinstance(name, str))


def _run_settled(found: Digest, record: Record) -> None:
    body = record.body()
    if not isinstance(body, RunSettledEntry):
        return
    end = unix_s(record.timestamp)
    if found.open_since is not None and end is not None:
        found.worked_s = (found.worked_s or 0.0) + max(0.0, end - found.open_since)
    found.is_open, found.open_since, found.last_run = False, None, body


def _mail(found: Digest, record: Record) -> None:
    if isinstance(body := record.body(), MailEntry):
        found.waiting_mail.add(body.message_id)


def _model_change(found: Digest, record: Record) -> None:
    if isinstance(body := record.body(), ModelChangeEntry):
        found.model = f"{body.provider}/{body.model_id}"


def _session_info(found: Digest, record: Record) -> None:
    if isinstance(body := record.body(), SessionInfoEntry):
        found.name = body.name


def _session_state(found: Digest, record: Record) -> None:
    if isinstance(body := record.body(), SessionStateEntry):
        found.is_archived = body.state.get("status") in ARCHIVED


def _agent_status(found: Digest, record: Record) -> None:
    if isinstance(body := record.body(), AgentStatusEntry):
        summary, task_state = body.status.get("summary"), body.status.get("taskState")
        found.summary = summary if isinstance(summary, str) else found.summary
        found.task_state = task_state if isinstance(task_state, str) else None


_READERS = {
    "custom_message": _custom_message,
    "run_settled": _run_settled,
    "mail": _mail,
    "model_change": _model_change,
    "session_info": _session_info,
    "session_state": _session_state,
    "agent_status": _agent_status,
}


def _first_words(record: Record) -> str | None:
    message = message_in(record)
    return text_of(message.content)[:_PROMPT_CHARS] if isinstance(message, UserMessage) else None


def prompt_words(spawned: ChildSpawnedEntry | None) -> str | None:
    """The first words of the prompt that a child was born with."""
    return None if spawned is None else spawned.prompt[:_PROMPT_CHARS]


def answer_line(path: list[Record]) -> str | None:
    """The first line of the last answer that has text in it."""
    message = last_assistant(path)
    if message is None:
        return None
    lines = (line.strip() for line in message.text.split("\n"))
    return next((line[:_PROMPT_CHARS] for line in lines if line), None)
