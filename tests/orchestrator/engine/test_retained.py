"""Children outlive their run and their host: they go on with their context, and one that was deleted stays deleted."""

from pathlib import Path
from typing import Any

from actors.protocol.limits import Limits
from actors.protocol.restore import delivered
from store.disk.forest import read_tree
from store.entries import ChildUsageAttributedEntry
from store.repair import repair_plan, runs
from tests.orchestrator.engine.rig import Flushes, Rig, by_name, home_at, sums_of_journals, sums_of_rows
from tests.orchestrator.engine.test_crash import check_whole

FIRST = """
[[reply]]
session = "root"
call = 1
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "a", prompt = "go", wait = true, max_tokens = 5000 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "b", prompt = "go", wait = true }
[[reply]]
session = "root"
call = 2
[[reply.tool]]
name = "ipython"
arguments = { code = "(await rlm.delete_subagent('b')).deleted" }
[[reply]]
session = "b"
text = "b was here"
[[reply]]
text = "first"
usage = { input = 10, output = 1 }
"""
SECOND = """
[[reply]]
session = "root"
last = "^again"
[[reply.tool]]
name = "message_agent"
arguments = { to = "a", message = "and now?" }
[[reply.tool]]
name = "message_agent"
arguments = { to = "b", message = "and now?" }
[[reply.tool]]
name = "list_agents"
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "b", prompt = "go" }
[[reply]]
session = "a"
call = 2
text = "second, after {{last}}"
usage = { input = 10, output = 1 }
[[reply]]
session = "root"
text = "{{child.a}}"
"""
WRITES_ONCE = """
[[reply]]
last = "^again"
[[reply.tool]]
name = "message_agent"
arguments = { to = "a", message = "and now?" }
[[reply]]
text = "heard"
"""


def results(rig: Rig) -> list[str]:
    """What the tools of the root said, in the order of their calls."""
    found: list[dict[str, Any]] = [
        event["message"]
        for event in rig.events
        if event["type"] == "message_end" and event["message"]["role"] == "toolResult" and event["depth"] == 0
    ]
    return [message["content"][0]["text"] for message in found]


def test_children_go_on_with_their_context_in_another_host_and_the_deleted_one_is_gone(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, FIRST, Flushes)
    first = rig.run()
    assert (first.status, rig.faults(first)) == (0, [])
    assert results(rig)[-1] == "True\n"
    assert rig.tree is not None
    a = by_name(rig.tree)["a"]

    rig.text = SECOND
    again = rig.run("again", session=first.root_id)

    assert (again.status, rig.faults(again)) == (0, [])
    to_a, to_b, family, spawned = results(rig)
    assert to_a.startswith("a: ")
    assert "there is no 'b' to send to; family: a" in to_b
    assert [line.split()[0] for line in family.splitlines()] == ["root", "a"]
    assert "a child named 'b' is there already" in spawned
    assert again.answer == "second, after Message from root:\nand now?"
    nodes = read_tree(rig.home.fs, rig.home, first.root_id).nodes
    assert [run.outcome for run in runs(nodes[a].records)] == ["completed", "completed"]
    whys = [
        body.origin
        for record in nodes[first.root_id].records
        if isinstance(body := record.body(), ChildUsageAttributedEntry) and body.origin_session_id == a
    ]
    assert whys == ["spawn_task", "agent_message"]
    check_whole(nodes, first.root_id)
    assert repair_plan(nodes, first.root_id) == []
    assert sums_of_rows(rig.tree).total == sums_of_journals(nodes).total


def test_the_limits_of_a_child_and_of_its_tree_hold_in_another_host(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, FIRST, Flushes)
    first = rig.run()

    rig.text = SECOND.replace('{ name = "b", prompt', '{ name = "c", prompt')
    again = rig.run("again", session=first.root_id, limits=Limits(max_children=2))

    assert "this would make 3 children in all, and the limit (max_children) is 2" in results(rig)[3]
    assert rig.tree is not None
    rows = rig.tree.supervisor.directory.rows
    assert rows[by_name(rig.tree)["a"]].limits == {"max_tokens": 5000.0}
    assert again.status == 0


def test_messages_of_two_hosts_that_do_the_same_are_two_messages(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, FIRST, Flushes)
    root_id = rig.run().root_id
    rig.text = WRITES_ONCE

    for _ in range(2):
        again = rig.run("again", session=root_id, model="scripted/script")
        assert (again.status, rig.faults(again)) == (0, [])

    assert rig.tree is not None
    records = read_tree(rig.home.fs, rig.home, root_id).nodes[by_name(rig.tree)["a"]].records
    told = [name for record in records for name in delivered([record]) if name.startswith("message:")]
    assert len(told) == len(set(told)) == 2
