"""A session's one way out: the journal first, the stream second. It outlives incarnations and closes what they left open."""

from collections.abc import Callable, Sequence

import attrs
import msgspec

from actors.clock import Clock
from actors.flusher import Flushing, JournalLike
from actors.open_tools import OpenTools
from actors.reply import Reply
from actors.sink import Sink
from store.attribution import billed_usage
from store.context import last_assistant
from store.entries import (
    BranchSummaryEntry,
    CustomEntry,
    CustomMessageEntry,
    GateEndEntry,
    Known,
    MessageEntry,
    RunSettledEntry,
)
from store.errors import JournalPoisoned, StoreError
from store.events import (
    SHOWN_ENTRIES,
    AgentEnd,
    AgentSettled,
    AgentStart,
    AssistantMessageEvent,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Event,
    GateStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Place,
    TurnEnd,
    TurnStart,
)
from store.interruption import interrupted_results
from store.messages import AssistantMessage, CustomMessage
from store.origins import RunOrigin
from store.records import Draft, Record
from store.tree import EntryTree, leaf_after
from store.usage import Usage
from store.wire import encode

_ASSISTANT = b'{"role":"assistant"'
_TOOL_RESULT = b'{"role":"toolResult"'
_BASH = b'{"role":"bashExecution"'
_NOTHING_SAID = msgspec.Raw(encode(AssistantMessage(content=(), stop_reason="aborted")))


@attrs.frozen
class Written:
    """An entry that is in the journal, and the draft that its event is made of."""

    record: Record
    draft: Draft


