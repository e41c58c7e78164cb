"""`sapwood dashboard` as a process: it finds the trees of other processes, acts on them, and ends cleanly."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from orchestrator.cli.dashboard import NEEDS_WEB
from orchestrator.web.door import Door
from tests.orchestrator.engine.processes import REPOSITORY, Desk, Running, desk_at, marked_sleep, until
from tests.orchestrator.web.client import Rows, get, post, stream

SCRIPT = """
[[reply]]
depth = 0
call = 1
text = "I start two."
usage = { input = 1000, output = 10 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "sleeper", prompt = "sleep" }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "other", prompt = "sleep" }

[[reply]]
session = "sleeper"
call = 1
text = "I sleep."
usage = { input = 100, output = 10 }
[[reply.tool]]
name = "bash"
arguments = { command = "SLEEP_ONE" }

[[reply]]
session = "other"
call = 1
usage = { input = 100, output = 10 }
[[reply.tool]]
name = "bash"
arguments = { command = "SLEEP_TWO" }

[[reply]]
text = "done"
usage = { input = 10, output = 1 }
"""


@attrs.define(eq=False)
class Shown:
    """A dashboard process, and the way in."""

    running: Running
    door: Door

    @classmethod
    async def at(cls, desk: Desk, *options: str) -> "Shown":
        running = desk.start("dashboard", *options)
        await trio.to_thread.run_sync(running.until_seen, "Ctrl-C ends the dashboard")
        port, token = re.findall(rb"http://127\.0\.0\.1:(\d+)/#([\w-]+)\n", bytes(running._seen))[0]
        door = Door(int(port), token.decode())
        entered = await post(door, "/api/enter", {"token": token.decode()}, cookie=None)
        return cls(
            running, Door(door.port, door.token, entered.headers["set-cookie"].partition(";")[0].partition("=")[2])
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as found:
        yield found


def is_working(*names: str) -> Callable[[dict[str, dict[str, Any]]], bool]:
    """Whether these agents are in a tool."""
    return lambda rows: all(
        name in rows and (rows[name]["activity"] or {}).get("kind") == "tool" and rows[name]["word"] == "running"
        for name in names
    )


async def test_a_running_tree_is_shown_and_a_part_of_it_can_be_aborted(desk: Desk) -> None:
    shown = await Shown.at(desk)
    script = SCRIPT.replace("SLEEP_ONE", marked_sleep()).replace("SLEEP_TWO", "cat hold")
    os.mkfifo(desk.folder / "hold")
    run = desk.start("run", "-m", desk.script(script), "--name", "top", "go")
    async with stream(shown.door) as told:
        rows = Rows(told)
        found = await rows.until(is_working("sleeper", "other"))
        assert found["top"]["hostPid"] == run.pid
        assert found["sleeper"]["parent"] == found["top"]["id"]
        order = {"verb": "abort", "sessionId": found["sleeper"]["id"]}
        assert (await post(shown.door, "/api/do", order)).status_code == 200
        found = await rows.until(lambda rows: rows["sleeper"]["word"] == "aborted")
        assert found["other"]["word"] == "running"
        for kind in ("conversation", "tools", "issues", "cost", "timeline", "info"):
            answer = await get(shown.door, f"/api/detail/{kind}?session={found['top']['id']}")
            assert answer.status_code == 200, answer.text
        for order in (
            {"verb": "rename", "sessionId": found["other"]["id"], "text": "renamed"},
            {"verb": "steer", "sessionId": found["top"]["id"], "text": "Hurry"},
        ):
            answer = await post(shown.door, "/api/do", order)
            assert answer.status_code == 200, answer.text
        await rows.until(lambda rows: "renamed" in rows)
        (desk.folder / "hold").write_text("go on")
        found = await rows.until(lambda rows: rows["top"]["word"] == "completed")
        assert found["renamed"]["word"] == "completed"
    done = run.end()
    assert done.status == 0


async def test_ctrl_c_ends_the_dashboard_with_open_pages_and_no_agent(desk: Desk) -> None:
    shown = await Shown.at(desk)
    os.mkfifo(desk.folder / "hold")
    script = SCRIPT.replace("SLEEP_ONE", "true").replace("SLEEP_TWO", "cat hold")
    run = desk.start("run", "-m", desk.script(script), "--name", "top", "go")
    async with stream(shown.door) as told:
        await Rows(told).until(is_working("other"))
        shown.running.send(signal.SIGINT)
        assert (await told.until("bye")).data["reason"] == "the dashboard was closed"
    done = await trio.to_thread.run_sync(shown.running.end)
    assert (done.status, done.err) == (0, "")
    (desk.folder / "hold").write_text("go on")
    assert run.end().status == 0


async def test_a_host_that_is_killed_is_told_and_its_agents_are_lost(desk: Desk) -> None:
    shown = await Shown.at(desk)
    script = SCRIPT.replace("SLEEP_ONE", marked_sleep()).replace("SLEEP_TWO", marked_sleep())
    run = desk.start("run", "-m", desk.script(script), "--name", "top", "go")
    async with stream(shown.door) as told:
        rows = Rows(told)
        found = await rows.until(is_working("sleeper", "other"))
        run.send(signal.SIGKILL)
        await rows.until(lambda rows: {row["word"] for row in rows.values()} == {"lost"})
        await rows.until(lambda _: rows.ended)
    run.end()

    assert (rows.ended[0]["pid"], rows.ended[0]["rootIds"]) == (run.pid, [found["top"]["id"]])


async def test_what_works_in_a_host_that_does_not_answer_is_unknown_and_never_ended(desk: Desk) -> None:
    shown = await Shown.at(desk)
    os.mkfifo(desk.folder / "hold")
    script = SCRIPT.replace("SLEEP_ONE", "true").replace("SLEEP_TWO", "cat hold")
    run = desk.start("run", "-m", desk.script(script), "--name", "top", "go")
    async with stream(shown.door) as told:
        rows = Rows(told)
        await rows.until(is_working("other"))
        run.send(signal.SIGSTOP)
        found = await rows.until(lambda rows: rows["other"]["word"] == "unknown")
        assert found["other"]["activity"]["label"] == "host does not answer"
        assert found["other"]["openMs"] is None
        run.send(signal.SIGCONT)
        await rows.until(is_working("other"))
    (desk.folder / "hold").write_text("go on")
    assert run.end().status == 0


async def test_what_is_stored_is_shown_named_and_archived(desk: Desk) -> None:
    script = desk.script('[[reply]]\ntext = "done"\nusage = { input = 10, output = 1 }\n')
    assert desk.run("run", "-m", script, "--name", "before", "go").status == 0
    shown = await Shown.at(desk)
    async with stream(shown.door) as told:
        rows = Rows(told)
        session = (await rows.until(lambda rows: "before" in rows))["before"]["id"]
        await post(shown.door, "/api/do", {"verb": "rename", "sessionId": session, "text": "after"})
        await rows.until(lambda rows: "after" in rows)
        await post(shown.door, "/api/do", {"verb": "archive", "sessionId": session})
        await rows.until(lambda rows: rows["after"]["word"] == "archived")
        await post(shown.door, "/api/do", {"verb": "unarchive", "sessionId": session})
        await rows.until(lambda rows: rows["after"]["word"] == "completed")
        refused = await post(shown.door, "/api/do", {"verb": "message", "sessionId": session, "text": "hello"})

    assert refused.status_code == 409
    assert f"no host runs it: sapwood run -r {session[-8:]}" in refused.json()["error"]


async def test_what_is_said_to_a_stored_session_is_taken_by_a_resident_host(desk: Desk) -> None:
    script = desk.script('[[reply]]\ntext = "done"\nusage = { input = 10, output = 1 }\n')
    assert desk.run("run", "-m", script, "--name", "before", "go").status == 0
    serve = desk.start("serve")
    shown = await Shown.at(desk)
    async with stream(shown.door) as told:
        rows = Rows(told)
        found = (await rows.until(lambda rows: "before" in rows))["before"]
        order = {"verb": "message", "sessionId": found["id"], "text": "And now?"}
        with trio.fail_after(30):
            while (answer := await post(shown.door, "/api/do", order)).status_code == 409:  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert answer.status_code == 200, answer.text
        await rows.until(lambda rows: rows["before"]["turns"] == 2 and rows["before"]["word"] == "completed")
    serve.send(signal.SIGTERM)
    await trio.to_thread.run_sync(serve.end)


async def test_a_read_only_dashboard_refuses_every_action(desk: Desk) -> None:
    shown = await Shown.at(desk, "--read-only")

    answer = await post(shown.door, "/api/do", {"verb": "abort", "sessionId": "0198f0aa-0000-7000-8000-000000000001"})

    assert (answer.status_code, answer.json()) == (409, {"error": "this dashboard is read-only"})


@pytest.mark.parametrize(
    "session", ["", "nobody-00", "../../etc/passwd", "a/b", "0198f0aa-0000-7000-8000-000000000001"]
)
async def test_a_session_that_is_not_there_is_a_404(desk: Desk, session: str) -> None:
    shown = await Shown.at(desk)

    for kind in ("conversation", "cost"):
        assert (await get(shown.door, f"/api/detail/{kind}?session={session}")).status_code == 404


def test_a_port_that_is_taken_is_named(desk: Desk) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = desk.run("dashboard", "--port", str(port))

    assert done.status == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in done.err
    assert "--port" in done.err


def test_without_the_extra_the_command_names_it(desk: Desk, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "starlette.py").write_text("raise ModuleNotFoundError('no', name='starlette')\n")

    environ = desk.env(PYTHONPATH=f"{hidden}:{REPOSITORY}")
    done = desk.start("dashboard", env=environ).end()

    assert (done.status, done.err) == (1, f"sapwood: {NEEDS_WEB}\n")
    assert desk.start("dashboard", "--help", env=environ).end().status == 0


def test_the_browser_is_sent_by_a_file_that_only_its_owner_can_read(desk: Desk) -> None:
    told = desk.root / "told"
    browser = desk.root / "browser"
    browser.write_text(
        f'#!/bin/sh\nstat -c %a "${{1#file://}}" > {told}.mode\ncat "${{1#file://}}" > {told}.new\nmv {told}.new {told}\n'
    )
    browser.chmod(0o755)
    running = desk.start("dashboard", "--open", env=desk.env(PYTHONPATH=str(REPOSITORY), BROWSER=str(browser)))
    running.until_seen("Ctrl-C ends")
    until(told.exists, "the browser")
    address = bytes(running._seen).split(b"\n")[0].decode()
    running.send(signal.SIGTERM)

    assert running.end().status == 0
    assert address in told.read_text()
    assert Path(f"{told}.mode").read_text().strip() == "600"
    assert list(desk.home.glob("dashboard-*")) == []


def test_where_no_browser_can_be_started_the_command_says_so_and_goes_on(desk: Desk) -> None:
    running = desk.start("dashboard", "--open", env=desk.env(PYTHONPATH=str(REPOSITORY), BROWSER="/bin/false"))
    until(lambda: "open the address yourself" in running.err.read_text(), "a word about the browser")
    running.send(signal.SIGINT)

    assert running.end().status == 0
