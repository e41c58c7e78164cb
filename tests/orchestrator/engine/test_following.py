"""The streams of live hosts as one: who is there, who comes, and what each tells."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
import trio.lowlevel

from actors.protocol.mail import Prompt
from actors.protocol.model import ModelRequest
from actors.testing import RecordingOutlet
from orchestrator.dialects.projection import NATIVE, Projection
from orchestrator.engine.client import hosts
from orchestrator.engine.following import Following, each_host
from store.disk.home import Home
from store.stream import check_stream
from tests.orchestrator.engine.control.live import Live, home_at, live_host


@attrs.define(eq=False)
class Heard:
    """What a follower was told so far."""

    lines: list[bytes] = attrs.field(factory=list)
    _news: trio.Event = attrs.field(factory=trio.Event)

    async def say(self, line: bytes) -> None:
        self.lines.append(line)
        self._news.set()
        self._news = trio.Event()
        await trio.lowlevel.checkpoint()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    async def until(self, kind: str, times: int = 1) -> None:
        """Return when this type has come so many times."""
        while sum(event["type"] == kind for event in self.events) < times:
            await self._news.wait()


@asynccontextmanager
async def following(
    home: Home, projection: Projection = NATIVE, top_id: str | None = None, since: int | None = None
) -> AsyncIterator[Heard]:
    """Inside of it everything is heard; `top_id`: a session of a host that is there."""
    heard = Heard()
    follower = Following(heard.say, projection, since)
    async with trio.open_nursery() as nursery:
        if top_id is None:
            await nursery.start(each_host, home, follower.host)
        else:
            [host] = await hosts(home)
            nursery.start_soon(follower.session, host.path, top_id)
        yield heard
        nursery.cancel_scope.cancel()


def recorded(live: Live) -> RecordingOutlet:
    """The whole stream of the host's tree from now on."""
    outlet = RecordingOutlet()
    live.planted.sink.outlets.append(outlet)
    return outlet


async def joined(live: Live, count: int = 1) -> None:
    """Return when so many follow this host."""
    while len(live.host.audience.subscriptions) < count:  # noqa: ASYNC110
        await trio.sleep(0.001)


def spawning(request: ModelRequest) -> Any:
    """The root has two children, one after the other."""
    if request.depth or request.call > 2:
        return "done"
    return [("spawn_agent", {"prompt": "think", "name": f"kid{request.call}", "wait": True})]


def prompt(live: Live, number: int = 1) -> None:
    live.planted.tree.tell(Prompt(f"prompt:{number}", "go"))


def settled(heard: Heard, times: int = 1) -> Any:
    return heard.until("agent_settled", times)


