"""Whether a stream of JSON lines keeps the rules of its dialect: form, tags, order and pairing, one end, exit status.

The checker reads line by line and remembers what is open, one small row per session, and a hash per attribution. A type
that it does not know is found in the native dialect only (`unknown-type`, a matter of versions: a warning); peers have
more types than their pages name. Two liberties are real peers': pi ends a compaction that it did not start, Prime Agent
leaves a tool without an end.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

import attrs
import msgspec

from store.events import SHORT_TAGGED, Event
from store.records import well_formed

WARNINGS = frozenset({"unknown-type"})
EXIT_OUTCOMES = {0: {"completed"}, 1: {"completed", "failed", "aborted", "lost"}, 3: {"limit_reached", "timed_out"}}
SIGNAL_STATUSES = frozenset({129, 130, 143})
READER_LEFT = 141
STARTUP_FAILURES = frozenset({1, 2, 4})

_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_BOOKKEEPING = frozenset({"child_usage_attributed", "session_state", "agent_status", "diagnostic", "session_info"})
_OF_A_RUN = frozenset(
    {
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "auto_retry_start",
        "auto_retry_end",
        "run_settled",
        "agent_settled",
        "child_spawned",
        "limit_reached",
    }
)
_BEGIN_A_RUN = frozenset({"agent_start", "run_settled"})
_NEEDED = {
    "session": ("id", "timestamp", "cwd"),
    "message_start": ("message",),
    "message_update": ("assistantMessageEvent",),
    "message_end": ("message",),
    "turn_end": ("message", "toolResults"),
    "agent_end": ("messages",),
    "tool_execution_start": ("toolCallId", "toolName", "args"),
    "tool_execution_update": ("toolCallId", "toolName", "partialResult"),
    "tool_execution_end": ("toolCallId", "toolName", "result", "isError"),
    "auto_retry_start": ("attempt", "maxAttempts", "delayMs", "errorMessage"),
    "auto_retry_end": ("success", "attempt"),
    "compaction_start": ("reason",),
    "compaction_end": ("reason", "aborted", "willRetry"),
}
_KNOWN = frozenset(str(member.__struct_config__.tag) for member in Event.__args__)
_native: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Finding(msgspec.Struct, frozen=True):
    """A rule that a stream breaks, and where."""

    line: int
    rule: str
    text: str


class Dialect(msgspec.Struct, frozen=True):
    """A column of the table of dialects."""

    snapshots: Literal["never", "always", "either"] = "never"
    queue_event: str = "queue_update"
    settles: bool = True
    is_native: bool = False
    leaves_tools_open: bool = False
    succeeds_anyway: bool = False


DIALECTS = {
    "native": Dialect(queue_event="session_action_update", is_native=True),
    "base-context": Dialect(snapshots="either", queue_event="session_action_update", settles=False),
    "prime-agent": Dialect(
        snapshots="always",
        queue_event="session_action_update",
        settles=False,
        leaves_tools_open=True,
        succeeds_anyway=True,
    ),
    "selesai": Dialect(succeeds_anyway=True),
    "pi": Dialect(succeeds_anyway=True),
}


def check_stream(
    lines: Iterable[bytes], dialect: str = "native", exit_status: int | None = None, is_filtered: bool = False
) -> list[Finding]:
    """What is wrong with the stream. `lines` are those of a binary file, with newlines; `dialect` is one of DIALECTS.

    A filtered stream shows some sessions of the tree only: its numbers may skip, and children may be missing.
    """
    checker = StreamChecker(DIALECTS[dialect], is_filtered)
    found = [finding for line in lines for finding in checker.feed(line)]
    return found + checker.end(exit_status)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@attrs.define
class _Block:
    """A content block of the open message: its deltas, then the content of its end."""

    kind: str
    parts: list[str] = attrs.field(factory=list)
    is_open: bool = True

    def differs(self, content: Any, is_native: bool) -> bool:
        """Whether the deltas do not join to this content: a string, or a tool call."""
        joined = "".join(self.parts)
        if self.kind != "toolcall":
            return bool(joined != content) and (is_native or bool(self.parts))
        arguments = _dict(content).get("arguments")
        if not joined.strip():
            return is_native and arguments != {}
        try:
            sent = msgspec.json.decode(joined)
        except (msgspec.DecodeError, RecursionError):
            sent = None
        if isinstance(sent, dict):
            return bool(sent != arguments)
        return is_native and (arguments != {} or "argumentsError" not in content)

    def content_of(self, block: dict[str, Any]) -> Any:
        """What of a message's block stands against this one; None where the kinds differ."""
        if block.get("type") != {"toolcall": "toolCall"}.get(self.kind, self.kind):
            return None
        return block if self.kind == "toolcall" else block.get(self.kind)


