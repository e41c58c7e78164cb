"""A tree of three levels that is killed at every write and gone on with: nothing is done twice, nothing is told twice."""

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest

from actors.protocol.restore import delivered
from orchestrator.engine.declared.plan import plan_of
from orchestrator.engine.declared.speaker import TASK
from orchestrator.engine.errors import NotOurs, WrongUsage
from orchestrator.engine.job import Ended
from store.disk.forest import read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import MessageEntry
from store.messages import AssistantMessage, ToolResultMessage, decode_message
from store.repair import Node, repair_plan, runs
from store.replay import replay_lines
from store.stream import check_stream
from tests.faulty_fs import FaultyFs, PowerLoss
from tests.orchestrator.engine.rig import Flushes, Rig, home_at, script, sums_of_journals
from tests.orchestrator.engine.test_crash import IMAGES, check_whole, home_on, is_all

EFFECTS = script("effects.toml")
NAMES = ("root", "side", "mid", "leaf")


@attrs.define
class Killing(RealFs):
    """The process is killed with SIGKILL in the middle of its write `number`, or right behind it."""

    number: int
    is_behind: bool

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.number -= 1
        if self.number == 0:
            super().write(fd, data if self.is_behind else data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)


def ended_how(work: Callable[[], object]) -> int:
    """The wait status of a process of its own that does this."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def bash_calls(node: Node) -> dict[str, str]:
    """What became of each effect of a session: `done`, or what the model was told instead."""
    commands: dict[str, str] = {}
    found: dict[str, str] = {}
    for record in node.records:
        body = record.body()
        message = decode_message(body.message) if isinstance(body, MessageEntry) else None
        if isinstance(message, AssistantMessage):
            commands |= {
                call.id: call.checked_arguments["command"].split()[1] for call in message.calls if call.name == "bash"
            }
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in commands:
            found[commands.pop(message.tool_call_id)] = "interrupted" if message.is_error else "done"
    assert not commands, "a call is left without its result"
    return found


def lines_of(file: Path) -> list[str]:
    return file.read_text("utf-8").split() if file.exists() else []


def check_resumed(rig: Rig, root_id: str, effects: Path) -> Counter[str]:
    """Everything that must hold of a tree that was interrupted and has come to its end. What became of its effects."""
    tree = read_tree(rig.home.fs, rig.home, root_id)
    nodes = tree.nodes
    assert repair_plan(nodes, root_id) == []
    check_whole(nodes, root_id)
    for node in nodes.values():
        told = [name for record in node.records for name in delivered([record])]
        assert len(told) == len(set(told)), "something was handed to a model twice"
        assert [(run.run, run.outcome) for run in runs(node.records)] == [(1, "completed")]
    assert rig.tree is not None
    assert {session: row.total for session, row in rig.tree.supervisor.directory.rows.items()} == sums_of_journals(
        nodes
    ).total
    assert check_stream(replay_lines(nodes, root_id)) == []
    lines = lines_of(effects)
    assert len(lines) == len(set(lines)), f"an effect has happened twice: {lines}"
    became = {name: how for node in nodes.values() for name, how in bash_calls(node).items()}
    assert {name for name, how in became.items() if how == "done"} <= set(lines) <= set(became)
    return Counter(became.values())


def killed_at(number: int, folder: Path, *, is_behind: bool) -> Rig | None:
    """A tree whose process was killed in its write `number`, ready to be gone on with; None where it ended before that."""
    (folder / "work").mkdir(parents=True)
    home = home_at(folder / "home")
    killed = Rig(Home(home.root, home.sessions, Killing(number, is_behind)), folder / "work", EFFECTS)
    status = ended_how(killed.run)
    if status == 0:
        return None
    assert os.WTERMSIG(status) == signal.SIGKILL
    return Rig(home, folder / "work", EFFECTS)


def resumed(rig: Rig, root_id: str) -> Ended | None:
    """Go on with it; None where there is nothing to go on with."""
    try:
        return rig.run(None, session=root_id, model=None)
    except NotOurs as error:
        assert "header" in str(error)  # noqa: PT017
    except WrongUsage as error:
        assert "was not interrupted" in str(error) or "no session" in str(error)  # noqa: PT017
    return None


def test_killed_at_every_write_and_gone_on_with_a_tree_does_and_tells_nothing_twice(tmp_path: Path) -> None:
    became: Counter[str] = Counter()
    count = 0
    places = ((number, is_behind) for number in itertools.count(1) for is_behind in (False, True))
    for number, is_behind in places:
        folder = tmp_path / f"{number}-{is_behind}"
        rig = killed_at(number, folder, is_behind=is_behind)
        if rig is None:
            break
        for root_id in (path.stem for path in rig.home.sessions.glob("*.lock")):
            ended = resumed(rig, root_id)
            if ended is not None:
                assert (ended.status, ended.answer, rig.faults(ended)) == (0, "the root answers", []), folder.name
                became += check_resumed(rig, root_id, folder / "work" / "effects.txt")
                count += 1
    assert count > 60
    assert became["done"] > 100
    assert became["interrupted"] > 3


def test_killed_again_while_it_goes_on_a_tree_does_nothing_twice_either(tmp_path: Path) -> None:
    count = 0
    for number in range(6, 40, 3):
        folder = tmp_path / str(number)
        rig = killed_at(number, folder, is_behind=True)
        assert rig is not None
        (root_id,) = (path.stem for path in rig.home.sessions.glob("*.lock"))
        for again in (4, 9):
            home = Home(rig.home.root, rig.home.sessions, Killing(again, is_behind=False))
            killed = Rig(home, folder / "work", EFFECTS)
            ended_how(partial(killed.run, None, session=root_id, model=None))
        ended = resumed(rig, root_id)
        if ended is not None:
            assert (ended.status, ended.answer, rig.faults(ended)) == (0, "the root answers", []), folder.name
            check_resumed(rig, root_id, folder / "work" / "effects.txt")
            count += 1
    assert count > 5


def test_wherever_the_power_fails_a_tree_that_goes_on_loses_nothing_and_tells_nothing_twice(tmp_path: Path) -> None:
    count = 0
    number = 8
    while True:
        number += 5
        fs = FaultyFs.holding("/s/sessions")
        fs.power_fails_at = number
        rig = Rig(home_on(fs), tmp_path, EFFECTS, Flushes)
        (tmp_path / "effects.txt").unlink(missing_ok=True)
        try:
            rig.run()
        except BaseException as error:
            if not is_all(error, PowerLoss):
                raise
        if fs.calls < number:
            break
        assert rig.tree is not None
        image = list(IMAGES.values())[number % len(IMAGES)]
        rig = Rig(home_on(image(fs)), tmp_path, EFFECTS, Flushes, tree=rig.tree)
        ended = resumed(rig, rig.tree.root.id) if rig.tree else None
        if ended is not None:
            assert (ended.status, ended.answer, rig.faults(ended)) == (0, "the root answers", []), number
            nodes = read_tree(rig.home.fs, rig.home, ended.root_id).nodes
            assert repair_plan(nodes, ended.root_id) == []
            check_whole(nodes, ended.root_id, is_power_lost=True)
            count += 1
    assert count > 20


def test_a_tree_that_has_ended_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, EFFECTS)
    root_id = rig.run().root_id

    with pytest.raises(WrongUsage, match="was not interrupted"):
        rig.run(None, session=root_id, model=None)


def test_a_declared_tree_goes_on_with_what_is_left_of_it(tmp_path: Path) -> None:
    """Also where its file is gone: the journal of the root holds what was declared."""
    text = """
