"""The outbox: the journal first, all or nothing; the stream second, every bracket closed once and in order."""

from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from actors.clock import Clock
from actors.flusher import InlineFlusher
from actors.outbox import Outbox
from actors.protocol.model import CallStarted, ModelInfo, TextChunk, UsageReported
from actors.reply import Reply
from actors.sink import Sink
from actors.testing import RecordingOutlet
from store.entries import CustomMessageEntry, MailEntry, MessageEntry, ModelChangeEntry, RunSettledEntry
from store.errors import JournalPoisoned
from store.events import AutoRetryEnd, AutoRetryStart, CompactionStart, Place
from store.memory import MemoryJournal
from store.messages import AssistantMessage, Message, TextContent, ToolCall, user_text
from store.records import Record, read_record
from store.tree import EntryTree
from store.usage import Usage
from store.wire import encode

PLACE = Place("root-0000", "root-0000", None, 0)


@attrs.define
class Desk:
    """An outbox with its journal, its stream and its bills."""

    outbox: Outbox
    journal: MemoryJournal
    outlet: RecordingOutlet
    bills: list[tuple[str, int]]

    @classmethod
    def of(cls) -> "Desk":
        journal, outlet, bills = MemoryJournal(), RecordingOutlet(), []
        sink = Sink(Clock(lambda: 1_700_000_000.0), [outlet])

        def bill(record: Record, usage: Usage) -> None:
            assert journal.lines[-1:]
            bills.append((record.id, usage.input))

        outbox = Outbox(PLACE, journal, EntryTree(), sink, InlineFlusher(), sink.clock, bill)
        return cls(outbox, journal, outlet, bills)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.outlet.lines]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def written(self) -> list[Record]:
        return [read_record(line) for line in self.journal.lines]


def entry(message: Message) -> MessageEntry:
    return MessageEntry(message=msgspec.Raw(encode(message)))


def said(text: str, *calls: str, stop: str = "stop", tokens: int = 0) -> MessageEntry:
    content = (TextContent(text=text), *(ToolCall(id=call, name="quick") for call in calls))
    return entry(AssistantMessage(content=content, stop_reason=stop, usage=Usage(input=tokens)))


def a_reply() -> Reply:
    return Reply(ModelInfo("test", "model"), 1, trio.current_time())


async def test_entries_hang_on_one_another_and_bookkeeping_moves_nothing(autojump_clock: MockClock) -> None:
    desk = Desk.of()

    desk.outbox.append(ModelChangeEntry(provider="p", model_id="m"), entry(user_text("x", 1)))
    desk.outbox.append(MailEntry(message_id="m", sender="user", mode="auto", content="y"))
    desk.outbox.append(said("z"))

    assert [(record.id, record.parent_id) for record in desk.written] == [
        ("00000001", None),
        ("00000002", "00000001"),
        ("00000003", "00000002"),
        ("00000004", "00000002"),
    ]
    assert desk.outbox.tree.leaf_id == "00000004"
    assert [record.raw for record in desk.outbox.tree.records] == desk.journal.lines


