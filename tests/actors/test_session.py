"""The loop of one incarnation: it decides nothing, loses no letter, and hears an abort whatever the disk does."""

from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.mailbox import Mailbox
from actors.protocol.effects import (
    AppendEntry,
    CallModel,
    Consult,
    Effect,
    PublishEvent,
    RefuseMail,
    ReportRunning,
    SettleRun,
)
from actors.protocol.mail import Abort, ChildEnded, Directed, Emptied, Mail, ModelFailed, Prompt, Stop, TimerFired
from actors.protocol.questions import Go
from actors.protocol.state import Kin, Queued, TurnState
from actors.session import CLOSING_TRIES, ClosingFailed, SessionLoop
from actors.testing import RecordingPerformer
from store.errors import JournalPoisoned
from tests.actors.protocol.play import answer, raw
from tests.actors.stage import until

FULL = OSError(28, "No space left on device")


@attrs.define
class Performer(RecordingPerformer):
    """Answers every question with Go, and fails as often as `failures` says when there is something to write."""

    mailbox: Mailbox = attrs.field(factory=Mailbox)
    failures: list[Exception] = attrs.field(factory=list)

    def perform(self, effects: Sequence[Effect]) -> None:
        if self.failures and any(isinstance(effect, AppendEntry) for effect in effects):
            raise self.failures.pop(0)
        super().perform(effects)
        for effect in effects:
            if isinstance(effect, Consult):
                self.mailbox.put(Directed(effect.question_id, Go()))

    def count(self, kind: type[Effect]) -> int:
        return sum(isinstance(effect, kind) for effect in self.effects)


def a_loop(*mail: Mail, state: TurnState | None = None, **more: object) -> tuple[SessionLoop, Performer]:
    mailbox = Mailbox.holding(*mail)
    performer = Performer(mailbox=mailbox, **more)  # type: ignore[arg-type]
    return SessionLoop(mailbox, performer.perform, state or TurnState("session-1"), mailbox.close_if_empty), performer


def left(mailbox: Mailbox) -> list[Mail]:
    return [letter.mail for letter in mailbox.close() if not isinstance(letter.mail, Emptied)]


async def in_time(loop: SessionLoop) -> None:
    with trio.fail_after(3_600.0):
        await loop.run()


async def test_a_stop_is_heard_before_the_prompts_that_wait_beside_it(autojump_clock: MockClock) -> None:
    loop, performer = a_loop(Prompt("a", "2+2?"), Prompt("b", "3+3?"), Stop())

    await in_time(loop)

    assert performer.count(CallModel) == 0
    assert [effect.message_id for effect in performer.effects if isinstance(effect, RefuseMail)] == ["a", "b"]
    assert loop.state.is_stopped


async def test_a_session_without_work_ends_its_loop_and_closes_its_mailbox(autojump_clock: MockClock) -> None:
    loop, performer = a_loop(TimerFired(7))

    await in_time(loop)

    assert performer.effects == []
    assert not loop.mailbox.put(Prompt("late", "x"))


async def test_a_step_whose_entries_cannot_be_written_has_not_happened_and_happens_later(
    autojump_clock: MockClock,
) -> None:
    loop, performer = a_loop(Prompt("a", "2+2?"), failures=[FULL, FULL, FULL])
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_time, loop)
        await until(lambda: performer.count(CallModel), 0.01)
        loop.mailbox.put(Stop())
        await wait_all_tasks_blocked()
        assert loop.state.phase == "aborting"
        loop.mailbox.put(ModelFailed(loop.state.work or 0, raw(answer("", (), "aborted")), None))

    assert trio.current_time() - began == pytest.approx(0.05 + 0.2 + 0.5, abs=0.1)
    assert performer.count(CallModel) == 1
    assert performer.count(SettleRun) == 1
    told = [effect.event for effect in performer.effects if isinstance(effect, PublishEvent)]
    assert len([event for event in told if type(event).__name__ == "Diagnostic"]) == 1


async def test_an_abort_is_heard_at_once_while_a_write_is_waited_for(autojump_clock: MockClock) -> None:
    loop, performer = a_loop(Prompt("a", "2+2?"), failures=[FULL] * 7)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_time, loop)
        await trio.sleep(2.0)
        failed = len(performer.failures)
        performer.failures.clear()
        began = trio.current_time()
        loop.mailbox.put(Abort("enough"))
        await wait_all_tasks_blocked()

    assert failed > 0
    assert trio.current_time() == began
    assert performer.count(CallModel) == 0
    (settled,) = [effect for effect in performer.effects if isinstance(effect, SettleRun)]
    assert settled.outcome == "aborted"


