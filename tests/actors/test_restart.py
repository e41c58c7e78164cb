"""An incarnation dies of a bug or of its journal, and is begun again: nothing of what goes on around it may be lost."""

from collections.abc import Callable, Collection
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from actors.performer import Performer
from actors.protocol import turn
from actors.protocol.effects import CallModel, Effect, SettleRun, Summarise
from actors.protocol.mail import Abort, ChildEnded, CompactNow, Mail, ModelEnded, Prompt, ToolEnded
from actors.protocol.model import ModelFailure, ModelRequest
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, Answer, MemoryJournal
from store.entries import Header
from store.errors import JournalPoisoned
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    bodies,
    for_ever,
    of_type,
    outcome,
    pausing,
    playing,
    requests,
    row,
    run,
    saying,
    spawn,
    stage,
    told,
    tool,
    types,
    use,
    wait,
)


def broken(times: int, then: Line = "done") -> Line:
    """A model with a bug that shows this often."""
    left = [times]

    def speak(request: ModelRequest) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("a bug in the model")
        return then(request) if callable(then) else then

    return speak


def crash_on(monkeypatch: pytest.MonkeyPatch, kind: type[Effect], name: str, times: int = 1) -> list[str]:
    """The performer of this session breaks when it is to carry out such an effect."""
    carry_out, crashes = Performer._carry_out, []

    def break_or_go_on(self: Performer, effect: Effect, written: Any) -> None:
        if isinstance(effect, kind) and self.row.name == name and len(crashes) < times:
            crashes.append(name)
            raise RuntimeError(f"a bug in {kind.__name__}")
        carry_out(self, effect, written)

    monkeypatch.setattr(Performer, "_carry_out", break_or_go_on)
    return crashes


def crash_on_mail(monkeypatch: pytest.MonkeyPatch, is_it: Callable[[Mail], bool], times: int = 1) -> list[Mail]:
    """A rule breaks on the first mail of this kind."""
    step, crashes = turn.step, []

    def break_or_go_on(state: Any, mail: Mail, at: float) -> Any:
        if is_it(mail) and len(crashes) < times:
            crashes.append(mail)
            raise RuntimeError(f"a bug in the rule of {type(mail).__name__}")
        return step(state, mail, at)

    monkeypatch.setattr("actors.session.step", break_or_go_on)
    return crashes


def crashes(tree: Bench) -> list[str]:
    return [event["text"] for event in of_type(tree, "diagnostic") if event["code"] == "crash"]


async def test_a_bug_in_the_model_restarts_the_session_and_its_child_goes_on(autojump_clock: MockClock) -> None:
    parts = {
        "root": [spawn("worker"), broken(1, "waiting for it"), "thanks"],
        "worker": [pausing(5.0, "the answer of the worker")],
    }
    tree = stage(parts)

    await run(tree)

    assert len(crashes(tree)) == 1
    assert "a bug in the model" in crashes(tree)[0]
    assert outcome(tree, "worker") == "completed"
    assert "the answer of the worker" in told(requests(tree)[-1])
    assert outcome(tree) == "completed"
    assert_sound(tree)


@pytest.mark.parametrize("kind", [CallModel, SettleRun])
async def test_a_bug_in_the_performer_restarts_the_session_and_its_child_goes_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, kind: type[Effect]
) -> None:
    tree = stage({"root": [spawn("worker"), "waiting"], "worker": [pausing(5.0, "answer")]})
    crash_on(monkeypatch, kind, "root")

    await run(tree)

    assert len(crashes(tree)) == 1
    assert [event["outcome"] for event in of_type(tree, "child_settled")] == ["completed"]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_child_that_ends_while_its_parent_is_restarted_is_heard(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("worker"), broken_later(), "thanks"], "worker": ["answer"]})

    await run(tree)

    assert [event["outcome"] for event in of_type(tree, "child_settled")] == ["completed"]
    assert len(bodies(tree.store, ROOT, "child_settled")) == 1
    assert_sound(tree)


def broken_later() -> Line:
    """Breaks in the very moment in which a child's end lies unheard in the mailbox."""

    async def speak(request: ModelRequest) -> Answer:
        if request.call == 2:
            await trio.sleep(1.0)
            raise RuntimeError("a bug in the model")
        return "waiting"

    return speak


