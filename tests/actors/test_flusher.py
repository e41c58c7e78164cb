"""The flusher, with real threads and a real clock: what it calls durable is, in groups, and nobody waits for ever."""

import threading
import time

import attrs
import pytest
import trio

from actors.flusher import FLUSH_EVERY_S, Durability, Flusher, InlineFlusher
from store.errors import JournalPoisoned
from store.memory import MemoryJournal
from tests.actors.stage import until

PATIENCE_S = 10.0


@attrs.define(eq=False)
class SlowJournal(MemoryJournal):
    """Its flush takes a while, in the thread that does it."""

    takes_s: float = 0.01
    syncs: int = 0
    threads: set[int] = attrs.field(factory=set)
    error: Exception | None = None
    gate: threading.Event | None = None

    def sync(self) -> None:
        self.syncs += 1
        self.threads.add(threading.get_ident())
        seq = self.seq
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        self.durable = seq


async def running(flusher: Flusher, nursery: trio.Nursery) -> None:
    nursery.start_soon(flusher.run)
    await trio.lowlevel.checkpoint()


async def test_durable_returns_when_what_was_written_before_is_durable() -> None:
    flusher, journal = Flusher(), SlowJournal()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await running(flusher, nursery)
            journal.append([b"{}", b"{}"])
            await flusher.durable(journal)
            assert journal.durable == 3
            assert threading.get_ident() not in journal.threads
            syncs = journal.syncs
            await flusher.durable(journal)
            assert journal.syncs == syncs
            flusher.end()


async def test_what_is_written_during_a_flush_is_in_the_next_one_and_not_called_durable_before() -> None:
    flusher, journal = Flusher(), SlowJournal(gate=threading.Event())
    done: list[int] = []

    async def wait(number: int) -> None:
        await flusher.durable(journal)
        done.append(number)
        assert journal.durable >= number

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await running(flusher, nursery)
            journal.append([b"{}"])
            nursery.start_soon(wait, 2)
            await until(lambda: journal.syncs, 0.001)
            journal.append([b"{}"])
            nursery.start_soon(wait, 3)
            await trio.sleep(0.02)
            assert done == []
            assert journal.gate is not None
            journal.gate.set()
            await until(lambda: len(done) == 2, 0.001)
            flusher.end()

    assert done == [2, 3]
    assert journal.syncs == 2


async def test_many_waiters_share_one_flush() -> None:
    flusher, journal = Flusher(), SlowJournal(takes_s=0.05)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    journal.append([b"{}"])
                    nursery.start_soon(flusher.durable, journal)
            flusher.end()

    assert journal.durable == 101
    assert journal.syncs <= 3


async def test_journals_of_one_group_are_flushed_side_by_side() -> None:
    flusher = Flusher()
    journals = [SlowJournal(takes_s=0.05) for _ in range(16)]
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            for journal in journals:
                journal.append([b"{}"])
                flusher.note(journal)
            began = time.monotonic()
            await running(flusher, host)
            flusher.end()
    took_s = time.monotonic() - began

    assert all(journal.durable == journal.seq for journal in journals)
    assert took_s < 16 * 0.05


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), JournalPoisoned("a flush failed")])
async def test_a_flush_that_failed_is_told_to_whoever_waits_and_to_nobody_else(error: Exception) -> None:
    flusher, bad, good = Flusher(), SlowJournal(error=error), SlowJournal()
    told: list[str] = []

    async def wait() -> None:
        try:
            await flusher.durable(bad)
        except JournalPoisoned:
            told.append("bad")

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            async with trio.open_nursery() as nursery:
                for journal in (bad, good):
                    journal.append([b"{}"])
                nursery.start_soon(wait)
                nursery.start_soon(wait)
                nursery.start_soon(flusher.durable, good)
            flusher.end()

    assert told == ["bad", "bad"]
    assert bad.is_poisoned
    assert good.durable == 2


