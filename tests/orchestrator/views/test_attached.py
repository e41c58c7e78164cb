"""One session as it streams, in text: whole, in order, and harmless."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.views.attached import AttachedText
from store import events
from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.messages import AssistantMessage, BashExecutionMessage, TextContent, UserMessage
from store.wire import encode

HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


def ended(message: object) -> events.MessageEnd:
    return events.MessageEnd(message=msgspec.Raw(encode(message)))


def piece(text: str) -> events.MessageUpdate:
    return events.MessageUpdate(message_id=1, assistant_message_event=events.TextDelta(content_index=0, delta=text))


def shown(*told: events.Event) -> str:
    fold = AttachedText()
    return "".join(fold.take(event) for event in told)


def test_an_answer_is_shown_as_it_comes_and_once() -> None:
    end = events.MessageUpdate(message_id=1, assistant_message_event=events.TextEnd(content_index=0, content="one two"))
    whole = AssistantMessage(content=(TextContent(text="one two"),), stop_reason="stop")
    assert shown(piece("one "), piece("two"), end, ended(whole)) == "one two\n"
    assert shown(ended(whole)) == "one two\n", "one that did not stream is shown whole"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ended(UserMessage(content="do it\nnow")), "> do it\n> now\n"),
        (ended(AssistantMessage(content=(), stop_reason="error", error_message="overloaded")), "! overloaded\n"),
        (ended(BashExecutionMessage(command="ls", output="a\nb\n", exit_code=0)), "$ ls\na\nb\n"),
        (ended(BashExecutionMessage(command="false", output="", exit_code=1)), "$ false (exit status 1)\n"),
        (events.ToolExecutionStart(tool_call_id="c", tool_name="bash", args={"command": "ls"}), "* bash ls\n"),
        (events.AgentSettled(aborted=False, outcome="limit_reached"), "-- limit reached\n"),
        (events.Diagnostic(level="info", code="c", text="quiet"), ""),
        (events.Diagnostic(level="warning", code="c", text="look"), "! look\n"),
        (events.TurnStart(), ""),
        (
            ChildSpawnedEntry(child_session_id="x" * 36, name="kid", child_depth=1, prompt="look\naround", model="m"),
            "+ kid: look around\n",
        ),
        (
            ChildSettledEntry(child_session_id="x" * 28 + "abcd1234", run=1, outcome="timed_out"),
            "+ abcd1234 timed out\n",
        ),
    ],
)
def test_what_else_happens_is_a_line(event: events.Event, text: str) -> None:
    assert shown(event) == text


def test_what_comes_in_the_middle_of_a_line_begins_another_one() -> None:
    fold = AttachedText()
    assert fold.take(piece("half a")) + fold.missed(7) + fold.take(piece("rest")) == "half a\n… 7 lines missed\nrest"


def test_a_command_that_is_written_down_later_is_told_once() -> None:
    fold, kept = AttachedText(), ended(BashExecutionMessage(command="ls", output="a\n", exit_code=0, timestamp=1))
    assert fold.ran("ls", "a\n", 0) == "$ ls\na\n"
    assert [fold.take(kept), fold.take(kept)] == ["", "$ ls\na\n"], "the second one is somebody else's"


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=12))
def test_nothing_in_it_harms_a_terminal(pieces: list[str], other: str) -> None:
    tool = events.ToolExecutionStart(tool_call_id="c", tool_name=other, args={"a": other})
    failed = events.ToolExecutionEnd(
        tool_call_id="c", tool_name=other, result={"content": [{"text": other}]}, is_error=True, duration_ms=1
    )
    told = [*map(piece, pieces), tool, failed, ended(UserMessage(content=other))]
    text = shown(*told, events.Diagnostic(level="error", code="c", text=other))
    assert HARMFUL.search(text) is None
