"""Cells that work with many children at once, in a real kernel under a real host."""

from pathlib import Path
from typing import Any

import msgspec

from store.disk.forest import read_tree
from store.entries import CustomMessageEntry
from tests.orchestrator.engine.rig import Rig, home_at
from tests.orchestrator.engine.test_crash import check_whole


def script(cell: str, more: str = "") -> str:
    """The root runs this cell and then answers with what came of it; everybody else says what it was asked."""
    return f"""{more}
[cost]
input = 1.0
output = 1.0
[[reply]]
session = "root"
call = 1
usage = {{ input = 10, output = 1 }}
[[reply.tool]]
name = "ipython"
arguments = {{ code = {msgspec.json.encode(cell).decode()} }}
[[reply]]
session = "root"
text = "{{{{tool.ipython}}}}"
usage = {{ input = 10, output = 1 }}
[[reply]]
text = "heard {{{{last}}}}"
usage = {{ input = 10, output = 1 }}
"""


def run(folder: Path, cell: str, more: str = "") -> tuple[Rig, str, list[dict[str, Any]]]:
    """The rig, the answer of the root, and the notices that the root was given in messages."""
    rig = Rig(home_at(folder / "home"), folder, script(cell, more))
    ended = rig.run()
    assert (ended.status, rig.faults(ended)) == (0, [])
    nodes = read_tree(rig.home.fs, rig.home, ended.root_id).nodes
    check_whole(nodes, ended.root_id)
    bodies = [record.body() for record in nodes[ended.root_id].records if record.type == "custom_message"]
    return rig, ended.answer, [body.details for body in bodies if isinstance(body, CustomMessageEntry)]


def test_32_children_that_answer_a_parent_busy_in_a_cell_are_32_answers_and_one_wake_up(tmp_path: Path) -> None:
    cell = """
import asyncio
await asyncio.gather(*[rlm(f'task {n}', name=f'c{n}') for n in range(32)])
while any(agent.status == 'running' for agent in await rlm.list_subagents()):
    sum(range(10_000))
'busy no more'
"""
    rig, _, told = run(tmp_path, cell)

    (all_at_once,) = told
    assert len(set(all_at_once["delivers"])) == 32
    assert rig.tree is not None
    assert rig.tree.root.turns == 2
    assert {child.outcome for child in rig.tree.root.children} == {"completed"}


def test_32_children_that_write_to_a_parent_busy_in_a_cell_are_heard_all_at_once(tmp_path: Path) -> None:
    cell = """
import asyncio
await asyncio.gather(*[rlm(f'task {n}', name=f'c{n}') for n in range(32)])
while any(agent.status == 'running' for agent in await rlm.list_subagents()):
    sum(range(10_000))
"""
    writes = """
[[reply]]
depth = 1
call = 1
[[reply.tool]]
name = "message_agent"
arguments = { to = "parent", message = "from {{last}}" }
"""
    rig, _, told = run(tmp_path, cell, writes)

    assert rig.tree is not None
    assert rig.tree.root.turns == 2
    messages = [details for details in told if "from" in details]
    assert {details["from"] for details in messages} == {f"c{number}" for number in range(32)}
    assert len(messages) == 32
    assert len(told) == 33


def test_64_children_of_one_cell_are_started_and_waited_for_at_once(tmp_path: Path) -> None:
    cell = """
import asyncio
handles = await asyncio.gather(*[rlm(f'task {n}') for n in range(64)])
results = await asyncio.gather(*[handle.result() for handle in handles])
assert [r.text for r in results] == [f'heard task {n}' for n in range(64)]
sum(r.ok for r in results)
"""
    rig, answer, told = run(tmp_path, cell)

    assert answer == "64\n"
    assert told == []
    assert rig.tree is not None
    assert rig.tree.root.turns == 2


def test_a_handle_of_one_call_is_taken_by_every_other(tmp_path: Path) -> None:
    """As PrimeIntellect-ai/prime-agent#824 wanted it: handles, rows of lists, names and ids alike."""
    rig = Rig(home_at(tmp_path / "home"), tmp_path, "")
    rig.text = """
[[reply]]
session = "root"
call = 1
[[reply.tool]]
name = "ipython"
arguments = { code = "handle = await rlm('first')\\nprint(handle.session_id, end='')" }
[[reply]]
session = "root"
call = 2
[[reply.tool]]
name = "wait_agents"
arguments = { names = ["{{last}}"] }
[[reply.tool]]
name = "ipython"
arguments = { code = '''
(await handle.send('second')).to, (await handle.result()).text
(row,) = await rlm.list_subagents()
(await rlm.wait([row, handle, handle.name]))[0].text, (await rlm.delete_subagent(row)).session_id == handle.session_id
''' }
[[reply]]
session = "root"
text = "{{tool.ipython}}"
[[reply]]
text = "heard {{last}}"
"""
    ended = rig.run()

    assert (ended.status, rig.faults(ended)) == (0, [])
    results = [event["result"]["content"][0]["text"] for event in rig.events if event["type"] == "tool_execution_end"]
    assert "completed" in results[1], results
    assert ended.answer == "('heard Message from root:\\nsecond', True)\n"
