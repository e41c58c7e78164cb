"""What opening a session does to the tree that it is in: what a crash left out is written, once, by one way."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.engine.opening import OwnedTree
from store.disk.forest import read_tree
from store.disk.journal import read_journal
from store.disk.manager import SessionManager
from store.entries import MessageEntry, ModelChangeEntry
from store.errors import JournalDamaged, OwnedElsewhere
from store.messages import ToolCall, ToolResultMessage, decode_message, user_text
from store.repair import repair_plan
from tests.stored import Forest, StoredSession, sample


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


def crashed(forest: Forest) -> StoredSession:
    """A tree whose root, and a child of it, were cut off in the middle of a call."""
    root = sample(forest, ends="open")
    root.answer("I look.", calls=(ToolCall(id="call_r", name="bash"),))
    late = root.child("late", "Look again")
    late.prompt("Look again")
    late.is_billed_alone = True
    late.answer("", calls=(ToolCall(id="call_1", name="bash"), ToolCall(id="call_2", name="read")))
    late.result("call_1")
    return root


def lines(forest: Forest) -> dict[str, list[bytes]]:
    return {session.id: session.path.read_bytes().splitlines() for session in forest.sessions.values()}


def lacks(forest: Forest, root: StoredSession) -> int:
    return read_tree(forest.home.fs, forest.home, root.id).unrepaired


def by_manager(forest: Forest, session: StoredSession) -> None:
    SessionManager.open(session.path, home=forest.home, clock=lambda: forest.now).close()


def by_engine(forest: Forest, root: StoredSession) -> None:
    tree = OwnedTree.acquire(forest.home.fs, forest.home, root.id, lambda: forest.now)
    tree.load()
    tree.close()


def epochs(forest: Forest, root: StoredSession) -> set[int]:
    """Of the lock and of the last records."""
    lock = msgspec.json.decode(forest.home.lock_path(root.id).read_bytes())
    found = {read_journal(forest.home.fs, each.path, each.id).epoch for each in forest.sessions.values()}
    assert lock["epoch"] >= max(found)
    return found


def bodies(found: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Without what tells one owner from another."""
    return {session: [line.partition(b',"~":')[0] for line in each] for session, each in found.items()}


def test_a_session_manager_writes_what_the_engine_writes(tmp_path: Path) -> None:
    written = []
    for name in ("engine", "root", "child"):
        forest = Forest.at(tmp_path / name)
        root = crashed(forest)
        before = lines(forest)
        assert lacks(forest, root) > 3
        if name == "engine":
            by_engine(forest, root)
        else:
            at_rest = next(each for each in forest.sessions.values() if each.header.name == "tax-rounding")
            by_manager(forest, root if name == "root" else at_rest)
        after = lines(forest)
        assert {session: each[: len(before[session])] for session, each in after.items()} == before
        assert lacks(forest, root) == 0
        assert epochs(forest, root) == {
            1,
            2,
        }  # the second owner's is above the first's, though its lock is the first one
        written.append(bodies(after))
        forest.close()

    assert written[0] == written[1] == written[2]


def test_each_unanswered_call_gets_one_result_and_a_second_opening_adds_nothing(forest: Forest) -> None:
    root = crashed(forest)
    late = list(forest.sessions.values())[-1]

    by_manager(forest, late)
    once = lines(forest)
    by_manager(forest, late)
    by_manager(forest, root)

    assert lines(forest) == once
    with SessionManager.open(late.path, home=forest.home) as manager:
        said = [record.body() for record in manager.read_branch()]
    messages = [decode_message(each.message) for each in said if isinstance(each, MessageEntry)]
    results = [each for each in messages if isinstance(each, ToolResultMessage)]
    assert [(each.tool_call_id, each.is_error) for each in results] == [("call_1", False), ("call_2", True)]
    assert "side effects are unknown" in str(results[1].content)


def test_noting_something_on_a_tree_leaves_an_interrupted_run_to_be_taken_up(forest: Forest) -> None:
    root = crashed(forest)
    plan = repair_plan(read_nodes(forest, root), root.id)

    with SessionManager.open(root.path, home=forest.home, repairs=False) as manager:
        manager.append_session_info("noted")

    assert repair_plan(read_nodes(forest, root), root.id) == plan


def read_nodes(forest: Forest, root: StoredSession) -> dict[str, object]:
    forest.own(root)  # of a tree with an owner nothing is repaired in memory
    try:
        return dict(read_tree(forest.home.fs, forest.home, root.id).nodes)
    finally:
        forest.locks.pop().release()


def test_a_child_of_a_damaged_root_is_refused_and_nothing_is_written(forest: Forest) -> None:
    root = crashed(forest)
    child = list(forest.sessions.values())[1]
    root.damage()
    before = lines(forest)

    with pytest.raises(JournalDamaged, match=root.id):
        by_manager(forest, child)

    assert lines(forest) == before
    forest.own(root)  # nobody has it


def test_a_session_that_ended_well_is_opened_without_a_look_at_more(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the whole tree was read")

    monkeypatch.setattr("store.disk.manager.repair_tree", refuse)
    root = forest.root()
    root.prompt()
    root.answer("Done.")
    root.settle()
    root.add(ModelChangeEntry(provider="p", model_id="m"))
    with SessionManager.fork_from(root.path, "/work", home=forest.home) as fork:
        path = fork.file
    assert path is not None

    by_manager(forest, root)
    with SessionManager.open(path, home=forest.home) as again:
        again.append_message(user_text("more", 1))
    with pytest.raises(AssertionError, match="the whole tree"):
        SessionManager.open(path, home=forest.home)


def test_a_tree_that_is_owned_is_not_repaired(forest: Forest) -> None:
    root = crashed(forest)
    forest.own(root)
    before = lines(forest)

    with pytest.raises(OwnedElsewhere):
        by_manager(forest, root)

    assert lines(forest) == before
