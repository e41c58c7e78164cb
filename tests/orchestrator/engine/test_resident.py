"""The resident host and the commands that talk to sessions in other processes: real processes, real signals."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.protocol.restore import delivered
from store.attribution import account
from tests.orchestrator.engine.processes import (
    REPOSITORY,
    SCRIPTS,
    Desk,
    Done,
    Running,
    desk_at,
    living,
    marked_sleep,
    until,
)

ECHO = """
[[reply]]
last = "^ask again"
usage = { input = 5, output = 2 }
text = "asked again"

[[reply]]
usage = { input = 3, output = 2 }
text = "said: {{last}}"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk
        for pid in hosts_of(desk):
            os.kill(pid, signal.SIGKILL)


def hosts_of(desk: Desk) -> list[int]:
    """Hosts that a command has started in the background, and this test has not ended."""
    started = {running.pid for running in desk.started}
    places = (desk.home / "run").glob("*.sock") if (desk.home / "run").exists() else ()
    pids = {int(place.name.partition("-")[0]) for place in places}
    return [pid for pid in pids - started if Path(f"/proc/{pid}").exists()]


def serve(desk: Desk) -> Running:
    running = desk.start("serve")
    until(lambda: "serves" in running.err.read_text(), "a host that serves")
    return running


def json_of(done: Done) -> Any:
    assert done.status == 0, done.err
    return msgspec.json.decode(done.out)


def sleeper(command: str, effect: str = "true") -> str:
    """A root that leaves an effect, then sleeps in a tool; when it goes on it says so."""
    return (
        f'[[reply]]\nlast = "^go$"\nusage = {{ input = 5, output = 2 }}\n[[reply.tool]]\nname = "bash"\n'
        f'arguments = {{ command = "{effect}; {command}", timeout_s = 1000 }}\n{ECHO}'
    )


def hand_over(desk: Desk, script: str, prompt: str, *words: str) -> str:
    return str(json_of(desk.run("run", "--detach", "--json", "-m", desk.script(script), *words, prompt))["sessionId"])


def rows(desk: Desk) -> dict[str, dict[str, Any]]:
    return {row["sessionId"]: row for row in json_of(desk.run("agents", "--all", "--json"))}


def until_settled(desk: Desk, session: str, runs: int = 1) -> None:
    until(lambda: desk.journals().get(session, b"").count(b'"type":"run_settled"') >= runs, "the end of a run")


def test_a_host_serves_is_seen_and_ends_when_it_is_told(desk: Desk) -> None:
    running = serve(desk)
    (host,) = json_of(desk.run("status", "--json"))
    assert (host["pid"], host["resident"], host["sessions"]) == (running.pid, True, 0)
    second = desk.run("serve")
    assert (second.status, "has a resident host already" in second.err) == (4, True)
    assert desk.run("shutdown").status == 0
    assert running.end().status == 0
    assert json_of(desk.run("status", "--json")) == []
    assert desk.run("shutdown").status == 1
    assert not list((desk.home / "run").glob("*.sock"))


def test_a_host_that_does_not_answer_is_not_said_to_be_gone(desk: Desk) -> None:
    running = serve(desk)
    session = hand_over(desk, ECHO, "hello")
    until_settled(desk, session)
    running.send(signal.SIGSTOP)
    status, shutdown, abort = desk.run("status"), desk.run("shutdown"), desk.run("abort", session)
    running.send(signal.SIGCONT)
    assert (abort.status, f"process {running.pid} does not answer" in abort.err) == (4, True)
    assert (status.status, status.out, shutdown.status) == (0, b"", 1)
    assert f"the host of process {running.pid} does not answer" in status.err
    assert f"the host of process {running.pid} does not answer" in shutdown.err
    assert desk.run("shutdown").status == 0


def test_work_that_is_handed_over_goes_on_without_its_terminal_and_can_be_talked_to(desk: Desk) -> None:
    session = hand_over(desk, ECHO, "hello", "--name", "port")
    (pid,) = hosts_of(desk)
    until_settled(desk, session)
    assert json_of(desk.run("send", "port", "--wait", "--json", "ask again"))["answer"] == "asked again"
    assert rows(desk)[session]["hostPid"] == pid
    assert desk.run("shutdown").status == 0
    tree = desk.tree(session)
    assert (tree.unrepaired, tree.liveness.state) == (0, "dead")
    assert account(tree.nodes[session].header, tree.nodes[session].records).own.tokens == 12


