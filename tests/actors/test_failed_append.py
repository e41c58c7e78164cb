"""A disk that does not take an entry: what was decided is not lost, nothing is done or billed twice, and nobody hangs."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from actors.protocol.mail import Abort, Prompt, Stop
from actors.protocol.model import ModelFailure
from actors.testing import ROOT, MemoryJournal
from store.attribution import account
from store.entries import ChildUsageAttributedEntry, Header
from store.errors import StoreError
from store.repair import repair_plan, with_fixes
from store.stream import check_stream
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    bodies,
    for_ever,
    nodes,
    of_type,
    outcome,
    pausing,
    playing,
    requests,
    row,
    rows,
    run,
    saying,
    spawn,
    stage,
    tool,
    truth,
    use,
    wait,
)


@attrs.define
class Disk:
    """Counts the appends of all journals; `is_full` says which of them fail, `refused` what a session's journal never takes."""

    is_full: Callable[[int, str], bool] = lambda number, session: False
    refused: tuple[str, bytes] = ("", b"")
    appends: int = 0
    failed: int = 0


@attrs.define(eq=False)
class JournalOn(MemoryJournal):
    disk: Disk = attrs.field(factory=Disk)
    session: str = ""

    def append(self, bodies: Any) -> None:
        self.disk.appends += 1
        session, text = self.disk.refused
        is_refused = session == self.session and any(text in body for body in bodies)
        if is_refused or self.disk.is_full(self.disk.appends, self.session):
            self.disk.failed += 1
            raise self.fail
        super().append(bodies)


def on_disk(tree: Bench, disk: Disk) -> Bench:
    def create(header: Header) -> MemoryJournal:
        tree.store.create(header)
        journal = tree.store.journals[header.id] = JournalOn(disk=disk, session=header.id)
        return journal

    supervisor = tree.tree.supervisor
    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=create)
    return tree


def busy_tree(disk: Disk) -> Bench:
    """A bit of everything: tools, a retry, a failing child, children side by side and one below, waits and notices.

    The pauses are long against those between two tries of a write, so that nothing comes in another order for them.
    """
    busy = ModelFailure("overloaded", "busy")
    parts: dict[str, list[Line]] = {
        "root": [use("quick"), spawn("a"), spawn("b"), busy, wait("a"), "later", "all done"],
        "a": [pausing(100.0, use("quick", "quick")), spawn("c", wait=True), pausing(100.0, "a is done")],
        "b": [pausing(1000.0, ModelFailure("auth", "no key"))],
        "c": [pausing(100.0, "c is done")],
    }
    return on_disk(stage(parts, tool("quick", saying("quick"))), disk)


def told_by(tree: Bench) -> dict[str, list[Any]]:
    """What the journals say, without ids and times, which differ from run to run, and without attributions."""
    names = {one.id: one.name for one in rows(tree)}
    shown = {}
    for session, journal in tree.store.journals.items():
        records = [msgspec.json.decode(line) for line in journal.lines]
        shown[names[session]] = [_timeless(one, names) for one in records if one["type"] != "child_usage_attributed"]
    return shown