async def test_mail_that_lies_behind_the_one_that_crashed_is_heard_after_the_restart(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stage({"root": [spawn("one", "two", "three"), wait(), "all there"]})
    crash_on_mail(monkeypatch, lambda mail: isinstance(mail, Prompt) and mail.content == "poison")

    async with playing(tree):
        await trio.lowlevel.checkpoint()
        while not of_type(tree, "child_spawned"):
            await trio.lowlevel.checkpoint()
        tree.tree.tell(Prompt("bad", "poison", "steer"))
        tree.tree.tell(Prompt("good", "read this", "steer"))

    assert any(body.message_id == "good" for body in bodies(tree.store, ROOT, "mail"))
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_the_mail_that_crashed_the_session_is_dropped_and_a_childs_end_is_not(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stage({"root": [spawn("worker"), "waiting", "thanks"], "worker": [pausing(2.0, "answer")]})
    heard = crash_on_mail(monkeypatch, lambda mail: isinstance(mail, ChildEnded))

    await run(tree)

    assert len(heard) == 1
    assert [event["outcome"] for event in of_type(tree, "child_settled")] == ["completed"]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_prompt_that_was_heard_and_not_written_yet_survives_a_restart(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stage({"root": ["hello"]})
    crash_on(monkeypatch, CallModel, "root")

    await run(tree, "a prompt")

    assert [event["message"]["content"][0]["text"] for event in of_type(tree, "message_end")] == ["a prompt", "hello"]
    assert_sound(tree)


@pytest.mark.parametrize("lines", [["x", broken(1), "y"], [broken(3), "y"]])
async def test_up_to_three_crashes_in_a_minute_are_forgiven(autojump_clock: MockClock, lines: list[Line]) -> None:
    tree = stage({"root": [spawn("worker"), wait()], "worker": lines})

    await run(tree)

    assert outcome(tree, "worker") == "completed"
    assert_sound(tree)


async def test_a_session_that_crashes_more_than_three_times_in_a_minute_ends_as_failed_and_its_parent_hears_it(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [spawn("worker"), wait(), "I see"], "worker": [broken(9)] * 9})

    await run(tree)

    assert len(crashes(tree)) == 4
    assert outcome(tree, "worker") == "failed"
    (settled,) = of_type(tree, "child_settled")
    assert settled["outcome"] == "failed"
    assert "a bug in the model" in settled["errorMessage"]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_crashes_that_lie_further_apart_than_a_minute_end_nothing(autojump_clock: MockClock) -> None:
    async def slow(request: ModelRequest) -> Answer:
        await trio.sleep(61.0)
        if request.call < 8:
            raise RuntimeError("a bug in the model")
        return "at last"

    tree = stage({"root": [slow] * 8})
    base = trio.current_time()
    tree.tree.supervisor.clock.wall = lambda: 1_700_000_000.0 + trio.current_time() - base

    await run(tree)

    assert outcome(tree) == "completed"


async def test_a_session_that_crashes_too_often_takes_its_children_with_it_and_they_end_first(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("middle"), wait(), "I see"],
        "middle": [spawn("leaf"), *[broken(9)] * 9],
        "leaf": [for_ever],
    }
    tree = stage(parts)

    await run(tree)

    assert outcome(tree, "leaf") == "aborted"
    assert outcome(tree, "middle") == "failed"
    settled = [(event["sessionId"], event["type"]) for event in tree.events() if event["type"] == "agent_settled"]
    assert [session for session, _ in settled] == [row(tree, "leaf").id, row(tree, "middle").id, ROOT]
    assert_sound(tree)


async def test_a_run_that_has_ended_in_the_journal_is_told_as_it_ended_however_often_the_telling_crashes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on(monkeypatch, SettleRun, "worker", 99)
    tree = stage({"root": [spawn("worker"), wait(), "I see"], "worker": ["the answer"]})

    await run(tree)

    assert len(crashes(tree)) == 4
    (settled,) = of_type(tree, "child_settled")
    assert (settled["outcome"], settled["text"]) == ("completed", "the answer")
    assert len(bodies(tree.store, row(tree, "worker").id, "run_settled")) == 1
    assert_sound(tree)


async def test_a_call_that_is_open_when_its_session_crashes_gets_one_error_result_and_is_not_run_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def quick(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        ran.append(context.call_id)
        await trio.sleep(1.0 if len(ran) == 1 else 9.0)
        return text_result("fine")

    heard = crash_on_mail(monkeypatch, lambda mail: isinstance(mail, ToolEnded))
    tree = stage({"root": [use("quick", "quick"), "I see"]}, tool("quick", quick))

    await run(tree)

    assert len(heard) == 1
    assert sorted(ran) == ["call_1_0", "call_1_1"]
    results = [event["message"] for event in of_type(tree, "message_end") if event["message"]["role"] == "toolResult"]
    assert [(result["toolCallId"], result["isError"]) for result in results] == [("call_1_0", True), ("call_1_1", True)]
    assert [end["isError"] for end in of_type(tree, "tool_execution_end")] == [False, True]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_session_that_crashes_too_often_in_the_middle_of_a_tool_leaves_no_call_without_a_result(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on_mail(monkeypatch, lambda mail: isinstance(mail, ToolEnded), 9)
    tree = stage(
        {"root": [spawn("worker", wait=True), "I see"], "worker": [use("quick")] * 9}, tool("quick", saying("y"))
    )

    await run(tree)

    assert outcome(tree, "worker") == "failed"
    assert_sound(tree)


async def test_a_tool_that_raises_is_an_error_result_and_the_session_goes_on(autojump_clock: MockClock) -> None:
    async def raising(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        raise KeyError("what is this")

    tree = stage({"root": [use("bad"), "I see"]}, tool("bad", raising))

    await run(tree)

    (end,) = of_type(tree, "tool_execution_end")
    assert end["isError"]
    assert "KeyError" in end["result"]["content"][0]["text"]
    assert outcome(tree) == "completed"
    assert crashes(tree) == []
    assert_sound(tree)


@pytest.mark.parametrize("nonsense", [None, "a string", ToolResult((), details={"x": object()})])
async def test_a_tool_that_gives_back_nonsense_is_an_error_result_and_no_crash(
    autojump_clock: MockClock, nonsense: Any
) -> None:
    async def give_back(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return nonsense  # type: ignore[no-any-return]

    tree = stage({"root": [use("bad", "good"), "I see"]}, tool("bad", give_back), tool("good", saying("fine")))

    await run(tree)

    assert sorted(end["isError"] for end in of_type(tree, "tool_execution_end")) == [False, True]
    assert crashes(tree) == []
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_crash_in_a_pause_before_a_retry_closes_the_retry(autojump_clock: MockClock) -> None:
    tree = stage({"root": [ModelFailure("overloaded", "busy"), broken(1), "there"]})

    await run(tree)

    assert types(tree, "root").count("auto_retry_start") == types(tree, "root").count("auto_retry_end") == 1
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_a_crash_in_the_middle_of_a_summary_closes_the_summary(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_on(monkeypatch, Summarise, "root")
    tree = stage({"root": [pausing(1.0, use("quick")), "done"]}, tool("quick", saying("quick")))

    async with playing(tree):
        await trio.sleep(0.5)
        tree.tree.tell(CompactNow())

    (end,) = of_type(tree, "compaction_end")
    assert len(of_type(tree, "compaction_start")) == 1
    assert end["reason"] == "manual"
    assert "restarted" in end["errorMessage"]
    assert outcome(tree) == "completed"
    assert_sound(tree)


# --- poisoned journals ---------------------------------------------------------------------------------------------


class Poisonable(MemoryJournal):
    """Refuses every append and flush once its flush has failed, as a real one does. `bad_syncs`: which flushes fail."""

    bad_syncs: Collection[int] = ()
    syncs: int = 0

    def append(self, bodies: Any) -> None:
        if self.is_poisoned:
            raise JournalPoisoned("open it again")
        super().append(bodies)

    def sync(self) -> None:
        self.syncs += 1
        if self.syncs in self.bad_syncs:
            self.is_poisoned = True
            raise JournalPoisoned("a flush failed; open it again")
        super().sync()


def poisonable(tree: Bench, *bad_syncs: int) -> None:
    """The root's journal is one whose flushes fail, counted over all its lives."""

    def make(header: Header) -> MemoryJournal:
        tree.store.create(header)
        journal = Poisonable()
        journal.bad_syncs = set(bad_syncs) if header.id == ROOT else ()
        tree.store.journals[header.id] = journal
        return journal

    supervisor = tree.tree.supervisor
    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=make)


@pytest.mark.parametrize("bad", range(1, 9))
async def test_a_session_whose_journal_is_poisoned_opens_it_again_and_goes_on(
    autojump_clock: MockClock, bad: int
) -> None:
    parts = {"root": [spawn("worker"), use("quick"), wait(), "all done"], "worker": [pausing(2.0, "answer")]}
    tree = stage(parts, tool("quick", saying("quick")))
    poisonable(tree, bad)

    await run(tree, "a prompt")

    assert outcome(tree) == "completed"
    ends = [(event["run"], event["outcome"]) for event in of_type(tree, "child_settled")]
    assert ends in ([(1, "completed")], [])  # none: its spawn could not be made durable, and the model was told so
    assert b"a prompt" in bytes(bodies(tree.store, ROOT, "message")[0].message)
    assert_sound(tree)


async def test_a_journal_whose_every_flush_fails_does_not_keep_the_loop_busy_and_an_abort_ends_it(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": ["hello"]})
    poisonable(tree, *range(1, 10_000))

    async with playing(tree):
        await trio.sleep(30.0)
        opened = sum(event["code"] == "journal" for event in of_type(tree, "diagnostic"))
        tree.tree.tell(Abort())

    assert 1 < opened < 100
    assert outcome(tree) == "aborted"


async def test_an_abort_is_not_forgotten_when_the_journal_is_poisoned_in_the_middle_of_it(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stage({"root": [for_ever, "not to be said"]})
    poisonable(tree)
    async with playing(tree):
        await trio.sleep(1.0)
        tree.store.journals[ROOT].is_poisoned = True
        tree.tree.tell(Abort("enough"))

    assert outcome(tree) == "aborted"
    assert len(of_type(tree, "agent_settled")) == 1
    assert "not to be said" not in str(of_type(tree, "message_end"))
    assert_sound(tree)


async def test_an_abort_is_not_forgotten_when_the_session_crashes_in_the_middle_of_it(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stage({"root": [for_ever, "not to be said"]})
    crash_on_mail(monkeypatch, lambda mail: type(mail).__name__ == "ModelFailed")

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.tell(Abort("enough"))

    assert outcome(tree) == "aborted"
    assert "not to be said" not in str(of_type(tree, "message_end"))
    assert_sound(tree)


async def test_an_answer_that_was_under_way_when_the_session_crashed_is_kept_and_billed_once(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = crash_on_mail(monkeypatch, lambda mail: isinstance(mail, ModelEnded))
    tree = stage({"root": ["first", "second"]})

    await run(tree)

    assert len(heard) == 1
    ends = [event["message"] for event in of_type(tree, "message_end") if event["message"]["role"] == "assistant"]
    assert [end["stopReason"] for end in ends] == ["error", "stop"]
    assert tree.root.total.input == 200
    assert_sound(tree)


async def test_what_a_summary_has_cost_when_the_session_crashed_is_billed(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    says: list[Line] = [use("look"), use("look"), "first", for_ever, "second", "third"]
    tree = stage({"root": says}, tool("look", saying("word " * 300)))
    await run(tree)
    heard = crash_on_mail(monkeypatch, lambda mail: isinstance(mail, Prompt) and mail.message_id == "m2")

    async with tree.tree.alive():
        tree.tree.tell(CompactNow())
        await trio.sleep(1.0)
        tree.tree.tell(Prompt("m2", "go on"))
        await tree.tree.quiet()

    assert len(heard) == 1
    (usage,) = bodies(tree.store, ROOT, "usage")
    assert (usage.kind, usage.usage.input) == ("compaction", 100)
    assert tree.root.total.input == 100 * len(requests(tree))
    assert_sound(tree)