async def test_a_waiter_that_gives_up_disturbs_neither_the_flush_nor_the_others() -> None:
    flusher, journal = Flusher(), SlowJournal(takes_s=0.05)
    journal.append([b"{}"])
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flusher.durable, journal)
                with trio.move_on_after(0.01) as scope:
                    await flusher.durable(journal)
                assert scope.cancelled_caught
            flusher.end()

    assert journal.durable == 2
    assert journal.syncs == 1


async def test_the_end_waits_for_what_is_dirty_and_a_cancelled_host_does_not_cut_it_short() -> None:
    flusher, journal = Flusher(), SlowJournal(takes_s=0.05)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            journal.append([b"{}"])
            flusher.note(journal)
            host.cancel_scope.cancel()
            flusher.end()

    assert journal.durable == 2


async def test_writers_and_waiters_at_random_never_miss_a_flush() -> None:
    flusher = Flusher(threads=4)
    journals = [SlowJournal(takes_s=0.0005 * number) for number in range(6)]

    async def write(number: int) -> None:
        journal = journals[number % len(journals)]
        for step in range(25):
            journal.append([b"{}"])
            flusher.note(journal)
            if (number + step) % 3 == 0:
                wanted = journal.seq
                await flusher.durable(journal)
                assert journal.durable >= wanted
            else:
                await trio.lowlevel.checkpoint()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            async with trio.open_nursery() as nursery:
                for number in range(18):
                    nursery.start_soon(write, number)
            flusher.end()

    assert all(journal.durable == journal.seq for journal in journals)


async def test_the_inline_flusher_flushes_in_the_caller() -> None:
    journal = SlowJournal(takes_s=0.0)
    journal.append([b"{}"])

    await InlineFlusher().durable(journal)

    assert journal.durable == 2
    assert journal.threads == {threading.get_ident()}


async def test_write_asks_for_no_flush_and_the_disk_has_it_a_second_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.flusher.FLUSH_EVERY_S", 0.2)
    flusher, journal = Flusher(level="write"), SlowJournal()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            for _ in range(20):
                journal.append([b"{}"])
                flusher.note(journal)
                await flusher.durable(journal)
            assert journal.syncs == 0
            await until(lambda: journal.durable == 21, 0.001)
            assert journal.syncs == 1
            journal.append([b"{}"])
            await flusher.durable(journal)
            await until(lambda: journal.durable == 22, 0.001)
            flusher.end()

    assert journal.syncs == 2


@pytest.mark.parametrize("level", ["write", "full"])
async def test_the_end_does_not_wait_for_the_second_to_be_over(level: Durability) -> None:
    flusher, journal = Flusher(level=level), SlowJournal()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            journal.append([b"{}"])
            flusher.note(journal)
            await trio.sleep(0.01)
            began = time.monotonic()
            flusher.end()
    took_s = time.monotonic() - began

    assert journal.durable == 2
    assert took_s < FLUSH_EVERY_S / 2


async def test_full_flushes_this_journal_before_it_returns_and_no_other_with_it() -> None:
    flusher, journal, other = Flusher(level="full"), SlowJournal(), SlowJournal()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            other.append([b"{}"])
            flusher.note(other)
            for number in range(3):
                journal.append([b"{}"])
                flusher.note(journal)
                await flusher.durable(journal)
                assert (journal.durable, journal.syncs) == (number + 2, number + 1)
            assert other.syncs == 0
            assert threading.get_ident() not in journal.threads
            flusher.end()

    assert other.durable == other.seq


@pytest.mark.parametrize("level", ["write", "full"])
async def test_whatever_the_level_a_flush_that_failed_is_told(
    level: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.flusher.FLUSH_EVERY_S", 0.01)
    flusher, journal = Flusher(level=level), SlowJournal(error=OSError(5, "I/O error"))
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as host:
            await running(flusher, host)
            journal.append([b"{}"])
            flusher.note(journal)
            await until(lambda: journal.is_poisoned, 0.001)
            with pytest.raises(JournalPoisoned):
                await flusher.durable(journal)
            flusher.end()
