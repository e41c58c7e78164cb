"""Whether a stream of JSON lines keeps the rules of its dialect: form, tags, order and pairing, one end, exit status.

The checker reads line by line and remembers what is open, one small row per session, and a hash per attribution. A type
that it does not know is found in the native dialect only (`unknown-type`, a matter of versions: a warning); peers have
more types than their pages name. Another dialect is tagged where the whole tree is shown in it; it has no line for some events,
so that numbers are missing. Two liberties are real peers': pi ends a compaction that it did not start, Prime Agent
leaves a tool without an end.
"""

import re
from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from store.brackets import Brackets, MessageCount
from store.dialects import DIALECTS, Dialect
from store.events import Event
from store.kinds import KNOWN
from store.lines import SHORT_TAGGED
from store.records import well_formed

EXIT_OUTCOMES = {0: {"completed"}, 1: {"completed", "failed", "aborted", "lost"}, 3: {"limit_reached", "timed_out"}}
SIGNAL_STATUSES = frozenset({129, 130, 143})
READER_LEFT = 141
STARTUP_FAILURES = frozenset({1, 2, 4})

_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
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
_native: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Finding(msgspec.Struct, frozen=True):
    """A rule that a stream breaks, and where."""

    line: int
    rule: str
    text: str


def check_stream(
    lines: Iterable[bytes], dialect: str = "native", exit_status: int | None = None, is_filtered: bool = False
) -> list[Finding]:
    """What is wrong with the stream. `lines` are those of a binary file, with newlines; `dialect` is one of DIALECTS.

    A filtered stream shows some sessions of the tree only: its numbers may skip, and children may be missing.
    """
    checker = StreamChecker(DIALECTS[dialect], is_filtered)
    found = [finding for line in lines for finding in checker.feed(line)]
    return found + checker.end(exit_status)


@attrs.define
class _Child:
    """A child and the last run that its parent was told of. One that is older than the stream need not run in it."""

    line: int
    parent: str
    depth: int
    told_run: int = 0
    is_new: bool = True

    def is_untold(self, seen: Brackets | None) -> bool:
        return self.told_run < (seen.run if seen else 0) or (self.is_new and not self.told_run)


