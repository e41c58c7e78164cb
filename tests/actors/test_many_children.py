"""A thousand small children under one root: each settles and keeps its row, and next to nothing else."""

import gc
import tracemalloc

import trio
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.mail import Prompt
from actors.protocol.model import ModelRequest
from actors.testing import ROOT, Answer, FunctionModel
from tests.actors.stage import (
    Bench,
    assert_sound,
    bodies,
    pausing,
    playing,
    requests,
    row,
    rows,
    run,
    spawn,
    stage,
    wait,
)

MANY = 1_000
ROOMY = Limits(max_children=5_000, max_live_children=16, max_spawns_per_minute=5_000)
KIB = 1024


def family(count: int, text: str = "fine", below: int = 0) -> Bench:
    """A root that starts so many children, 50 at a time and waits for each lot; each child starts so many itself."""
    lots = [[f"c{number}" for number in range(begin, min(begin + 50, count))] for begin in range(0, count, 50)]

    def speak(request: ModelRequest) -> Answer:
        if request.depth == 0:
            place = request.call - 1
            if place >= 2 * len(lots):
                return "done"
            return wait() if place % 2 else spawn(*lots[place // 2])
        if request.depth == 1 and below and request.call == 1:
            return spawn(*[f"{request.session_name}-{number}" for number in range(below)], wait=True)
        return text

    model = FunctionModel(speak)
    model.requests = _Counted()
    tree = stage(model, limits=ROOMY)
    tree.outlet.lines = _Counted()
    return tree


class _Counted(list):  # type: ignore[type-arg]
    """Forgets what is put into it: the measuring must not weigh more than what is measured."""

    count = 0

    def append(self, item: object) -> None:
        self.count += 1


async def test_all_of_a_thousand_children_settle_and_their_rows_say_how(autojump_clock: MockClock) -> None:
    """M6."""
    tree = family(MANY)

    await run(tree)

    children = tree.root.children
    assert len(children) == MANY
    assert {child.outcome for child in children} == {"completed"}
    assert {(child.has_task, child.is_running, child.runs, child.turns) for child in children} == {(False, False, 1, 1)}
    assert {child.status for child in children} == {"idle"}
    assert len(bodies(tree.store, ROOT, "child_settled")) == MANY
    assert tree.root.total.input == 100 * (MANY + tree.root.turns)


async def test_a_settled_child_keeps_no_entries_in_memory_also_when_it_has_children_itself(
    autojump_clock: MockClock,
) -> None:
    tree = family(100, below=3)

    await run(tree)

    assert len(rows(tree)) == 401
    for one in rows(tree)[1:]:
        assert one.outbox is not None
        assert one.outbox.tree.records == [], one.name
        assert one.outbox.tree.count == len(tree.store.read(one.id).records)
        assert one.nursery is None


async def test_what_a_settled_child_leaves_in_memory_is_small_and_does_not_grow_with_its_text(
    autojump_clock: MockClock,
) -> None:
    """M6."""

    async def left_per_child(count: int, text: str) -> float:
        gc.collect()
        tracemalloc.start()
        tree = family(count, text)
        before, _ = tracemalloc.get_traced_memory()
        await run(tree)
        written = sum(len(line) for journal in tree.store.journals.values() for line in journal.lines)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert tree.root.outcome == "completed"
        # The journals of this test lie in memory, and share their lines with the entries of the root, which lives.
        return (after - before - written) / count

    small = await left_per_child(300, "fine")
    large = await left_per_child(300, "x" * 20_000)

    assert small < 16 * KIB
    assert large < small + 4 * KIB


async def test_children_in_a_row_leave_no_tasks_behind(autojump_clock: MockClock) -> None:
    tree = family(200)
    most = [0]

    async def count_tasks() -> None:
        while True:
            most[0] = max(most[0], trio.lowlevel.current_statistics().tasks_living)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_tasks)
        await run(tree)
        nursery.cancel_scope.cancel()

    # 50 at a time: a holder, its work and its timers each, and the tree's own.
    assert most[0] < 400


async def test_a_child_can_still_be_continued_after_a_thousand_others(autojump_clock: MockClock) -> None:
    names = [f"c{number}" for number in range(60)]
    answers = {name: ["fine", "and more"] for name in names}
    tree = stage({"root": [spawn(*names), wait(), pausing(100.0, "done"), "I see"]} | answers, limits=ROOMY)

    async with playing(tree):
        await trio.sleep(50.0)
        tree.tree.supervisor.directory.deliver(row(tree, "c7"), Prompt("p", "more"))

    (_, again) = [request for request in requests(tree) if request.session_name == "c7"]
    assert len(again.messages) == 3
    assert row(tree, "c7").runs == 2
    assert_sound(tree)
