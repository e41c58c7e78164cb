"""A model that spawns for ever: whichever way it asks, the one gate stops it, and what was counted outlives the host."""

from pathlib import Path
from typing import Any

from actors.protocol.limits import Limits
from orchestrator.engine.declared.plan import plan_of
from store.disk.forest import read_tree
from tests.orchestrator.engine.rig import Flushes, Rig, home_at

SPAWN = """[[reply.tool]]
name = "spawn_agent"
arguments = { prompt = "more" }
"""
CELL = """[[reply.tool]]
name = "ipython"
arguments = { code = "[await rlm('more', tools=['spawn_agent', 'ipython']) for _ in range(3)]" }
"""
# Everybody asks for three more, by tools or by a cell, and once more when that was refused.
BOMB = f"""
[[reply]]
last = "^again"
{SPAWN}
[[reply]]
call = 1
depth = 1
{CELL}
[[reply]]
call = 1
{SPAWN * 3}
[[reply]]
call = 2
{SPAWN}
[[reply]]
text = "enough"
"""
LIMITS = Limits(max_depth=2, max_children=9, max_live_children=2)


def refusals(rig: Rig) -> list[dict[str, Any]]:
    return [event for event in rig.events if event["type"] == "limit_reached"]


def spawned(rig: Rig) -> int:
    return sum(event["type"] == "child_spawned" for event in rig.events)


def test_all_ways_to_spawn_go_through_one_gate_and_its_count_outlives_the_host(tmp_path: Path) -> None:
    """C3."""
    rig = Rig(home_at(tmp_path / "home"), tmp_path, BOMB, Flushes)
    plan = plan_of({"children": [{"name": f"n{n}", "prompt": "more"} for n in range(2)], "prompt": "more"}, "tree.toml")

    ended = rig.run("more", tree=plan, limits=LIMITS)

    assert (ended.status, rig.faults(ended)) == (0, [])
    assert spawned(rig) == 9
    assert {event["limit"] for event in refusals(rig)} == {"max_children", "max_depth"}
    depths = [node.header.depth for node in read_tree(rig.home.fs, rig.home, ended.root_id).nodes.values()]
    assert (max(depths), len(depths)) == (2, 10)

    again = rig.run("again", session=ended.root_id, model="scripted/script", limits=LIMITS)

    assert (again.status, rig.faults(again)) == (0, [])
    assert spawned(rig) == 0
    assert refusals(rig)[0]["allowed"] == 9
    assert refusals(rig)[0]["value"] == 10