async def test_a_write_that_fails_changes_nothing_and_shows_nothing(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.append(entry(user_text("x", 1)))
    before, shown = len(desk.journal.lines), len(desk.outlet.lines)
    desk.journal.failures = 1

    with pytest.raises(OSError, match="No space"):
        desk.outbox.append(said("a", tokens=5), said("b", tokens=6))

    assert (len(desk.journal.lines), len(desk.outlet.lines)) == (before, shown)
    assert (desk.outbox.tree.count, desk.outbox.tree.leaf_id, desk.bills) == (1, "00000001", [])
    desk.outbox.append(said("a", tokens=5))
    assert desk.written[-1].id == "00000002"
    assert desk.bills == [("00000002", 5)]


async def test_what_is_billed_is_told_once_right_after_it_was_written(autojump_clock: MockClock) -> None:
    desk = Desk.of()

    desk.outbox.append(said("a", tokens=5, stop="error"), entry(user_text("x", 1)), said("b", tokens=7, stop="aborted"))

    assert desk.bills == [("00000001", 5), ("00000003", 7)]


async def test_a_poisoned_journal_is_noticed_also_when_nothing_is_to_be_written(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.journal.is_poisoned = True

    with pytest.raises(JournalPoisoned):
        desk.outbox.write([])


async def test_where_nothing_can_be_written_any_more_the_stream_still_comes_to_its_end(
    autojump_clock: MockClock,
) -> None:
    desk = Desk.of()
    desk.journal.failures = 9

    desk.outbox.append_or_show(CustomMessageEntry(custom_type="x", content="y", display=True))

    assert desk.types == ["message_start", "message_end"]
    assert desk.journal.lines == []


async def test_a_reply_is_shown_as_it_grows_and_closed_by_its_entry(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.start_loop()
    desk.outbox.start_turn()
    reply = a_reply()
    desk.outbox.start_reply(reply)
    assert "message_start" not in desk.types

    desk.outbox.show_reply(reply, reply.take(UsageReported(Usage(input=5))))
    assert "message_start" not in desk.types
    desk.outbox.show_reply(reply, reply.take(TextChunk(0, "he")))
    desk.outbox.show_reply(reply, reply.take(TextChunk(0, "llo")))
    desk.outbox.append(said("hello"))
    desk.outbox.end_turn()
    desk.outbox.end_loop()

    updates = [event for event in desk.events if event["type"] == "message_update"]
    assert [update["assistantMessageEvent"]["type"] for update in updates] == ["text_start", "text_delta", "text_delta"]
    assert ["usage" in update for update in updates] == [True, False, False]
    assert {event.get("messageId") for event in desk.events if event["type"].startswith("message_")} == {1}
    assert desk.types[-3:] == ["message_end", "turn_end", "agent_end"]
    assert desk.events[-2]["message"]["content"][0]["text"] == "hello"
    assert len(desk.events[-1]["messages"]) == 1


async def test_a_reply_that_was_closed_without_its_end_shows_nothing_more(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.start_turn()
    old, new = a_reply(), a_reply()
    desk.outbox.start_reply(old)
    desk.outbox.append(said("half", stop="aborted"))
    shown = len(desk.outlet.lines)
    desk.outbox.show_reply(old, old.take(TextChunk(0, "late")))
    desk.outbox.start_reply(new)
    desk.outbox.show_reply(old, old.take(TextChunk(0, "later")))

    assert len(desk.outlet.lines) == shown


async def test_tools_end_once_and_a_late_end_is_for_nobody(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    first = desk.outbox.tools.start("call_1", "quick", {})
    await trio.sleep(1.5)
    desk.outbox.tools.close("too late")
    second = desk.outbox.tools.start("call_1", "slow", {})
    desk.outbox.tools.update(first, {"content": []})
    desk.outbox.tools.end(first, {"content": []}, is_error=False)

    assert desk.types == ["tool_execution_start", "tool_execution_end", "tool_execution_start"]
    assert (desk.events[1]["isError"], desk.events[1]["durationMs"]) == (True, 1_500)
    desk.outbox.tools.update(second, {"content": []})
    desk.outbox.tools.end(second, {"content": []}, is_error=False)
    desk.outbox.tools.end(second, {"content": []}, is_error=False)
    assert desk.types[3:] == ["tool_execution_update", "tool_execution_end"]


async def test_a_turn_without_an_answer_ends_with_one_that_says_nothing(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.start_turn()
    desk.outbox.end_turn()
    desk.outbox.end_turn()

    assert desk.types == ["turn_start", "turn_end"]
    assert desk.events[-1]["message"]["content"] == []


async def test_closing_brackets_closes_message_tools_turn_loop_and_retry_in_this_order(
    autojump_clock: MockClock,
) -> None:
    desk = Desk.of()
    desk.outbox.publish(AutoRetryStart(attempt=2, max_attempts=4, delay_ms=1, error_message="busy"))
    desk.outbox.start_loop()
    desk.outbox.start_turn()
    reply = a_reply()
    desk.outbox.start_reply(reply)
    desk.outbox.show_reply(reply, reply.take(TextChunk(0, "half")))
    reply.take(UsageReported(Usage(input=9)))

    desk.outbox.close_brackets("it crashed")

    assert desk.types[-4:] == ["message_end", "turn_end", "agent_end", "auto_retry_end"]
    message = desk.events[-4]["message"]
    assert (message["stopReason"], message["errorMessage"], message["usage"]["input"]) == ("error", "it crashed", 9)
    assert (desk.events[-1]["success"], desk.events[-1]["attempt"]) == (False, 2)
    assert desk.bills == [("00000001", 9)]
    shown = len(desk.outlet.lines)
    desk.outbox.close_brackets("again")
    assert len(desk.outlet.lines) == shown


async def test_closing_brackets_in_the_middle_of_a_batch_answers_every_call(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.start_loop()
    desk.outbox.start_turn()
    desk.outbox.append(said("", "c1", "c2", stop="toolUse"))
    desk.outbox.tools.start("c1", "quick", {})
    desk.outbox.tools.start("c2", "quick", {})

    desk.outbox.close_brackets("it crashed")

    assert desk.types[-8:] == [
        "tool_execution_end",
        "tool_execution_end",
        *["message_start", "message_end"] * 2,
        "turn_end",
        "agent_end",
    ]
    assert [result["toolCallId"] for result in desk.events[-2]["toolResults"]] == ["c1", "c2"]
    assert all(result["isError"] for result in desk.events[-2]["toolResults"])


async def test_brackets_that_cannot_be_written_stay_open_unless_there_is_no_other_way(
    autojump_clock: MockClock,
) -> None:
    desk = Desk.of()
    desk.outbox.start_loop()
    desk.outbox.start_turn()
    desk.outbox.publish(CompactionStart(reason="manual"))
    reply = a_reply()
    desk.outbox.start_reply(reply)
    desk.journal.failures = 2
    shown = len(desk.outlet.lines)

    with pytest.raises(OSError, match="No space"):
        desk.outbox.close_brackets("it crashed")
    assert len(desk.outlet.lines) == shown

    desk.outbox.close_brackets("it crashed", is_forced=True)
    assert desk.types[shown:] == ["message_start", "message_end", "compaction_end", "turn_end", "agent_end"]
    assert desk.journal.lines == []


async def test_the_end_of_a_run_that_was_not_shown_is_shown_when_its_brackets_could_be_closed(
    autojump_clock: MockClock,
) -> None:
    """Also where that took a second try: it was lost with the first one."""
    desk = Desk.of()
    desk.outbox.write([RunSettledEntry(run=1, outcome="completed")])
    desk.outbox.start_loop()
    desk.outbox.start_turn()
    desk.outbox.start_reply(a_reply())
    desk.journal.failures = 1

    with pytest.raises(OSError, match="No space"):
        desk.outbox.close_brackets("it crashed")
    assert "run_settled" not in desk.types
    desk.outbox.close_brackets("it crashed")

    assert desk.types[-2:] == ["agent_end", "run_settled"]


async def test_a_retry_that_has_ended_is_not_ended_again(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.publish(AutoRetryStart(attempt=1, max_attempts=4, delay_ms=1, error_message="busy"))
    desk.outbox.publish(AutoRetryEnd(success=True, attempt=1))

    desk.outbox.close_brackets("it crashed")

    assert desk.types == ["auto_retry_start", "auto_retry_end"]


async def test_the_answer_of_a_run_is_that_runs_own(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    assert desk.outbox.answer(1) == ""
    desk.outbox.append(entry(user_text("x", 1)), said("first"), RunSettledEntry(run=1, outcome="completed"))
    assert desk.outbox.answer(1) == "first"
    desk.outbox.append(RunSettledEntry(run=2, outcome="aborted"))
    assert desk.outbox.answer(2) == ""
    desk.outbox.append(entry(user_text("x", 1)), said("third"))
    assert desk.outbox.answer(3) == "third"


async def test_a_call_that_did_not_come_whole_is_not_in_what_closing_keeps(autojump_clock: MockClock) -> None:
    desk = Desk.of()
    desk.outbox.start_turn()
    reply = a_reply()
    desk.outbox.start_reply(reply)
    desk.outbox.show_reply(reply, reply.take(CallStarted(0, "c", "quick")))

    desk.outbox.close_brackets("it crashed")

    (message,) = [event["message"] for event in desk.events if event["type"] == "message_end"]
    assert message["content"] == []
