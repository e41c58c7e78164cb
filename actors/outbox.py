"""A session's one way out: the journal first, the stream second. It outlives incarnations and closes what they left open."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec

from actors.clock import Clock
from actors.flusher import Flushing, JournalLike
from actors.reply import Reply
from actors.sink import Sink
from store.attribution import billed_usage
from store.entries import CustomMessageEntry, Known, MessageEntry
from store.events import (
    SHOWN_ENTRIES,
    AgentEnd,
    AgentSettled,
    AgentStart,
    AssistantMessageEvent,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Place,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from store.messages import AssistantMessage, CustomMessage
from store.records import Draft, Record
from store.tree import EntryTree, leaf_after
from store.usage import Usage
from store.wire import encode

_ASSISTANT = b'{"role":"assistant"'
_NOTHING_SAID = msgspec.Raw(encode(AssistantMessage(content=(), stop_reason="aborted")))


@attrs.frozen
class Written:
    """An entry that is in the journal, and the draft that its event is made of."""

    record: Record
    draft: Draft


@attrs.define
class _OpenTool:
    name: str
    args: Any
    started_s: float


@attrs.define(eq=False)
class Outbox:
    """`bill` is told of every entry that bills this session, right after it was written."""

    place: Place
    journal: JournalLike
    tree: EntryTree
    sink: Sink
    flusher: Flushing
    clock: Clock
    bill: Callable[[Record, Usage], None]
    reply: Reply | None = None
    _message_id: int = 0
    _tools: dict[str, _OpenTool] = attrs.field(factory=dict)
    _turn: tuple[list[msgspec.Raw], list[msgspec.Raw]] | None = None
    _loop: list[msgspec.Raw] | None = None
    _is_message_open: bool = False
    _shown_usage: Usage | None = None

    # The journal

    def write(self, bodies: Sequence[Known]) -> list[Written]:
        """Append these entries, all or none, in one write. Raises OSError or StoreError with nothing changed."""
        if not bodies:
            return []
        timestamp = self.clock.iso()
        leaf = self.tree.leaf_id
        written: list[Written] = []
        for body, entry in zip(bodies, self.tree.next_ids(len(bodies)), strict=True):
            draft = Draft.of(body)
            record = draft.record(entry, leaf, timestamp)
            leaf = leaf_after(record, leaf)
            written.append(Written(record, draft))
        self.journal.append([one.record.raw for one in written])
        self.flusher.note(self.journal)
        for one in written:
            self.tree.add(one.record)
            usage = billed_usage(one.record)
            if usage is not None:
                self.bill(one.record, usage)
        return written

    def append(self, *bodies: Known) -> list[Record]:
        """Write and show."""
        written = self.write(bodies)
        for one in written:
            self.show(one)
        return [one.record for one in written]

    def show(self, written: Written) -> None:
        """The events of an entry."""
        body = written.draft.body
        if isinstance(body, MessageEntry):
            self._show_message(body.message)
        elif isinstance(body, CustomMessageEntry):
            message = CustomMessage(
                custom_type=body.custom_type, content=body.content, display=body.display, details=body.details
            )
            self._show_message(msgspec.Raw(encode(message)))
        elif isinstance(body, SHOWN_ENTRIES):
            self.sink.publish(self.place, body, (written.draft.type, written.draft.tail))

    async def durable(self) -> None:
        """Return when all that was appended so far is durable."""
        await self.flusher.durable(self.journal)

    # The brackets of the stream

    def publish(self, event: Event) -> None:
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

    def show_reply(self, events: Sequence[AssistantMessageEvent]) -> None:
        """What the last chunk of the reply gave."""
        if self.reply is None or not events:
            return
        if not self._is_message_open:
            self._open_message(msgspec.Raw(encode(self.reply.beginning())))
        for event in events:
            usage = self.reply.usage if self.reply.usage is not self._shown_usage else None
            self._shown_usage = self.reply.usage
            self.publish(MessageUpdate(message_id=self._message_id, usage=usage, assistant_message_event=event))

    def _open_message(self, message: msgspec.Raw) -> None:
        self._message_id += 1
        self._is_message_open = True
        self.publish(MessageStart(message_id=self._message_id, message=message))

    def _show_message(self, message: msgspec.Raw) -> None:
        raw = bytes(message)
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
            return
        if self._turn is not None and raw.startswith(b'{"role":"toolResult"'):
            self._turn[1].append(message)
        self.publish(MessageStart(message=message))
        self.publish(MessageEnd(message=message))

    def start_tool(self, call_id: str, name: str, args: Any) -> None:
        self._tools[call_id] = _OpenTool(name, args, self.clock.steady_s())
        self.publish(ToolExecutionStart(tool_call_id=call_id, tool_name=name, args=args))

    def update_tool(self, call_id: str, partial_result: Any) -> None:
        tool = self._tools.get(call_id)
        if tool is not None:
            self.publish(
                ToolExecutionUpdate(
                    tool_call_id=call_id, tool_name=tool.name, args=tool.args, partial_result=partial_result
                )
            )

    def end_tool(self, call_id: str, result: Any, *, is_error: bool) -> None:
        """Nothing, if it has ended already: one end per start."""
        tool = self._tools.pop(call_id, None)
        if tool is not None:
            took_ms = max(0, round((self.clock.steady_s() - tool.started_s) * 1000))
            self.publish(
                ToolExecutionEnd(
                    tool_call_id=call_id, tool_name=tool.name, result=result, is_error=is_error, duration_ms=took_ms
                )
            )

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

    def close_tools(self, text: str) -> None:
        """End every tool that did not end of itself."""
        for call_id in list(self._tools):
            self.end_tool(call_id, {"content": [{"type": "text", "text": text}]}, is_error=True)

    def close_brackets(self, reason: str) -> None:
        """What an incarnation left open is closed, in order. An answer that was under way is kept, and its usage billed."""
        if self.reply is not None:
            reply, now = self.reply, self.clock.steady_s()
            message = msgspec.Raw(encode(reply.message("error", now, reason)))
            self.append(MessageEntry(message=message))
        self.close_tools(reason)
        self.end_turn()
        self.end_loop()