@attrs.define(eq=False)
class Outbox:
    """`bill` is told of every entry that bills this session, right after it was written. `origin`: why the session runs."""

    place: Place
    journal: JournalLike
    tree: EntryTree
    sink: Sink
    flusher: Flushing
    clock: Clock
    bill: Callable[[Record, Usage], None]
    origin: RunOrigin = attrs.field(factory=RunOrigin)
    reply: Reply | None = None
    tools: OpenTools = attrs.field(init=False)
    _message_id: int = 0
    _turn: tuple[list[msgspec.Raw], list[msgspec.Raw]] | None = None
    _loop: list[msgspec.Raw] | None = None
    _retry: AutoRetryStart | None = None
    _compaction: CompactionStart | None = None
    _gate: GateStart | None = None
    _unshown: list[Draft] = attrs.field(factory=list)
    _is_message_open: bool = False
    _asides: list[msgspec.Raw] = attrs.field(factory=list)
    _shown_usage: Usage | None = None

    def __attrs_post_init__(self) -> None:
        self.tools = OpenTools(self.publish, self.clock)

    # The journal

    def write(self, bodies: Sequence[Known], parent: str | msgspec.UnsetType | None = msgspec.UNSET) -> list[Written]:
        """Append these entries, all or none, in one write. Raises OSError or StoreError with nothing changed.

        They hang on the leaf, or on `parent` (None: on nothing).
        Nothing to write is also an occasion to notice that the journal is poisoned: whoever waits for a flush cannot mend it.
        """
        if self.journal.is_poisoned:
            raise JournalPoisoned("a flush of the journal has failed")
        if not bodies:
            return []
        timestamp = self.clock.iso()
        leaf = self.tree.leaf_id if isinstance(parent, msgspec.UnsetType) else parent
        written: list[Written] = []
        for body, entry in zip(bodies, self.tree.next_ids(len(bodies)), strict=True):
            draft = Draft.of(body)
            record = draft.record(entry, leaf, timestamp)
            leaf = leaf_after(record, leaf)
            written.append(Written(record, draft))
        self.journal.append([one.record.raw for one in written])
        self.flusher.note(self.journal)
        self._unshown += [one.draft for one in written]
        for one in written:
            self.tree.add(one.record)
            self.origin.take(one.record)
            usage = billed_usage(one.record)
            if usage is not None:
                self.bill(one.record, usage)
        return written

    def branch_off(self, parent: str | None, body: CustomEntry | BranchSummaryEntry) -> None:
        """Go on behind an earlier entry; None: as if nothing had been said."""
        for one in self.write([body], parent):
            self.show(one.draft)

    def append(self, *bodies: Known) -> list[Record]:
        """Write and show."""
        written = self.write(bodies)
        for one in written:
            self.show(one.draft)
        return [one.record for one in written]

    def append_or_show(self, *bodies: Known) -> None:
        """Write and show; where the journal takes nothing any more only show, so that the stream comes to its end."""
        try:
            self.append(*bodies)
        except (OSError, StoreError):
            for body in bodies:
                self.show(Draft.of(body))

    def show(self, draft: Draft) -> None:
        """The events of an entry."""
        if self._unshown:
            self._unshown = [other for other in self._unshown if other is not draft]
        body = draft.body
        if isinstance(body, MessageEntry):
            self._show_message(body.message)
        elif isinstance(body, CustomMessageEntry):
            message = CustomMessage(
                custom_type=body.custom_type, content=body.content, display=body.display, details=body.details
            )
            self._show_message(msgspec.Raw(encode(message)))
        elif isinstance(body, SHOWN_ENTRIES):
            if isinstance(body, GateEndEntry):
                self._gate = None
            self.sink.publish(self.place, body, (draft.type, draft.tail))

    async def durable(self) -> None:
        """Return when all that was appended so far is durable."""
        await self.flusher.durable(self.journal)

    def answer(self, run: int) -> str:
        """What this run, the last one, answered: the text of its last assistant message, or what there is of it.

        A call that failed, or was refused, without a word is passed over: what was said before is not lost by it.
        """
        for record in reversed(self.tree.records):
            message = last_assistant([record]) if record.type == "message" else None
            if message is not None and (message.text or message.stop_reason != "error"):
                return message.text
            body = record.body() if record.type == "run_settled" else None
            if isinstance(body, RunSettledEntry) and body.run < run:
                break
        return ""

    # The brackets of the stream

    def publish(self, event: Event) -> None:
        """Show it. Retries of one call are a bracket, too, a summary that is being made, and a gate, whose end is an entry."""
        match event:
            case AutoRetryStart() | AutoRetryEnd():
                self._retry = event if isinstance(event, AutoRetryStart) else None
            case CompactionStart() | CompactionEnd():
                self._compaction = event if isinstance(event, CompactionStart) else None
            case GateStart():
                self._gate = event
        self.sink.publish(self.place, event)

    def start_loop(self) -> None:
        self._loop = []
        self.publish(AgentStart())

    def start_turn(self) -> None:
        self._turn = ([], [])
        self.publish(TurnStart())

    def start_reply(self, reply: Reply) -> None:
        """A model call begins. Its message is shown when its first chunk comes, or with its end."""
        self.reply = reply
        self._shown_usage = None

    def show_reply(self, reply: Reply, events: Sequence[AssistantMessageEvent]) -> None:
        """What the last chunk of the reply gave. Nothing, if its message was closed without it."""
        if reply is not self.reply or not events:
            return
        if not self._is_message_open:
            self._open_message(msgspec.Raw(encode(reply.beginning())))
        for event in events:
            usage = reply.usage if reply.usage is not self._shown_usage else None
            self._shown_usage = reply.usage
            update = MessageUpdate(message_id=self._message_id, usage=usage, assistant_message_event=event)
            self.sink.publish(self.place, update)

    def _open_message(self, message: msgspec.Raw) -> None:
        self._message_id += 1
        self._is_message_open = True
        self.publish(MessageStart(message_id=self._message_id, message=message))

    def _show_message(self, message: msgspec.Raw) -> None:
        raw = bytes(message)
        if raw.startswith(_BASH):
            self._show_aside(message)
            return
        if self._loop is not None:
            self._loop.append(message)
        if raw.startswith(_ASSISTANT):
            if not self._is_message_open:
                self._open_message(message)
            self._is_message_open = False
            self.reply = None
            if self._turn is not None:
                self._turn[0].append(message)
            self.publish(MessageEnd(message_id=self._message_id, message=message))
            asides, self._asides = self._asides, []
            for aside in asides:
                self._show_aside(aside)
            return
        if self._turn is not None and raw.startswith(_TOOL_RESULT):
            self._turn[1].append(message)
        self.publish(MessageStart(message=message))
        self.publish(MessageEnd(message=message))

    def _show_aside(self, message: msgspec.Raw) -> None:
        """What a person ran beside the session: no part of its turns, and never inside another message."""
        if self._is_message_open:
            self._asides.append(message)
            return
        self.publish(MessageStart(message=message))
        self.publish(MessageEnd(message=message))

    def end_turn(self) -> None:
        if self._turn is not None:
            (answers, results), self._turn = self._turn, None
            answer = answers[-1] if answers else _NOTHING_SAID
            self.publish(TurnEnd(message=answer, tool_results=tuple(results)))

    def end_loop(self, *, will_retry: bool = False) -> None:
        if self._loop is not None:
            messages, self._loop = self._loop, None
            self.publish(AgentEnd(messages=tuple(messages), will_retry=will_retry))

    def settle(self, outcome: str, *, is_aborted: bool) -> None:
        self.publish(AgentSettled(aborted=is_aborted, outcome=outcome))

    def close_brackets(self, reason: str, *, is_forced: bool = False) -> None:
        """What an incarnation left open is closed, in order. An answer that was under way is kept, and its usage billed.

        Raises OSError or StoreError with nothing changed. `is_forced`: what the journal does not take is only shown.
        """
        late = self._show_late()
        bodies: list[Known] = []
        if self.reply is not None:
            message = self.reply.message("error", self.clock.steady_s(), reason)
            bodies.append(MessageEntry(message=msgspec.Raw(encode(message))))
        elif self._turn is not None:
            bodies += interrupted_results(self.tree)
        if self._gate is not None:
            bodies.append(_cut_off(self._gate, reason))
        drafts = [Draft.of(body) for body in bodies]
        try:
            drafts = [one.draft for one in self.write(bodies)]
        except (OSError, StoreError):
            if not is_forced:
                raise
        self.tools.close(reason)
        for draft in drafts:
            self.show(draft)
        if self._compaction is not None:
            of = self._compaction.reason
            self.publish(CompactionEnd(reason=of, aborted=False, will_retry=False, error_message=reason))
        self.end_turn()
        self.end_loop()
        if self._retry is not None:
            self.publish(AutoRetryEnd(success=False, attempt=self._retry.attempt, final_error=reason))
        for draft in late:
            self.show(draft)

    def _show_late(self) -> list[Draft]:
        """Show what was written and not shown, because a bug came between.

        The end of a run is for later, behind its brackets: until then it counts as not shown, whatever comes between.
        """
        late = self._unshown
        ends = [draft for draft in late if isinstance(draft.body, RunSettledEntry)]
        self._unshown = [*ends]
        for draft in late:
            body = draft.body
            raw = bytes(body.message) if isinstance(body, MessageEntry) else b""
            if self._loop is None and isinstance(body, MessageEntry | CustomMessageEntry):
                self.start_loop()
            if self._turn is None and raw.startswith((_ASSISTANT, _TOOL_RESULT)):
                self.start_turn()
            if not isinstance(body, RunSettledEntry):
                self.show(draft)
        return ends


def _cut_off(gate: GateStart, reason: str) -> GateEndEntry:
    result = {"content": [{"type": "text", "text": reason}]}
    return GateEndEntry(command=gate.command, attempt=gate.attempt, passed=False, result=result, duration_ms=0)