async def test_a_host_that_is_there_is_heard_from_now_on(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        prompt(live)
        await live.planted.settled(live.planted.tree.root)
        async with following(live.host.home) as heard:
            await joined(live)
            outlet = recorded(live)
            prompt(live, 2)
            await settled(heard)

            assert heard.lines == outlet.lines[: len(heard.lines)]
            assert heard.lines


async def test_a_host_that_comes_is_heard_from_its_first_line(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    async with following(home) as heard:
        await trio.lowlevel.checkpoint()  # the first look finds nobody
        async with live_host(tmp_path) as live:
            live.answer = spawning
            prompt(live)
            await settled(heard, 3)

            assert heard.events[0]["type"] == "session"
            assert check_stream(heard.lines) == []


async def test_several_hosts_are_told_as_one_each_tree_in_its_order(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    async with following(home) as heard:
        await trio.lowlevel.checkpoint()
        async with live_host(tmp_path) as one, live_host(tmp_path) as other:
            for live in (one, other):
                live.answer = spawning
                prompt(live)
            await settled(heard, 6)

            roots = {event["sessionId"]: event["rootSessionId"] for event in heard.events if "rootSessionId" in event}
            assert set(roots.values()) == {one.root_id, other.root_id}
            for root_id in set(roots.values()):
                of_it = [
                    line
                    for line, event in zip(heard.lines, heard.events, strict=True)
                    if roots[event["sessionId"]] == root_id
                ]
                assert check_stream(of_it) == []


async def test_a_session_is_followed_with_what_is_below_it_and_nothing_else(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        live.answer = spawning
        prompt(live)
        await live.planted.settled(live.planted.tree.root)
        kid = live.planted.tree.root.children[0]
        async with following(live.host.home, top_id=live.root_id) as all_of_it:
            await joined(live)
            async with following(live.host.home, top_id=kid.id) as below:
                await joined(live, 2)
                live.planted.tree.supervisor.directory.deliver(kid, Prompt("prompt:2", "again"))
                await settled(all_of_it, 2)  # the child's, and the root's, which is told of it
                await settled(below)

                assert {event["sessionId"] for event in all_of_it.events} == {live.root_id, kid.id}
                assert {event["sessionId"] for event in below.events} == {kid.id}


async def test_types_are_those_of_the_lines_as_they_are_told(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    native = Projection.of("native", types=["message_end", "agent_settled"])
    pi = Projection.of("pi", types=["agent_settled"])
    async with following(home, native) as heard, following(home, pi) as root:
        await trio.lowlevel.checkpoint()
        async with live_host(tmp_path) as live:
            live.answer = spawning
            prompt(live)
            await settled(heard, 3)
            await settled(root)

            assert {event["type"] for event in heard.events} == {"message_end", "agent_settled"}
            assert root.events == [{"type": "agent_settled", "aborted": False}]


async def test_each_tree_is_told_in_the_dialect_without_its_children(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    async with following(home, Projection.of("pi")) as heard:
        await trio.lowlevel.checkpoint()
        async with live_host(tmp_path) as live:
            live.answer = spawning
            prompt(live)
            await settled(heard)

            assert check_stream(heard.lines, "pi") == []
            ends = [event for event in heard.events if event["type"] == "tool_execution_end"]
            assert [end["toolName"] for end in ends] == ["spawn_agent", "spawn_agent"]


async def test_who_begins_in_the_middle_of_an_answer_is_told_its_end(tmp_path: Path) -> None:
    go_on = trio.Event()

    async def slowly(request: ModelRequest) -> str:
        await go_on.wait()
        return "done"

    async with live_host(tmp_path) as live:
        live.answer = slowly
        prompt(live)
        async with following(live.host.home, Projection.of("prime-agent"), live.root_id) as heard:
            await joined(live)
            go_on.set()
            await heard.until("agent_end")

            assert all("message" in event for event in heard.events if event["type"] == "message_update")
            assert heard.events[-1]["messages"][-1]["content"] == [{"type": "text", "text": "done"}]


async def test_what_came_behind_a_number_is_told_again_and_what_is_forgotten_is_a_gap(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        outlet = recorded(live)
        prompt(live)
        await live.planted.settled(live.planted.tree.root)
        async with following(live.host.home, top_id=live.root_id, since=4) as heard:
            await settled(heard)
            assert heard.lines == outlet.lines[4 : 4 + len(heard.lines)]

        live.planted.feed.ring.limit_bytes = 1
        prompt(live, 2)
        await live.planted.settled(live.planted.tree.root)
        now = live.planted.sink.seq
        async with following(live.host.home, top_id=live.root_id, since=4) as heard:
            await heard.until("gap")
            assert heard.events == [{"type": "gap", "rootSessionId": live.root_id, "missed": now - 4}]


async def test_the_end_of_a_host_is_the_end_of_its_sessions_and_of_no_other(tmp_path: Path) -> None:
    heard = Heard()
    async with live_host(tmp_path) as staying:
        home = staying.host.home
        async with trio.open_nursery() as nursery, live_host(tmp_path) as leaving:
            root_id = leaving.root_id
            path = next(host.path for host in await hosts(home) if root_id in host.roots)
            nursery.start_soon(Following(heard.say).session, path, root_id)
            await joined(leaving)
        async with following(home) as others:
            await joined(staying)
            prompt(staying)
            await settled(others)
