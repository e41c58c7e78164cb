"""`--mode rpc`: a program that drives a run by lines on its stdin and stdout."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from store.stream import check_stream
from tests.orchestrator.engine.processes import REPOSITORY, Desk, Running, desk_at, living, marked_sleep, until

ECHO = '[[reply]]\nusage = { input = 3, output = 2 }\ntext = "{{last}}, indeed"\n'


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def tell(running: Running, **command: Any) -> None:
    assert running.popen.stdin is not None
    running.popen.stdin.write(msgspec.json.encode(command) + b"\n")
    running.popen.stdin.flush()


def start(desk: Desk, script: str, *words: str) -> Running:
    return desk.start("--mode", "rpc", "-m", desk.script(script), *words, stdin=subprocess.PIPE)


def test_a_client_prompts_twice_and_closes_the_input(desk: Desk) -> None:
    running = start(desk, ECHO)
    tell(running, id=1, type="get_state")
    running.until_seen('"command":"get_state"')
    tell(running, id=2, type="prompt", message="one")
    running.until_seen('"type":"agent_settled"')
    tell(running, id=3, type="prompt", message="two")
    running.until_seen('"type":"agent_settled"', 2)
    assert running.popen.stdin is not None
    running.popen.stdin.close()
    done = running.end()
    assert (done.status, done.err) == (0, "")
    answers = [event for event in done.events if event["type"] == "response"]
    assert [(each["id"], each["success"]) for each in answers] == [(1, True), (2, True), (3, True)]
    assert done.events[0] == answers[0]
    assert not [event for event in done.events if event["type"] == "session"]
    said = [event["message"]["content"][0]["text"] for event in done.events if event["type"] == "message_end"]
    assert said == ["one", "one, indeed", "two", "two, indeed"]
    tree = desk.tree()
    assert (tree.unrepaired, tree.liveness.state) == (0, "dead")


def test_the_stream_of_a_client_is_sound_once_the_header_is_put_before_it(desk: Desk) -> None:
    running = start(desk, ECHO, "hello")
    running.until_seen('"type":"agent_settled"')
    assert running.popen.stdin is not None
    running.popen.stdin.close()
    done = running.end()
    root = done.events[0]["sessionId"]
    header = {"type": "session", "sessionId": root, "seq": 1, "at": done.events[0]["at"], "rootSessionId": root}
    line = msgspec.json.encode({**header, "depth": 0, "version": 3, "id": root, "timestamp": "t", "cwd": "/"}) + b"\n"
    assert [found.text for found in check_stream([line, *done.lines], exit_status=done.status)] == []


def test_the_end_of_the_input_ends_the_tree_and_what_runs_in_it(desk: Desk) -> None:
    command = marked_sleep()
    call = f'[[reply.tool]]\nname = "bash"\narguments = {{ command = "{command}", timeout_s = 1000 }}\n'
    running = start(desk, f"[[reply]]\n{call}", "go")
    until(lambda: living(command), "the command")
    assert running.popen.stdin is not None
    running.popen.stdin.close()
    done = running.end()
    assert done.status == 1
    assert done.events[-1]["type"] == "agent_settled"
    assert done.events[-1]["aborted"] is True
    assert living(command) == set()
    assert desk.tree().unrepaired == 0


def test_a_signal_ends_it_as_any_run(desk: Desk) -> None:
    running = start(desk, ECHO)
    tell(running, type="hello")
    running.until_seen('"command":"hello"')
    running.send(signal.SIGTERM)
    assert running.end().status == 143


def test_a_client_can_end_the_host(desk: Desk) -> None:
    running = start(desk, ECHO)
    tell(running, type="shutdown")
    done = running.end()
    assert (done.status, [event["command"] for event in done.events]) == (0, ["shutdown"])


def test_another_terminal_reaches_the_run_of_a_client(desk: Desk) -> None:
    running = start(desk, ECHO)
    tell(running, type="hello")
    running.until_seen('"command":"hello"')
    (path,) = (desk.home / "run").iterdir()
    asked = subprocess.run(
        ["python3", "-c", "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
         "s.sendall(b'{\"type\":\"hello\"}\\n');print(s.makefile().readline())", str(path)],
        capture_output=True, check=True,
    )  # fmt: skip
    assert msgspec.json.decode(asked.stdout)["data"]["pid"] == running.pid


def test_a_client_that_goes_away_ends_the_tree_without_a_traceback(desk: Desk) -> None:
    command = marked_sleep()
    call = f'[[reply.tool]]\nname = "bash"\narguments = {{ command = "{command}", timeout_s = 1000 }}\n'
    running = start(desk, f"[[reply]]\n{call}", "go")
    until(lambda: living(command), "the command")
    running.stop_reading()
    done = running.end()
    assert (done.status, living(command)) == (141, set())
    assert "Traceback" not in done.err
    assert desk.tree().unrepaired == 0


@pytest.mark.parametrize("ending", ["aborted", "failed"])
def test_a_client_that_reads_late_gets_every_byte(desk: Desk, ending: str) -> None:
    fails = 'fail = { kind = "auth", message = "no", after_chunks = 7000 }\n' if ending == "failed" else ""
    running = start(desk, f'[[reply]]\ntext = "{"x" * 300_000}"\n{fails}', "go")
    running.until_it_stands()
    if ending == "failed":
        running.until_seen('"type":"agent_settled"')
    assert running.popen.stdin is not None
    running.popen.stdin.close()
    done = running.end()
    settled = done.events[-1]
    assert (settled["type"], settled["outcome"], done.status) == ("agent_settled", ending, 1)
    seqs = [event["seq"] for event in done.events]
    assert seqs == list(range(2, len(seqs) + 2))


def test_an_abort_is_heard_though_nobody_reads(desk: Desk) -> None:
    running = start(desk, f'[[reply]]\ntext = "{"x" * 300_000}"\n', "go")
    running.until_it_stands()
    tell(running, id=1, type="get_state")
    tell(running, id=2, type="abort")
    until(lambda: any(b"run_settled" in path.read_bytes() for path in desk.sessions.glob("*.jsonl")), "the end")
    assert running.popen.stdin is not None
    running.popen.stdin.close()
    done = running.end()
    answers = [event["id"] for event in done.events if event["type"] == "response"]
    assert answers == [1, 2]


@pytest.mark.parametrize("kind", ["nothing", "a file", "closed"])
def test_the_input_may_be_of_any_kind(desk: Desk, kind: str) -> None:
    model = desk.script(ECHO)
    asked = desk.folder / "commands.jsonl"
    asked.write_text('{"id":1,"type":"hello"}\n')
    if kind == "closed":
        words = ["sh", "-c", 'exec "$@" <&-', "sh", *desk.argv(["--mode", "rpc", "-m", model])]
        env = desk.env(PYTHONPATH=str(REPOSITORY))
        done = subprocess.run(words, cwd=desk.folder, env=env, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return
    with asked.open("rb") as file:
        told = desk.run("--mode", "rpc", "-m", model, stdin=file if kind == "a file" else subprocess.DEVNULL)
    assert (told.status, told.err) == (0, "")
    assert [event["id"] for event in told.events] == ([1] if kind == "a file" else [])
