"""The event feed: what each event tells in one line, and what it never tells."""

import msgspec
import pytest

from orchestrator.views.feed import FEED_TYPES, Feed
from orchestrator.views.states import STATES
from store.entries import AgentStatusEntry, ChildSpawnedEntry, GateEndEntry, RunSettledEntry
from store.events import (
    AgentMessage,
    AutoRetryStart,
    CompactionEnd,
    Diagnostic,
    Event,
    GateStart,
    LimitReached,
    MessageEnd,
    MessageUpdate,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from store.messages import AssistantMessage, TextContent, ToolCall, user_text
from store.usage import Cost, Usage
from store.wire import encode

SPENT = Usage(input=1_000, output=234, cost=Cost(total=0.031))
BASH = ToolCall(id="a", name="bash", arguments={"command": "ls"})


def raw(message: object) -> msgspec.Raw:
    return msgspec.Raw(encode(message))


CASES: list[tuple[Event, list[tuple[str, str, str, str]]]] = [
    (
        ToolExecutionStart(tool_call_id="a", tool_name="bash", args={"command": "pytest -q"}),
        [("tools", "bash", "running", "pytest -q")],
    ),
    (
        ToolExecutionEnd(tool_call_id="a", tool_name="edit", result={"content": []}, is_error=False, duration_ms=212),
        [("tools", "edit", "completed", "212 ms")],
    ),
    (
        ToolExecutionEnd(
            tool_call_id="a",
            tool_name="edit",
            result={"content": [{"type": "text", "text": "no such file\nlook"}]},
            is_error=True,
            duration_ms=3,
        ),
        [("tools", "edit", "failed", "no such file · 3 ms")],
    ),
    (GateStart(command="make check", attempt=1), [("tools", "gate", "running", "make check")]),
    (
        GateEndEntry(command="make check", attempt=1, passed=True, result={}, duration_ms=12),
        [("tools", "gate", "completed", "make check · 12 ms")],
    ),
    (
        GateEndEntry(
            command="make check",
            attempt=2,
            passed=False,
            result={"content": [{"type": "text", "text": "no such target\n[exit status 2]"}]},
            duration_ms=12,
        ),
        [("trouble", "gate", "failed", "make check · no such target")],
    ),
    (
        MessageEnd(
            message_id=1, message=raw(AssistantMessage(content=(TextContent(text="Done.\nAll."),), usage=SPENT))
        ),
        [("messages", "answer", "completed", "Done. All."), ("money", "usage", "waiting", "+$0.03 own · 1.2k tokens")],
    ),
    (
        MessageEnd(message=raw(user_text("go on", 1))),
        [("messages", "prompt", "waiting", "go on")],
    ),
    (RunSettledEntry(run=1, outcome="completed"), [("children", "settled", "completed", "completed")]),
    (
        RunSettledEntry(run=1, outcome="timed_out", error_message="no answer within 120 s"),
        [("trouble", "settled", "timed out", "timed out · no answer within 120 s")],
    ),
    (
        ChildSpawnedEntry(child_session_id="c", name="docs", child_depth=1, prompt="Write docs", model="m"),
        [("children", "spawned", "running", "docs · Write docs")],
    ),
    (
        AutoRetryStart(attempt=3, max_attempts=5, delay_ms=7_200, error_message="overloaded"),
        [("trouble", "retry", "retrying", "overloaded · try 3 of 5 in 8s")],
    ),
    (
        AgentStatusEntry(status={"summary": "Which secret?", "taskState": "needs_input"}),
        [("trouble", "needs input", "needs input", "Which secret?")],
    ),
    (
        LimitReached(limit="cost", value=0.25, allowed=0.25, holder_session_id="r"),
        [("trouble", "limit", "limit reached", "cost 0.25 of 0.25")],
    ),
    (
        CompactionEnd(reason="manual", aborted=False, will_retry=False, error_message="the summary was empty"),
        [("trouble", "compaction", "failed", "the summary was empty")],
    ),
    (
        AgentMessage(sender="docs", to="parent", mode="auto", delivery="queued"),
        [("messages", "message", "waiting", "docs to parent · queued")],
    ),
    (Diagnostic(level="info", code="repaired", text="x"), []),
    (Diagnostic(level="warning", code="provider", text="odd"), [("trouble", "provider", "retrying", "odd")]),
    (TurnStart(), []),
    (MessageUpdate(message_id=1, assistant_message_event=TextDelta(content_index=0, delta="secret")), []),
]


@pytest.mark.parametrize(("event", "lines"), CASES, ids=lambda case: type(case).__name__)
def test_an_event_is_told_so(event: Event, lines: list[tuple[str, str, str, str]]) -> None:
    found = Feed().take("s", event)

    assert [(line.type, line.kind, line.word, line.text) for line in found] == lines
    assert all(line.word in STATES and line.type in FEED_TYPES for line in found)


def test_turns_are_counted_per_session_from_where_the_rows_stand() -> None:
    feed = Feed({"a": 8})
    ended = TurnEnd(message=raw(AssistantMessage(content=(BASH, BASH), stop_reason="toolUse")), tool_results=())

    for session in ("a", "b"):
        feed.take(session, TurnStart())
    lines = [line for session in ("a", "b") for line in feed.take(session, ended)]

    assert [(line.kind, line.text) for line in lines] == [("turn 9", "called bash"), ("turn 1", "called bash")]


def test_what_harms_a_terminal_is_shown_as_dots_and_long_texts_are_cut() -> None:
    event = ToolExecutionStart(tool_call_id="a", tool_name="\x1b]0;x\x07" * 50, args={"a": "\u202e" + "x" * 1_000_000})

    [line] = Feed().take("s", event)

    assert line.text.startswith("·x")
    assert len(line.text) <= 300
    assert len(line.kind) <= 40
    assert "\x1b" not in line.kind
