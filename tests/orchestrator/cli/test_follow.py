"""`sapwood events --follow`: another terminal hears what a run tells."""

import signal
from pathlib import Path

import pytest

from store.stream import check_stream
from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import Desk, Running, until

WAITS = """
[[reply]]
call = 1
text = "Let me wait."
[[reply.tool]]
name = "bash"
arguments = { command = "until [ -e go ]; do sleep 0.02; done" }
[[reply]]
text = "done"
"""


def waiting(desk: Desk, name: str = "one") -> Running:
    """A run that goes on when the file `go` is there."""
    run = desk.start("--mode", "json", "--name", name, "-m", desk.script(WAITS), "wait")
    run.until_seen("tool_execution_start")
    return run


def connections(desk: Desk) -> int:
    """How many are connected to hosts of this home. Source: proc(5), /proc/net/unix; a listener has the flag 00010000."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().split("\n") if f"{desk.home}/run/" in line]
    return sum(line[3] != "00010000" for line in lines)


def test_a_run_is_followed_to_its_end(desk: Desk) -> None:
    run = waiting(desk)
    follower = desk.start("events", "--follow", "one", "--since", "0")
    follower.until_seen("tool_execution_start")
    pi = desk.start("events", "-f", "one", "--since", "0", "--dialect", "pi")
    pi.until_seen("tool_execution_start")
    (desk.folder / "go").touch()

    lived, heard, told = run.end(), follower.end(), pi.end()

    assert (heard.status, heard.out, heard.err) == (0, lived.out, "")
    assert (told.status, check_stream(told.lines, "pi", exit_status=0)) == (0, [])
    assert "sessionId" not in told.events[0]


def test_a_run_that_is_not_kept_is_followed_by_its_name(desk: Desk) -> None:
    run = desk.start("--mode", "json", "--no-session", "--name", "gone", "-m", desk.script(WAITS), "wait")
    run.until_seen("tool_execution_start")
    follower = desk.start("events", "-f", "gone", "--since", "0")
    follower.until_seen("tool_execution_start")
    (desk.folder / "go").touch()

    assert run.end().out == follower.end().out


def test_whoever_waits_for_all_hosts_hears_the_next_run_and_goes_when_interrupted(desk: Desk) -> None:
    first = waiting(desk, "first")
    follower = desk.start("events", "--follow", "--type", "session", "--type", "agent_settled")
    until(lambda: connections(desk) == 1, "the follower has found the first run")
    second = waiting(desk, "second")
    follower.until_seen('"name":"second"')
    (desk.folder / "go").touch()
    first.end()
    second.end()
    follower.until_seen("agent_settled", 2)

    follower.send(signal.SIGINT)
    done = follower.end()

    assert (done.status, done.err) == (130, "")
    assert [event["type"] for event in done.events] == ["session", "agent_settled", "agent_settled"]


def test_a_reader_who_leaves_ends_it_without_a_word(desk: Desk) -> None:
    run = waiting(desk)
    follower = desk.start("events", "--follow", "one", "--since", "0")
    follower.until_seen("agent_start")

    follower.stop_reading()

    done = follower.end()
    assert (done.status, done.err) == (141, "")
    (desk.folder / "go").touch()
    assert run.end().status == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--follow", "one"), "no host runs session"),
        (("--follow", "nobody"), "no session has the id or name 'nobody'"),
        (("--since", "3", "one"), "--since counts the lines of one live tree"),
        (("--follow", "--since", "3"), "--since counts the lines of one live tree"),
        (("--follow", "--type", "klingon"), "no event has the type 'klingon'"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_followed_is_wrong_usage(desk: Desk, here: Here, words: tuple[str, ...], why: str) -> None:
    here("--name", "one", "-m", desk.script('[[reply]]\ntext = "hi"'), "go")

    done = here("events", *words)

    assert (done.status, done.out) == (2, b"")
    assert why in done.err
