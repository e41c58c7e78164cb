"""A session's records folded into its summary: once, front to back, and on from where it came to."""

import re
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from store.attribution import account
from store.context import last_assistant
from store.entries import (
    LEAF_MARK,
    MOVES_LEAF,
    AgentStatusEntry,
    CustomEntry,
    CustomMessageEntry,
    Header,
    MailEntry,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
)
from store.messages import AssistantMessage, Message, UserMessage, text_of
from store.records import Record, message_in
from store.repair import Node
from store.size import context_tokens, guessed, message_chars
from store.summary import LINE_CHARS, Rest, Summary, begun
from store.tally import Tally
from store.times import unix_s

Said = tuple[int, str, str]
ARCHIVED = frozenset({"archived", "sleep", "hidden"})
PROMPT_CHARS = 8_000
"""Of each prompt so much can be searched."""
_PENDING = 64
_ROLE = re.compile(rb'"message":\{"role":"([a-zA-Z]+)"')
_HEAD_BYTES = 400


class _Role(msgspec.Struct):
    role: str = ""
    model: str = ""
    provider: str = ""
    details: Any = None


class _Peek(msgspec.Struct):
    message: _Role


class _Whole(msgspec.Struct):
    message: Message


_peek: msgspec.json.Decoder[_Peek] = msgspec.json.Decoder(_Peek)
_whole: msgspec.json.Decoder[_Whole] = msgspec.json.Decoder(_Whole)


@attrs.define(eq=False)
class Fold:
    """`said`: what people and parents said, with number and id of the record. `is_unsure`: only a fold of the whole can tell."""

    summary: Summary
    tally: Tally
    said: list[Said] = attrs.field(factory=list)
    _born_as: str | None = None
    _mail: dict[str, None] = attrs.field(factory=dict)
    _pending: list[Record] = attrs.field(factory=list)
    """Records behind the last answer whose size was not looked at yet: most are never asked for."""
    _context_base: int = 0
    _context_chars: int = 0
    _is_context_known: bool = True

    @classmethod
    def of(cls, header: Header) -> "Fold":
        inherited = header.forked_from.records if header.forked_from else 0
        return cls(begun(header), Tally(inherited), born_as=header.name)

    @classmethod
    def going_on(cls, found: Summary, inherited: int, rest: Rest) -> "Fold":
        """From where another fold came to, whose rest says that it can."""
        tally = Tally.going_on(inherited, found.own, found.total, found.children, rest.seen)
        fold = cls(found, tally, mail=dict.fromkeys(rest.mail))
        fold._context_base, fold._context_chars = rest.context_base, rest.context_chars
        fold._is_context_known = rest.is_context_known
        return fold

    @property
    def is_unsure(self) -> bool:
        return self.tally.is_unsure

    def add(self, record: Record) -> None:
        """The next record."""
        found = self.summary
        found.entries += 1
        found.modified = record.timestamp or found.modified
        if record.type in MOVES_LEAF:
            if record.parent_id != found.leaf_id:
                self._bend()
            found.leaf_id = record.id
        reader = _READERS.get(record.type)
        if reader is not None:
            reader(self, record)
        if found.entries > self.tally.inherited:
            if record.type != "message":  # what an answer cost was taken out of it where it was read
                self.tally.add(record, found.entries)
        elif found.entries == self.tally.inherited:
            self._begin_own()

    def finished(self) -> tuple[Summary, Rest]:
        """The summary as of now."""
        self._weigh()
        found = self.summary
        can_go_on = self.tally.can_go_on and found.entries >= self.tally.inherited
        if 0 < found.entries < self.tally.inherited:  # a fork that was cut while it was made
            self._begin_own()
        found.own, found.total, found.children = self.tally.own, self.tally.total, tuple(self.tally.children)
        base, chars = self._context_base, self._context_chars
        found.context_tokens = base + guessed(chars) if self._is_context_known and (base or chars) else None
        found.queued = len(self._mail)
        rest = Rest(
            seen=self.tally.hashes,
            mail=list(self._mail),
            context_base=base,
            context_chars=chars,
            is_context_known=self._is_context_known,
            can_go_on=can_go_on,
        )
        return found, rest

    def _begin_own(self) -> None:
        """What a fork copied gives it a past, but neither runs nor mail, and no state."""
        found = self.summary
        kept = {name: getattr(found, name) for name in _INHERITED}
        modified = found.created or found.modified
        for field in msgspec.structs.fields(Summary):
            if field.name not in kept and not field.required:
                setattr(found, field.name, field.default)
        for member, value in kept.items():
            setattr(found, member, value)
        found.modified, found.name = modified, self._born_as
        self._mail.clear()

    def _bend(self) -> None:
        """The branch is another one: what was known of its end is not known any more."""
        found = self.summary
        found.answer = found.answer_error = None
        if found.entries > 1:
            self._forget_context()

    def _forget_context(self) -> None:
        self._is_context_known = False
        self._context_base = self._context_chars = 0
        self._pending.clear()

    # Messages

    def _message(self, record: Record) -> None:
        found = self.summary
        found.messages += 1
        role = _role(record)
        if role == "assistant":
            self._assistant(record)
        else:
            self._pending.append(record)
            if len(self._pending) > _PENDING:
                self._weigh()
        if role == "bashExecution":  # a command of the person begins no run
            return
        self._work_begins(record)
        if role == "user":
            self._user(record)
        if b'"delivers"' in record.raw:
            self._delivered(_peeked(record).details)

    def _user(self, record: Record) -> None:
        message = _message_of(record)
        if isinstance(message, UserMessage):
            text = text_of(message.content)
            if self.summary.first_prompt is None:
                self.summary.first_prompt = text[:LINE_CHARS]
            self.said.append((self.summary.entries, record.id, text[:PROMPT_CHARS]))

    def _assistant(self, record: Record) -> None:
        found = self.summary
        found.turns += 1
        message = _message_of(record)
        known = message if isinstance(message, AssistantMessage) else _peeked(record)
        if found.model is None and known.model:
            found.model = f"{known.provider}/{known.model}" if known.provider else known.model
        if not isinstance(message, AssistantMessage):
            return
        found.answer, found.answer_error = first_line(message.text), message.error_message
        usage = message.usage
        if found.entries > self.tally.inherited:
            self.tally.bill(record, found.entries, usage)
        billed = usage.input + usage.cache_read + usage.cache_write + usage.output
        if message.stop_reason != "error" and billed > 0:
            self._context_base, self._context_chars, self._is_context_known = billed, 0, True
            self._pending.clear()
        elif message.stop_reason != "error" and self._is_context_known:
            self._context_chars += message_chars(message)

    def _weigh(self) -> None:
        """Take what came after the last answer into the guess of the context's size."""
        for record in self._pending if self._is_context_known else ():
            if record.type == "custom_message":
                body = record.body()
                self._context_chars += len(text_of(body.content)) if isinstance(body, CustomMessageEntry) else 0
            elif (message := message_in(record)) is not None:
                self._context_chars += message_chars(message)
        self._pending.clear()

    def _work_begins(self, record: Record) -> None:
        if not self.summary.is_open:
            self.summary.is_open = True
            self.summary.open_since = unix_s(record.timestamp)
        self.summary.task_state = None

    def _delivered(self, details: Any) -> None:
        ids = details.get("delivers") if isinstance(details, dict) else None
        for name in ids if isinstance(ids, list) else ():
            if isinstance(name, str):
                self._mail.pop(name, None)

    # Other entries

    def _custom_message(self, record: Record) -> None:
        self._work_begins(record)
        self._pending.append(record)
        if isinstance(body := record.body(), CustomMessageEntry):
            self._delivered(body.details)

    def _custom(self, record: Record) -> None:
        if LEAF_MARK.encode() not in record.raw:
            return
        body = record.body()
        if isinstance(body, CustomEntry) and body.custom_type == LEAF_MARK and record.parent_id != self.summary.leaf_id:
            self.summary.leaf_id = record.parent_id
            self._bend()

    def _compaction(self, record: Record) -> None:
        self._forget_context()

    def _run_settled(self, record: Record) -> None:
        if not isinstance(body := record.body(), RunSettledEntry):
            return
        found = self.summary
        end = unix_s(record.timestamp)
        if found.open_since is not None and end is not None:
            found.worked_s = (found.worked_s or 0.0) + max(0.0, end - found.open_since)
        found.is_open, found.open_since = False, None
        found.outcome, found.run_error = body.outcome, body.error_message
        found.runs += 1

    def _mailed(self, record: Record) -> None:
        if isinstance(body := record.body(), MailEntry):
            self._mail[body.message_id] = None

    def _model_change(self, record: Record) -> None:
        if isinstance(body := record.body(), ModelChangeEntry):
            self.summary.model = f"{body.provider}/{body.model_id}"

    def _session_info(self, record: Record) -> None:
        if isinstance(body := record.body(), SessionInfoEntry):
            self.summary.name = body.name

    def _session_state(self, record: Record) -> None:
        if isinstance(body := record.body(), SessionStateEntry):
            self.summary.is_archived = body.state.get("status") in ARCHIVED

    def _agent_status(self, record: Record) -> None:
        if isinstance(body := record.body(), AgentStatusEntry):
            summary, task_state = body.status.get("summary"), body.status.get("taskState")
            self.summary.summary = summary if isinstance(summary, str) else self.summary.summary
            self.summary.task_state = task_state if isinstance(task_state, str) else None


