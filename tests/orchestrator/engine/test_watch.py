"""One forest out of all hosts: what a view shows is what the hosts have, whatever happens to hosts and connections."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio

from actors.protocol.model import ModelRequest
from orchestrator.engine.control.lines import LineReader
from orchestrator.engine.link import Gap
from orchestrator.engine.watch import NobodyRunsIt, Watch, rows_now
from orchestrator.views.rows import AgentRow
from store.events import Event
from store.lines import Tags
from tests.orchestrator.engine.control.live import home_at, live_host
from tests.orchestrator.views.events import Stream

PATIENCE_S = 20.0


def without_clock(rows: list[AgentRow]) -> list[AgentRow]:
    return [msgspec.structs.replace(row, elapsed_ms=None, pulse=msgspec.UNSET) for row in rows]


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110
            await trio.sleep(0.01)


@asynccontextmanager
async def watching(root: Path, stored: Callable[[float], Any] = lambda now: ()) -> AsyncIterator[Watch]:
    watch = Watch(home_at(root / "home"), stored)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        yield watch
        nursery.cancel_scope.cancel()


async def test_rows_are_those_of_the_host_also_of_trees_that_begin_later(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, watching(tmp_path) as watch:
        async with live.connected() as client:
            await live.prompt(client, "first")
        await until(lambda: any(row.outcome == "completed" for row in watch.rows(0.0)))
        now = live.host.clock.now()
        assert without_clock(watch.rows(now)) == without_clock(live.host.rows())
        async with live.connected() as client:
            await live.prompt(client, "again")
        await until(lambda: watch.rows(0.0)[0].turns == 2)


async def test_a_command_goes_to_the_host_that_runs_the_session(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        asked.append(str(request.messages[-1].content))
        return "done"

    async with live_host(tmp_path) as live, watching(tmp_path) as watch:
        live.answer = answer
        await until(lambda: any(link.client is not None for link in watch.links.values()))
        async with live.connected() as client:
            await live.prompt(client, "first")
        await until(lambda: [row.outcome for row in watch.rows(0.0)] == ["completed"])
        await watch.call(live.root_id, {"type": "prompt", "message": "by the view"})
        await until(lambda: len(asked) == 2)
        assert "by the view" in asked[1]
        with pytest.raises(NobodyRunsIt):
            await watch.call("0198f0aa-0000-7000-8000-000000000099", {"type": "abort"})


async def test_a_host_that_ends_leaves_what_lies_on_the_disk(tmp_path: Path) -> None:
    stream = Stream()
    stream.root("stored").begins().settles()
    on_disk: list[list[AgentRow]] = []
    async with watching(tmp_path, lambda now: list(on_disk)) as watch:
        async with live_host(tmp_path) as live:
            async with live.connected() as client:
                await live.prompt(client, "first")
            await until(lambda: bool(watch.rows(0.0)))
            on_disk.append(
                [msgspec.structs.replace(stream.rows()[0], session_id=live.root_id, root_session_id=live.root_id)]
            )
        await until(lambda: not watch.links)
        assert [row.name for row in watch.rows(0.0)] == ["stored"]
        assert watch.is_read


@attrs.define(eq=False)
class FakeHost:
    """Speaks the protocol as the test says. `subscriptions`: the cursors that it was asked with."""

    rows: list[AgentRow]
    seqs: dict[str, int]
    subscriptions: list[Any] = attrs.field(factory=list)
    streams: list[trio.SocketStream] = attrs.field(factory=list)
    answers_hello: bool = True
    answers: bool = True
    asked: int = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        reader = LineReader(1 << 20)
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            async for data in stream:
                for line in reader.feed(data):
                    assert isinstance(line, bytes)
                    await self.answer(stream, msgspec.json.decode(line))

    async def answer(self, stream: trio.SocketStream, command: dict[str, Any]) -> None:
        self.asked += 1
        if not self.answers:
            return
        data: dict[str, Any] = {"pid": 4242, "hostId": "fake", "version": "0", "roots": list(self.seqs)}
        after: list[bytes] = []
        if command["type"] == "subscribe":
            self.subscriptions.append(command.get("since"))
            is_snapshot = command.get("since") is None
            rows = self.rows if is_snapshot else []
            data = {"generation": "one", "seqs": self.seqs, "rows": len(rows)}
            after = [msgspec.json.encode({"type": "snapshot", "generation": "one", "row": row}) for row in rows]
        elif not self.answers_hello:
            return
        head = {"id": command["id"], "type": "response", "command": command["type"], "success": True}
        lines = [msgspec.json.encode({**head, "data": data}), *after]
        await stream.send_all(b"".join(line + b"\n" for line in lines))


@asynccontextmanager
async def fake_host(root: Path, host: FakeHost) -> AsyncIterator[None]:
    folder = root / "home" / "run"
    folder.mkdir(parents=True, mode=0o700)
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    await socket.bind(str(folder / "fake.sock"))
    socket.listen(8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, host.serve, [trio.SocketListener(socket)])
        yield
        nursery.cancel_scope.cancel()
    (folder / "fake.sock").unlink(missing_ok=True)


async def test_after_a_cut_connection_no_event_is_missed_and_none_is_taken_twice(tmp_path: Path) -> None:
    stream = Stream()
    root = stream.root().begins()
    rows = stream.rows()
    host = FakeHost(rows, {root.place.root_id: len(stream.events)})
    told: list[int] = []

    def hear(tags: Tags, event: Event, line: bytes) -> None:
        told.append(tags.seq)

    async with fake_host(tmp_path, host), watching(tmp_path) as watch:
        watch.heard.append(hear)
        await until(lambda: bool(watch.rows(0.0)))
        link = next(iter(watch.links.values()))
        root.answers("first", (10, 0, 0, 0))
        await host.streams[-1].send_all(stream.lines()[-1])
        await until(lambda: bool(told))
        await host.streams[-1].aclose()
        await until(lambda: link.state == "lost")
        frozen = watch.rows(stream.now + 1000)
        assert frozen == watch.rows(stream.now + 2000)
        watch.try_now()
        await until(lambda: link.state == "live")
        root.answers("second", (10, 0, 0, 0))
        await host.streams[-1].send_all(stream.lines()[-1])
        await until(lambda: len(told) == 2)

        assert host.subscriptions == [
            None,
            {"generation": "one", "seqs": {root.place.root_id: len(stream.events) - 1}},
        ]
        assert without_clock(watch.rows(stream.now)) == without_clock(stream.rows())


async def test_after_a_gap_rows_come_from_a_snapshot(tmp_path: Path) -> None:
    stream = Stream()
    root = stream.root().begins()
    host = FakeHost(stream.rows(), {root.place.root_id: 3})
    async with fake_host(tmp_path, host), watching(tmp_path) as watch:
        await until(lambda: bool(watch.rows(0.0)))
        root.answers("unseen").settles()
        host.rows = stream.rows()
        gap = {"type": "gap", "rootSessionId": root.place.root_id, "missed": 42}
        stale = stream.lines()[4]
        await host.streams[-1].send_all(msgspec.json.encode(gap) + b"\n" + stale)
        await until(lambda: watch.rows(0.0)[0].outcome == "completed")

        link = next(iter(watch.links.values()))
        assert link.gaps == [Gap(42)]
        assert host.subscriptions == [None, None]
        assert without_clock(watch.rows(stream.now)) == without_clock(stream.rows())


async def test_a_tree_that_was_opened_before_a_gap_was_filled_is_not_taken_for_what_fills_it(tmp_path: Path) -> None:
    stream = Stream()
    root = stream.root().begins()
    host = FakeHost(stream.rows(), {root.place.root_id: 3})
    async with fake_host(tmp_path, host), watching(tmp_path) as watch:
        await until(lambda: bool(watch.rows(0.0)))
        older = stream.rows()
        root.answers("unseen").settles()
        host.rows = stream.rows()
        lines = [
            {"type": "gap", "rootSessionId": root.place.root_id, "missed": 42},
            {"type": "opened", "generation": "one", "rootSessionId": root.place.root_id, "seq": 3, "rows": 1},
            {"type": "snapshot", "generation": "one", "row": older[0]},
        ]
        await host.streams[-1].send_all(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        await until(lambda: watch.rows(0.0)[0].outcome == "completed")
        assert without_clock(watch.rows(stream.now)) == without_clock(stream.rows())


async def test_a_host_that_says_nothing_any_more_is_lost_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.link.BEAT_S", 0.05)
    monkeypatch.setattr("orchestrator.engine.link.DEAD_AFTER_S", 0.1)
    stream = Stream()
    root = stream.root().begins()
    host = FakeHost(stream.rows(), {root.place.root_id: 3})
    async with fake_host(tmp_path, host), watching(tmp_path) as watch:
        await until(lambda: bool(watch.rows(0.0)))
        host.answers_hello = False
        link = next(iter(watch.links.values()))
        await until(lambda: link.state == "lost" and link.next_try > 0)
        assert watch.rows(0.0)
        host.answers_hello = True
        watch.try_now()
        await until(lambda: link.state == "live")


@pytest.mark.parametrize("is_asked_anew", [False, True], ids=["asked whether it is there", "asked for a snapshot"])
async def test_a_host_that_ends_while_it_is_asked_is_not_the_end_of_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked_anew: bool
) -> None:
    monkeypatch.setattr("orchestrator.engine.link.BEAT_S", 60.0 if is_asked_anew else 0.01)
    stream = Stream()
    root = stream.root().begins()
    host = FakeHost(stream.rows(), {root.place.root_id: 3})
    async with fake_host(tmp_path, host), watching(tmp_path) as watch:
        await until(lambda: bool(watch.rows(0.0)))
        link = next(iter(watch.links.values()))
        host.answers = False
        asked = host.asked
        if is_asked_anew:
            gap = {"type": "gap", "rootSessionId": root.place.root_id, "missed": 42}
            await host.streams[-1].send_all(msgspec.json.encode(gap) + b"\n")
        await until(lambda: host.asked > asked)
        host.answers = True
        await host.streams[-1].aclose()
        await until(lambda: link.state == "lost")
        watch.try_now()
        await until(lambda: link.state == "live")


async def test_a_socket_that_nobody_listens_at_is_no_host(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "run"
    folder.mkdir(parents=True, mode=0o700)
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    await socket.bind(str(folder / "stale.sock"))
    socket.close()
    async with watching(tmp_path) as watch:
        await until(lambda: watch.is_read)
        await trio.sleep(0.05)
        assert watch.links == {}


async def test_the_rows_of_all_hosts_at_one_moment(tmp_path: Path) -> None:
    assert await rows_now(home_at(tmp_path / "home")) == []
    async with live_host(tmp_path) as live:
        async with live.connected() as client:
            await live.prompt(client, "first")
            await until(lambda: [row.outcome for row in live.host.rows()] == ["completed"])
        assert without_clock(await rows_now(live.host.home)) == without_clock(live.host.rows())


async def test_rows_come_from_all_pages_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.engine.control.reading.PAGE_ITEMS", 1)

    def answer(request: ModelRequest) -> Any:
        if request.depth or request.call > 1:
            return "done"
        return [("spawn_agent", {"prompt": "think", "name": "kid", "wait": True})]

    async with live_host(tmp_path) as live:
        live.answer = answer
        async with live.connected() as client:
            await live.prompt(client, "go")
            await until(lambda: [row.outcome for row in live.host.rows()] == ["completed", "completed"])
            assert [row["name"] for row in await client.rows()] == [row.name for row in live.host.rows()]
        assert len(await rows_now(live.host.home)) == 2
