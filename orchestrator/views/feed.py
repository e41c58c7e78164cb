"""The event feed: one line of text per event that people want to know of. Deltas never appear."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
import msgspec

from orchestrator.views.doing import first_argument
from orchestrator.views.money import money, spent_tokens, tokens
from orchestrator.views.states import state
from orchestrator.views.text import one_line
from store.entries import (
    AgentStatusEntry,
    ChildSettledEntry,
    ChildSpawnedEntry,
    GateEndEntry,
    ModelChangeEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
    UsageEntry,
)
from store.errors import BadRecord
from store.events import (
    AgentMessage,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Diagnostic,
    Event,
    GateStart,
    LimitReached,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from store.messages import AssistantMessage, CustomMessage, UserMessage, decode_message, text_of
from store.usage import Usage

FeedType = Literal["turns", "tools", "children", "messages", "money", "trouble"]
FEED_TYPES: tuple[FeedType, ...] = ("turns", "tools", "children", "messages", "money", "trouble")
_TEXT_CHARS = 300
_KIND_CHARS = 40


class FeedLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`kind`: a word or two; `word`: the state whose glyph and colour it has. Both texts are safe for a terminal."""

    type: FeedType
    kind: str
    word: str
    text: str


@attrs.define
class Feed:
    """The fold. It counts the turns of each session; `turns` may be seeded with what rows say."""

    turns: dict[str, int] = attrs.field(factory=dict)

    def take(self, session_id: str, event: Event) -> list[FeedLine]:
        """The lines of an event, mostly one or none."""
        if isinstance(event, TurnStart):
            self.turns[session_id] = self.turns.get(session_id, 0) + 1
            return []
        if isinstance(event, TurnEnd):
            return [_turn(self.turns.get(session_id, 0), event)]
        maker = _MAKERS.get(type(event))
        return [] if maker is None else list(maker(event))


def _line(type: FeedType, kind: str, word: str, text: str = "") -> FeedLine:
    return FeedLine(type=type, kind=one_line(kind, _KIND_CHARS), word=word, text=one_line(text, _TEXT_CHARS))


def _turn(number: int, event: TurnEnd) -> FeedLine:
    kind = f"turn {number}" if number else "turn"
    try:
        message = decode_message(event.message)
    except BadRecord:
        return _line("turns", kind, "running")
    if not isinstance(message, AssistantMessage):
        return _line("turns", kind, "running")
    if message.stop_reason == "error":
        return _line("trouble", kind, "failed", message.error_message or "the provider gave no reason")
    names = list(dict.fromkeys(call.name for call in message.calls))
    return _line("turns", kind, "running", f"called {', '.join(names)}" if names else "answered")


def _message(event: MessageEnd) -> Iterator[FeedLine]:
    try:
        message = decode_message(event.message)
    except BadRecord:
        return
    if isinstance(message, AssistantMessage):
        if message.text.strip():
            yield _line("messages", "answer", "completed", message.text[:_TEXT_CHARS])
        yield from _spent(message.usage)
    elif isinstance(message, UserMessage):
        yield _line("messages", "prompt", "waiting", text_of(message.content)[:_TEXT_CHARS])
    elif isinstance(message, CustomMessage):
        yield _line("messages", message.custom_type, "waiting", text_of(message.content)[:_TEXT_CHARS])


def _spent(usage: Usage) -> Iterator[FeedLine]:
    count = spent_tokens(usage)
    if count:
        price = money(usage)
        told = "no price" if price == "?" else f"+{price}"
        yield _line("money", "usage", "waiting", f"{told} own · {tokens(count)} tokens")


def _tool_start(event: ToolExecutionStart) -> Iterator[FeedLine]:
    argument = first_argument(event.args) if isinstance(event.args, dict) else ""
    yield _line("tools", event.tool_name, "running", argument)


def _tool_end(event: ToolExecutionEnd) -> Iterator[FeedLine]:
    said = f"{_first_text(event.result)} · " if event.is_error else ""
    word = "failed" if event.is_error else "completed"
    yield _line("tools", event.tool_name, word, f"{said[: _TEXT_CHARS - 20]}{event.duration_ms} ms")


def _gate_start(event: GateStart) -> Iterator[FeedLine]:
    yield _line("tools", "gate", "running", event.command[:_TEXT_CHARS])


def _gate_end(event: GateEndEntry) -> Iterator[FeedLine]:
    if event.passed:
        yield _line("tools", "gate", "completed", f"{event.command[: _TEXT_CHARS - 20]} · {event.duration_ms} ms")
    else:
        yield _line("trouble", "gate", "failed", f"{event.command[: _TEXT_CHARS // 2]} · {_first_text(event.result)}")