@attrs.define
class _Message:
    line: int
    role: str
    id: int | None
    first: dict[str, Any]
    blocks: dict[int, _Block] = attrs.field(factory=dict)


@attrs.define
class _Call:
    place: int
    started: int = 0
    is_ended: bool = False
    is_answered: bool = False


@attrs.define
class _Session:
    """What is open in one session, and the rules of its brackets. Lines are numbers; 0 means closed."""

    checker: "StreamChecker"
    dialect: Dialect
    id: str = ""
    parent: str | None = None
    depth: int = 0
    has_header: bool = False
    agent: int = 0
    turn: int = 0
    message: _Message | None = None
    messages: int = 0
    loop_messages: int = 0
    answer: dict[str, Any] | None = None
    calls: dict[str, _Call] = attrs.field(factory=dict)
    results: list[str] = attrs.field(factory=list)
    stop_reason: str = ""
    owes_retry: int = 0
    retry: int = 0
    attempt: int = 0
    compaction: int = 0
    run: int = 0
    run_line: int = 0
    outcome: str | None = None
    has_run: bool = False
    is_settled: bool = False
    late: int = 0
    children: list[str] = attrs.field(factory=list)

    def say(self, rule: str, text: str, line: int = 0) -> None:
        self.checker.say(rule, text, line)

    def take(self, kind: str, event: dict[str, Any], line: int) -> None:
        if self.owes_retry and kind in _OF_A_RUN and kind != "auto_retry_start":
            self.say("retry", f"{kind} comes before the auto_retry_start that line {self.owes_retry} promised")
            self.owes_retry = 0
        if self.is_settled:
            self._after_settled(kind, event, line)
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event, line)

    def _after_settled(self, kind: str, event: dict[str, Any], line: int) -> None:
        if kind in _BEGIN_A_RUN:
            self.is_settled, self.late = False, 0
        elif kind in _OF_A_RUN and _dict(event.get("message")).get("role") != "bashExecution":
            self.say("after-settled", f"{kind} after agent_settled, with no run between them")
        elif kind not in _BOOKKEEPING and kind in _KNOWN:
            self.late = self.late or line

    def _on_agent_start(self, event: dict[str, Any], line: int) -> None:
        if self.agent:
            self.say("agent", f"agent_start inside of the loop of line {self.agent}")
        self.agent, self.has_run, self.loop_messages = line, True, 0

    def _on_agent_end(self, event: dict[str, Any], line: int) -> None:
        if not self.agent:
            self.say("agent", "agent_end without agent_start")
        if inner := self.turn or (self.message.line if self.message else 0):
            self.say("agent", f"agent_end before the turn or message of line {inner} has ended")
        if self.dialect.is_native and len(_list(event.get("messages"))) != self.loop_messages:
            self.say("agent", f"agent_end names {len(_list(event.get('messages')))} messages of {self.loop_messages}")
        if self.dialect.settles and not isinstance(event.get("willRetry"), bool):
            self.say("shape", "agent_end says nothing about willRetry")
        if not self.dialect.settles and "willRetry" in event:
            self.say("dialect", "this dialect has no willRetry")
        self.agent = 0
        self.owes_retry = line if event.get("willRetry") is True else 0

    def _on_turn_start(self, event: dict[str, Any], line: int) -> None:
        if not self.agent:
            self.say("turn", "turn_start outside of agent_start … agent_end")
        if self.turn:
            self.say("turn", f"turn_start inside of the turn of line {self.turn}")
        if self.message:
            self.say("turn", f"turn_start before the message of line {self.message.line} has ended")
        self.turn, self.answer, self.calls, self.results = line, None, {}, []

    def _on_turn_end(self, event: dict[str, Any], line: int) -> None:
        if not self.turn:
            self.say("turn", "turn_end without turn_start")
        if self.message:
            self.say("turn", f"turn_end before the message of line {self.message.line} has ended")
        self._no_tool_is_open("turn_end")
        missing = [call for call, state in self.calls.items() if not state.is_answered]
        if missing and self.stop_reason == "toolUse":
            self.say("tool-result", f"the turn ends without the results of {missing}")
        told = [_dict(result).get("toolCallId") for result in _list(event.get("toolResults"))]
        if told != self.results:
            self.say("tool-result", f"turn_end names the results {told}, the turn had {self.results}")
        if self.dialect.is_native and self.answer is not None and event.get("message") != self.answer:
            self.say("turn", "the message of turn_end is not the turn's answer")
        self.turn, self.answer, self.calls, self.results = 0, None, {}, []

    def _on_message_start(self, event: dict[str, Any], line: int) -> None:
        message = _dict(event.get("message"))
        role, number = str(message.get("role")), event.get("messageId")
        if self.message:
            self.say("message", f"message_start inside of the message of line {self.message.line}")
        if not (self.turn if role in {"assistant", "toolResult"} else self.agent or role == "bashExecution"):
            self.say("message", f"a message of {role} outside of a turn or loop")
        if self.dialect.leaves_tools_open and role == "assistant":
            self.calls, self.results = {}, []
        self._no_tool_is_open("message_start")
        if role == "assistant":
            if self.dialect.is_native and self.answer is not None:
                self.say("message", "a second answer in one turn")
            self._number(number)
        elif role == "toolResult":
            self._result(str(message.get("toolCallId")))
        self.message = _Message(line, role, number if role == "assistant" else None, message)

    def _number(self, number: Any) -> None:
        if number is None and not self.dialect.is_native:
            return
        if number != self.messages + 1:
            self.say("message-id", f"expected messageId {self.messages + 1}, found {number!r}")
        self.messages = number if isinstance(number, int) else self.messages + 1

    def _result(self, call: str) -> None:
        state = self.calls.get(call)
        if state is None or state.is_answered:
            self.say("tool-result", f"the result of {call}, which {'has one' if state else 'was not called'}")
            return
        if any(other.is_answered and other.place > state.place for other in self.calls.values()):
            self.say("tool-result", f"the result of {call} comes after that of a later call")
        state.is_answered = True
        self.results.append(call)

    def _on_message_update(self, event: dict[str, Any], line: int) -> None:
        self._snapshots(event)
        if self.message is None or self.message.role != "assistant":
            self.say("message", "message_update outside of an assistant message")
            return
        if event.get("messageId") != self.message.id:
            self.say("message-id", f"expected messageId {self.message.id}, found {event.get('messageId')!r}")
        update = _dict(event.get("assistantMessageEvent"))
        kind, _, step = str(update.get("type")).partition("_")
        if kind not in {"text", "thinking", "toolcall"} or step not in {"start", "delta", "end"}:
            return
        place, blocks = update.get("contentIndex"), self.message.blocks
        block = blocks.get(place) if isinstance(place, int) else None
        if step == "start":
            if not isinstance(place, int) or place <= max(blocks, default=-1):
                self.say("block", f"{kind}_start at contentIndex {place!r}, where a block has been")
            else:
                blocks[place] = _Block(kind)
        elif block is None or not block.is_open or block.kind != kind:
            self.say("block", f"{kind}_{step} at contentIndex {place!r}, where no {kind} block is open")
        elif step == "delta":
            block.parts.append(str(update.get("delta")))
        else:
            block.is_open = False
            if block.differs(update.get("toolCall" if kind == "toolcall" else "content"), self.dialect.is_native):
                self.say("block", f"the deltas at contentIndex {place} do not join to what {kind}_end says")

    def _snapshots(self, event: dict[str, Any]) -> None:
        wanted = self.dialect.snapshots
        if wanted == "either":
            wanted = "never" if self.message and self.message.id is not None else "always"
        if wanted == "always" and "message" not in event:
            self.say("dialect", "expected a message_update with the message so far")
        if wanted == "never" and ("message" in event or "partial" in _dict(event.get("assistantMessageEvent"))):
            self.say("dialect", "expected a message_update without message and partial")

    def _on_message_end(self, event: dict[str, Any], line: int) -> None:
        opened, self.message = self.message, None
        self.loop_messages += 1
        message = _dict(event.get("message"))
        role = str(message.get("role"))
        if opened is None or opened.role != role:
            self.say("message", f"message_end of {role} without its message_start")
            return
        if role != "assistant":
            if message != opened.first:
                self.say("message", f"message_end shows another message than line {opened.line}")
            return
        if event.get("messageId") != opened.id:
            self.say("message-id", f"expected messageId {opened.id}, found {event.get('messageId')!r}")
        self.stop_reason = str(message.get("stopReason"))
        self._content(opened, _list(message.get("content")), self.stop_reason in {"error", "aborted", "length"})
        self.answer = message
        calls = [_dict(block) for block in _list(message.get("content")) if _dict(block).get("type") == "toolCall"]
        self.calls = {str(call.get("id")): _Call(place) for place, call in enumerate(calls)}

    def _content(self, opened: _Message, content: list[Any], is_cut: bool) -> None:
        for place, block in opened.blocks.items():
            final = block.content_of(_dict(content[place])) if place < len(content) else None
            if block.is_open and not is_cut:
                self.say("block", f"message_end while the {block.kind} block at contentIndex {place} is open")
            elif (final is None and is_cut) or (block.is_open and block.kind == "toolcall"):
                continue
            elif final is None or block.differs(final, self.dialect.is_native):
                self.say("block", f"message_end has another content at contentIndex {place} than the updates")
        if opened.blocks and not is_cut and len(content) != len(opened.blocks):
            self.say("block", f"message_end has {len(content)} content blocks, the updates had {len(opened.blocks)}")

    def _on_tool_execution_start(self, event: dict[str, Any], line: int) -> None:
        name = str(event.get("toolCallId"))
        call = self.calls.get(name)
        if self.message or not self.turn:
            self.say("tool", "tool_execution_start inside of a message or outside of a turn")
        if call is None or call.started or self.stop_reason == "error":
            why = "has started before" if call and call.started else "was not called by a good answer"
            self.say("tool", f"{name} starts, but {why}")
            return
        if any(other.started and other.place > call.place for other in self.calls.values()):
            self.say("tool", f"{name} starts after a later call")
        if self.results:
            self.say("tool", f"{name} starts after the first result")
        call.started = line

    def _on_tool_execution_update(self, event: dict[str, Any], line: int, what: str = "update") -> None:
        call = self.calls.get(str(event.get("toolCallId")))
        if call is None or not call.started or call.is_ended:
            self.say("tool", f"tool_execution_{what} of {event.get('toolCallId')}, which does not run")
        elif what == "end":
            call.is_ended = True

    def _on_tool_execution_end(self, event: dict[str, Any], line: int) -> None:
        self._on_tool_execution_update(event, line, "end")

    def _no_tool_is_open(self, kind: str) -> None:
        running = [name for name, call in self.calls.items() if call.started and not call.is_ended]
        if running:
            self.say("tool", f"{kind} while {running} run")

    def _on_auto_retry_start(self, event: dict[str, Any], line: int) -> None:
        self._nothing_is_open("auto_retry_start", "retry")
        if self.dialect.settles and not self.owes_retry:
            self.say("retry", "auto_retry_start without an agent_end that says willRetry")
        expected = self.attempt + 1 if self.retry else 1
        if event.get("attempt") != expected:
            self.say("retry", f"expected attempt {expected}, found {event.get('attempt')!r}")
        self.attempt, self.retry, self.owes_retry = expected, line, 0

    def _on_auto_retry_end(self, event: dict[str, Any], line: int) -> None:
        if not self.retry:
            self.say("retry", "auto_retry_end without auto_retry_start")
        if event.get("success") is True and self.stop_reason == "error":
            self.say("retry", "auto_retry_end says success, and the last answer failed")
        if event.get("success") is False:
            self._nothing_is_open("auto_retry_end", "retry")
        self.retry = 0

    def _on_compaction_start(self, event: dict[str, Any], line: int) -> None:
        if self.compaction and self.dialect.is_native:
            self.say("compaction", f"compaction_start inside of the compaction of line {self.compaction}")
        self.compaction = line

    def _on_compaction_end(self, event: dict[str, Any], line: int) -> None:
        if not self.compaction and self.dialect.is_native:
            self.say("compaction", "compaction_end without compaction_start")
        self.compaction = 0

    def _on_run_settled(self, event: dict[str, Any], line: int) -> None:
        self._nothing_is_open("run_settled", "settle", self.retry or self.compaction)
        run = event.get("run")
        if self.run_line:
            self.say("settle", f"a second run_settled; line {self.run_line} waits for its agent_settled")
        if not isinstance(run, int) or run < 1 or (self.run and run != self.run + 1):
            self.say("settle", f"expected run {self.run + 1}, found {run!r}")
        self.run = run if isinstance(run, int) else self.run + 1
        self.run_line, self.outcome = line, str(event.get("outcome"))

    def _on_agent_settled(self, event: dict[str, Any], line: int) -> None:
        if not self.dialect.settles:
            self.say("dialect", "this dialect has no agent_settled")
        self._nothing_is_open("agent_settled", "settle", self.retry or self.compaction)
        outcome = event.get("outcome")
        if self.dialect.is_native:
            if not self.run_line:
                self.say("settle", "agent_settled without run_settled before it")
            elif outcome != self.outcome:
                self.say("settle", f"agent_settled says {outcome!r}, run_settled said {self.outcome!r}")
            if outcome == "aborted" and event.get("aborted") is not True:
                self.say("settle", "the outcome is aborted, and no abort was asked for")
            self.checker.children_are_settled(self.children)
        elif not self.has_run and not self.is_settled:
            self.say("settle", "agent_settled without a run")
        if not isinstance(event.get("aborted"), bool):
            self.say("shape", "agent_settled says nothing about aborted")
        self.is_settled, self.has_run, self.run_line, self.late = True, False, 0, 0
        self.retry = self.compaction = 0

    def _nothing_is_open(self, kind: str, rule: str, other: int = 0) -> None:
        if line := self.agent or other:
            self.say(
                rule, f"{kind} while {'the loop' if self.agent else 'the retry or compaction'} of line {line} is open"
            )

    def left_open(self) -> None:
        """Say what is open at the end of the stream, outermost first."""
        brackets = [("loop", self.agent), ("turn", self.turn), ("message", self.message.line if self.message else 0)]
        brackets += [(f"call {name}", call.started) for name, call in self.calls.items() if not call.is_ended]
        brackets += [("retry", self.owes_retry or self.retry), ("compaction", self.compaction)]
        still = [(name, line) for name, line in brackets if line]
        for name, line in still:
            self.say("left-open", f"the {name} has no end", line)
        if not still and self.dialect.settles and (self.has_run or self.run_line):
            self.say("terminal", f"the last run of session {self.id} has no agent_settled")
        if self.late and self.dialect.is_native:
            self.say("after-settled", "only bookkeeping may follow the last agent_settled", self.late)


