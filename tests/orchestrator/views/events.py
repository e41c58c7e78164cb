"""Streams for tests of what folds them: a tree told event by event."""

from typing import Any

import attrs
import msgspec

from orchestrator.views.live import LiveTree
from orchestrator.views.rows import AgentRow
from store.entries import (
    AgentStatusEntry,
    ChildSettledEntry,
    ChildSpawnedEntry,
    ChildUsageAttributedEntry,
    GateEndEntry,
    Header,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
    UsageEntry,
)
from store.events import (
    AgentSettled,
    AgentStart,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Diagnostic,
    Event,
    GateStart,
    LimitReached,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Place,
    SessionActionUpdate,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
)
from store.lines import event_tail, tagged
from store.messages import AssistantMessage, Message, TextContent, ToolResultMessage, user_text
from store.times import iso
from store.usage import Price, Usage, priced, spend_of, usage_of
from store.wire import encode

BEGIN_S = 1_800_000_000.0
PRICE = Price(input=1_000_000, output=10_000_000, cache_read=100_000, cache_write=1_250_000)


@attrs.define(eq=False)
class Told:
    """A session of the stream: each method is something that happens to it."""

    stream: "Stream"
    place: Place
    name: str
    runs: int = 0
    said: int = 0
    calls: int = 0

    def _tell(self, *events: Event) -> "Told":
        for event in events:
            self.stream.tell(self.place, event)
        return self

    def begins(self, prompt: str = "go") -> "Told":
        return self._tell(AgentStart(), TurnStart())._said(user_text(prompt, 0))

    def thinks(self, text: str = "hm") -> "Told":
        return self._delta(ThinkingDelta(content_index=0, delta=text))

    def writes(self, text: str = "word ") -> "Told":
        return self._delta(TextDelta(content_index=0, delta=text))

    def _delta(self, delta: Any) -> "Told":
        return self._tell(MessageUpdate(message_id=self.said + 1, assistant_message_event=delta))

    def opens_answer(self) -> "Told":
        message = AssistantMessage(content=(), stop_reason="")
        return self._tell(MessageStart(message_id=self.said + 1, message=msgspec.Raw(encode(message))))

    def answers(
        self,
        text: str = "done",
        tokens: tuple[int, ...] = (100, 10, 0, 0),
        price: Price | None = PRICE,
        model: str = "test/model",
        error: str | None = None,
        *,
        is_folded: bool = True,
    ) -> "Told":
        """`is_folded`: its ancestors are told at once."""
        counts = Usage(
            input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3], total_tokens=sum(tokens)
        )
        usage = priced(counts, price, model)
        provider, _, name = model.partition("/")
        message = AssistantMessage(
            content=(TextContent(text=text),) if text else (),
            provider=provider,
            model=name,
            usage=usage,
            stop_reason="error" if error else "stop",
            error_message=error,
        )
        self.said += 1
        self._tell(MessageEnd(message_id=self.said, message=msgspec.Raw(encode(message))))
        self.stream.owed.append((self, f"{self.said:08x}", usage))
        return self.stream.fold_owed() or self if is_folded else self

    def uses_call_without_answer(self, usage: Usage) -> "Told":
        self.said += 1
        self._tell(UsageEntry(kind="status", provider="test", model="model", usage=usage))
        self.stream.owed.append((self, f"{self.said:08x}", usage))
        return self

    def calls_tool(self, name: str = "bash", **arguments: Any) -> "Told":
        self.calls += 1
        return self._tell(ToolExecutionStart(tool_call_id=f"call-{self.calls}", tool_name=name, args=arguments))

    def gets_result(self, call: int | None = None, text: str = "ok") -> "Told":
        call_id = f"call-{call or self.calls}"
        ended = ToolExecutionEnd(tool_call_id=call_id, tool_name="bash", result={}, is_error=False, duration_ms=1)
        result = ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=(TextContent(text=text),))
        return self._tell(ended)._said(result)

    def _said(self, message: Message) -> "Told":
        return self._tell(MessageEnd(message=msgspec.Raw(encode(message))))

    def retries(self, error: str = "overloaded", attempt: int = 1, of: int = 5, delay_ms: int = 8_000) -> "Told":
        return self._tell(AutoRetryStart(attempt=attempt, max_attempts=of, delay_ms=delay_ms, error_message=error))

    def starts_summary(self) -> "Told":
        return self._tell(CompactionStart(reason="threshold"))

    def has_summary(self) -> "Told":
        return self._tell(CompactionEnd(reason="threshold", result={"summary": "s"}, aborted=False, will_retry=False))

    def runs_gate(self, command: str) -> "Told":
        return self._tell(GateStart(command=command, attempt=1))

    def passes_gate(self, command: str) -> "Told":
        return self._tell(GateEndEntry(command=command, attempt=1, passed=True, result={}, duration_ms=1))

    def has_queued(self, count: int) -> "Told":
        return self._tell(SessionActionUpdate(actions={"queuedCount": count}))

    def is_called(self, name: str) -> "Told":
        return self._tell(SessionInfoEntry(name=name))

    def uses(self, model: str) -> "Told":
        provider, _, name = model.partition("/")
        return self._tell(ModelChangeEntry(provider=provider, model_id=name))

    def has_status(self, summary: str, task_state: str | None = None) -> "Told":
        status = {"summary": summary, "basedOnMessageCount": 1} | ({"taskState": task_state} if task_state else {})
        return self._tell(AgentStatusEntry(status=status))

    def is_archived(self) -> "Told":
        return self._tell(SessionStateEntry(state={"status": "archived"}))

    def notes(self, text: str) -> "Told":
        return self._tell(Diagnostic(level="warning", code="usage", text=text))

    def reaches(self, limit: str, allowed: float) -> "Told":
        event = LimitReached(limit=limit, value=allowed, allowed=allowed, holder_session_id=self.place.session_id)
        return self._tell(event)

    def spawns(self, name: str, prompt: str = "look", model: str = "test/haiku", **limits: Any) -> "Told":
        """The child is told of, and has not begun."""
        child = self.stream.session(name, self.place)
        self._tell(
            ChildSpawnedEntry(
                child_session_id=child.place.session_id,
                name=name,
                child_depth=child.place.depth,
                prompt=prompt,
                model=model,
                limits=limits,
            )
        )
        return child

    def settles(self, outcome: str = "completed", error: str | None = None) -> "Told":
        self.runs += 1
        self._tell(
            RunSettledEntry(run=self.runs, outcome=outcome, error_message=error),
            AgentSettled(aborted=outcome == "aborted", outcome=outcome),
        )
        parent = self.stream.sessions.get(self.place.parent_id or "")
        if parent is not None:
            parent._tell(
                ChildSettledEntry(
                    child_session_id=self.place.session_id, run=self.runs, outcome=outcome, error_message=error
                )
            )
        return self


