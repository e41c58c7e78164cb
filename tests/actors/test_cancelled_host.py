"""A host that is cancelled from outside, the last resort: it ends at once, and the journals can be read and repaired."""

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.mail import Prompt
from actors.testing import ROOT
from store.attribution import account
from store.context import dangling_calls
from store.repair import repair_plan, runs, with_fixes
from tests.actors.stage import (
    Bench,
    Line,
    for_ever,
    nodes,
    pausing,
    row,
    rows,
    saying,
    spawn,
    stage,
    tool,
    truth,
    use,
    wait,
)


def busy() -> Bench:
    parts: dict[str, list[Line]] = {
        "root": [use("quick"), spawn("a", "b"), wait(), "done"],
        "a": [pausing(1.0, spawn("c", wait=True)), "done"],
        "b": [pausing(2.0, use("slow")), "done"],
        "c": [pausing(3.0, "done")],
    }
    return stage(parts, tool("quick", saying("quick")), tool("slow", for_ever))


async def cancelled_at(tree: Bench, seconds: float, steps: int = 0) -> None:
    with trio.fail_after(60.0):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.run)
            await trio.sleep(seconds)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.5, 4.5])
@pytest.mark.parametrize("steps", [0, 1, 3, 7, 15])
async def test_what_ran_is_lost_and_said_to_be_and_what_was_spent_is_counted(
    autojump_clock: MockClock, seconds: float, steps: int
) -> None:
    tree = busy()

    await cancelled_at(tree, seconds, steps)

    if ROOT not in tree.store.headers:
        return
    before = nodes(tree.store)
    fixed = with_fixes(before, repair_plan(before, ROOT))
    assert repair_plan(fixed, ROOT) == []
    for one in rows(tree):
        if one.id in fixed:
            records = fixed[one.id].records
            assert dangling_calls(fixed[one.id].tree.path()) == []
            assert all(run.outcome in {"lost", "completed"} for run in runs(records))
            assert account(fixed[one.id].header, records).total == truth(tree, one)


async def test_nobody_starts_anew_in_a_host_that_is_being_cancelled(autojump_clock: MockClock) -> None:
    tree = busy()

    with trio.fail_after(60.0):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.run)
            await trio.sleep(2.5)
            for name in ("a", "b", "root"):
                tree.tree.supervisor.directory.deliver(row(tree, name), Prompt(name, "more"))
            nursery.cancel_scope.cancel()

    assert not any(one.has_task for one in rows(tree))
