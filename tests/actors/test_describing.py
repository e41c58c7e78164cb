"""A session that ends with a question says so, behind its end, until somebody answers."""

from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from actors.protocol.mail import Abort, Prompt
from actors.protocol.model import ModelFailure, ModelInfo, ModelRequest
from actors.testing import ROOT, FunctionModel
from orchestrator.views.live import LiveTree
from orchestrator.views.rows import AgentRow
from store.usage import Price
from tests.actors.stage import (
    Answer,
    Bench,
    assert_sound,
    assert_totals,
    bodies,
    of_type,
    outcome,
    playing,
    row,
    run,
    spawn,
    stage,
    until,
    wait,
)


def rows(tree: Bench) -> list[AgentRow]:
    """What a watcher of the stream sees."""
    fold = LiveTree()
    for line in tree.outlet.lines:
        fold.take_line(line)
    return fold.rows()


def kinds(tree: Bench) -> list[str]:
    return [str(event["type"]) for event in tree.events() if event.get("sessionId") == ROOT]


async def test_a_question_at_the_end_is_written_behind_the_end_of_the_run(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["Two ways are open. Which one do you want?"]})

    await run(tree)

    (status,) = bodies(tree.store, ROOT, "agent_status")
    assert status.status == {
        "summary": "Which one do you want?",
        "taskState": "needs_input",
        "basedOnMessageCount": 2,
    }
    assert kinds(tree)[-2:] == ["agent_settled", "agent_status"]
    assert_sound(tree)
    (shown,) = rows(tree)
    assert shown.state.word == "needs input"
    assert shown.activity is not None
    assert shown.activity.label == "Which one do you want?"


async def test_an_answer_to_it_ends_the_waiting(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["Which one?", "Then the first."]})

    await run(tree)
    await run(tree, "the first")

    (shown,) = rows(tree)
    assert shown.state.word == "completed"
    assert shown.task_state is None


async def test_neither_a_failure_nor_a_statement_waits_for_anybody(autojump_clock: MockClock) -> None:
    root = [spawn("bad", "good"), wait("bad", "good"), "All heard."]
    tree = stage({"root": root, "bad": [ModelFailure("auth", "Why?")], "good": ["Done."]})

    await run(tree)

    for name in ("root", "bad", "good"):
        assert bodies(tree.store, row(tree, name).id, "agent_status") == []
    assert_sound(tree)


DESCRIBER = "test/small"


def described_by(tree: Bench, *lines: Answer) -> FunctionModel:
    """The tree, with a small model that says these lines of what runs have come to."""
    supervisor, answers = tree.tree.supervisor, iter(lines)
    small = FunctionModel(lambda request: next(answers))
    usual = supervisor.workshop.model
    priced = ModelInfo("test", "small", price=Price(input=1_000_000, output=1_000_000))

    def model(name: str) -> Any:
        return (small, priced) if name == DESCRIBER else usual(name)

    supervisor.workshop = attrs.evolve(supervisor.workshop, model=model)
    supervisor.state = msgspec.structs.replace(supervisor.state, describer=DESCRIBER)
    return small


async def test_a_small_model_says_what_each_run_has_come_to_and_is_billed_to_the_session(
    autojump_clock: MockClock,
) -> None:
    tree = stage({"root": [spawn("a", wait=True), "All is heard."], "a": ["Ported the invoices."]})
    small = described_by(tree, "COMPLETED: the invoices are ported", "NEEDS_INPUT: which secret v3 uses")

    await run(tree)

    (child,) = bodies(tree.store, row(tree, "a").id, "agent_status")
    (root,) = bodies(tree.store, ROOT, "agent_status")
    assert child.status == {
        "summary": "the invoices are ported",
        "taskState": "completed",
        "basedOnMessageCount": 2,
    }
    assert (root.status["summary"], root.status["taskState"]) == ("which secret v3 uses", "needs_input")
    assert ["Ported the invoices." in str(request.messages[0].content) for request in small.requests] == [True, False]
    assert [request.tools for request in small.requests] == [(), ()]
    for name in ("root", "a"):
        (billed,) = bodies(tree.store, row(tree, name).id, "usage")
        assert (billed.kind, billed.model) == ("status", "small")
    assert kinds(tree)[-2:] == ["agent_settled", "agent_status"]
    assert_sound(tree)
    assert_totals(tree)
    top, below = rows(tree)
    assert top.state.word == "needs input"
    assert (below.state.word, below.summary) == ("completed", "the invoices are ported")


@pytest.mark.parametrize("said", ["I think it went well", "", ModelFailure("auth", "no key")])
async def test_without_a_description_the_run_ends_all_the_same(autojump_clock: MockClock, said: Answer) -> None:
    tree = stage({"root": ["Which one?"]})
    described_by(tree, said)

    await run(tree)

    assert outcome(tree) == "completed"
    (status,) = bodies(tree.store, ROOT, "agent_status")
    assert status.status["summary"] == "Which one?"
    assert of_type(tree, "diagnostic")[-1]["code"] == "status"
    assert_sound(tree)


async def test_nobody_is_asked_about_a_run_that_failed(autojump_clock: MockClock) -> None:
    tree = stage({"root": [ModelFailure("auth", "no key")]})
    small = described_by(tree)

    await run(tree)

    assert (outcome(tree), small.requests) == ("failed", [])


async def test_an_abort_ends_the_asking_too(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["Done."]})
    small = described_by(tree)

    async def for_ever(request: ModelRequest) -> Answer:
        await trio.sleep_forever()

    small.answer = for_ever
    async with playing(tree):
        await until(lambda: small.requests, 0.1)
        tree.tree.tell(Abort("not needed"))

    assert outcome(tree) == "aborted"
    assert bodies(tree.store, ROOT, "agent_status") == []
    assert_sound(tree)


async def test_what_comes_while_it_is_asked_belongs_to_the_run(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["First.", "Second."]})
    small = described_by(tree)

    async def slow(request: ModelRequest) -> Answer:
        await trio.sleep(5.0)
        return f"COMPLETED: {len(small.requests)}"

    small.answer = slow
    async with playing(tree):
        await until(lambda: small.requests, 0.1)
        tree.tree.tell(Prompt("prompt:2", "and then"))

    (status,) = bodies(tree.store, ROOT, "agent_status")
    assert status.status["summary"] == "2"
    assert len(bodies(tree.store, ROOT, "run_settled")) == 1
    assert_sound(tree)
    assert_totals(tree)
