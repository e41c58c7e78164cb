"""What is left to do in a tree whose host has died, read from its journals."""

import pytest

from actors.protocol.resume import unfinished
from store import entries
from store.entries import Known
from store.messages import AssistantMessage, ToolCall
from store.repair import bounded
from tests.actors.protocol.test_restore import child_end, mail
from tests.store.test_repair import ROOT, answer, message, node, nodes_of, settled, spawned, told, user

LONG = "x" * 5_000
CHILD = "child-00"
ASKED, DONE, FAILED, ABORTED = user(), settled(), settled(outcome="failed"), settled(outcome="aborted")
ANSWERED = (ASKED, answer(text="done"))


def left(root: list[Known], child: list[Known] | None = None, **more: object) -> dict[str, str | None]:
    both = [node(ROOT, *root)] + ([] if child is None else [node(CHILD, *child, parent=ROOT)])
    return unfinished(nodes_of(*both), ROOT, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("records", "goes_on"),
    [
        ([], False),
        ([ASKED], True),
        ([*ANSWERED], True),
        ([*ANSWERED, DONE], False),
        ([*ANSWERED, DONE, ASKED], True),
        ([*ANSWERED, DONE, mail("m1")], True),
        ([*ANSWERED, FAILED, mail("m1")], True),
        ([*ANSWERED, ABORTED, mail("m1")], False),
        ([*ANSWERED, DONE, child_end("a")], True),
        ([*ANSWERED, FAILED, child_end("a")], False),
    ],
)
def test_a_session_goes_on_that_has_an_open_run_or_was_about_to_begin_one(records: list[Known], goes_on: bool) -> None:
    assert left(records) == ({ROOT: None} if goes_on else {})


def test_a_child_that_was_never_begun_begins_with_its_task() -> None:
    for records in (None, [], [entries.ModelChangeEntry(provider="a", model_id="b")]):
        assert left([ASKED, spawned(CHILD)], records) == {ROOT: None, CHILD: "p"}


def test_a_child_whose_journal_cannot_be_read_is_left_alone() -> None:
    assert left([ASKED, spawned(CHILD)], None, unreadable=[CHILD]) == {ROOT: None}


def test_a_child_goes_on_unless_its_parent_was_told_that_it_has_ended() -> None:
    assert left([ASKED, spawned(CHILD)], [ASKED]) == {ROOT: None, CHILD: None}
    assert left([ASKED, spawned(CHILD), told(CHILD, 1)], [ASKED]) == {ROOT: None}
    assert left([ASKED, spawned(CHILD), told(CHILD, 1)], None) == {ROOT: None}
    assert left([ASKED, spawned(CHILD), told(CHILD, 1)], [*ANSWERED, DONE, ASKED]) == {ROOT: None, CHILD: None}


def test_a_child_works_on_below_a_parent_that_has_nothing_to_do() -> None:
    assert left([*ANSWERED, spawned(CHILD), DONE], [ASKED]) == {CHILD: None}


def test_a_long_task_is_taken_from_the_call_that_asked_for_it_or_the_child_is_lost() -> None:
    cut = entries.ChildSpawnedEntry(
        child_session_id=CHILD, name="c", child_depth=1, prompt=bounded(LONG, 4096), model="m", tool_call_id="c1"
    )
    call = ToolCall(id="c1", name="spawn_agent", arguments={"prompt": LONG})
    cell = ToolCall(id="c1", name="ipython", arguments={"code": "await rlm(x)"})

    assert left([ASKED, message(AssistantMessage(content=(call,))), cut]) == {ROOT: None, CHILD: LONG}
    assert left([ASKED, message(AssistantMessage(content=(cell,))), cut]) == {ROOT: None}
