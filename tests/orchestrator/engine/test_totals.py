"""Who spent what, in a tree of seven agents: exact at every node, live, in memory, and for a process that comes later."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.engine.job import Ended
from store.usage import Price, Spend, add_up
from tests.orchestrator.engine.rig import Rig, by_name, home_at, script, sums_of_rows, sums_of_stream

REPOSITORY = Path(__file__).resolve().parents[3]
PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
# Calls as (input, output, cache read, cache write): what the script says, copied by hand.
CALLS = {
    "root": [(1000, 101, 0, 0), (1200, 7, 1000, 200), (1500, 59, 1200, 0)],
    "left": [(211, 17, 0, 0), (307, 23, 211, 0)],
    "right": [(223, 19, 0, 0), (311, 29, 0, 0), (419, 31, 0, 8)],
    "left-1": [(503, 37, 0, 0)],
    "left-2": [(601, 41, 0, 0)],
    "right-1": [(701, 43, 0, 0), (809, 47, 701, 0)],
    "right-2": [(907, 3, 0, 0), (1009, 53, 0, 0)],
}
BELOW = {
    "root": ("left", "right", "left-1", "left-2", "right-1", "right-2"),
    "left": ("left-1", "left-2"),
    "right": ("right-1", "right-2"),
}
LEFT_2_FAILS = """
[[reply]]
session = "left-2"
text = "as far as it came"
usage = { input = 77, output = 5 }
fail = { kind = "auth", message = "the key was refused", after_chunks = 1 }
"""
READER = """
import json, sys
from pathlib import Path
from store.attribution import account
from store.disk.forest import read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.repair import runs
fs, root = RealFs(), Path(sys.argv[1])
tree = read_tree(fs, Home(root, root / "sessions", fs), sys.argv[2])
rows = {}
for session, node in tree.nodes.items():
    spent = account(node.header, node.records)
    fields = lambda spend: [getattr(spend, name) for name in spend.__struct_fields__ if name != "unpriced"]
    rows[session] = [fields(spent.own), fields(spent.total), [run.outcome for run in runs(node.records)]]
print(json.dumps([rows, tree.unrepaired, tree.troubles]))
"""


def spend(call: tuple[int, int, int, int]) -> Spend:
    price = (PRICE.input, PRICE.output, PRICE.cache_read, PRICE.cache_write)
    parts = [tokens * each for tokens, each in zip(call, price, strict=True)]
    return Spend(*call, *parts, sum(parts))


def expected(calls: dict[str, list[tuple[int, int, int, int]]]) -> tuple[dict[str, Spend], dict[str, Spend]]:
    own = {name: add_up(map(spend, each)) for name, each in calls.items()}
    total = {name: add_up(own[each] for each in (name, *BELOW.get(name, ()))) for name in own}
    return own, total


def in_a_new_process(rig: Rig, root_id: str) -> tuple[dict[str, Spend], dict[str, Spend], dict[str, list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", READER, str(rig.home.root), root_id],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
        check=True,
    )
    rows, unrepaired, troubles = json.loads(done.stdout)
    assert (unrepaired, troubles) == (0, {})
    return (
        {session: Spend(*row[0]) for session, row in rows.items()},
        {session: Spend(*row[1]) for session, row in rows.items()},
        {session: row[2] for session, row in rows.items()},
    )


@pytest.mark.parametrize("fails", [False, True], ids=["all well", "one child fails"])
def test_every_nodes_own_and_total_are_exact_live_and_for_a_process_that_comes_later(
    tmp_path: Path, fails: bool
) -> None:
    """C1."""
    calls = CALLS | ({"left-2": [(77, 5, 0, 0)]} if fails else {})
    text = script("seven.toml")
    cost, replies = text.split("\n\n[[reply]]", 1)
    rig = Rig(home_at(tmp_path / "home"), tmp_path, f"{cost}\n{LEFT_2_FAILS}\n[[reply]]{replies}" if fails else text)

    ended = rig.run("in halves and quarters")

    assert rig.faults(ended) == []
    assert rig.tree is not None
    ids = by_name(rig.tree)
    assert sorted(ids) == sorted(calls)
    own, total = ({ids[name]: each for name, each in sums.items()} for sums in expected(calls))
    seen = sums_of_stream(rig.events)
    assert (seen.own, seen.total) == (own, total)
    held = sums_of_rows(rig.tree)
    assert (held.own, held.total) == (own, total)
    read_own, read_total, outcomes = in_a_new_process(rig, ended.root_id)
    assert (read_own, read_total) == (own, total)
    failed = {ids["left-2"]} if fails else set()
    assert outcomes == {session: ["failed" if session in failed else "completed"] for session in own}


def test_a_failed_child_is_failed_everywhere_and_changes_none_of_the_others(tmp_path: Path) -> None:
    """C5, C7."""
    text = script("seven.toml")
    cost, replies = text.split("\n\n[[reply]]", 1)
    rig = Rig(home_at(tmp_path / "home"), tmp_path, f"{cost}\n{LEFT_2_FAILS}\n[[reply]]{replies}")

    ended = rig.run()

    assert ended == Ended(0, "completed", ended.root_id, "left says: left is done; right says: right is done")
    assert rig.tree is not None
    ids = by_name(rig.tree)
    failed = ids["left-2"]
    for kind, member in [
        ("run_settled", "sessionId"),
        ("agent_settled", "sessionId"),
        ("child_settled", "childSessionId"),
    ]:
        told = {event[member]: event["outcome"] for event in rig.events if event["type"] == kind}
        wanted = {session: "failed" if session == failed else "completed" for session in ids.values()}
        if kind == "child_settled":
            del wanted[ended.root_id]
        assert told == wanted
    notice = next(
        event for event in rig.events if event["type"] == "child_settled" and event["childSessionId"] == failed
    )
    assert notice["errorMessage"] == "the key was refused"
    assert notice["text"] == "as far as it came"
    result = next(
        event
        for event in rig.events
        if event["type"] == "tool_execution_end" and event["sessionId"] == ids["left"] and event["isError"]
    )
    assert "left-2: failed" in result["result"]["content"][0]["text"]
    assert {row.outcome for name, row in rig.tree.supervisor.directory.rows.items() if name != failed} == {"completed"}
    assert rig.tree.supervisor.directory.rows[failed].outcome == "failed"


def test_going_on_with_the_tree_bills_the_new_calls_and_no_old_one_again(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, script("seven.toml"))
    first = rig.run()
    assert rig.tree is not None
    before = sums_of_rows(rig.tree)
    rig.text = """
