"""A stored tree as the stream that it would have been: numbered anew, without deltas, times as they were written down.

A child's events lie between its `child_spawned` and the `child_settled` of that run. What only the live stream knew (retry
pauses, queues, the order in which parallel tools ended) is not in the journals and so not here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import msgspec

from store.entries import (
    ChildSettledEntry,
    ChildSpawnedEntry,
    CustomMessageEntry,
    GateEndEntry,
    MessageEntry,
    RunSettledEntry,
)
from store.errors import BadRecord
from store.events import (
    SHOWN_ENTRIES,
    AgentEnd,
    AgentSettled,
    AgentStart,
    Event,
    GateStart,
    MessageEnd,
    MessageStart,
    Place,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from store.lines import event_tail, tagged
from store.messages import AssistantMessage, CustomMessage, Message, ToolCall, ToolResultMessage, decode_message
from store.records import Record
from store.repair import Node
from store.wire import encode

Shown = tuple[Place, Event, str]
"""Place, event, ISO time."""


def replay_lines(nodes: Mapping[str, Node], root_id: str) -> Iterator[bytes]:
    """The lines of the native stream, newline included."""
    for seq, (place, event, at) in enumerate(replay(nodes, root_id), start=1):
        kind, tail = event_tail(event)
        yield tagged(tail, kind, place, seq, at)


def replay(nodes: Mapping[str, Node], root_id: str) -> Iterator[Shown]:
    """The events of a tree. Without recursion into generators: a chain of children may be long."""
    players: dict[str, _Player] = {}
    stack: list[Iterator[Shown | _Descend]] = [_start(players, nodes, root_id, None)]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
        elif isinstance(step, _Descend):
            child = players.get(step.session_id)
            if child is not None:
                stack.append(child.until(step.run))
            elif step.session_id in nodes:
                stack.append(_start(players, nodes, step.session_id, step.run))
        else:
            yield step


@attrs.frozen
class _Descend:
    """Now the events of this child, to the end of its run `run` (None: to its end)."""

    session_id: str
    run: int | None


def _start(
    players: "dict[str, _Player]", nodes: Mapping[str, Node], session_id: str, run: int | None
) -> "Iterator[Shown | _Descend]":
    players[session_id] = _Player(nodes[session_id])
    return players[session_id].until(run)


@attrs.define
class _Player:
    """Plays one journal, run by run."""

    node: Node
    _records: list[Record] = attrs.field(
        init=False, default=attrs.Factory(lambda self: _children_first(self.node.tree.own_records), takes_self=True)
    )
    _next: int = 0
    _is_begun: bool = False
    _run: int = 0
    _message_id: int = 0
    _loop: list[msgspec.Raw] | None = None
    _answer: msgspec.Raw | None = None
    _is_turn_open: bool = False
    _calls: list[ToolCall] = attrs.field(factory=list)
    _called_ms: int = 0
    _results: dict[str, tuple[ToolResultMessage, msgspec.Raw]] = attrs.field(factory=dict)
    _children: list[str] = attrs.field(factory=list)

    @property
    def place(self) -> Place:
        header = self.node.header
        return Place(header.id, header.root_id, header.parent_session_id, header.depth)

    def until(self, run: int | None) -> Iterator[Shown | _Descend]:
        """Events up to the end of run number `run`, bookkeeping behind it included; None: to the end of the journal."""
        place = self.place
        if not self._is_begun:
            self._is_begun = True
            yield place, self.node.header, self.node.header.timestamp
        records = self._records
        while self._next < len(records):
            record = records[self._next]
            if run is not None and self._run >= run and not self._is_bookkeeping(record):
                return
            self._next += 1
            for step in self._played(record):
                yield step if isinstance(step, _Descend) else (place, step, record.timestamp)
        if run is None:
            for child in self._children:
                yield _Descend(child, None)

    def _is_bookkeeping(self, record: Record) -> bool:
        return record.type in {"child_usage_attributed", "session_state", "agent_status"}

    def _played(self, record: Record) -> Iterator[Event | _Descend]:
        body = record.body()
        match body:
            case MessageEntry(message=raw):
                yield from self._message(raw)
            case CustomMessageEntry():
                custom = CustomMessage(
                    custom_type=body.custom_type, content=body.content, display=body.display, details=body.details
                )
                yield from self._said(msgspec.Raw(encode(custom)))
            case RunSettledEntry():
                yield from self._closed()
                self._run = body.run
                yield body
                yield AgentSettled(aborted=body.outcome == "aborted", outcome=body.outcome)
            case GateEndEntry():
                yield from self._closed()
                yield GateStart(command=body.command, attempt=body.attempt)
                yield body
            case ChildSpawnedEntry():
                self._children.append(body.child_session_id)
                yield body
            case ChildSettledEntry():
                yield _Descend(body.child_session_id, body.run)
                yield body
            case _ if isinstance(body, SHOWN_ENTRIES):
                yield body

    def _message(self, raw: msgspec.Raw) -> Iterator[Event]:
        try:
            message: Message | None = decode_message(raw)
        except BadRecord:
            message = None
        if isinstance(message, AssistantMessage):
            yield from self._answered(message, raw)
        elif isinstance(message, ToolResultMessage) and any(call.id == message.tool_call_id for call in self._calls):
            self._results[message.tool_call_id] = (message, raw)
            if len(self._results) == len({call.id for call in self._calls}):
                yield from self._tools_ended()
        else:
            yield from self._said(raw)

    def _opened(self) -> Iterator[Event]:
        if self._loop is None:
            self._loop = []
            yield AgentStart()
        if not self._is_turn_open:
            self._is_turn_open, self._answer = True, None
            yield TurnStart()

    def _said(self, raw: msgspec.Raw) -> Iterator[Event]:
        yield from self._opened()
        if self._loop is not None:
            self._loop.append(raw)
        yield MessageStart(message=raw)
        yield MessageEnd(message=raw)

    def _answered(self, message: AssistantMessage, raw: msgspec.Raw) -> Iterator[Event]:
        if self._answer is not None:
            yield from self._turn_ended(())
        yield from self._opened()
        self._message_id += 1
        self._answer = raw
        if self._loop is not None:
            self._loop.append(raw)
        start = msgspec.structs.replace(message, content=(), stop_reason="pending")
        yield MessageStart(message_id=self._message_id, message=msgspec.Raw(encode(start)))
        yield MessageEnd(message_id=self._message_id, message=raw)
        if not message.calls or message.stop_reason == "error":
            yield from self._turn_ended(())
            return
        self._calls, self._called_ms = list(message.calls), message.timestamp
        if message.stop_reason != "aborted":
            for call in message.calls:
                yield ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.checked_arguments)
        else:
            self._called_ms = -1

    def _tools_ended(self) -> Iterator[Event]:
        results = [self._results[call.id] for call in self._calls if call.id in self._results]
        if self._called_ms >= 0:
            for result, _ in results:
                yield _tool_end(result, self._called_ms)
        self._calls, self._results = [], {}
        for _, raw in results:
            if self._loop is not None:
                self._loop.append(raw)
            yield MessageStart(message=raw)
            yield MessageEnd(message=raw)
        yield from self._turn_ended(tuple(raw for _, raw in results))

    def _turn_ended(self, results: tuple[msgspec.Raw, ...]) -> Iterator[Event]:
        answer = self._answer or msgspec.Raw(encode(AssistantMessage(content=(), stop_reason="aborted")))
        self._is_turn_open, self._answer = False, None
        yield TurnEnd(message=answer, tool_results=results)

    def _closed(self) -> Iterator[Event]:
        if self._calls:
            yield from self._tools_ended()
        if self._is_turn_open:
            yield from self._turn_ended(())
        if self._loop is not None:
            messages, self._loop = self._loop, None
            yield AgentEnd(messages=tuple(messages), will_retry=False)


def _children_first(records: Iterable[Record]) -> list[Record]:
    """The records, with the end of a lost run behind the ends of its children.

    A repair closes the run of a session before it tells what became of those below it; in a stream children end first.
    """
    ordered: list[Record] = []
    lost_at: int | None = None
    for record in records:
        if lost_at is not None and record.type == "child_settled":
            ordered.insert(lost_at, record)
            lost_at += 1
            continue
        if record.type == "run_settled":
            body = record.body()
            lost_at = len(ordered) if isinstance(body, RunSettledEntry) and body.outcome == "lost" else None
        elif record.type != "child_usage_attributed":
            lost_at = None
        ordered.append(record)
    return ordered


def _tool_end(result: ToolResultMessage, called_ms: int) -> ToolExecutionEnd:
    details = result.details if isinstance(result.details, dict) else {}
    told = details.get("durationMs")
    took = told if isinstance(told, int) and told >= 0 else max(0, result.timestamp - called_ms)
    shown: dict[str, Any] = {"content": list(result.content)}
    if details:
        shown["details"] = details
    return ToolExecutionEnd(
        tool_call_id=result.tool_call_id,
        tool_name=result.tool_name,
        result=shown,
        is_error=result.is_error,
        duration_ms=took,
    )