@attrs.define(eq=False)
class Stream:
    """`events`: place, event, Unix seconds; a second passes with each. `owed`: billed and not yet told to ancestors."""

    now: float = BEGIN_S
    events: list[tuple[Place, Event, float]] = attrs.field(factory=list)
    sessions: dict[str, Told] = attrs.field(factory=dict)
    owed: list[tuple[Told, str, Usage]] = attrs.field(factory=list)

    def tell(self, place: Place, event: Event) -> None:
        self.now += 1
        self.events.append((place, event, self.now))

    def session(self, name: str, parent: Place | None = None) -> Told:
        session_id = f"0198f0aa-0000-7000-8000-{len(self.sessions) + 1:012d}"
        root = parent.root_id if parent else session_id
        place = Place(session_id, root, parent.session_id if parent else None, parent.depth + 1 if parent else 0)
        told = self.sessions[session_id] = Told(self, place, name)
        return told

    def root(self, name: str = "root") -> Told:
        told = self.session(name)
        header = Header(version=3, id=told.place.session_id, timestamp=iso(self.now), cwd="/work", name=name)
        return told._tell(header)

    def fold_owed(self) -> None:
        """The ledger's walk: every ancestor is told what was billed below it."""
        owed, self.owed = self.owed, []
        for told, entry, usage in owed:
            child, above = told, self.sessions.get(told.place.parent_id or "")
            while above is not None:
                above._tell(
                    ChildUsageAttributedEntry(
                        target_id=None,
                        child_usage=usage_of(spend_of(usage)),
                        origin_session_id=told.place.session_id,
                        origin_entry_id=entry,
                        child_session_id=child.place.session_id,
                        origin="spawn_task",
                    )
                )
                child, above = above, self.sessions.get(above.place.parent_id or "")

    def fold(self) -> LiveTree:
        fold = LiveTree()
        for place, event, at in self.events:
            fold.take(place, event, at)
        return fold

    def rows(self) -> list[AgentRow]:
        return self.fold().rows(self.now)

    def lines(self) -> list[bytes]:
        lines = []
        for seq, (place, event, at) in enumerate(self.events, start=1):
            kind, tail = event_tail(event)
            lines.append(tagged(tail, kind, place, seq, iso(at)))
        return lines