def _timeless(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        dull = {"id", "parentId", "timestamp", "durationMs"}
        return {key: _timeless(member, names) for key, member in value.items() if key not in dull}
    if isinstance(value, list):
        return [_timeless(member, names) for member in value]
    if isinstance(value, str):
        for session, name in names.items():
            value = value.replace(session, name)
    return value


def keys(tree: Bench) -> dict[str, int]:
    return {name: len(bodies(tree.store, row(tree, name).id, "child_usage_attributed")) for name in ("root", "a")}


async def reference() -> tuple[Bench, int]:
    disk = Disk()
    tree = busy_tree(disk)
    await run(tree)
    assert_sound(tree)
    return tree, disk.appends


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("number", range(1, 46))
async def test_an_append_that_fails_loses_no_decision_and_doubles_none(
    autojump_clock: MockClock, number: int, times: int
) -> None:
    expected, appends = await reference()
    assert 40 <= appends <= 45
    disk = Disk(lambda at, session: number <= at < number + times)
    tree = busy_tree(disk)

    await run(tree)

    assert disk.failed == (times if number + times <= appends else disk.failed)
    assert told_by(tree) == told_by(expected)
    assert len(requests(tree)) == len(requests(expected))
    assert tree.root.total == expected.root.total
    assert check_stream(tree.outlet.lines) == []
    plan = repair_plan(nodes(tree.store), ROOT)
    assert {type(fix.body) for fix in plan} <= {ChildUsageAttributedEntry}  # a ledger does not try twice
    repaired = with_fixes(nodes(tree.store), plan)
    for one in rows(tree):
        assert account(repaired[one.id].header, repaired[one.id].records).total == truth(tree, one) == one.total


async def test_a_disk_that_is_full_for_a_minute_holds_up_the_tree_and_says_so(autojump_clock: MockClock) -> None:
    disk = Disk()
    tree = busy_tree(disk)

    async with playing(tree):
        await trio.sleep(50.0)
        disk.is_full = lambda number, session: True
        await trio.sleep(2_000.0)
        assert not tree.root.outcome
        assert disk.failed < 3 * 2_000.0 / 5.0
        disk.is_full = lambda number, session: False

    assert outcome(tree) == "completed"
    assert [event for event in of_type(tree, "diagnostic") if event["code"] == "store"]
    assert check_stream(tree.outlet.lines) == []


async def test_a_prompt_that_waits_for_the_disk_is_not_lost(autojump_clock: MockClock) -> None:
    disk = Disk()
    tree = on_disk(stage({"root": [pausing(5.0, "first"), "second"]}), disk)

    async with playing(tree):
        await trio.sleep(1.0)
        disk.is_full = lambda number, session: True
        tree.tree.tell(Prompt("more", "once more", "follow_up"))
        await trio.sleep(60.0)
        disk.is_full = lambda number, session: False

    assert "once more" in str(requests(tree)[-1].messages)
    assert_sound(tree)


@pytest.mark.parametrize("command", [Abort("enough"), Stop("stopped")])
async def test_closing_records_that_cannot_be_written_end_the_tree_and_it_says_why(
    autojump_clock: MockClock, command: Abort | Stop
) -> None:
    disk = Disk()
    tree = on_disk(stage({"root": [spawn("a"), use("slow")], "a": [for_ever]}, tool("slow", for_ever)), disk)

    async with playing(tree):
        await trio.sleep(1.0)
        disk.is_full = lambda number, session: True
        began = trio.current_time()
        tree.tree.tell(command)
    took_s = trio.current_time() - began

    assert took_s < 30.0
    assert "No space left" in str(tree.tree.supervisor.failure)
    assert outcome(tree) == "failed"
    assert check_stream(tree.outlet.lines) == []
    plan = repair_plan(nodes(tree.store), ROOT)
    assert {getattr(fix.body, "outcome", "lost") for fix in plan} == {"lost"}


async def test_a_full_disk_and_an_abort_end_as_aborted_if_there_is_room_again_in_time(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    tree = on_disk(stage({"root": [for_ever]}), disk)

    async with playing(tree):
        await trio.sleep(1.0)
        left = [2]

        def is_full(number: int, session: str) -> bool:
            left[0] -= 1
            return left[0] >= 0

        disk.is_full = is_full
        tree.tree.tell(Abort("enough"))

    assert disk.failed == 2
    assert outcome(tree) == "aborted"
    assert_sound(tree)


async def test_a_child_whose_journal_cannot_be_made_ends_once_as_failed_and_its_parent_goes_on(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [spawn("a"), wait(), "I see"], "a": ["never said"]})
    supervisor = tree.tree.supervisor
    create = supervisor.workshop.create_journal

    def refuse_children(header: Header) -> Any:
        if header.rlm_depth:
            raise OSError(24, "Too many open files")
        return create(header)

    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=refuse_children)

    await run(tree)

    (settled,) = of_type(tree, "child_settled")
    assert settled["outcome"] == "failed"
    assert "Too many open files" in settled["errorMessage"]
    assert outcome(tree) == "completed"
    assert check_stream(tree.outlet.lines) == []


async def test_a_root_whose_journal_cannot_be_made_ends_as_failed(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["never said"]})

    def refuse(header: Header) -> Any:
        raise OSError(30, "Read-only file system")

    supervisor = tree.tree.supervisor
    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=refuse)

    await run(tree)

    assert outcome(tree) == "failed"
    assert check_stream(tree.outlet.lines) == []


async def test_a_child_with_a_model_that_nobody_knows_is_refused_before_it_counts(autojump_clock: MockClock) -> None:
    tree = stage({"root": [spawn("a", model="nobody/knows"), "I see"]})

    await run(tree)

    assert of_type(tree, "child_spawned") == []
    assert [event["isError"] for event in of_type(tree, "tool_execution_end")] == [True]
    assert tree.tree.supervisor.state.children == 0
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_an_ancestor_that_takes_no_attribution_gets_it_from_the_repair_and_the_others_have_theirs(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), "done"],
        "a": [spawn("b", wait=True), "done"],
        "b": [pausing(5.0, "done")],
    }
    disk = Disk()
    tree = on_disk(stage(parts), disk)

    async with playing(tree):
        await trio.sleep(1.0)
        middle = row(tree, "a")
        disk.refused = (middle.id, b"child_usage_attributed")

    assert disk.failed
    assert tree.root.total == truth(tree, tree.root)
    assert account(tree.store.headers[ROOT], tree.store.read(ROOT).records).total == tree.root.total
    plan = repair_plan(nodes(tree.store), ROOT)
    assert {fix.session_id for fix in plan} == {middle.id}
    assert [event["level"] for event in of_type(tree, "diagnostic", "a")] == ["error"]
    assert outcome(tree) == "completed"


async def test_what_no_journal_ever_takes_ends_its_session_as_failed_and_is_not_tried_for_ever(
    autojump_clock: MockClock,
) -> None:
    @attrs.define(eq=False)
    class Strict(MemoryJournal):
        def append(self, bodies: Any) -> None:
            if any(b"monstrous" in body for body in bodies):
                raise StoreError("expected a record of at most 64 MiB, found more")
            super().append(bodies)

    parts: dict[str, list[Line]] = {"root": [spawn("a"), wait(), "done"], "a": ["a monstrous answer"] * 9}
    tree = stage(parts)

    def create(header: Header) -> MemoryJournal:
        tree.store.create(header)
        journal = tree.store.journals[header.id] = Strict()
        return journal

    supervisor = tree.tree.supervisor
    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=create)
    await run(tree)

    assert trio.current_time() < 60.0
    (settled,) = bodies(tree.store, ROOT, "child_settled")
    assert settled.outcome == "failed"
    assert "at most 64 MiB" in settled.error_message
    assert (outcome(tree, "a"), outcome(tree)) == ("failed", "completed")
    assert check_stream(tree.outlet.lines) == []
