"""`sapwood run --resume SESSION` without a prompt, after a kill -9 of the whole process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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


def killed(desk: Desk) -> str:
    """A tree whose process was killed while one of its children was at work; its root."""
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(SCRIPT.replace("SLEEP", sleep)), "go")
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