def test_two_that_hand_over_at_once_get_one_host(desk: Desk) -> None:
    model = desk.script(ECHO)
    both = [desk.start("run", "--detach", "--json", "-m", model, f"hello {n}") for n in range(2)]
    sessions = [json_of(running.end())["sessionId"] for running in both]
    for session in sessions:
        until_settled(desk, session)
    (host,) = json_of(desk.run("status", "--json"))
    assert set(host["roots"]) == set(sessions)


def test_a_host_without_a_place_for_its_socket_says_so(desk: Desk) -> None:
    (desk.home / "run").mkdir(parents=True)
    (desk.home / "run").chmod(0o700)
    (desk.home / "run" / "resident.lock").touch(0o600)
    long = desk.home / ("deep" * 30)
    done = desk.run("serve", env={"SAPWOOD_HOME": str(long), "XDG_RUNTIME_DIR": str(desk.home / ("long" * 30))})
    assert done.status == 1
    assert "no socket" in done.err
    assert "Traceback" not in done.err


def test_a_command_of_a_person_sees_no_key_of_the_host(desk: Desk) -> None:
    canary = "sk-canary-abcdefgh"
    running = desk.start("serve", env=desk.env(PYTHONPATH=str(REPOSITORY), OPENAI_API_KEY=canary))
    until(lambda: "serves" in running.err.read_text(), "a host that serves")
    session = hand_over(desk, ECHO, "hello", "--name", "port")
    until_settled(desk, session)
    shown = desk.run("attach", "port", stdin=None, input=b"!env\n")
    assert b"PATH=" in shown.out
    told = [desk.run(*words) for words in (("status", "--json"), ("agents", "--json"), ("usage", session, "--json"))]
    assert canary not in "".join(done.out.decode() + done.err for done in (shown, *told))
    assert desk.run("shutdown").status == 0
    running.end()
    assert canary.encode() not in b"".join(path.read_bytes() for path in desk.home.rglob("*") if path.is_file())


def test_a_key_that_the_host_lacks_is_named_before_anything_is_handed_over(desk: Desk) -> None:
    running = serve(desk)
    done = desk.run("run", "--detach", "-m", "openai/gpt-4o", "hi", env={"OPENAI_API_KEY": "sk-canary-1234567890"})
    assert (done.status, done.out) == (2, b"")
    assert "OPENAI_API_KEY" in done.err
    assert "the host" in done.err
    assert b"sk-canary" not in b"".join(path.read_bytes() for path in desk.home.rglob("*") if path.is_file())
    assert "sk-canary" not in Path(f"/proc/{running.pid}/environ").read_text()
    assert desk.journals() == {}
    refused = desk.run("run", "--detach", "--system-prompt", "x", "-m", desk.script(ECHO), "hi")
    assert (refused.status, "--system-prompt" in refused.err) == (2, True)


def test_gates_and_a_goal_go_with_the_work_and_hold_after_a_crash_of_the_host(desk: Desk) -> None:
    command = marked_sleep()
    first = serve(desk)
    words = ("--gate", "test -e allowed", "--gate-retries", "0", "--goal", "ship it", "--max-continuations", "0")
    script = sleeper(command) + '[[reply]]\ntext = "never"\n'
    session = hand_over(desk, script.replace('"said: {{last}}"', '"said\\nTASK COMPLETE"'), "go", *words)
    until(lambda: living(command), "the tool")
    first.send(signal.SIGKILL)
    first.end()
    until(lambda: not living(command), "the end of the tool")

    serve(desk)

    until_settled(desk, session)
    row = rows(desk)[session]
    assert (row["outcome"], "test -e allowed" in row["activity"]["label"]) == ("failed", True)
    again = desk.run("run", "--detach", "-r", session, "--gate", "true", "once more")
    assert (again.status, "--gate" in again.err) == (2, True)


