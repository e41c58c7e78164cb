"""A session that ends with a question says so, behind its end, until somebody answers."""

from trio.testing import MockClock

from actors.protocol.model import ModelFailure
from actors.testing import ROOT
from orchestrator.views.live import replayed
from tests.actors.stage import Bench, assert_sound, bodies, row, run, spawn, stage, wait


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
    (shown,) = replayed(tree.outlet.lines).rows()
    assert shown.state.word == "needs input"
    assert shown.activity is not None
    assert shown.activity.label == "Which one do you want?"


async def test_an_answer_to_it_ends_the_waiting(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["Which one?", "Then the first."]})

    await run(tree)
    await run(tree, "the first")

    (shown,) = replayed(tree.outlet.lines).rows()
    assert shown.state.word == "completed"
    assert shown.task_state is None


async def test_neither_a_failure_nor_a_statement_waits_for_anybody(autojump_clock: MockClock) -> None:
    root = [spawn("bad", "good"), wait("bad", "good"), "All heard."]
    tree = stage({"root": root, "bad": [ModelFailure("auth", "Why?")], "good": ["Done."]})

    await run(tree)

    for name in ("root", "bad", "good"):
        assert bodies(tree.store, row(tree, name).id, "agent_status") == []
    assert_sound(tree)
