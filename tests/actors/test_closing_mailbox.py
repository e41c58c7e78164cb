"""A message that meets a session which is just coming to rest: it is delivered, queued or refused, whatever the moment."""

import pytest
import trio
from trio.testing import MockClock

from actors.mailbox import Mailbox
from actors.protocol.mail import Abort, CompactNow, Emptied, Prompt
from actors.protocol.model import ModelFailure
from actors.testing import ROOT
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    bodies,
    of_type,
    pausing,
    playing,
    requests,
    row,
    spawn,
    stage,
    told,
    until,
    wait,
)

# A session needs about so many steps of the scheduler from its answer to the end of its task.
MOMENTS = range(30)


def was_read(tree: Bench, text: str) -> int:
    """In how many messages of any journal this text was handed to a model."""
    return sum(
        text in told_text
        for session in tree.store.journals
        for told_text in [bytes(body.message).decode() for body in bodies(tree.store, session, "message")]
    )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_prompt_to_a_root_that_comes_to_rest_is_worked_on(autojump_clock: MockClock, moment: int) -> None:
    tree = stage({"root": [pausing(1.0, "first"), "second"]})

    async with playing(tree):
        await trio.sleep(1.0)
        for _ in range(moment):
            await trio.lowlevel.checkpoint()
        try:
            tree.tree.tell(Prompt("late", "one more thing"))
        except RuntimeError:
            assert tree.root.runs == 1
            return

    assert was_read(tree, "one more thing") == 1
    assert "one more thing" in told(requests(tree)[-1])
    assert_sound(tree)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_prompt_to_a_child_that_comes_to_rest_is_worked_on_and_its_parent_hears_every_end(
    autojump_clock: MockClock, moment: int
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a"), pausing(100.0, "done")],
        "a": [pausing(1.0, "first"), "second"],
    }
    tree = stage(parts)

    async with playing(tree):
        await until(lambda: len(requests(tree)) == 3, 0.001)
        await trio.sleep(1.0)
        for _ in range(moment):
            await trio.lowlevel.checkpoint()
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("late", "one more thing"))

    assert was_read(tree, "one more thing") == 1
    runs = [body.run for body in bodies(tree.store, row(tree, "a").id, "run_settled")]
    assert runs in ([1], [1, 2])
    assert [event["run"] for event in of_type(tree, "child_settled")] == runs
    assert_sound(tree)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_prompt_to_a_grandchild_finds_it_while_its_parent_comes_to_rest(
    autojump_clock: MockClock, moment: int
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a"), pausing(100.0, "done")],
        "a": [spawn("b", wait=True), pausing(1.0, "a is done"), "a has heard"],
        "b": ["first", pausing(1.0, "second")],
    }
    tree = stage(parts)

    async with playing(tree):
        await until(lambda: row(tree, "root").children and row(tree, "a").turns == 2, 0.001)
        await trio.sleep(1.0)
        for _ in range(moment):
            await trio.lowlevel.checkpoint()
        tree.tree.supervisor.directory.deliver(row(tree, "b"), Prompt("late", "one more thing"))

    assert was_read(tree, "one more thing") == 1
    assert row(tree, "b").runs == 2
    told_runs = [body.run for body in bodies(tree.store, row(tree, "a").id, "child_settled")]
    assert told_runs == [1, 2]
    assert "second" in told([request for request in requests(tree) if request.session_name == "a"][-1])
    assert_sound(tree)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_abort_that_meets_a_woken_child_keeps_nobody_waiting(autojump_clock: MockClock, moment: int) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", wait=True), wait(), pausing(50.0, "done"), "I see"],
        "a": ["first", pausing(1.0, "second")],
    }
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(1.0)
        directory = tree.tree.supervisor.directory
        directory.deliver(row(tree, "a"), Prompt("late", "one more thing"))
        for _ in range(moment):
            await trio.lowlevel.checkpoint()
        directory.deliver(row(tree, "a"), Abort("never mind"))

    assert tree.root.outcome == "completed"
    assert_sound(tree)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_two_prompts_to_a_session_that_comes_to_rest_are_both_worked_on_in_order(
    autojump_clock: MockClock, moment: int
) -> None:
    tree = stage({"root": [spawn("a"), pausing(100.0, "done")], "a": [pausing(1.0, "first"), "second", "third"]})

    async with playing(tree):
        await until(lambda: len(requests(tree)) == 3, 0.001)
        await trio.sleep(1.0)
        for number in (1, 2):
            for _ in range(moment // number):
                await trio.lowlevel.checkpoint()
            tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt(f"late-{number}", f"thing {number}"))

    said = [bytes(body.message).decode() for body in bodies(tree.store, row(tree, "a").id, "message")]
    asked = [text for text in said if "thing" in text]
    assert ["thing 1" in text for text in asked] == [True, False]
    assert_sound(tree)


async def test_a_tree_that_has_ended_takes_no_prompt_and_says_so(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["done"]})
    await tree.run()

    for command in (Prompt("late", "one more thing"), CompactNow()):
        with pytest.raises(RuntimeError, match="not running"):
            tree.tree.tell(command)

    tree.tree.tell(Abort())
    assert not tree.root.has_task
    await tree.run("again")
    assert tree.store.types(ROOT).count("run_settled") == 2


async def test_a_session_whose_run_failed_goes_on_with_what_waits_for_it(autojump_clock: MockClock) -> None:
    failing = ModelFailure("auth", "no key")
    parts: dict[str, list[Line]] = {"root": [spawn("a"), wait(), "I see"], "a": [pausing(5.0, failing), "second"]}
    tree = stage(parts)

    async with playing(tree):
        await trio.sleep(1.0)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("late", "one more thing", "follow_up"))

    assert [event["outcome"] for event in of_type(tree, "child_settled")] == ["failed", "completed"]
    assert was_read(tree, "one more thing") == 1
    assert_sound(tree)


async def test_putting_mail_into_a_closed_mailbox_is_answered_and_never_raises() -> None:
    mailbox = Mailbox()

    assert mailbox.put(Abort())
    assert [letter.mail for letter in mailbox.close()] == [Abort()]
    assert not mailbox.put(Abort())
    assert mailbox.close() == []


async def test_a_mailbox_closes_only_when_nothing_is_in_it_that_somebody_sent() -> None:
    mailbox = Mailbox.holding(Abort())
    assert not mailbox.close_if_empty()

    drained = await mailbox.drain()
    mailbox.put_back(drained.letters)
    assert not mailbox.close_if_empty()

    await mailbox.drain()
    mailbox.put(Emptied())
    assert mailbox.close_if_empty()
    assert mailbox.is_closed
