"""The socket of a host: where it lies, who may use it, what is left of it."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from orchestrator.engine.client import Client, HostGone, hosts
from orchestrator.engine.control import endpoint as endpoints
from orchestrator.engine.control.endpoint import clean, is_answered, listen
from orchestrator.engine.control.places import ADDRESS_BYTES, new_place, places, run_folder
from tests.orchestrator.engine.control.live import home_at, lines_until, live_host


async def test_a_host_is_found_by_its_socket_and_says_who_it_is(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        (found,) = await hosts(live.host.home)
        assert (found.pid, found.host_id, found.roots) == (os.getpid(), live.host.id, (live.root_id,))
    assert await hosts(live.host.home) == []
    assert list(run_folder(live.host.home).iterdir()) == []


async def test_socket_and_folder_are_ours_alone(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        path = live.path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(run_folder(live.host.home).stat().st_mode) == 0o700


async def test_somebody_else_is_let_in_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_host(tmp_path) as live:
        path = live.path
        with monkeypatch.context() as patched:
            patched.setattr(endpoints, "peer_uid", lambda sock: os.geteuid() + 1)
            assert not endpoints.is_ours(None)  # type: ignore[arg-type]
            async with await trio.open_unix_socket(path) as stream:
                try:
                    await stream.send_all(b'{"type":"hello"}\n')
                    assert await stream.receive_some() == b""
                except trio.BrokenResourceError:
                    pass
        async with live.connected() as client:
            assert (await client.call({"type": "hello"}))["hostId"] == live.host.id


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert endpoints.peer_uid(here) == os.geteuid()  # type: ignore[arg-type]


@pytest.mark.parametrize("has_runtime_dir", [True, False])
async def test_a_home_with_a_long_path_has_its_socket_elsewhere(tmp_path: Path, has_runtime_dir: bool) -> None:
    root = tmp_path / ("deep" * 20) / ("deeper" * 10)
    short = Path("/tmp") / f"sapwood-test-{os.getpid()}"
    environ = {"XDG_RUNTIME_DIR": str(short)} if has_runtime_dir else {}
    async with live_host(root, environ) as live:
        (place,) = places(live.host.home)
        assert place.pointer is not None
        assert place.pointer.parent == run_folder(live.host.home)
        assert len(os.fsencode(place.socket)) <= ADDRESS_BYTES
        assert place.socket.is_relative_to(short) == has_runtime_dir
        (found,) = await hosts(live.host.home)
        assert found.host_id == live.host.id
    assert not place.socket.exists()
    assert not place.pointer.exists()
    if has_runtime_dir:
        place.socket.parent.rmdir()
        short.rmdir()


async def test_the_socket_of_a_dead_process_is_taken_away_by_the_next_one(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    place = new_place(home, "dead", {})
    listener = listen(place, home)
    assert is_answered(place)
    assert clean(home) == []
    await listener.aclose()
    assert not is_answered(place)
    assert clean(home) == [place]
    assert list(run_folder(home).iterdir()) == []


async def test_a_socket_that_does_not_listen_yet_is_left_to_who_makes_it(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    place = new_place(home, "0123456789abcdef", {})
    with socket.socket(socket.AF_UNIX) as sock:
        being_made = place.socket.with_name(".0123456789abcdef.sock")
        sock.bind(str(being_made)) if len(str(being_made)) < ADDRESS_BYTES else being_made.touch()
        assert places(home) == []
        assert clean(home) == []
        assert being_made.exists()


async def test_nobody_at_the_other_end_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(HostGone, match="nobody answers"):
        await Client.connect(tmp_path / "none.sock")


async def test_a_run_without_a_place_for_its_socket_goes_on(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "run").write_text("no folder")
    async with live_host(tmp_path) as live:
        assert await hosts(live.host.home) == []
        assert live.planted.tree.takes_work


async def test_who_goes_with_lines_unread_takes_nobody_along(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        for _ in range(5):
            async with await trio.open_unix_socket(live.path) as stream:
                await stream.send_all(b'{"id":1,"type":"hello"}\n')
                await trio.testing.wait_all_tasks_blocked()
        async with live.connected() as client:
            assert (await client.call({"type": "hello"}))["hostId"] == live.host.id


async def test_a_socket_that_nobody_answers_is_no_host_though_its_number_lives(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    place = new_place(home, "0123456789abcdef", {})
    await listen(place, home).aclose()
    assert place.socket.name.startswith(f"{os.getpid()}-")
    assert await hosts(home) == []
    async with live_host(tmp_path) as live:
        assert [host.host_id for host in await hosts(live.host.home)] == [live.host.id]
        assert not place.socket.exists()


async def test_so_many_connections_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 2)
    async with live_host(tmp_path) as live, live.connected() as one:
        async with live.connected() as two, await trio.open_unix_socket(live.path) as stream:
            for client in (one, two):
                await client.call({"type": "hello"})
            assert b'"code":"busy"' in await stream.receive_some()
            assert await stream.receive_some() == b""
        while True:
            try:
                async with live.connected() as three:
                    assert (await three.call({"type": "hello"}))["hostId"] == live.host.id
                break
            except HostGone:
                continue


async def test_a_bug_in_one_connection_ends_that_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live_host(tmp_path) as live:
        with monkeypatch.context() as patched:
            patched.setattr(endpoints.Connection, "serve", broken)
            with pytest.raises(HostGone):
                async with live.connected() as client:
                    await client.call({"type": "hello"})
        async with live.connected() as client:
            assert (await client.call({"type": "hello"}))["hostId"] == live.host.id
            await client.call({"type": "subscribe"})
            await live.prompt(client, "go")
            lines = await lines_until(client, "agent_settled")
        (told,) = [line["text"] for line in lines if line.get("code") == "endpoint"]
        assert "a bug" in told


async def broken(connection: object, receive: object) -> None:
    raise ZeroDivisionError("a bug")