@attrs.define
class _Child:
    """A child and the last run that its parent was told of. One that is older than the stream need not run in it."""

    line: int
    parent: str
    depth: int
    told_run: int = 0
    is_new: bool = True

    def is_untold(self, seen: _Session | None) -> bool:
        return self.told_run < (seen.run if seen else 0) or (self.is_new and not self.told_run)


@attrs.define
class StreamChecker:
    """Takes one line after the other; each call gives what it found."""

    dialect: Dialect = attrs.field(factory=lambda: DIALECTS["native"])
    is_filtered: bool = False
    _line: int = 0
    _seq: int = 0
    _began: str = ""
    _sessions: dict[str, _Session] = attrs.field(factory=dict)
    _children: dict[str, _Child] = attrs.field(factory=dict)
    _keys: set[int] = attrs.field(factory=set)
    _root: _Session | None = None
    _last_outcome: str | None = None
    _was_aborted: bool = False
    _found: list[Finding] = attrs.field(factory=list)

    def say(self, rule: str, text: str, line: int = 0) -> None:
        self._found.append(Finding(line or self._line, rule, text))

    def feed(self, line: bytes) -> list[Finding]:
        """Take the next line, its newline included."""
        self._line += 1
        event = self._parsed(line)
        if event is not None:
            self._take(str(event.get("type")), event)
        found, self._found = self._found, []
        return found

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        if not line.endswith(b"\n"):
            self.say("newline", "the line has no newline: it is torn")
        elif line.endswith(b"\r\n"):
            self.say("newline", "the line ends with CR LF; expected LF alone")
        if line.startswith(b"\xef\xbb\xbf"):
            self.say("json", "the line begins with a byte order mark")
            line = line[3:]
        if not line.strip():
            self.say("json", "a blank line")
            return None
        try:
            event = msgspec.json.decode(line if self.dialect.is_native else well_formed(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.say("json", f"expected one JSON object, found {line[:80]!r}: {error}")
            return None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            self.say("json", f"expected an object with a type, found {line[:80]!r}")
            return None
        self._shape(event["type"], event, line)
        return event

    def _shape(self, kind: str, event: dict[str, Any], line: bytes) -> None:
        missing = [name for name in _NEEDED.get(kind, ()) if name not in event]
        if missing:
            self.say("shape", f"{kind} without {missing}")
        elif self.dialect.is_native and kind not in _KNOWN:
            self.say("unknown-type", f"no event of ours has the type {kind!r}")
        elif self.dialect.is_native:
            try:
                _native.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                self.say("shape", f"{kind}: {error}")
        if kind in {"session_action_update", "queue_update"} and kind != self.dialect.queue_event:
            self.say("dialect", f"this dialect says {self.dialect.queue_event}, found {kind}")

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if self._root is None:
            if kind != "session":
                self.say("header", f"expected the root's header first, found {kind}")
            self._began = str(event.get("at", ""))
        session = self._tagged(kind, event) if self.dialect.is_native else self._alone(kind)
        if kind == "session":
            return
        if kind == "child_spawned":
            self._child_spawned(event, session)
        elif kind == "child_settled":
            self._child_settled(event, session)
        elif kind == "child_usage_attributed":
            self._attributed(event, session)
        session.take(kind, event, self._line)
        if session is self._root and kind == "agent_settled":
            self._last_outcome = str(event.get("outcome"))
            self._was_aborted = event.get("aborted") is True

    def _alone(self, kind: str) -> _Session:
        if self._root is not None and kind == "session":
            self.say("header", "a second header")
        self._root = self._root or self._sessions.setdefault("", _Session(self, self.dialect))
        return self._root

    def _tagged(self, kind: str, event: dict[str, Any]) -> _Session:
        name, seq, at = str(event.get("sessionId")), event.get("seq"), event.get("at")
        if "sessionId" not in event or type(seq) is not int or not _AT.fullmatch(str(at)):
            self.say("tags", f"expected sessionId, seq and at, found {event.get('sessionId')!r}, {seq!r}, {at!r}")
        if type(seq) is int:
            if seq <= self._seq or (seq != self._seq + 1 and not self.is_filtered):
                self.say("seq", f"expected seq {self._seq + 1}, found {seq}")
            self._seq = max(seq, self._seq)
        session = self._sessions.get(name)
        if session is None:
            session = _Session(self, self.dialect, name, event.get("parentSessionId"))
            session.depth = depth if type(depth := event.get("depth")) is int else 0
            self._sessions[name] = session
            if kind != "session" and self._root is not None:
                self.say("header", f"{kind} of session {name} before its header")
        self._root = self._root or session
        if kind == "session":
            self._header(event, session)
        if kind not in SHORT_TAGGED:
            tags = (event.get("rootSessionId"), event.get("depth"), event.get("parentSessionId"))
            if tags != (expected := (self._root.id, session.depth, session.parent)):
                self.say("tags", f"expected rootSessionId, depth and parentSessionId {expected}, found {tags}")
        return session

    def _header(self, event: dict[str, Any], session: _Session) -> None:
        if session.has_header:
            self.say("header", f"a second header of session {session.id}")
        session.has_header = True
        if event.get("id") != session.id:
            self.say("header", f"the header of {event.get('id')!r} is tagged {session.id!r}")
        if session is self._root:
            if session.depth or session.parent is not None:
                self.say("header", "the first header is not the root's")
            return
        child, parent = self._children.get(session.id), self._sessions.get(session.parent or "")
        if child is not None and (child.parent, child.depth) != (session.parent, session.depth):
            self.say("child", f"the header disagrees with the child_spawned of line {child.line}")
        elif self.is_filtered:
            return
        elif child is None:
            is_new = str(event.get("timestamp")) >= self._began  # an older child was spawned in another stream
            if is_new:
                self.say("child", f"the header of child {session.id} comes before its child_spawned")
            self._children[session.id] = _Child(self._line, session.parent or "", session.depth, is_new=is_new)
            if parent is not None:
                parent.children.append(session.id)
        if parent is None or parent.depth + 1 != session.depth:
            self.say("child", f"expected a child one level below {session.parent}, found depth {session.depth}")

    def _child_spawned(self, event: dict[str, Any], session: _Session) -> None:
        name = str(event.get("childSessionId"))
        if name in self._children or (name in self._sessions and self._sessions[name].has_header):
            self.say("child", f"{name} is spawned a second time, or after its header")
        if event.get("childDepth") != session.depth + 1:
            self.say("child", f"expected childDepth {session.depth + 1}, found {event.get('childDepth')!r}")
        if name not in self._children:
            self._children[name] = _Child(self._line, session.id, session.depth + 1)
            session.children.append(name)

    def _child_settled(self, event: dict[str, Any], session: _Session) -> None:
        name, run, outcome = str(event.get("childSessionId")), event.get("run"), event.get("outcome")
        seen = self._sessions.get(name)
        child = self._children.setdefault(name, _Child(self._line, session.id, session.depth + 1))
        if child.parent != session.id or (seen is None and child.line == self._line and not self.is_filtered):
            self.say("child", f"child_settled of {name}, which is no child of {session.id}")
        if not isinstance(run, int) or run <= child.told_run:
            self.say("child", f"a second child_settled of {name}, run {run!r}")
        elif seen is None:
            if outcome != "lost" and not self.is_filtered:
                self.say("child", f"{name} has ended {outcome!r} without an agent_settled")
        elif not seen.is_settled or (run, outcome) != (seen.run, seen.outcome):
            self.say("child", f"expected agent_settled of {name}, run {run}, {outcome!r} before this line")
        child.told_run = run if isinstance(run, int) else child.told_run + 1

    def children_are_settled(self, names: list[str]) -> None:
        """Say which of these children run, or have ended without their parent's having been told."""
        for name in names:
            seen = self._sessions.get(name)
            is_running = seen is not None and (seen.has_run or seen.run_line > 0)
            if is_running or (self._children[name].is_untold(seen) and not (self.is_filtered and seen is None)):
                self.say("child", f"agent_settled before the child_settled of {name}")

    def _attributed(self, event: dict[str, Any], session: _Session) -> None:
        origin, entry = event.get("originSessionId"), event.get("originEntryId")
        through = self._sessions.get(str(event.get("childSessionId")))
        if not isinstance(origin, str) or not isinstance(entry, str):
            self.say("attribution", "an attribution without its key")
            return
        if origin == session.id or (through is not None and through.parent != session.id):
            self.say("attribution", f"{origin} is billed to {session.id} through no child of it")
        key = hash((session.id, origin, entry))
        if key in self._keys:
            self.say("attribution", f"{origin}/{entry} is attributed to {session.id} a second time")
        self._keys.add(key)

    def end(self, exit_status: int | None = None) -> list[Finding]:
        """What is open or missing, now that the stream has ended, and whether the exit status agrees."""
        self._line = max(self._line, 1)
        if self._root is None:
            if exit_status not in STARTUP_FAILURES:
                self.say("header", "the stream is empty")
        else:
            for session in self._sessions.values():
                if exit_status != READER_LEFT:
                    session.left_open()
            if self.dialect.is_native and exit_status != READER_LEFT:
                if self._last_outcome is None and not self._found:
                    self.say("terminal", "the root has no agent_settled")
                self._children_told()
            self._exit_status(exit_status, self._root)
        found, self._found = self._found, []
        return found

    def _children_told(self) -> None:
        for name, child in self._children.items():
            seen = self._sessions.get(name)
            if child.is_untold(seen) and not (self.is_filtered and seen is None):
                self.say("child", f"child {name} has no child_settled", child.line)

    def _exit_status(self, status: int | None, root: _Session) -> None:
        if status is None or status == READER_LEFT:
            return
        ending = self._last_outcome
        if self.dialect.is_native:
            is_wrong = status in EXIT_OUTCOMES and ending not in EXIT_OUTCOMES[status]
            is_wrong = is_wrong or status == 2 or (status in SIGNAL_STATUSES and not self._was_aborted)
        else:
            ending = root.stop_reason
            has_failed = ending in {"error", "aborted"} and not self.dialect.succeeds_anyway
            is_wrong = status == 0 and (bool(root.agent) or has_failed)
        if is_wrong:
            self.say("exit-status", f"the root ended {ending!r}, and the exit status is {status}")