_INHERITED = ("entries", "messages", "leaf_id", "first_prompt", "answer", "answer_error", "model")
_READERS: dict[str, Callable[[Fold, Record], None]] = {
    "message": Fold._message,
    "custom_message": Fold._custom_message,
    "custom": Fold._custom,
    "compaction": Fold._compaction,
    "run_settled": Fold._run_settled,
    "mail": Fold._mailed,
    "model_change": Fold._model_change,
    "session_info": Fold._session_info,
    "session_state": Fold._session_state,
    "agent_status": Fold._agent_status,
}


def summarized(node: Node, trouble: str = "") -> tuple[Summary, list[Said]]:
    """The summary out of all records at once, and what was said: exact also for a journal that is damaged, or another's."""
    fold = Fold.of(node.header)
    for record in node.records:
        fold.add(record)
    found, _ = fold.finished()
    if fold.is_unsure:
        known = account(node.header, node.records)
        found.own, found.total = known.own, known.total
    path = node.tree.path()
    found.leaf_id, found.trouble = node.tree.leaf_id, trouble
    found.context_tokens = context_tokens(path)
    found.answer = found.answer_error = None
    if (message := last_assistant(path)) is not None:
        found.answer, found.answer_error = first_line(message.text), message.error_message
    return found, fold.said


def first_line(text: str) -> str | None:
    """The first line with text in it, as far as a list shows it."""
    lines = (line.strip() for line in text.split("\n"))
    return next((line[:LINE_CHARS] for line in lines if line), None)


def _role(record: Record) -> str:
    match = _ROLE.search(record.raw, 0, _HEAD_BYTES)
    return match[1].decode() if match is not None else _peeked(record).role


def _message_of(record: Record) -> Message | None:
    """As `message_in`, in one go where nothing is odd."""
    try:
        return _whole.decode(record.raw).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return message_in(record)


def _peeked(record: Record) -> _Role:
    try:
        return _peek.decode(record.raw).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Role()