@attrs.define
class StreamChecker:
    """Takes one line after the other; each call gives what it found. `line`: the number of the last one."""

    dialect: Dialect = attrs.field(factory=lambda: DIALECTS["native"])
    is_filtered: bool = False
    line: int = 0
    _seq: int = 0
    _began: str = ""
    _is_tagged: bool = False
    _messages: MessageCount = attrs.field(factory=MessageCount)
    _sessions: dict[str, Brackets] = attrs.field(factory=dict)
    _children: dict[str, _Child] = attrs.field(factory=dict)
    _keys: set[int] = attrs.field(factory=set)
    _root: Brackets | None = None
    _last_outcome: str | None = None
    _was_aborted: bool = False
    _found: list[Finding] = attrs.field(factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether an event has come."""
        return self._root is not None

    def say(self, rule: str, text: str, line: int = 0) -> None:
        self._found.append(Finding(line or self.line, rule, text))

    def feed(self, line: bytes) -> list[Finding]:
        """Take the next line, its newline included."""
        self.line += 1
        event = self._parsed(line)
        if event is not None:
            self._take(str(event.get("type")), event)
        found, self._found = self._found, []
        return found

    def pass_over(self, why: str) -> list[Finding]:
        """There is a next line, and it cannot be taken."""
        self.line += 1
        return [Finding(self.line, "unread", why)]

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
        elif self.dialect.is_native and kind not in KNOWN:
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
            self._is_tagged = self.dialect.is_native or "sessionId" in event
        session = self._tagged(kind, event) if self._is_tagged else self._alone(kind)
        if kind == "session":
            return
        if kind == "child_spawned":
            self._child_spawned(event, session)
        elif kind == "child_settled":
            self._child_settled(event, session)
        elif kind == "child_usage_attributed":
            self._attributed(event, session)
        session.take(kind, event, self.line)
        if session is self._root and kind == "agent_settled":
            self._last_outcome = str(event.get("outcome"))
            self._was_aborted = event.get("aborted") is True

    def _alone(self, kind: str) -> Brackets:
        if self._root is not None and kind == "session":
            self.say("header", "a second header")
        self._root = self._root or self._sessions.setdefault("", Brackets(self, self.dialect))
        return self._root

    def _tagged(self, kind: str, event: dict[str, Any]) -> Brackets:
        name, seq, at = str(event.get("sessionId")), event.get("seq"), event.get("at")
        if "sessionId" not in event or type(seq) is not int or not _AT.fullmatch(str(at)):
            self.say("tags", f"expected sessionId, seq and at, found {event.get('sessionId')!r}, {seq!r}, {at!r}")
        if type(seq) is int:
            is_gapless = self.dialect.is_native and not self.is_filtered
            if seq <= self._seq or (seq != self._seq + 1 and is_gapless):
                self.say("seq", f"expected seq {self._seq + 1}, found {seq}")
            self._seq = max(seq, self._seq)
        session = self._sessions.get(name)
        if session is None:
            count = MessageCount() if self.dialect.is_native else self._messages
            session = Brackets(self, self.dialect, name, event.get("parentSessionId"), messages=count)
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

    def _header(self, event: dict[str, Any], session: Brackets) -> None:
        if session.has_header:
            self.say("header", f"a second header of session {session.id}")
        session.has_header = True
        session.is_older = str(event.get("timestamp")) < self._began
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
            is_new = not session.is_older  # an older child was spawned in another stream
            if is_new and not (self._root and self._root.is_older):
                self.say("child", f"the header of child {session.id} comes before its child_spawned")
            self._children[session.id] = _Child(self.line, session.parent or "", session.depth, is_new=is_new)
            if parent is not None:
                parent.children.append(session.id)
        if parent is None or parent.depth + 1 != session.depth:
            self.say("child", f"expected a child one level below {session.parent}, found depth {session.depth}")

    def _child_spawned(self, event: dict[str, Any], session: Brackets) -> None:
        name = str(event.get("childSessionId"))
        if name in self._children or (name in self._sessions and self._sessions[name].has_header):
            self.say("child", f"{name} is spawned a second time, or after its header")
        if event.get("childDepth") != session.depth + 1:
            self.say("child", f"expected childDepth {session.depth + 1}, found {event.get('childDepth')!r}")
        if name not in self._children:
            self._children[name] = _Child(self.line, session.id, session.depth + 1)
            session.children.append(name)

    def _child_settled(self, event: dict[str, Any], session: Brackets) -> None:
        name, run, outcome = str(event.get("childSessionId")), event.get("run"), event.get("outcome")
        seen = self._sessions.get(name)
        child = self._children.setdefault(name, _Child(self.line, session.id, session.depth + 1))
        if child.parent != session.id or (seen is None and child.line == self.line and not self.is_filtered):
            self.say("child", f"child_settled of {name}, which is no child of {session.id}")
        if not isinstance(run, int) or run <= child.told_run:
            self.say("child", f"a second child_settled of {name}, run {run!r}")
        elif seen is None:
            if outcome != "lost" and not self.is_filtered:
                self.say("child", f"{name} has ended {outcome!r} without an agent_settled")
        elif self.dialect.is_native and seen.untold.pop(run, None) != outcome:
            self.say("child", f"expected agent_settled of {name}, run {run}, {outcome!r} before this line")
        child.told_run = run if isinstance(run, int) else child.told_run + 1

    def children_are_settled(self, names: list[str]) -> None:
        """Say which of these children run, or have ended without their parent's having been told."""
        for name in names:
            seen = self._sessions.get(name)
            is_running = seen is not None and (seen.has_run or seen.run_line > 0)
            if is_running or (self._children[name].is_untold(seen) and not (self.is_filtered and seen is None)):
                self.say("child", f"agent_settled before the child_settled of {name}")

    def _attributed(self, event: dict[str, Any], session: Brackets) -> None:
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
        is_empty = self.line == 0
        self.line = max(self.line, 1)
        if self._root is None:
            if exit_status not in STARTUP_FAILURES:
                self.say("header", "the stream is empty" if is_empty else "no line of the stream is an event")
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

    def _exit_status(self, status: int | None, root: Brackets) -> None:
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
