"""`sapwood run --resume SESSION` without a prompt, after a kill -9 of the whole process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.resuming import as_before
from orchestrator.engine.errors import WrongUsage
from store.disk.fs import RealFs
from store.disk.home import Home
from store.ids import short
from store.repair import runs
from tests.orchestrator.engine.processes import Desk, desk_at, living, marked_sleep, until

SCRIPT = """
[[reply]]
session = "root"
call = 1
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "quick", prompt = "go", wait = true }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "slow", prompt = "go" }
[[reply]]
session = "slow"
call = 1
[[reply.tool]]
name = "bash"
arguments = { command = "echo once >> effects.txt; SLEEP" }
[[reply]]
session = "slow"
text = "slow was told: {{last}}"
[[reply]]
session = "quick"
text = "quick"
[[reply]]
session = "root"
text = "slow says: {{child.slow}}"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def killed(desk: Desk, *options: str, text: str = SCRIPT) -> str:
    """A tree whose process was killed while one of its children was at work; its root."""
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(text.replace("SLEEP", sleep)), *options, "go")
    running.until_seen('"type":"child_settled"')
    until(lambda: living(sleep), "the tool of the slow child")
    running.send(9)
    running.end()
    until(lambda: not living(sleep), "the end of the tool that its host left")
    return desk.tree().root_id


@pytest.mark.parametrize("way", ["resume", "continue", "short"])
def test_a_killed_tree_goes_on_and_does_nothing_twice(desk: Desk, way: str) -> None:
    root_id = killed(desk)
    words = {"resume": ("run", "--resume", root_id), "continue": ("-c",), "short": ("-r", short(root_id))}[way]

    done = desk.run(*words, "--mode", "json")

    assert (done.status, done.faults()) == (0, [])
    texts = [
        event["message"]["content"][0]["text"]
        for event in done.events
        if event["type"] == "message_end" and event["depth"] == 0 and event["message"]["role"] == "assistant"
    ]
    assert "slow was told: The tool was interrupted" in texts[-1]
    assert (desk.folder / "effects.txt").read_text("utf-8") == "once\n"
    nodes = desk.tree().nodes
    assert {run.outcome for node in nodes.values() for run in runs(node.records)} == {"completed"}
    assert len(nodes) == 3


def test_with_a_prompt_what_was_interrupted_is_lost_and_told(desk: Desk) -> None:
    root_id = killed(desk)

    done = desk.run("-r", root_id, "what now?")

    assert done.status == 0
    outcomes = {node.header.name: [run.outcome for run in runs(node.records)] for node in desk.tree().nodes.values()}
    assert outcomes == {None: ["lost", "completed"], "quick": ["completed"], "slow": ["lost"]}


def test_a_tree_that_was_not_interrupted_needs_a_prompt(desk: Desk) -> None:
    desk.run("-m", desk.script('[[reply]]\ntext = "done"\n'), "go")

    done = desk.run("-c")

    assert done.status == 2
    assert "was not interrupted, so that nothing is left to do; give it a prompt" in done.err


LOOKS_ABOUT = """
[[reply]]
session = "slow"
call = 2
[[reply.tool]]
name = "read"
arguments = { path = "effects.txt" }
[[reply.tool]]
name = "bash"
arguments = { command = "pwd" }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "more", prompt = "go" }
[[reply]]
session = "slow"
call = 3
text = "{{tool.read}} | {{tool.bash}} | {{tool.spawn_agent}}"
"""


def test_it_goes_on_in_its_folder_and_under_its_terms_wherever_it_is_taken_up(desk: Desk, tmp_path: Path) -> None:
    options = ("--tools", "bash,spawn_agent", "--max-children", "2", "--timeout", "500")
    root_id = killed(desk, *options, text=LOOKS_ABOUT + SCRIPT)

    done = desk.run("-r", root_id, cwd=tmp_path)
    again = desk.run("-r", root_id, "and now?", cwd=desk.folder)

    assert (done.status, done.err) == (0, "")
    answer = done.out.decode()
    assert "There is no tool named 'read'. Tools: bash, spawn_agent" in answer
    assert f"| {desk.folder}" in answer
    assert "this would make 3 children in all, and the limit (max_children) is 2" in answer
    assert again.status == 0
    kept = [record.body() for record in desk.tree().nodes[root_id].records if b'"sapwood.terms"' in record.raw]
    assert [getattr(body, "data", None) for body in kept] == [
        {"tools": "bash,spawn_agent", "max_children": 2, "timeout": 500.0},
        {},
    ]


def test_what_is_given_anew_wins_over_what_was_kept(desk: Desk) -> None:
    root_id = killed(desk, "--max-children", "2", text=LOOKS_ABOUT + SCRIPT)

    done = desk.run("-r", root_id, "--max-children", "3")

    assert done.status == 0
    assert "the limit" not in done.out.decode()


def test_a_folder_that_is_gone_is_named(desk: Desk, tmp_path: Path) -> None:
    root_id, folder = killed(desk), desk.folder
    folder.rename(tmp_path / "elsewhere")
    home = Home(desk.home, desk.sessions, RealFs())

    with pytest.raises(WrongUsage) as caught:
        as_before(home, root_id, {"cwd": None, "tools": None})

    assert str(caught.value) == f"the folder of session {root_id}, {folder}, is not there any more; name one with -C"
    assert as_before(home, root_id, {"cwd": ".", "tools": None}) == {"cwd": ".", "tools": None}


CELL = """
[[reply]]
session = "root"
call = 1
[[reply.tool]]
name = "ipython"
arguments = { code = '''
import asyncio
handles = await asyncio.gather(*[rlm(f'task {n}', name=f'c{n}') for n in range(3)])
[await handle.result() for handle in handles]
''' }
[[reply]]
session = "root"
text = "{{tool.ipython}} | {{child.c0}} | {{child.c2}}"
[[reply]]
session = "c*"
call = 1
[[reply.tool]]
name = "bash"
arguments = { command = "SLEEP" }
[[reply]]
text = "{{last}}"
"""


def test_a_cell_that_was_interrupted_says_which_children_it_had_started_and_they_go_on(desk: Desk) -> None:
    sleep = marked_sleep()
    running = desk.start("-m", desk.script(CELL.replace("SLEEP", sleep)), "go")
    until(lambda: len(living(sleep)) == 3, "the tools of three children")
    running.send(9)
    running.end()
    until(lambda: not living(sleep), "the end of the tools that their host left")

    done = desk.run("-c")

    assert (done.status, done.err) == (0, "")
    cell, first, last = done.out.decode().split(" | ")
    named = cell.partition("It had started ")[2].partition("; you are told how they end.")[0]
    assert sorted(named.split(", ")) == ["c0", "c1", "c2"]
    assert "side effects are unknown" in first
    assert "side effects are unknown" in last
