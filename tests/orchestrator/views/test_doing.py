"""The column Doing: first what applies first, ages that count, quiet as a sign."""

import msgspec
import pytest

from orchestrator.views.doing_text import doing, open_calls
from orchestrator.views.live_events import retry_kind
from orchestrator.views.rows import AgentRow
from tests.orchestrator.views.events import Stream, Told


def row_after(happens: str) -> tuple[AgentRow, float]:
    stream = Stream()
    told = stream.root().begins()
    match happens:
        case "tool":
            told.calls_tool("bash", command="pytest -q", timeout_s=3)
        case "overloaded" | "rate limited" | "connection reset":
            told.retries({"overloaded": "Overloaded", "rate limited": "429 slow down"}.get(happens, happens), 3)
        case "writing":
            told.writes("word " * 248)
        case "compacting":
            told.starts_summary()
        case "question":
            told.settles().has_status("Which secret?", "needs_input")
        case "queued":
            told.has_queued(2)
        case "failed":
            told.settles("failed", "line one\nline two")
        case "aborted":
            told.settles("aborted", "stopped by SIGINT")
        case "answer":
            told.answers("\n All is ported.\nmore").settles()
    return stream.rows()[0], stream.now


@pytest.mark.parametrize(
    ("happens", "later_s", "text"),
    [
        ("thinking", 3, "thinking"),
        ("thinking", 22, "thinking · 23s"),
        ("thinking", 72, "thinking · 1m13s · quiet 1m12s"),
        ("writing", 30, "writing · 310 tok"),
        ("tool", 4, "bash pytest -q"),
        ("tool", 41, "bash pytest -q · 41s"),
        ("overloaded", 0, "overloaded · try 3 of 5 in 8s"),
        ("overloaded", 20, "overloaded · try 3 of 5 in 0s"),
        ("rate limited", 3, "rate limited · 5s left"),
        ("connection reset", 0, "connection reset · try 3 of 5 in 8s"),
        ("compacting", 0, "summarising 1 message"),
        ("question", 90, "Which secret?"),
        ("queued", 0, "[2q] thinking"),
        ("failed", 90, "line one line two"),
        ("aborted", 0, "stopped by SIGINT"),
        ("answer", 0, "All is ported."),
    ],
)
def test_what_stands_in_the_column(happens: str, later_s: int, text: str) -> None:
    row, now = row_after(happens)

    assert doing(row, now + later_s) == text


def test_without_a_time_nothing_counts() -> None:
    row, _ = row_after("tool")

    assert doing(row) == "bash pytest -q"


def test_a_host_that_does_not_answer_says_when_it_was_last_heard() -> None:
    row, now = row_after("tool")
    activity = type(row.activity)(kind="silent", label="host does not answer", since=row.last_event_at)  # type: ignore[misc]
    silent = msgspec.structs.replace(row, status="unknown", activity=activity)

    assert doing(silent, now + 240) == "host does not answer · last event 4m00s ago"


def test_messages_that_wait_for_nobody_are_not_shown() -> None:
    row, now = row_after("answer")

    assert doing(msgspec.structs.replace(row, queued=3), now) == "All is ported."


def test_open_calls_are_listed_until_they_end() -> None:
    stream = Stream()
    told: Told = stream.root().begins().calls_tool("bash", command="sleep 9").calls_tool("read", path="a")
    assert open_calls(stream.rows()[0]) == ["bash sleep 9", "read a"]
    told.gets_result(1)
    assert open_calls(stream.rows()[0]) == ["read a"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("529 Overloaded", "overloaded"),
        ("HTTP 429: Too Many Requests", "rate limited"),
        ("rate_limit_error", "rate limited"),
        ("connection reset\nby peer", "connection reset"),
        ("", "it failed"),
    ],
)
def test_why_a_call_is_tried_again(error: str, kind: str) -> None:
    assert retry_kind(error) == kind