async def test_closing_records_are_tried_a_few_times_and_then_given_up(autojump_clock: MockClock) -> None:
    loop, performer = a_loop(Prompt("a", "x"), state=TurnState("session-1"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_gives_up, loop)
        await wait_all_tasks_blocked()
        performer.failures = [FULL] * 100
        loop.mailbox.put(Abort())
        await wait_all_tasks_blocked()
        loop.mailbox.put(ModelFailed(loop.state.work or 0, raw(answer("", (), "aborted")), None))

    assert 100 - len(performer.failures) == CLOSING_TRIES
    assert performer.count(SettleRun) == 0


async def _gives_up(loop: SessionLoop) -> None:
    with pytest.raises(ClosingFailed, match="No space"):
        await in_time(loop)


@pytest.mark.parametrize("error", [JournalPoisoned("open it again"), RuntimeError("a bug")])
async def test_letters_behind_the_one_that_ended_an_incarnation_are_still_in_the_mailbox(
    autojump_clock: MockClock, error: Exception
) -> None:
    state = TurnState("session-1", phase="waiting", run=1, kin=(Kin("c1", "c1", True), Kin("c2", "c2", True)))
    behind = [ChildEnded("c2", 1, "completed"), Prompt("b", "y")]
    loop, _ = a_loop(ChildEnded("c1", 1, "completed"), *behind, state=state, failures=[error])

    with pytest.raises(type(error)):
        await in_time(loop)

    assert left(loop.mailbox) == [ChildEnded("c1", 1, "completed"), *behind]
    assert loop.state == state


@pytest.mark.parametrize(
    ("mail", "is_kept"),
    [
        (Prompt("poison", "x", "steer"), False),
        (ChildEnded("c1", 1, "completed"), True),
        (Abort("enough"), True),
        (Stop("enough"), True),
    ],
)
async def test_a_letter_that_shows_a_bug_is_dropped_unless_somebody_waits_for_what_it_brings_about(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, mail: Mail, is_kept: bool
) -> None:
    def break_down(*_: object) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr("actors.session.step", break_down)
    loop, _ = a_loop(mail, TimerFired(3))

    with pytest.raises(RuntimeError, match="a bug"):
        await in_time(loop)

    assert left(loop.mailbox) == ([mail, TimerFired(3)] if is_kept else [TimerFired(3)])


async def test_a_refusal_that_breaks_loses_no_letter(autojump_clock: MockClock) -> None:
    def refuse(effects: Sequence[Effect]) -> None:
        raise JournalPoisoned("open it again")

    mailbox = Mailbox.holding(Prompt("a", "x"), Abort("enough"), ChildEnded("c1", 1, "completed"))
    loop = SessionLoop(mailbox, refuse, TurnState("session-1"))

    with pytest.raises(JournalPoisoned):
        await in_time(loop)

    assert left(mailbox) == [Abort("enough"), ChildEnded("c1", 1, "completed")]


async def test_what_still_waits_when_a_run_has_ended_begins_the_next_without_more_mail(
    autojump_clock: MockClock,
) -> None:
    state = TurnState("session-1", phase="idle", run=1, is_woken=True, queue=_queue("m1"))
    loop, performer = a_loop(TimerFired(1), state=state)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_time, loop)
        await wait_all_tasks_blocked()
        assert performer.count(ReportRunning) == 1
        assert performer.count(CallModel) == 1
        nursery.cancel_scope.cancel()


def _queue(name: str) -> tuple[Queued, ...]:
    return (Queued(name, "follow_up", "user", "x", True),)


@pytest.mark.parametrize("is_closing", [True, False])
async def test_it_ends_only_when_its_mailbox_may_close(autojump_clock: MockClock, is_closing: bool) -> None:
    asked: list[bool] = []

    def may_close() -> bool:
        asked.append(is_closing)
        return is_closing

    mailbox = Mailbox.holding(Emptied())
    loop = SessionLoop(mailbox, RecordingPerformer().perform, TurnState("session-1"), may_close)

    with trio.move_on_after(5.0) as scope:
        await loop.run()

    assert scope.cancelled_caught is not is_closing
    assert len(asked) == 1


async def test_a_loop_that_is_cancelled_from_outside_leaves_what_came_in_the_mailbox(
    autojump_clock: MockClock,
) -> None:
    loop, _ = a_loop(state=TurnState("session-1", phase="waiting", run=1, kin=(Kin("c", "c", True),)))
    scope = trio.CancelScope()

    async def run(ended: Callable[[], None]) -> None:
        with scope:
            await loop.run()
        ended()

    done = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, done.set)
        await wait_all_tasks_blocked()
        scope.cancel()
        await done.wait()
    loop.mailbox.put(ChildEnded("c", 1, "completed"))

    assert left(loop.mailbox) == [ChildEnded("c", 1, "completed")]