[[reply]]
session = "slow"
call = 1
[[reply.tool]]
name = "bash"
arguments = { command = "echo slow >> effects.txt" }
[[reply]]
text = "answer to: {{last}}"
"""
    plan = plan_of(
        {
            "children": [
                {"name": "quick", "prompt": "go"},
                {"name": "slow", "prompt": "go"},
                {"name": "late", "prompt": "{{child.slow}}", "after": ["quick", "slow"]},
            ]
        },
        "tree.toml",
    )
    count = 0
    for number in itertools.count(4, 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        home = home_at(folder / "home")
        killed = Rig(Home(home.root, home.sessions, Killing(number, is_behind=True)), folder, text)
        if ended_how(partial(killed.run, TASK, tree=plan)) == 0:
            break
        (root_id,) = (path.stem for path in home.sessions.glob("*.lock"))
        rig = Rig(home, folder, text)
        ended = resumed(rig, root_id)
        if ended is not None:
            assert (ended.status, rig.faults(ended)) == (0, []), number
            heads = [line for line in ended.answer.split("\n") if line.startswith("## ")]
            assert heads == ["## quick: completed", "## slow: completed", "## late: completed"]
            assert lines_of(folder / "effects.txt") in ([], ["slow"])
            count += 1
    assert count > 5