def _first_text(result: Any) -> str:
    blocks = result.get("content") if isinstance(result, dict) else None
    first = blocks[0] if isinstance(blocks, list) and blocks and isinstance(blocks[0], dict) else {}
    return str(first.get("text") or "failed").strip().partition("\n")[0]


def _spawned(event: ChildSpawnedEntry) -> Iterator[FeedLine]:
    yield _line("children", "spawned", "running", f"{event.name} · {event.prompt[:_TEXT_CHARS]}")


def _settled(event: RunSettledEntry) -> Iterator[FeedLine]:
    shown = state("idle", event.outcome)
    why = f" · {event.error_message}" if event.error_message else ""
    yield _line("trouble" if shown.is_issue else "children", "settled", shown.word, f"{shown.word}{why}")


def _child_settled(event: ChildSettledEntry) -> Iterator[FeedLine]:
    shown = state("idle", event.outcome)
    yield _line("children", "child ended", shown.word, event.error_message or event.text[:_TEXT_CHARS])


def _agent_message(event: AgentMessage) -> Iterator[FeedLine]:
    word = "failed" if event.delivery == "refused" else "waiting"
    yield _line("messages", "message", word, f"{event.sender} to {event.to} · {event.delivery}")


def _retry(event: AutoRetryStart) -> Iterator[FeedLine]:
    wait = f"try {event.attempt} of {event.max_attempts} in {-(-event.delay_ms // 1000)}s"
    yield _line("trouble", "retry", "retrying", f"{event.error_message[: _TEXT_CHARS - len(wait) - 3]} · {wait}")


def _retried(event: AutoRetryEnd) -> Iterator[FeedLine]:
    if not event.success:
        yield _line(
            "trouble", "retry", "failed", f"gave up after try {event.attempt}: {event.final_error or 'no reason'}"
        )


def _compacting(event: CompactionStart) -> Iterator[FeedLine]:
    yield _line("trouble", "compacting", "compacting", f"the context is summarised ({event.reason})")


def _compacted(event: CompactionEnd) -> Iterator[FeedLine]:
    if event.error_message is not None or event.aborted:
        yield _line("trouble", "compaction", "failed", event.error_message or "aborted; nothing was changed")
    else:
        yield _line("turns", "compaction", "compacting", "the context was summarised")


def _limit(event: LimitReached) -> Iterator[FeedLine]:
    yield _line("trouble", "limit", "limit reached", f"{event.limit} {event.value:g} of {event.allowed:g}")


def _diagnostic(event: Diagnostic) -> Iterator[FeedLine]:
    if event.level != "info":
        yield _line("trouble", event.code, "failed" if event.level == "error" else "retrying", event.text)


def _status(event: AgentStatusEntry) -> Iterator[FeedLine]:
    summary = str(event.status.get("summary") or "")
    if event.status.get("taskState") == "needs_input":
        yield _line("trouble", "needs input", "needs input", summary)


def _named(event: SessionInfoEntry) -> Iterator[FeedLine]:
    yield _line("children", "renamed", "idle", event.name or "")


def _stated(event: SessionStateEntry) -> Iterator[FeedLine]:
    status = str(event.state.get("status"))
    yield _line("children", status, "archived" if status == "archived" else "idle")


def _model(event: ModelChangeEntry) -> Iterator[FeedLine]:
    yield _line("turns", "model", "idle", f"{event.provider}/{event.model_id}")


def _billed(event: UsageEntry) -> Iterator[FeedLine]:
    yield from _spent(event.usage)


_MAKERS: dict[type[Any], Callable[[Any], Iterator[FeedLine]]] = {
    MessageEnd: _message,
    ToolExecutionStart: _tool_start,
    ToolExecutionEnd: _tool_end,
    GateStart: _gate_start,
    GateEndEntry: _gate_end,
    ChildSpawnedEntry: _spawned,
    RunSettledEntry: _settled,
    ChildSettledEntry: _child_settled,
    AgentMessage: _agent_message,
    AutoRetryStart: _retry,
    AutoRetryEnd: _retried,
    CompactionStart: _compacting,
    CompactionEnd: _compacted,
    LimitReached: _limit,
    Diagnostic: _diagnostic,
    AgentStatusEntry: _status,
    SessionInfoEntry: _named,
    SessionStateEntry: _stated,
    ModelChangeEntry: _model,
    UsageEntry: _billed,
}
