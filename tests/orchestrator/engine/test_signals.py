"""Trees of real processes that are told to stop, or killed, at whatever moment."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.attribution import account
from store.repair import is_run_open, post_order, runs
from store.usage import add_up
from tests.orchestrator.engine.processes import Desk, Done, desk_at, living, marked_sleep, until

GO_ON = """
[[reply]]
session = "root"
last = "^go on$"
usage = { input = 5, output = 3 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "again", prompt = "once more", wait = true }

[[reply]]
session = "root"
last = "once more is done"
usage = { input = 5, output = 3 }
text = "went on"

[[reply]]
session = "again"
usage = { input = 2, output = 1 }
text = "once more is done"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def sleepers(command: str) -> str:
    """Root, child and grandchild, each in a tool that does not end."""
    spawn = '[[reply.tool]]\nname = "spawn_agent"\narguments = { prompt = "sleep" }\n'
    bash = f'[[reply.tool]]\nname = "bash"\narguments = {{ command = "{command}", timeout_s = 1000 }}\n'
    usage = "usage = { input = 10, output = 2 }\n"
    return (
        f"{GO_ON}[[reply]]\ndepth = 0\n{usage}{spawn}{bash}[[reply]]\ndepth = 1\n{usage}{spawn}{bash}"
        f"[[reply]]\ndepth = 2\n{usage}{bash}"
    )


def check_rest(desk: Desk) -> None:
    """Nothing to repair, nothing running, all spent folded."""
    tree = desk.tree()
    # A host that died between `child_spawned` and the child's file leaves a lost child without a journal.
    assert set(tree.troubles.values()) <= {"its journal is missing"}
    assert (tree.unrepaired, tree.liveness.state) == (0, "dead")
    accounts = {session: account(node.header, node.records) for session, node in tree.nodes.items()}
    for session, node in tree.nodes.items():
        assert not is_run_open(node.records)
        assert accounts[session].total == add_up(accounts[below].own for below, _ in post_order(tree.nodes, session))


def check_goes_on(desk: Desk, root: str) -> None:
    done = desk.run("--mode", "json", "-r", root, "go on")
    assert (done.status, done.faults()) == (0, [])
    assert done.events[-1]["type"] in {"agent_settled", "child_usage_attributed"}
    check_rest(desk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_tree_from_the_leaves_up_with_all_its_processes(desk: Desk, number: signal.Signals) -> None:
    """C2."""
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(sleepers(sleep)), "go")
    running.until_seen('"toolName":"bash"', times=3)
    until(lambda: len(living(sleep)) == 3, "the tools")

    running.send(number)

    done = running.end()
    assert (done.status, done.err) == (128 + number, f"sapwood: aborted: stopped by {number.name}\n")
    assert done.faults() == []
    assert living(sleep) == set()
    settled = [event for event in done.events if event["type"] == "agent_settled"]
    assert [(event["depth"], event["aborted"], event["outcome"]) for event in settled] == [
        (depth, True, "aborted") for depth in (2, 1, 0)
    ]
    assert done.events[-1] == settled[-1]
    ends = [event for event in done.events if event["type"] == "tool_execution_end" and event["toolName"] == "bash"]
    assert [event["isError"] for event in ends] == [True] * 3
    check_rest(desk)
    check_goes_on(desk, done.events[0]["id"])


def test_a_signal_in_text_mode_leaves_stdout_empty(desk: Desk) -> None:
    sleep = marked_sleep()
    running = desk.start("-m", desk.script(sleepers(sleep)), "go")
    until(lambda: len(living(sleep)) == 3, "the tools")
    running.send(signal.SIGTERM)
    assert running.end() == Done(143, b"", "sapwood: aborted: stopped by SIGTERM\n")
    assert living(sleep) == set()
    check_rest(desk)


def test_a_second_signal_ends_it_at_once_and_leaves_no_process(desk: Desk) -> None:
    sleep = marked_sleep()
    stubborn = f"trap '' TERM INT HUP; {sleep}; {sleep}"
    running = desk.start("--mode", "json", "-m", desk.script(sleepers(stubborn)), "go")
    until(lambda: len(living(sleep)) == 3, "the tools")
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    done = running.end()
    assert done.status in {130, 143}
    assert "Traceback" not in done.err
    assert living(sleep) == set()
    assert {run.outcome for node in desk.tree().nodes.values() for run in runs(node.records)} <= {"aborted", "lost"}
    check_goes_on(desk, desk.tree().root_id)


@pytest.mark.parametrize("lines", [1, 2, 4, 7, 12, 20, 35])
def test_a_signal_at_any_moment_closes_every_bracket(desk: Desk, lines: int) -> None:
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(sleepers(sleep)), "go")
    running.until_seen("\n", times=lines)
    running.send(signal.SIGTERM)
    done = running.end()
    assert (done.status, done.faults()) == (143, [])
    assert "Traceback" not in done.err
    assert done.events[-1]["type"] in {"agent_settled", "child_usage_attributed"}
    assert living(sleep) == set()
    check_rest(desk)


@pytest.mark.parametrize("size", [1, 300, 900, 1_600, 2_500, 4_000])
def test_a_tree_that_was_killed_is_lost_once_and_can_go_on(desk: Desk, size: int) -> None:
    """C8: after a crash neither running nor failed by anybody."""
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(sleepers(sleep)), "go")
    until(lambda: sum(map(len, desk.journals().values())) >= size, f"journals of {size} bytes")
    running.send(signal.SIGKILL)
    running.end()
    written = desk.journals()

    tree = desk.tree()

    assert tree.liveness.state == "dead"
    assert desk.journals() == written  # a reader changes nothing
    outcomes = {run.outcome for node in tree.nodes.values() for run in runs(node.records)}
    assert outcomes <= {"lost"}
    until(lambda: not living(sleep), "the end of the tools that their host left")
    done = desk.run("--mode", "json", "-r", tree.root_id, "-m", "scripted/script.toml", "go on")
    assert (done.status, done.faults()) == (0, [])
    for session, data in written.items():
        whole = data[: data.rfind(b"\n") + 1]
        assert desk.journals()[session].startswith(whole)
    check_rest(desk)
    after = desk.tree()
    for session, node in tree.nodes.items():
        told = [(run.run, run.outcome) for run in runs(node.records)]
        now = [(run.run, run.outcome) for run in runs(after.nodes[session].records)]
        assert now[: len(told)] == told
