"""Trees that a host keeps at hand: opened on demand, let go of when they are of no use, and none the end of another."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from actors.holder import Holder
from orchestrator.engine.client import Client, CommandFailed
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.control.places import places
from orchestrator.engine.host import Host
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.link import Link
from orchestrator.tools.kernel.kernels import Kernels
from orchestrator.views.rows import AgentRow
from tests.orchestrator.engine.control.live import PATIENCE_S, home_at, lines_until

ECHO = '[[reply]]\ntext = "said: {{last}}"\n'


@asynccontextmanager
async def keeping(root: Path, idle_s: float = float("inf")) -> AsyncIterator[tuple[Host, Client]]:
    """A host that opens what it is asked for, and a client of it."""
    (root / "work").mkdir(exist_ok=True)
    (root / "work" / "echo.toml").write_text(ECHO)
    host = Host(home_at(root / "home"))
    with trio.fail_after(PATIENCE_S):
        async with host.working(), trio.open_nursery() as nursery:
            keeper = Keeper(host, Jobs(host.home, {"PATH": "/usr/bin:/bin"}), nursery, idle_s)
            endpoint = Endpoint(Desk(host, keeper=keeper), {})
            async with endpoint.open():
                assert endpoint.socket is not None
                async with await Client.connect(endpoint.socket) as client:
                    yield host, client
                host.leave("the test is over")
                await host.rested()
            nursery.cancel_scope.cancel()


async def begin(client: Client, root: Path, prompt: str = "hello", **members: object) -> str:
    told = {"type": "spawn", "cwd": str(root / "work"), "prompt": prompt, "model": "scripted/echo.toml", **members}
    return str((await client.call(told))["sessionId"])


async def test_roots_begin_and_stored_ones_are_opened_by_the_first_command_for_them(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (host, client):
        await client.call({"type": "subscribe"})
        session = await begin(
            client, tmp_path, name="one", limits={"max_depth": 0, "max_turns": 5, "max_tokens": 1000, "timeout_s": 60}
        )
        await lines_until(client, "agent_settled")
        planted = host.trees[session]
        assert planted.job.limits.max_depth == 0
        assert (planted.job.limits.max_turns, planted.job.budgets["max_tokens"], planted.job.name) == (5, 1000, "one")
    async with keeping(tmp_path) as (host, client):
        assert host.trees == {}
        entries = await client.call({"type": "get_entries", "sessionId": session})
        assert list(host.trees) == [session]
        job = host.trees[session].job  # what it may do outlives the host
        assert (job.limits.max_turns, job.budgets, job.timeout_s) == (5, {"max_tokens": 1000}, 60)
        assert [entry["type"] for entry in entries["entries"]].count("run_settled") == 1
        await client.call({"type": "subscribe"})
        for _ in range(2):
            await client.call({"type": "prompt", "sessionId": session, "message": "again"})
            await lines_until(client, "agent_settled")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"cwd": "relative"}, "wrong_shape"),
        ({"cwd": "/no/such/folder"}, "wrong_value"),
        ({"prompt": " "}, "wrong_shape"),
        ({"model": "scripted/none.toml"}, "wrong_value"),
        ({"limits": {"max_wives": 3}}, "wrong_value"),
        ({"limits": {"max_turns": 0}}, "wrong_value"),
        ({"tools": ["rm"]}, "wrong_shape"),
        ({"model": "openai/gpt-4o"}, "no_key"),
    ],
)
async def test_a_root_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path: Path, members: dict[str, object], code: str
) -> None:
    async with keeping(tmp_path) as (host, client):
        told = {
            "type": "spawn",
            "cwd": str(tmp_path / "work"),
            "prompt": "go",
            "model": "scripted/echo.toml",
            **members,
        }
        with pytest.raises(CommandFailed) as caught:
            await client.call(told)
        assert caught.value.code == code
        assert host.trees == {}
        assert (
            not list((tmp_path / "home" / "sessions").glob("*")) if (tmp_path / "home" / "sessions").exists() else True
        )


@pytest.mark.parametrize("session", ["nobody-here", "../../etc/passwd", "a/b", "", "x" * 5000])
async def test_a_session_that_is_not_there_is_refused(tmp_path: Path, session: str) -> None:
    async with keeping(tmp_path) as (host, client):
        with pytest.raises(CommandFailed) as caught:
            await client.call({"type": "prompt", "sessionId": session, "message": "hi"})
        assert caught.value.code == ("unknown_session" if session else "no_session")
        assert host.trees == {}


async def test_a_tree_that_breaks_is_not_the_end_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(tmp_path) as (host, client):
        await client.call({"type": "subscribe"})
        good = await begin(client, tmp_path)
        await lines_until(client, "agent_settled")
        bad = await begin(client, tmp_path)
        await lines_until(client, "agent_settled")
        run = Holder.run

        async def broken(holder: Holder) -> None:
            if holder.row.id == bad:
                raise ZeroDivisionError("a bug")
            await run(holder)

        with monkeypatch.context() as patched:
            patched.setattr(Holder, "run", broken)
            with pytest.raises(CommandFailed):
                await client.call({"type": "abort_bash", "sessionId": "nobody-here"})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ignored, client, {"type": "prompt", "sessionId": bad, "message": "again"})
                lines = await lines_until(client, "diagnostic")
                nursery.cancel_scope.cancel()
        assert ("crash", bad) in [(line.get("code"), line["sessionId"]) for line in lines]
        while bad in host.trees:
            await trio.lowlevel.checkpoint()
        await client.call({"type": "subscribe", "types": ["agent_settled"]})
        for session in (good, bad):
            await client.call({"type": "prompt", "sessionId": session, "message": "go on"})
            assert (await lines_until(client, "agent_settled"))[-1]["sessionId"] == session


async def ignored(client: Client, command: dict[str, object]) -> None:
    try:
        await client.call(command)
    except CommandFailed:
        pass


async def test_a_tree_without_work_is_let_go_of_and_comes_back_when_it_is_needed(tmp_path: Path) -> None:
    async with keeping(tmp_path, idle_s=0.05) as (host, client):
        session = await begin(client, tmp_path)
        while host.trees:
            await trio.lowlevel.checkpoint()
        answer = await client.call({"type": "prompt", "sessionId": session, "message": "again"})
        assert answer["disposition"] == "started"
        while host.trees:
            await trio.lowlevel.checkpoint()


async def test_a_command_that_comes_while_a_tree_is_let_go_of_opens_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_close, is_closing = trio.Event(), trio.Event()
    aclose = Kernels.aclose

    async def slow(kernels: Kernels) -> None:
        is_closing.set()
        await may_close.wait()
        await aclose(kernels)

    async with keeping(tmp_path, idle_s=0.05) as (host, client):
        session = await begin(client, tmp_path)
        monkeypatch.setattr(Kernels, "aclose", slow)
        await is_closing.wait()
        assert host.find(session) is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, {"type": "prompt", "sessionId": session, "message": "again"})
            await client.call({"type": "hello"})
            may_close.set()
        assert (await client.call({"type": "get_messages", "sessionId": session}))["messages"]


async def test_whoever_watches_sees_trees_come_and_go_as_they_are(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (host, client):
        await client.call({"type": "subscribe", "types": ["agent_settled"]})
        session = await begin(client, tmp_path)
        await lines_until(client, "agent_settled")
        await client.call({"type": "spawn", "sessionId": session, "prompt": "part", "name": "kid"})
        await lines_until(client, "agent_settled", 2)
    async with keeping(tmp_path) as (host, client), await Client.connect(client_path(host)) as watching:
        link = Link(str(client_path(host)), lambda: None, lambda tags, event, line: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.follow, watching)
            while link.state != "live":
                await trio.lowlevel.checkpoint()
            assert link.rows(2e9) == []
            await client.call({"type": "subscribe"})
            for run in range(3):
                await client.call({"type": "prompt", "sessionId": session, "message": "again"})
                lines = await lines_until(client, "agent_settled")
                numbers = [line["seq"] for line in lines if "seq" in line and line["type"] != "opened"]
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
                assert (numbers[0] == 1) == (run == 0)
                while figures(link.rows(2e9)) != figures(host.rows()):
                    await trio.lowlevel.checkpoint()
                assert len(link.rows(2e9)) == 2
                await client.call({"type": "stop", "sessionId": session})
                assert [line["type"] for line in await lines_until(client, "left")][-1] == "left"
                while link.rows(2e9):
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


def figures(rows: Sequence[AgentRow]) -> dict[str, object]:
    return {row.session_id: (row.depth, row.name, row.outcome, row.total, row.turns, row.message_count) for row in rows}


def client_path(host: Host) -> Path:
    return next(place.socket for place in places(host.home))