def test_a_declared_tree_is_handed_over_whole(desk: Desk) -> None:
    desk.script(ECHO)
    (desk.folder / "tree.toml").write_text(
        'name = "port"\nmodel = "scripted/script.toml"\nlimits = { max_children = 3 }\n'
        '[[children]]\nname = "a"\nprompt = "go"\n'
        '[[children]]\nname = "b"\nprompt = "after {{child.a}}"\nafter = ["a"]\n'
        '[[children]]\nname = "c"\nprompt = "go"\nafter = ["b"]\n'
    )
    serve(desk)
    session = str(json_of(desk.run("run", "--detach", "--json", "--tree", "tree.toml"))["sessionId"])
    until_settled(desk, session)
    found = rows(desk)
    assert {row["name"]: row["outcome"] for row in found.values()} == dict.fromkeys(
        ("port", "a", "b", "c"), "completed"
    )
    assert b'"max_children":3' in (desk.sessions / f"{session}.jsonl").read_bytes()
    last = next(row["activity"]["label"] for row in found.values() if row["name"] == "b")
    assert last == "said: after said: go"
    assert desk.run("shutdown").status == 0


def test_a_host_that_was_killed_goes_on_with_what_it_had_at_work_and_does_nothing_twice(desk: Desk) -> None:
    command = marked_sleep()
    first = serve(desk)
    session = hand_over(desk, sleeper(command, "echo done >> effects"), "go", "--name", "port")
    until(lambda: living(command), "the tool")
    first.send(signal.SIGKILL)
    first.end()
    assert json_of(desk.run("status", "--json")) == []
    assert rows(desk)[session]["status"] == "lost"
    for pid in living(command):
        os.kill(pid, signal.SIGKILL)
    second = serve(desk)
    until_settled(desk, session)
    assert f"session {session} was interrupted, and goes on" in second.err.read_text()
    assert (desk.folder / "effects").read_text() == "done\n"
    row = rows(desk)[session]
    assert (row["status"], row["outcome"], row["hostPid"]) == ("idle", "completed", second.pid)
    assert desk.run("shutdown").status == 0
    assert "interrupted" not in serve(desk).err.read_text()


def test_a_tree_of_three_levels_outlives_host_after_host(desk: Desk) -> None:
    effects = (SCRIPTS / "effects.toml").read_text("utf-8").replace("[[reply]]\n", "[[reply]]\ndelay_s = 0.25\n")
    running = serve(desk)
    session = hand_over(desk, effects, "go")
    kills = 0
    for records in (6, 12, 18, 24):
        until(lambda count=records: records_in(desk) >= count or is_settled(desk, session), "some records")  # type: ignore[misc]
        running.send(signal.SIGKILL)
        running.end()
        kills += not is_settled(desk, session)
        running = serve(desk)
    until(lambda: is_settled(desk, session), "the end of the run")
    assert kills > 1
    report = json_of(desk.run("usage", session, "--json"))
    # A call that a kill has interrupted is not made again: a child that it was to start may never be.
    assert (report["verified"], len(report["nodes"]) > 1) == (True, True)
    assert {node["outcome"] for node in report["nodes"]} == {"completed"}
    lines = (desk.folder / "effects.txt").read_text().split()
    assert len(lines) == len(set(lines)), "an effect has happened twice"
    tree = desk.tree(session)
    for node in tree.nodes.values():
        told = [name for record in node.records for name in delivered([record])]
        assert len(told) == len(set(told)), "something was told twice"
    assert desk.run("shutdown").status == 0
    assert desk.tree(session).unrepaired == 0


def records_in(desk: Desk) -> int:
    return sum(journal.count(b"\n") for journal in desk.journals().values())


def is_settled(desk: Desk, session: str) -> bool:
    return b'"type":"run_settled"' in desk.journals().get(session, b"")


