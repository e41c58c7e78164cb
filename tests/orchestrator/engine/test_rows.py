"""What a stored tree goes on with: the limits of its sessions, what they have spent of them, and what is left of their time."""

from pathlib import Path

import pytest

from actors.protocol.budgets import Amount
from orchestrator.engine.rows import interrupted_s, run_time
from store.entries import Header, Known, MessageEntry, RunSettledEntry, SessionStateEntry
from store.messages import UserMessage
from store.records import Draft
from store.repair import Node
from store.times import iso
from store.tree import EntryTree
from store.wire import encode
from tests.orchestrator.engine.rig import Rig, home_at

SCRIPT = """
[cost]
input = 1.0
output = 10.0

[[reply]]
depth = 0
call = 1
usage = { input = 1000, output = 100 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "below", prompt = "go", wait = true, max_cost = 1, max_tokens = 40000, max_turns = 4, timeout_s = 60 }

[[reply]]
text = "done"
usage = { input = 1000, output = 100 }
"""


def test_the_limits_of_a_child_hold_after_a_restart_and_so_does_what_it_has_used_of_them(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path), tmp_path, SCRIPT)
    first = rig.run(budgets={"max_tokens": 100_000, "max_cost": 0.9})
    assert first.status == 0

    rig.run("more", session=first.root_id, budgets={"max_tokens": 200_000})

    assert rig.tree is not None
    supervisor = rig.tree.supervisor
    (child,) = rig.tree.root.children
    account = supervisor.state.budgets.accounts[child.id]
    # Its parent had 0.9 dollars, 0.002 of them spent: it is given no more than that.
    assert child.limits == {"max_cost": 0.898, "max_tokens": 40_000, "max_turns": 4, "timeout_s": 60}
    assert account.allowed == {"max_cost": 898 * 10**9, "max_tokens": 40_000, "max_turns": 4}
    assert account.spent == Amount(2 * 10**9, 1_100, 1)
    assert supervisor.state.children == 1
    root = supervisor.state.budgets.accounts[rig.tree.root.id]
    assert (root.allowed, root.spent.tokens) == ({"max_tokens": 200_000}, 4 * 1_100)
    assert root.claimed == Amount()


MESSAGE = MessageEntry(message=encode(UserMessage(content="go", timestamp=1)))  # type: ignore[arg-type]
LOST = RunSettledEntry(run=1, outcome="lost")
DONE = RunSettledEntry(run=1, outcome="completed")
NOTE = SessionStateEntry(state={"status": "active"})


def stored(*entries: tuple[float, Known]) -> Node:
    """A session that began at 1000, and entries with their times."""
    tree = EntryTree()
    for at, body in entries:
        tree.add(Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, iso(at)))
    return Node(Header(version=3, id="session-1", timestamp=iso(1_000.0), cwd="/"), tree)


@pytest.mark.parametrize(
    ("first", "later", "name"), [("port", None, "port"), (None, None, None), (None, "port", "port"), ("a", "b", "b")]
)
def test_a_stored_root_is_called_what_it_was_called_last(
    tmp_path: Path, first: str | None, later: str | None, name: str | None
) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, '[[reply]]\ntext = "well"\n')
    root_id = rig.run(name=first).root_id

    rig.run("more", session=root_id, name=later)

    assert rig.tree is not None
    root = rig.tree.root
    assert (root.name if root.is_named else None) == name


@pytest.mark.parametrize(
    ("entries", "worked_s"),
    [
        ([], 0.0),
        ([(1_001, MESSAGE), (1_007, MESSAGE)], 7.0),
        ([(1_001, MESSAGE), (1_007, MESSAGE), (5_000, LOST)], 7.0),
        ([(1_007, MESSAGE), (5_000, LOST), (6_000, NOTE), (7_000, MESSAGE), (7_002, MESSAGE), (8_000, LOST)], 9.0),
        ([(1_007, MESSAGE), (1_008, DONE), (7_000, MESSAGE), (7_002, MESSAGE), (8_000, LOST)], 2.0),
        ([(1_007, MESSAGE), (5_000, LOST), (7_000, MESSAGE), (7_002, DONE)], 0.0),
        ([(1_007, MESSAGE), (1_008, DONE), (9_000, NOTE)], 0.0),
    ],
    ids=["new", "open", "lost", "lost twice", "lost at last", "mended", "at rest"],
)
def test_only_work_in_runs_that_were_interrupted_counts(entries: list[tuple[float, Known]], worked_s: float) -> None:
    node = stored(*entries)

    assert interrupted_s(node) == worked_s
    time = run_time({"timeout_s": 8.0}, node)
    assert time is not None
    assert time.left_s == (max(0.0, 8.0 - worked_s) if worked_s else None)
    assert run_time({"max_cost": 1.0}, node) is None
