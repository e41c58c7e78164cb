"""A disk that is full: for a while, for ever, from the start. Nothing half-written, nothing forgotten, a word why."""

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.repair import runs
from tests.orchestrator.engine.processes import Desk, desk_at, until

FULL = '"text":"not written, trying again: [Errno 27] File too large"'
LONG = "word " * 1_000
SCRIPT = f"""
[[reply]]
call = 1
text = "short"
usage = {{ input = 10, output = 1 }}
[[reply.tool]]
name = "list_agents"

[[reply]]
call = 2
text = "{LONG}"
usage = {{ input = 20, output = 2 }}
[[reply.tool]]
name = "list_agents"

[[reply]]
text = "the end"
usage = {{ input = 30, output = 3 }}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def files_up_to(size: int) -> Callable[[], None]:
    """No file of the process grows beyond that: as with a full disk, but `prlimit` can make room again."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_run_goes_on_when_space_returns(desk: Desk) -> None:
    running = desk.start("--mode", "json", "-m", desk.script(SCRIPT), "go", preexec_fn=files_up_to(4_096))
    running.until_seen(FULL)
    # What is there is whole, up to the last record that had room.
    waiting = desk.tree()
    assert (waiting.troubles, waiting.liveness.state) == ({}, "alive")
    (node,) = waiting.nodes.values()
    assert not any(LONG.encode() in record.raw for record in node.records)
    (before,) = desk.journals().values()
    assert len(before) <= 4_096

    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    done = running.end()
    assert (done.status, done.err, done.faults()) == (0, "", [])
    (after,) = desk.journals().values()
    assert after.startswith(before[: before.rfind(b"\n") + 1])
    tree = desk.tree()
    assert (tree.troubles, tree.unrepaired) == ({}, 0)
    (node,) = tree.nodes.values()
    assert sum(LONG.encode() in record.raw for record in node.records) == 1
    assert [run.outcome for run in runs(node.records)] == ["completed"]
    told = [event["message"] for event in done.events if event["type"] == "message_end"]
    kept = [record for record in node.records if record.type == "message"]
    assert len(told) == len(kept)


@pytest.mark.parametrize("mode", ["json", "text"])
def test_a_disk_that_stays_full_can_be_left_with_a_signal_and_says_why(desk: Desk, mode: str) -> None:
    running = desk.start("--mode", mode, "-m", desk.script(SCRIPT), "go", preexec_fn=files_up_to(4_096))
    if mode == "json":
        running.until_seen(FULL)
    else:
        until(lambda: any(b'"toolResult"' in data for data in desk.journals().values()), "the first turn")
    running.send(signal.SIGTERM)
    done = running.end()
    assert done.status == 143
    assert "Traceback" not in done.err
    if mode == "json":
        assert done.err.endswith(": the records that close the run could not be written: [Errno 27] File too large\n")
        assert done.faults() == []
    else:
        assert done.out == b""
        assert done.err.startswith("sapwood: ")
    root = desk.tree().root_id
    # The last record is small, and may have had room.
    assert {run.outcome for run in runs(desk.tree().nodes[root].records)} <= {"lost", "failed", "aborted"}
    # With room the session is as good as new.
    again = desk.run("--mode", "json", "-r", root, "more")
    assert (again.status, again.faults()) == (0, [])
    assert desk.tree().unrepaired == 0


@pytest.mark.parametrize("size", [0, 100, 600])
@pytest.mark.parametrize("mode", ["json", "text"])
def test_a_disk_that_is_full_from_the_start_is_told_without_a_header(desk: Desk, size: int, mode: str) -> None:
    """Lock file, journal: each has 512 bytes or so."""
    model = desk.script(SCRIPT)
    if size == 600:
        running = desk.start("--mode", mode, "-m", model, "go", preexec_fn=files_up_to(size))
        until(lambda: any(desk.journals().values()), "a header")
        running.send(signal.SIGTERM)
        done = running.end()
        assert done.status == 143
    else:
        done = desk.run("--mode", mode, "-m", model, "go", preexec_fn=files_up_to(size))
        assert (done.status, done.out) == (1, b"")
        assert "File too large" in done.err
    *warnings, _ = told = done.err.splitlines()
    assert [line for line in told if not line.startswith("sapwood: ")] == []
    assert bool(warnings) == (size == 600 and mode == "text"), "who waits for room is told, where no stream tells it"
    assert desk.run("-m", model, "go").status == 0