def test_what_was_acknowledged_is_there_after_a_kill(desk: Desk) -> None:
    command = marked_sleep()
    running = serve(desk)
    session = hand_over(desk, sleeper(command), "go", "--name", "port")
    until(lambda: living(command), "the tool")
    assert desk.run("send", "port", "ask again").out.endswith(b"queued\n")
    running.send(signal.SIGKILL)
    running.end()
    for pid in living(command):
        os.kill(pid, signal.SIGKILL)
    assert desk.journals()[session].count(b"ask again") == 1
    serve(desk)
    until_settled(desk, session)
    assert desk.journals()[session].count(b"asked again") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(desk: Desk, number: int) -> None:
    command = marked_sleep()
    running = serve(desk)
    session = hand_over(desk, sleeper(command), "go")
    until(lambda: living(command), "the tool")
    running.send(number)
    assert running.end().status == 128 + number
    assert living(command) == set()
    tree = desk.tree(session)
    assert (tree.unrepaired, tree.liveness.state) == (0, "dead")
    assert b'"outcome":"aborted"' in desk.journals()[session]


def test_a_run_in_another_terminal_is_steered_and_aborted(desk: Desk) -> None:
    command = marked_sleep()
    running = desk.start("--mode", "json", "--name", "port", "-m", desk.script(sleeper(command)), "go")
    until(lambda: living(command), "the tool")
    told = json_of(desk.run("steer", "port", "--json", "ask again"))
    assert told["disposition"] == "queued"
    assert desk.run("steer", told["sessionId"][-8:], "once more").status == 0
    assert desk.run("abort", "port").out.endswith(b"aborted\n")
    done = running.end()
    assert (done.status, done.faults(), living(command)) == (1, [], set())


def test_a_stopped_tree_is_let_go_of_and_can_be_opened_elsewhere(desk: Desk) -> None:
    serve(desk)
    session = hand_over(desk, ECHO, "hello")
    until_settled(desk, session)
    held = desk.run("-r", session, "go on")
    assert (held.status, "belongs to process" in held.err) == (4, True)
    assert desk.run("stop", session).status == 0
    assert json_of(desk.run("status", "--json"))[0]["roots"] == []
    assert desk.run("-r", session, "ask again").out == b"asked again\n"


def test_what_is_stored_is_changed_by_the_host_that_has_it_at_work(desk: Desk) -> None:
    running = serve(desk)
    session = hand_over(desk, ECHO, "hello")
    until_settled(desk, session)
    assert desk.run("sessions", "rename", session, "port").status == 0
    said = next(line for line in desk.journals()[session].split(b"\n") if b'"hello"' in line)
    first = str(msgspec.json.decode(said)["id"])
    assert desk.run("sessions", "label", "port", first, "here").status == 0
    assert json_of(desk.run("sessions", "branch", "port", "here", "--json"))["leafId"] == first
    assert desk.run("sessions", "archive", "port").status == 0
    row = rows(desk)[session]
    assert (row["name"], row["status"], row["hostPid"]) == ("port", "archived", running.pid)
    assert desk.run("sessions", "archive", "port", "--undo").status == 0
    assert desk.run("send", "port", "--wait", "ask again").out == b"asked again\n"


def test_commands_become_the_host_of_a_session_that_nobody_has(desk: Desk) -> None:
    assert desk.run("--name", "port", "-m", desk.script(ECHO), "hello").status == 0
    assert desk.run("send", "port", "ask again").out == b"asked again\n"
    child = json_of(desk.run("spawn", "--parent", "port", "--name", "kid", "--json", "look around"))
    assert child["name"] == "kid"
    assert desk.run("abort", "port").out.endswith(b"was not at work\n")
    (root,) = [row for row in rows(desk).values() if row["depth"] == 0]
    assert (root["descendants"], root["outcome"], root["status"]) == (1, "completed", "idle")
    tree = desk.tree(root["sessionId"])
    assert (tree.unrepaired, tree.liveness.state) == (0, "dead")
    refused = desk.run("spawn", "--parent", "port", "--name", "kid", "again")
    assert (refused.status, "kid" in refused.err) == (1, True)


