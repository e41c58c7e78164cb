"""The rules of one session in a stream: what is open, what may come inside of what, what ends it."""

from typing import Any, Protocol

import attrs

from store.blocks import OpenCall, OpenMessage, as_dict, as_list
from store.dialects import Dialect
from store.kinds import BEGIN_A_RUN, KNOWN, OF_A_RUN, is_bookkeeping


class Checker(Protocol):
    """Who is told what a session finds."""

    def say(self, rule: str, text: str, line: int = 0) -> None: ...

    def children_are_settled(self, names: list[str]) -> None: ...


@attrs.define
class MessageCount:
    """How many answers have begun: in one session of a native stream, else in the whole stream."""

    begun: int = 0


@attrs.define
class Brackets:
    """What is open in one session, and the rules of its brackets. Lines are numbers; 0 means closed."""

    checker: Checker
    dialect: Dialect
    id: str = ""
    parent: str | None = None
    depth: int = 0
    has_header: bool = False
    is_older: bool = False
    """It began in another stream: calls of its last answer there may get their results here."""
    agent: int = 0
    turn: int = 0
    message: OpenMessage | None = None
    messages: MessageCount = attrs.field(factory=MessageCount)
    loop_messages: int = 0
    answer: dict[str, Any] | None = None
    calls: dict[str, OpenCall] = attrs.field(factory=dict)
    results: list[str] = attrs.field(factory=list)
    stop_reason: str = ""
    owes_retry: int = 0
    retry: int = 0
    attempt: int = 0
    compaction: int = 0
    gate: int = 0
    failed_gate: int = 0
    run: int = 0
    run_line: int = 0
    outcome: str | None = None
    has_run: bool = False
    is_settled: bool = False
    late: int = 0
    children: list[str] = attrs.field(factory=list)
    untold: dict[int, str] = attrs.field(factory=dict)
    """The outcomes of the runs that have ended and that the parent was not told of yet: the next may begin before that."""

    def say(self, rule: str, text: str, line: int = 0) -> None:
        self.checker.say(rule, text, line)

    def take(self, kind: str, event: dict[str, Any], line: int) -> None:
        if self.owes_retry and kind in OF_A_RUN and kind != "auto_retry_start":
            self.say("retry", f"{kind} comes before the auto_retry_start that line {self.owes_retry} promised")
            self.owes_retry = 0
        if self.is_settled:
            self._after_settled(kind, event, line)
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event, line)

    def _after_settled(self, kind: str, event: dict[str, Any], line: int) -> None:
        if kind in BEGIN_A_RUN:
            self.is_settled, self.late = False, 0
        elif kind in OF_A_RUN and as_dict(event.get("message")).get("role") != "bashExecution":
            self.say("after-settled", f"{kind} after agent_settled, with no run between them")
        elif kind in KNOWN and not is_bookkeeping(kind, event):
            self.late = self.late or line

    def _on_agent_start(self, event: dict[str, Any], line: int) -> None:
        if self.gate:
            self.say("gate", f"agent_start before the gate of line {self.gate} has ended")
        if self.agent:
            self.say("agent", f"agent_start inside of the loop of line {self.agent}")
        self.agent, self.has_run, self.loop_messages, self.failed_gate = line, True, 0, 0

    def _on_agent_end(self, event: dict[str, Any], line: int) -> None:
        if not self.agent:
            self.say("agent", "agent_end without agent_start")
        if inner := self.turn or (self.message.line if self.message else 0):
            self.say("agent", f"agent_end before the turn or message of line {inner} has ended")
        if self.dialect.is_native and len(as_list(event.get("messages"))) != self.loop_messages:
            self.say("agent", f"agent_end names {len(as_list(event.get('messages')))} messages of {self.loop_messages}")
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
        told = [as_dict(result).get("toolCallId") for result in as_list(event.get("toolResults"))]
        if told != self.results:
            self.say("tool-result", f"turn_end names the results {told}, the turn had {self.results}")
        if self.dialect.is_native and self.answer is not None and event.get("message") != self.answer:
            self.say("turn", "the message of turn_end is not the turn's answer")
        self.turn, self.answer, self.calls, self.results = 0, None, {}, []

    def _on_message_start(self, event: dict[str, Any], line: int) -> None:
        message = as_dict(event.get("message"))
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
        self.message = OpenMessage(line, role, number if role == "assistant" else None, message)

    def _number(self, number: Any) -> None:
        if number is None and not self.dialect.is_native:
            return
        expected = self.messages.begun + 1
        if number != expected:
            self.say("message-id", f"expected messageId {expected}, found {number!r}")
        self.messages.begun = number if isinstance(number, int) else expected

    def _result(self, call: str) -> None:
        state = self.calls.get(call)
        if state is None and self.is_older and not self.messages.begun:
            state = self.calls[call] = OpenCall(len(self.calls))
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
        if fault := self.message.update(as_dict(event.get("assistantMessageEvent")), self.dialect.is_native):
            self.say("block", fault)

    def _snapshots(self, event: dict[str, Any]) -> None:
        wanted = self.dialect.snapshots
        if wanted == "either":
            wanted = "never" if self.message and self.message.id is not None else "always"
        if wanted == "always" and "message" not in event:
            self.say("dialect", "expected a message_update with the message so far")
        if wanted == "never" and ("message" in event or "partial" in as_dict(event.get("assistantMessageEvent"))):
            self.say("dialect", "expected a message_update without message and partial")

    def _on_message_end(self, event: dict[str, Any], line: int) -> None:
        opened, self.message = self.message, None
        self.loop_messages += 1
        message = as_dict(event.get("message"))
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
        is_cut = self.stop_reason in {"error", "aborted", "length"}
        for fault in opened.ended(as_list(message.get("content")), is_cut, self.dialect.is_native):
            self.say("block", fault)
        self.answer = message
        calls = [
            as_dict(block) for block in as_list(message.get("content")) if as_dict(block).get("type") == "toolCall"
        ]
        self.calls = {str(call.get("id")): OpenCall(place) for place, call in enumerate(calls)}

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

    def _on_gate_start(self, event: dict[str, Any], line: int) -> None:
        """Gates are the root's, between its loops."""
        self._nothing_is_open("gate_start", "gate", self.retry or self.gate)
        if self.parent is not None:
            self.say("gate", "a gate of a child")
        self.gate = line

    def _on_gate_end(self, event: dict[str, Any], line: int) -> None:
        if not self.gate:
            self.say("gate", "gate_end without gate_start")
        self.gate, self.failed_gate = 0, 0 if event.get("passed") is True else line

    def _on_run_settled(self, event: dict[str, Any], line: int) -> None:
        self._nothing_is_open("run_settled", "settle", self.retry or self.compaction or self.gate)
        run = event.get("run")
        if self.run_line:
            self.say("settle", f"a second run_settled; line {self.run_line} waits for its agent_settled")
        if not isinstance(run, int) or run < 1 or (self.run and run != self.run + 1):
            self.say("settle", f"expected run {self.run + 1}, found {run!r}")
        self.run = run if isinstance(run, int) else self.run + 1
        self.run_line, self.outcome = line, str(event.get("outcome"))
        if self.failed_gate and self.outcome == "completed":
            self.say("gate", f"the run is completed, and the gate of line {self.failed_gate} has not passed")
        self.failed_gate = 0

    def _on_agent_settled(self, event: dict[str, Any], line: int) -> None:
        if not self.dialect.settles:
            self.say("dialect", "this dialect has no agent_settled")
        self._nothing_is_open("agent_settled", "settle", self.retry or self.compaction or self.gate)
        outcome = event.get("outcome")
        if self.dialect.is_native:
            if not self.run_line:
                self.say("settle", "agent_settled without run_settled before it")
            elif outcome != self.outcome:
                self.say("settle", f"agent_settled says {outcome!r}, run_settled said {self.outcome!r}")
            if outcome == "aborted" and event.get("aborted") is not True:
                self.say("settle", "the outcome is aborted, and no abort was asked for")
            if self.parent is not None:
                self.untold[self.run] = str(outcome)
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
                rule,
                f"{kind} while {'the loop' if self.agent else 'the retry, compaction or gate'} of line {line} is open",
            )

    def left_open(self) -> None:
        """Say what is open at the end of the stream, outermost first."""
        brackets = [("loop", self.agent), ("turn", self.turn), ("message", self.message.line if self.message else 0)]
        brackets += [(f"call {name}", call.started) for name, call in self.calls.items() if not call.is_ended]
        brackets += [("retry", self.owes_retry or self.retry), ("compaction", self.compaction), ("gate", self.gate)]
        still = [(name, line) for name, line in brackets if line]
        for name, line in still:
            self.say("left-open", f"the {name} has no end", line)
        if not still and self.dialect.settles and (self.has_run or self.run_line):
            self.say("terminal", f"the last run of session {self.id} has no agent_settled")
        if self.late and self.dialect.is_native:
            self.say("after-settled", "only bookkeeping may follow the last agent_settled", self.late)
