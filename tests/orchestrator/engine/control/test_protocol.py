"""What a host answers to what it is told, over its real socket."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.engine.client import Client, CommandFailed
from orchestrator.engine.control.lines import LINE_BYTES, LineReader, TooLong
from orchestrator.engine.control.outgoing import Outgoing
from orchestrator.engine.control.requests import NAMES
from tests.orchestrator.engine.control.live import Live, lines_until, live_host


async def raw(stream: trio.SocketStream, count: int) -> list[dict[str, Any]]:
    """So many lines of a connection, decoded."""
    data = b""
    while data.count(b"\n") < count:
        piece = await stream.receive_some()
        assert piece, data[-500:]
        data += piece
    return [msgspec.json.decode(line) for line in data.split(b"\n") if line]


async def test_what_is_no_command_gets_an_error_and_the_connection_goes_on(tmp_path: Path) -> None:
    lines = [
        b"this is no json",
        b"[1, 2]",
        b"{}",
        b'{"id": 7, "type": "no_such_command"}',
        b'{"id": "x", "type": "prompt"}',
        b'{"id": 1.5, "type": "prompt", "sessionId": "nobody-here", "message": "hi"}',
        b'{"type": "get_state"}',
        b"[" * 100_000,
        b'\xff\xfe{"type":"hello"}',
        b'{"id": [1], "type": "hello"}\r',
    ]
    async with live_host(tmp_path) as live, await trio.open_unix_socket(live.path) as stream:
        await stream.send_all(b"\n".join(lines) + b"\n")
        answers = await raw(stream, len(lines))
    told = [(each.get("id"), each["command"], each.get("error", {}).get("code")) for each in answers]
    assert told == [
        (None, "parse", "invalid_json"),
        (None, "parse", "wrong_shape"),
        (None, "parse", "unknown_command"),
        (7, "no_such_command", "unknown_command"),
        ("x", "prompt", "wrong_shape"),
        (1.5, "prompt", "unknown_session"),
        (None, "get_state", "no_session"),
        (None, "parse", "wrong_shape"),
        (None, "parse", "invalid_json"),
        ([1], "hello", None),
    ]


async def test_a_line_above_the_limit_gets_one_error_and_the_next_one_is_heard(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, await trio.open_unix_socket(live.path) as stream:
        piece = b"x" * (1 << 20)
        for _ in range(LINE_BYTES // len(piece) + 3):
            await stream.send_all(piece)
        await stream.send_all(b'\n{"id":1,"type":"hello"}\n')
        answers = await raw(stream, 2)
    assert [answer.get("error", {}).get("code") for answer in answers] == ["line_too_long", None]


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.data())
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    reader = LineReader(8)
    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for line in reader.feed(whole[start:end])
    ]
    expected = [TooLong() if len(line) > 8 else line.removesuffix(b"\r") for line in lines if line.strip(b"\r")]
    assert found == expected


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
# What ends the run or the host would end the test's own tree, and no random text is given to a shell.
COMMANDS = sorted(NAMES - {"shutdown", "stop", "bash"})
MEMBERS = (
    *(
        "message",
        "sessionId",
        "since",
        "types",
        "cursor",
        "streamingBehavior",
        "images",
        "customInstructions",
        "prompt",
    ),
    *("name", "model", "provider", "modelId", "thinking", "tools", "limits", "cwd", "level", "serviceTier", "entryId"),
    *("label", "undo", "summary", "before", "command", "excludeFromContext"),
)
JUNK = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b" "))
ODD_COMMANDS = st.builds(
    lambda kind, members, id: json.dumps({"id": id, "type": kind, **members}).encode(),
    st.sampled_from(COMMANDS) | st.text(max_size=8),
    st.dictionaries(st.sampled_from(MEMBERS), SHAPES, max_size=4)
    | st.dictionaries(st.sampled_from(MEMBERS), SHAPES | st.text(min_size=1, max_size=3), max_size=4).map(
        lambda members: {**members, "sessionId": "ROOT"}
    ),
    SHAPES,
)


@settings(deadline=None, max_examples=30)
@given(lines=st.lists(JUNK | ODD_COMMANDS, max_size=12))
async def test_whatever_is_sent_each_line_is_answered_and_the_host_goes_on(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    async with live_host(tmp_path_factory.mktemp("fuzz")) as live:
        async with await trio.open_unix_socket(live.path) as stream:
            lines = [line.replace(b'"ROOT"', f'"{live.root_id}"'.encode()) for line in lines]
            await stream.send_all(b"".join(line + b"\n" for line in lines) + b'{"id":"last","type":"hello"}\n')
            asked = sum(bool(line.strip(b"\r")) for line in lines) + 1
            data = b""
            while data.count(b'"type":"response"') < asked:
                piece = await stream.receive_some()
                assert piece
                data += piece
        answers = [msgspec.json.decode(line) for line in data.split(b"\n") if line]
        assert [each for each in answers if each.get("id") == "last"]
        assert not [each for each in answers if each.get("error", {}).get("code") == "internal"]
        async with live.connected() as client:
            assert (await client.call({"type": "hello"}))["roots"] == [live.root_id]


async def test_who_asks_on_and_on_and_never_reads_is_not_heard_any_more_until_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.control.outgoing.ANSWERS_BYTES", 10_000)
    most = 0
    say = Outgoing.say

    def watched(outgoing: Outgoing, line: bytes) -> None:
        nonlocal most
        say(outgoing, line)
        most = max(most, outgoing.waiting_bytes)

    monkeypatch.setattr(Outgoing, "say", watched)
    count = 5_000
    async with (
        live_host(tmp_path) as live,
        await trio.open_unix_socket(live.path) as stream,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stream.send_all, b'{"type":"hello"}\n' * count)
        async with live.connected() as other:
            assert (await other.call({"type": "hello"}))["roots"] == [live.root_id]
        answers = await raw(stream, count)
    assert len(answers) == count
    assert 10_000 < most < 12_000


# Prompts


async def test_a_prompt_begins_a_run_and_is_answered_once_it_is_in_the_journal(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        answer = await live.prompt(client, "hello")
        assert answer["disposition"] == "started"
        journal = (live.host.home.journal_path(live.root_id)).read_text()
        assert '"hello"' in journal
        await live.planted.settled(live.planted.tree.root)
        messages = (await client.call({"type": "get_messages", "sessionId": live.root_id}))["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_a_line_up_to_the_limit_comes_through_whole(tmp_path: Path) -> None:
    text = "ä" * ((LINE_BYTES - 1_000) // 2)
    async with live_host(tmp_path) as live, live.connected() as client:
        assert (await live.prompt(client, text))["disposition"] == "started"
        await live.planted.settled(live.planted.tree.root)
        said = (await client.call({"type": "get_messages", "sessionId": live.root_id}))["messages"][0]
        assert said["content"][0]["text"] == text
        page = await client.call({"type": "get_entries", "sessionId": live.root_id})
        assert [entry["omittedBytes"] > len(text) for entry in page["entries"] if "omittedBytes" in entry] == [True]


async def test_while_a_run_is_open_a_prompt_says_how_it_is_to_be_taken(tmp_path: Path) -> None:
    go_on = trio.Event()

    async def answer(request: object) -> str:
        await go_on.wait()
        return "done"

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = answer
        await live.prompt(client, "first")
        with pytest.raises(CommandFailed, match="streamingBehavior") as caught:
            await live.prompt(client, "second")
        assert caught.value.code == "busy"
        told = [
            await live.prompt(client, "steered", streamingBehavior="steer"),
            await live.prompt(client, "followed", streamingBehavior="followUp"),
            await client.call({"type": "steer", "sessionId": live.root_id, "message": "steered again"}),
            await client.call({"type": "follow_up", "sessionId": live.root_id, "message": "followed again"}),
        ]
        assert {each["disposition"] for each in told} == {"queued"}
        state = await client.call({"type": "get_state", "sessionId": live.root_id})
        assert (state["isStreaming"], state["pendingMessageCount"]) == (True, 4)
        go_on.set()
        await live.planted.settled(live.planted.tree.root)
        messages = (await client.call({"type": "get_messages", "sessionId": live.root_id}))["messages"]
        said = [message["content"][0]["text"] for message in messages if message["role"] == "user"]
        assert said == ["first", "steered", "followed", "steered again", "followed again"]


async def test_an_abort_is_answered_when_the_run_has_ended(tmp_path: Path) -> None:
    async def never(request: object) -> str:
        await trio.sleep_forever()
        return ""

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = never
        await live.prompt(client, "go")
        assert await client.call({"type": "abort", "sessionId": live.root_id}) == {"outcome": "aborted"}
        assert await client.call({"type": "abort", "sessionId": live.root_id}) == {"outcome": "aborted"}
        live.answer = lambda request: "still here"
        await live.prompt(client, "go on")
        await live.planted.settled(live.planted.tree.root)
        assert live.planted.tree.root.outcome == "completed"


async def test_commands_of_one_connection_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def never(request: object) -> str:
        await trio.sleep_forever()
        return ""

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = never
        await live.prompt(client, "go")
        answers: list[str] = []

        async def ask(kind: str) -> None:
            await client.call({"type": kind, "sessionId": live.root_id})
            answers.append(kind)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "compact")
            await client.call({"type": "hello"})
            assert answers == []
            nursery.cancel_scope.cancel()


async def test_history_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.engine.control.reading.PAGE_ITEMS", 2)
    async with live_host(tmp_path) as live, live.connected() as client:
        for _ in range(3):
            await live.prompt(client, "again")
            await live.planted.settled(live.planted.tree.root)
        tree = live.planted.tree.root.outbox.tree  # type: ignore[union-attr]
        for command, name in (("get_entries", "entries"), ("get_tree", "nodes"), ("get_messages", "messages")):
            found, cursor = await pages(client, live, command, name)
            assert cursor > 1
            if name != "messages":
                assert [each["id"] for each in found] == [record.id for record in tree.records]
            else:
                assert len(found) == 6


async def pages(client: Client, live: Live, command: str, name: str) -> tuple[list[Any], int]:
    """All pages in one, and how many they were."""
    found: list[Any] = []
    cursor, count = 0, 0
    while True:
        page = await client.call({"type": command, "sessionId": live.root_id, "cursor": cursor})
        found += page[name]
        count += 1
        if "cursor" not in page:
            return found, count
        cursor = page["cursor"]


async def test_what_was_spent_is_told_as_the_command_tells_it(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        await live.prompt(client, "go")
        await live.planted.settled(live.planted.tree.root)
        report = await client.call({"type": "get_usage", "sessionId": live.root_id})
        assert (report["verified"], report["total"]["input"], report["total"]["output"]) == (True, 100, 10)
        assert [node["sessionId"] for node in report["nodes"]] == [live.root_id]


async def test_a_host_that_is_told_to_end_stops_its_trees(tmp_path: Path) -> None:
    async def never(request: object) -> str:
        await trio.sleep_forever()
        return ""

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = never
        await client.call({"type": "subscribe"})
        await live.prompt(client, "go")
        await client.call({"type": "shutdown"})
        assert (await lines_until(client, "agent_settled"))[-1]["outcome"] == "aborted"
        assert live.host.leaving.is_set()
