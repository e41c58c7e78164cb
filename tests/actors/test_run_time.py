"""How long a run may take: exactly so long, whatever is restarted meanwhile, and each run anew."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors.protocol.mail import Prompt
from actors.run_time import RunTime
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
    row,
    run,
    saying,
    spawn,
    stage,
    tool,
    until,
    use,
    wait,
)
from tests.actors.test_restart import broken

LATE: dict[str, list[Line]] = {
    "root": [spawn("late", timeout_s=10), wait(), "done"],
    "late": [spawn("below"), wait(), "never"],
    "below": [for_ever],
}


def ended_at(tree: Bench) -> list[tuple[float, str]]:
    """When the runs of `late` ended, and how, as a list that grows while the tree is at work."""
    ends: list[tuple[float, str]] = []

    def hear(place: Any, event: Any, at: float) -> None:
        if type(event).__name__ == "AgentSettled" and place.session_id == row(tree, "late").id:
            ends.append((trio.current_time(), event.outcome))

    tree.tree.supervisor.sink.watchers.append(hear)
    return ends


async def test_a_run_ends_when_its_time_is_over_with_all_below_it_and_its_parent_goes_on(
    autojump_clock: MockClock,
) -> None:
    tree = stage(LATE)
    ends = ended_at(tree)

    await run(tree)

    assert ends == [(10.0, "timed_out")]
    assert (outcome(tree, "below"), outcome(tree)) == ("aborted", "completed")
    (settled,) = bodies(tree.store, row(tree, "late").id, "run_settled")
    assert settled.error_message == "its time of 10 s is over"
    assert_sound(tree)


@pytest.mark.parametrize("who", ["root", "late", "below"])
async def test_a_restart_wins_no_time(autojump_clock: MockClock, who: str) -> None:
    parts = {name: list(lines) for name, lines in LATE.items()}
    parts[who] = [pausing(4.0, use("quick")), broken(1, parts[who][0]), *parts[who]]
    if who == "root":
        parts[who] = [LATE["root"][0], pausing(4.0, use("quick")), broken(1, wait()), *LATE["root"][1:]]
    tree = stage(parts, tool("quick", saying("quick")))
    ends = ended_at(tree)

    await run(tree)

    assert [one["code"] for one in of_type(tree, "diagnostic", who)] == ["crash"]
    assert ends == [(10.0, "timed_out")]
    assert outcome(tree) == "completed"
    assert_sound(tree)


async def test_the_time_of_the_root_is_that_of_its_run(autojump_clock: MockClock) -> None:
    tree = stage({"root": [pausing(3.0, "quick enough"), for_ever]}, budgets={"timeout_s": 5.0})

    await run(tree)
    assert outcome(tree) == "completed"
    began = trio.current_time()
    await tree.tree.run(Prompt("again", "again"))

    assert outcome(tree) == "timed_out"
    assert trio.current_time() - began == 5.0
    assert "--timeout" in bodies(tree.store, tree.root.id, "run_settled")[-1].error_message


async def test_each_run_of_a_child_has_its_time(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("late", timeout_s=10), pausing(100.0, "done")],
        "late": [pausing(6.0, "first"), pausing(6.0, "second"), for_ever],
    }
    tree = stage(parts)
    ends = ended_at(tree)

    async with playing(tree):
        for number in (1, 2):
            await until(lambda number=number: len(ends) == number, 0.5)  # type: ignore[misc]
            tree.tree.supervisor.directory.deliver(row(tree, "late"), Prompt(f"m{number}", "go on"))

    assert [how for _, how in ends] == ["completed", "completed", "timed_out"]
    assert ends[2][0] - ends[1][0] >= 10.0
    assert_sound(tree)


async def test_a_run_that_was_interrupted_goes_on_with_what_it_had_left(autojump_clock: MockClock) -> None:
    time = RunTime(10.0, left_s=3.0)

    for expected_s in (3.0, 10.0):
        began = trio.current_time()
        time.begin()
        time.begin()
        await time.over()
        assert trio.current_time() - began == expected_s


async def test_a_run_that_has_ended_has_no_time_that_could_be_over(autojump_clock: MockClock) -> None:
    time = RunTime(10.0)
    time.begin()
    time.end()

    with trio.move_on_after(1_000) as waiting:
        await time.over()

    assert waiting.cancelled_caught