[cost]
input = 3.0
output = 15.0
[[reply]]
session = "root"
last = "^more$"
usage = { input = 40, output = 4 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "late", prompt = "a last thing", wait = true }
[[reply]]
session = "root"
usage = { input = 50, output = 5 }
text = "more is done"
[[reply]]
session = "late"
usage = { input = 60, output = 6 }
text = "late is done"
"""

    second = rig.run("more", session=first.root_id)

    assert (second.status, second.answer, rig.faults(second)) == (0, "more is done", [])
    after = sums_of_rows(rig.tree)
    new_own, late = add_up(map(spend, [(40, 4, 0, 0), (50, 5, 0, 0)])), spend((60, 6, 0, 0))
    assert after.own[first.root_id] == before.own[first.root_id] + new_own
    assert after.total[first.root_id] == before.total[first.root_id] + new_own + late
    old = set(before.own) - {first.root_id}
    assert {session: after.total[session] for session in old} == {session: before.total[session] for session in old}
    read_own, read_total, _ = in_a_new_process(rig, first.root_id)
    assert (read_own, read_total) == (after.own, after.total)


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_child_that_cannot_be_read_is_told_of_and_left_as_it_is(tmp_path: Path, harm: str) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, script("seven.toml"))
    first = rig.run()
    assert rig.tree is not None
    child, before = by_name(rig.tree)["left-1"], sums_of_rows(rig.tree)
    journal = rig.home.journal_path(child)
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "damaged":
        journal.write_bytes(data)
    else:
        journal.unlink()
    rig.text = '[cost]\n[[reply]]\ntext = "well"\n'

    second = rig.run("more", session=first.root_id)

    assert (second.status, second.answer, rig.faults(second)) == (0, "well", [])
    told = [event for event in rig.events if event["type"] == "diagnostic"]
    assert [(event["level"], event["code"]) for event in told] == [("warning", "unreadable")]
    assert child in told[0]["text"]
    assert journal.read_bytes() == data if harm == "damaged" else not journal.exists()
    # What it spent stands in the journals above it.
    assert sums_of_rows(rig.tree).total[first.root_id] == before.total[first.root_id]
    assert rig.tree.supervisor.directory.rows[child].outcome == "completed"