@pytest.mark.parametrize("words", [("attach", "port"), ("send", "port", "go")], ids=["attach", "send"])
@pytest.mark.parametrize("ending", ["signal", "shutdown"])
def test_a_command_that_is_the_host_ends_when_it_is_told(desk: Desk, words: tuple[str, ...], ending: str) -> None:
    command = marked_sleep()
    assert desk.run("--name", "port", "-m", desk.script(sleeper(command)), "hello").status == 0
    running = desk.start(*words, stdin=subprocess.PIPE)
    if words[0] == "attach":
        assert running.popen.stdin is not None
        running.popen.stdin.write(b"go\n")
        running.popen.stdin.flush()
    elif running.popen.stdin is not None:
        running.popen.stdin.close()
    until(lambda: living(command), "the tool")
    if ending == "signal":
        running.send(signal.SIGINT)
    else:
        (place,) = (desk.home / "run").glob("*.sock")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(place))
            sock.sendall(b'{"type":"shutdown"}\n')
            sock.recv(1000)
    done = running.end()
    assert (done.status, living(command)) == (130 if ending == "signal" else 1, set())
    assert "Traceback" not in done.err
    assert desk.tree().unrepaired == 0


def test_who_is_not_there_is_told_as_such(desk: Desk) -> None:
    for words in (("send", "nobody", "hi"), ("abort", "nobody"), ("attach", "nobody"), ("compact", "nobody")):
        done = desk.run(*words)
        assert (done.status, done.out) == (2, b""), words
        assert "nobody" in done.err


def test_attach_shows_the_text_and_takes_lines(desk: Desk) -> None:
    serve(desk)
    session = hand_over(desk, ECHO, "hello", "--name", "port")
    until_settled(desk, session)
    lines = b"ask again\n!echo beside; exit 3\n!!true\n"
    done = desk.run("attach", "port", stdin=None, input=lines)
    shown = done.out.decode()
    assert done.status == 0
    for line in (
        "> ask again",
        "asked again",
        "$ echo beside; exit 3 (exit status 3)",
        "beside",
        "$ true",
        "-- completed",
    ):
        assert line in shown.split("\n"), shown
    assert b'"excludeFromContext":true' in desk.journals()[session]
    escape = desk.run("attach", "port", stdin=None, input=b"red \x1b[31m \xe2\x80\xae text\n")
    assert b"\x1b" not in escape.out
    assert "\u202e" not in escape.out.decode()


def test_a_look_without_an_input_ends_with_the_run(desk: Desk) -> None:
    assert desk.run("--name", "port", "-m", desk.script(ECHO), "hello").status == 0
    assert desk.run("attach", "port").status == 0
    command = marked_sleep()
    running = desk.start("--name", "other", "-m", desk.script(sleeper(command)), "go")
    until(lambda: living(command), "the tool")
    looking = desk.start("attach", "other")
    looking.until_seen("-- other is at work")
    assert desk.run("abort", "other").status == 0
    assert looking.end().out.decode().endswith("-- aborted\n")
    assert running.end().status == 1


def test_who_looks_and_does_not_read_holds_up_no_tree_that_works_in_the_same_process(desk: Desk) -> None:
    long = f'[[reply]]\nlast = "more"\ntext = "{"x" * 300_000}"\n[[reply]]\ntext = "short"\n'
    assert desk.run("--name", "port", "-m", desk.script(long), "hello").status == 0
    looking = desk.start("attach", "port", stdin=subprocess.PIPE)
    assert looking.popen.stdin is not None
    looking.popen.stdin.write(b"more\n")
    looking.popen.stdin.close()
    until(lambda: sum(raw.count(b"run_settled") for raw in desk.journals().values()) == 2, "the end of the second run")
    done = looking.end()
    assert (done.status, b"-- completed" in done.out) == (0, True)


def test_who_reads_only_the_first_line_of_it_is_no_trouble(desk: Desk) -> None:
    serve(desk)
    session = hand_over(desk, ECHO, "hello", "--name", "port")
    until_settled(desk, session)
    done = desk.run("attach", "port", stdin=None, input=b"ask again\n" * 5, stdout=subprocess.DEVNULL)
    assert (done.status, done.err) == (0, "")
    looking = desk.start("attach", "port", stdin=subprocess.PIPE)
    assert looking.popen.stdin is not None
    looking.popen.stdin.write(b"ask again\n")
    looking.popen.stdin.flush()
    looking.until_seen("ask again")
    looking.stop_reading()
    looking.popen.stdin.write(b"ask again, too\n")
    looking.popen.stdin.flush()
    done = looking.end()
    assert (done.status, done.err) == (141, "")
