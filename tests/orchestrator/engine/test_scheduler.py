"""Ticks on their way to sessions of a host: taken before they are delivered, once, and never two of one schedule in a queue."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.clock import Clock
from actors.directory import Row
from actors.protocol.model import ModelInfo, ModelRequest
from actors.testing import FunctionModel
from orchestrator.engine.config import Config
from orchestrator.engine.host import Host
from orchestrator.engine.job import Job
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.models import Models
from orchestrator.engine.scheduler import Scheduler
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.schedules import Schedules
from store.disk.zones import zone_named
from store.schedules import Schedule, TickMode, new_schedule
from tests.orchestrator.engine.processes import PATIENCE_S

NOW = 1_800_000_000.0
MODEL = "test/model"


@attrs.frozen
class HereJobs(Jobs):
    """Stored trees go on with a model that does what a test says."""

    answer: Callable[[ModelRequest], Any] = lambda request: "done"

    def stored(self, root_id: str) -> tuple[Job, Models]:
        return self.job(session=root_id)

    def job(self, **members: Any) -> tuple[Job, Models]:
        cwd = self.home.root.parent
        models = Models(Config(), {}, cwd)
        models._made[MODEL] = FunctionModel(self.answer), ModelInfo("test", "model", "test")
        return Job("", MODEL, cwd, {"PATH": "/usr/bin:/bin"}, **members), models


@attrs.define(eq=False)
class Resident:
    """A host at work, whose clock a test sets."""

    keeper: Keeper
    scheduler: Scheduler
    nursery: trio.Nursery
    now: list[float]
    said: list[str]

    @property
    def schedules(self) -> Schedules:
        return self.scheduler.schedules

    def schedule(self, session_id: str, when: str, id: str = "0000000a", mode: TickMode = "follow_up") -> Schedule:
        made = new_schedule(id, session_id, when, f"look {id}", mode, self.now[0], ("UTC", zone_named("UTC")))
        self.schedules.add(made)
        return made

    async def looks(self, later_s: float) -> None:
        """Let time pass, look, and wait until what was taken is noted."""
        self.now[0] += later_s
        await self.scheduler.look(self.nursery)
        await until(lambda: all(not each.claims or each.outcome for each in self.schedules.all()[0]))

    async def rests(self, row: Row) -> None:
        await until(lambda: not row.is_running)

    def begin(self) -> Row:
        job, models = self.keeper.jobs.job()  # type: ignore[attr-defined]
        planted = self.keeper.host.plant(job, models)
        self.keeper.keep(planted)
        return planted.tree.root


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110
        await trio.sleep(0.001)


@asynccontextmanager
async def resident(
    root: Path, answer: Callable[[ModelRequest], Any] = lambda request: "done"
) -> AsyncIterator[Resident]:
    home = Home(root / "home", root / "home" / "sessions", RealFs())
    now, said = [NOW], list[str]()
    host = Host(home, clock=Clock(lambda: now[0]))
    with trio.fail_after(PATIENCE_S):
        async with host.working(), trio.open_nursery() as nursery:
            keeper = Keeper(host, HereJobs(home, {}, answer), nursery)
            scheduler = Scheduler(keeper, Schedules(home), said.append)
            yield Resident(keeper, scheduler, nursery, now, said)
            host.leave("the test is over")
            await host.rested()
            nursery.cancel_scope.cancel()


def prompts(row: Row) -> list[str]:
    """What the session was told by schedules, in order."""
    assert row.outbox is not None
    raw = [
        record.raw for record in row.outbox.tree.records if record.type == "message" and b'"role":"user"' in record.raw
    ]
    return [line.partition(b'"text":"')[2].partition(b'"')[0].decode() for line in raw]


async def test_a_due_tick_is_a_prompt_for_its_session(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "every 10m")

        await host.looks(599)
        assert prompts_or_none(root) == []
        await host.looks(2)
        await host.rests(root)
        await host.looks(600)
        await host.rests(root)

        assert prompts(root) == ["look 0000000a", "look 0000000a"]
        (schedule,) = host.schedules.all()[0]
        assert (schedule.claims, schedule.outcome) == (2, "delivered")


def prompts_or_none(row: Row) -> list[str]:
    return [] if row.outbox is None else prompts(row)


async def test_what_was_missed_while_there_was_no_host_is_one_tick_and_opens_its_session(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "every 10m")
        await host.looks(601)
        await host.rests(root)

    async with resident(tmp_path) as host:
        host.now[0] = NOW + 86_400
        await host.looks(0)
        await host.looks(1)
        found = host.keeper.host.find(root.id)
        assert found is not None
        await host.rests(found[1])

        assert len(prompts(found[1])) == 2
        assert host.schedules.all()[0][0].claims == 2


async def test_a_busy_session_has_one_tick_of_a_schedule_in_its_queue_however_long_it_works(tmp_path: Path) -> None:
    may_end = trio.Event()

    async def slowly(request: ModelRequest) -> str:
        if request.call == 1:
            await may_end.wait()
        return "done"

    async with resident(tmp_path, slowly) as host:
        root = host.begin()
        host.schedule(root.id, "every 1m")
        await host.looks(61)
        for _ in range(5):
            await host.looks(60)
        assert host.schedules.all()[0][0].claims == 2
        may_end.set()
        await host.rests(root)
        await host.looks(1)
        await host.rests(root)

        assert len(prompts(root)) == 3
        assert host.schedules.all()[0][0].claims == 3


async def test_two_changes_that_the_clock_of_the_disk_cannot_tell_apart_are_both_seen(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "in 1m", "0000000a")
        await host.looks(0)
        stamp = host.schedules.stamp()
        host.schedule(root.id, "in 1m", "0000000b")
        os.utime(host.schedules.folder, ns=(stamp, stamp))

        await host.looks(61)
        await host.rests(root)

        assert sorted(prompts(root)) == ["look 0000000a", "look 0000000b"]


async def test_what_was_to_be_once_is_delivered_once_and_gone(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "in 5m")
        await host.looks(301)
        await host.looks(301)
        await host.rests(root)

        assert prompts(root) == ["look 0000000a"]
        assert host.schedules.all() == ([], {})


async def test_a_session_that_is_not_there_fails_its_schedules_and_no_others(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule("01a22ae0-7f3f-72c5-ae52-84dede0a7b95", "in 1m", "0000000a")
        host.schedule(root.id, "in 1m", "0000000b")

        await host.looks(61)
        await host.rests(root)

        (failed,) = host.schedules.all()[0]
        assert (failed.id, failed.outcome) == ("0000000a", "failed")
        assert "01a22ae0" in (failed.error or "")
        assert prompts(root) == ["look 0000000b"]


async def test_a_host_that_is_ending_opens_no_tree_any_more(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "in 1m")
        (tick,) = host.schedules.claim(NOW + 61, lambda schedule: True)
        host.keeper.host.leave("told to end")

        await host.scheduler._bring(tick)

        assert host.schedules.all()[0][0].error == "its host was just ending"


async def test_a_bug_with_one_session_is_not_the_end_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule("broken", "in 1m", "0000000a")
        host.schedule(root.id, "in 1m", "0000000b")
        reach = Keeper.reach

        def broken(self: Keeper, session_id: str) -> Any:
            return reach(self, session_id) if session_id == root.id else {}[session_id]

        monkeypatch.setattr(Keeper, "reach", broken)
        await host.looks(61)
        await host.rests(root)

        (failed,) = host.schedules.all()[0]
        assert (failed.id, failed.error) == ("0000000a", "KeyError: 'broken'")
        assert prompts(root) == ["look 0000000b"]


async def test_a_tree_that_another_process_works_on_is_waited_for_and_then_told_once(tmp_path: Path) -> None:
    async with resident(tmp_path) as owner:
        root = owner.begin()
        owner.schedule(root.id, "every 1m")
        await owner.looks(61)
        await owner.rests(root)
        async with resident(tmp_path) as other:
            other.now[0] = NOW + 130
            await other.looks(0)
            assert other.keeper.host.find(root.id) is None
            assert any(root.id in text for text in other.said)
            await owner.looks(70)
            await owner.rests(root)
            await other.looks(0)

        assert len(prompts(root)) == 2


async def test_two_hosts_that_look_at_the_same_moment_deliver_one_tick(tmp_path: Path) -> None:
    """Only one of them can have the tree; the other one finds the tick taken."""
    async with resident(tmp_path) as first, resident(tmp_path) as second:
        root = first.begin()
        first.schedule(root.id, "in 1m", "0000000a")
        await first.looks(61)
        await first.rests(root)
        first.schedule(root.id, "in 1m", "0000000b")
        second.now[0] = first.now[0]
        async with trio.open_nursery() as both:
            both.start_soon(first.looks, 61)
            both.start_soon(second.looks, 61)
        await first.rests(root)

        assert prompts(root) == ["look 0000000a", "look 0000000b"]


async def test_schedules_that_cannot_be_read_are_said_once_and_end_nothing(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "every 1m", "0000000a")
        (host.schedules.folder / "0000000b.json").write_text("{")
        for _ in range(3):
            await host.looks(61)
            await host.rests(root)

        assert len(prompts(root)) == 3
        assert len(host.said) == 1
        assert "0000000b.json" in host.said[0]


async def test_a_tick_for_a_tree_that_is_just_let_go_of_waits_until_it_can_be_opened_again(tmp_path: Path) -> None:
    async with resident(tmp_path) as host:
        root = host.begin()
        host.schedule(root.id, "in 1m", "0000000a")
        host.schedule(root.id, "in 10m", "0000000b")
        await host.looks(61)
        await host.rests(root)
        found = host.keeper.host.find(root.id)
        assert found is not None
        planted = found[0]
        planted.leave("nobody needs it")
        await until(lambda: planted.is_over)

        host.now[0] += 600
        if host.keeper.host.find(root.id) is found:
            await host.scheduler.look(host.nursery)
            assert host.schedules.all()[0][0].claims == 0
        await until(lambda: host.keeper.host.find(root.id) is None)
        await host.looks(1)
        again = host.keeper.host.find(root.id)
        assert again is not None
        await host.rests(again[1])

        assert prompts(again[1]) == ["look 0000000a", "look 0000000b"]
