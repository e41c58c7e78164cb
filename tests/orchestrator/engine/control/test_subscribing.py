"""What a subscriber sees: nothing missed, nothing twice; and what becomes of one that does not read."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import Hear, ModelRequest, ReplyEnd, TextChunk
from actors.testing import RecordingOutlet
from orchestrator.engine.client import Client, CommandFailed
from orchestrator.engine.control.joining import Waiting, joined
from orchestrator.engine.control.outgoing import Outgoing
from orchestrator.engine.control.ring import Ring
from orchestrator.views.live import LiveTree
from orchestrator.views.rows import AgentRow
from store.events import Event, Place
from store.lines import event_tail, line_tags
from store.stream import check_stream
from tests.orchestrator.engine.control.live import Live, lines_until, live_host


def recorded(live: Live) -> RecordingOutlet:
    """All lines of the tree, as its own stdout would have them."""
    outlet = RecordingOutlet()
    live.planted.sink.outlets.append(outlet)
    return outlet


async def run(live: Live, client: Client, text: str = "go") -> None:
    await live.prompt(client, text)
    await live.planted.settled(live.planted.tree.root)


async def read(client: Client, count: int) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < count:
        lines.append(await client.next_line())
    return lines


def spawning(request: ModelRequest) -> Any:
    """A root with two children that answer."""
    if request.depth == 0 and request.call % 2:
        return [("spawn_agent", {"prompt": f"part {n}", "wait": True}) for n in range(2)]
    return f"{request.session_name} is done"


async def test_lines_from_the_beginning_are_all_lines(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = spawning
        outlet = recorded(live)
        answer = await client.call({"type": "subscribe"})
        assert (answer["seqs"], answer["rows"]) == ({live.root_id: 0}, 0)
        await run(live, client)
        assert await read(client, len(outlet.lines)) == outlet.lines
        assert [line_tags(line)[2] for line in outlet.lines] == list(range(1, len(outlet.lines) + 1))


async def test_a_snapshot_and_the_lines_behind_it_are_the_same_rows_as_all_lines(tmp_path: Path) -> None:
    go_on = trio.Event()

    async def answer(request: ModelRequest) -> Any:
        if request.depth == 1:
            await go_on.wait()
        return spawning(request)

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = answer
        outlet = recorded(live)
        await live.prompt(client, "go")
        while len(live.planted.tree.root.children) < 2:
            await trio.lowlevel.checkpoint()
        told = await client.call({"type": "subscribe"})
        seq = told["seqs"][live.root_id]
        snapshots = [msgspec.json.decode(line) for line in await read(client, told["rows"])]
        assert [each["type"] for each in snapshots] == ["snapshot"] * told["rows"]
        assert {each["generation"] for each in snapshots} == {told["generation"]}
        go_on.set()
        await live.planted.settled(live.planted.tree.root)
        later = await read(client, len(outlet.lines) - seq)
        assert later == outlet.lines[seq:]

    by_snapshot, by_lines = LiveTree(), LiveTree()
    by_snapshot.seed([msgspec.convert(each["row"], AgentRow) for each in snapshots])
    for line in later:
        by_snapshot.take_line(line)
    for line in outlet.lines:
        by_lines.take_line(line)
    assert without_places(by_snapshot.rows(2e9)) == without_places(by_lines.rows(2e9))


def without_places(rows: Sequence[AgentRow]) -> list[AgentRow]:
    return [msgspec.structs.replace(row, host_pid=None, path=None, pulse=msgspec.UNSET) for row in rows]


async def test_who_comes_back_with_a_cursor_gets_what_was_missed_and_no_snapshot(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = spawning
        outlet = recorded(live)
        await run(live, client)
        generation = (await client.call({"type": "hello"}))["generation"]
        for cut in (0, 7, len(outlet.lines)):
            for since in ({"seq": cut}, {"seqs": {live.root_id: cut}}):
                answer = await client.call({"type": "subscribe", "since": {"generation": generation, **since}})
                assert (answer["rows"], answer["seqs"]) == (0, {live.root_id: cut})
                assert await read(client, len(outlet.lines) - cut) == outlet.lines[cut:]


@pytest.mark.parametrize("fault", ["generation", "ahead", "behind"])
async def test_a_cursor_that_is_of_no_use_gets_a_snapshot(tmp_path: Path, fault: str) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        live.planted.feed.ring.limit_bytes = 2_000
        await run(live, client)
        seq = live.planted.feed.ring.seq
        since = {"generation": live.host.id, "seq": {"generation": seq, "ahead": seq + 1, "behind": 0}[fault]}
        if fault == "generation":
            since["generation"] = "another"
        answer = await client.call({"type": "subscribe", "since": since})
        assert (answer["rows"], answer["seqs"]) == (1, {live.root_id: seq})
        assert msgspec.json.decode((await read(client, 1))[0])["row"]["sessionId"] == live.root_id


async def test_a_subscription_can_be_for_a_subtree_and_for_some_types(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client, live.connected() as other:
        live.answer = spawning
        outlet = recorded(live)
        await run(live, client)
        child = live.planted.tree.root.children[0]
        wanted = [line for line in outlet.lines if line_tags(line)[1] == child.id]
        since = {"generation": live.host.id, "seq": 0}
        await client.call({"type": "subscribe", "sessionId": child.id, "since": since})
        assert await read(client, len(wanted)) == wanted
        ends = [line for line in outlet.lines if line_tags(line)[0] == "agent_settled"]
        await other.call({"type": "subscribe", "types": ["agent_settled"], "since": since})
        assert await read(other, len(ends)) == ends
        with pytest.raises(CommandFailed, match="no session"):
            await client.call({"type": "subscribe", "sessionId": "nobody-here"})


async def test_a_second_subscription_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        await client.call({"type": "subscribe"})
        await client.call({"type": "subscribe", "types": ["agent_settled"]})
        await run(live, client)
        assert [line["type"] for line in await lines_until(client, "agent_settled")] == ["agent_settled"]
        assert len(live.host.audience.subscriptions) == 1


async def test_a_tree_that_begins_later_is_seen_from_its_first_line(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        await client.call({"type": "subscribe"})
        planted = live.plant()
        async with planted.alive():
            await client.call({"type": "prompt", "sessionId": planted.root_id, "message": "go"})
            lines = await lines_until(client, "agent_settled")
        await live.host.uproot(planted)
    assert [(lines[0]["type"], lines[0]["seq"], lines[0]["sessionId"])] == [("session", 1, planted.root_id)]


# Slow readers


class Talker:
    """A model that says so many pieces, each with a number in it."""

    def __init__(self, pieces: int, width: int = 200) -> None:
        self.pieces = [f"{n:0{width}}" for n in range(pieces)]

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd:
        for piece in self.pieces:
            await hear(TextChunk(0, piece))
            await trio.lowlevel.checkpoint()
        return ReplyEnd("stop")


def talk(live: Live, pieces: int, width: int = 200) -> str:
    """The model is a talker from now on. What it will say."""
    talker = Talker(pieces, width)
    models = live.planted.models
    models._made["test/model"] = talker, models._made["test/model"][1]
    return "".join(talker.pieces)


async def test_a_slow_reader_gets_the_whole_text_in_fewer_lines(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        text = talk(live, 12_000, 6)
        outlet = recorded(live)
        await client.call({"type": "subscribe", "sessionId": live.root_id})
        await live.planted.settled(live.planted.tree.root)
        async with live.connected() as other:
            await run(live, other)
        lines = await lines_until(client, "agent_settled")
    deltas = [line["assistantMessageEvent"] for line in lines if line["type"] == "message_update"]
    assert "".join(delta.get("delta", "") for delta in deltas) == text
    assert len(lines) < len(outlet.lines) / 2
    seqs = [line["seq"] for line in lines]
    assert seqs == sorted(set(seqs))
    assert not [line for line in lines if line["type"] == "gap"]


async def test_one_that_does_not_read_is_told_how_much_it_missed_and_can_come_back(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client, live.connected() as other:
        outlet = recorded(live)
        await client.call({"type": "subscribe"})
        big = "x" * 60_000
        live.answer = lambda request: big
        for _ in range(12):
            await run(live, other)
        queued = [subscription.target for subscription in live.host.audience.subscriptions]
        assert all(isinstance(target, Outgoing) and target.waiting_bytes < 4 << 20 for target in queued)
        lines = await lines_until(client, "gap")
        seen, missed = [line["seq"] for line in lines[:-1]], lines[-1]["missed"]
        assert lines[-1] == {"type": "gap", "rootSessionId": live.root_id, "missed": len(outlet.lines) - len(seen)}
        assert missed > 0
        assert seen == list(range(1, len(seen) + 1))
        since = {"generation": live.host.id, "seq": seen[-1]}
        answer = await client.call({"type": "subscribe", "since": since})
        assert answer["rows"] == 0
        assert await read(client, missed) == outlet.lines[seen[-1] :]


async def test_answers_are_never_dropped(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as other:
        async with await trio.open_unix_socket(live.path) as stream:
            await stream.send_all(b'{"type":"subscribe"}\n')
            live.answer = lambda request: "x" * 60_000
            for _ in range(12):
                await run(live, other)
            count = 200
            ask = b'{"type":"hello"}\n' * count

            async def send() -> None:
                await stream.send_all(ask)

            data = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                while data.count(b'"command":"hello"') < count:
                    data += await stream.receive_some()
        assert b'"type":"gap"' in data


async def test_fifty_subscribers_of_which_one_has_stopped(tmp_path: Path) -> None:
    """Nobody is slowed: the run takes as many turns of the loop with as without the one. Its memory has a bound."""
    async with live_host(tmp_path) as live, live.connected() as client:
        clients = [await Client.connect(live.path) for _ in range(50)]
        for each in clients:
            await each.call({"type": "subscribe"})
        stopped, reading = clients[0], clients[1:]
        got: dict[int, list[bytes]] = {}
        outlet = recorded(live)
        live.answer = lambda request: "y" * 30_000

        async def read_all(number: int, each: Client) -> None:
            lines = got.setdefault(number, [])
            ends = 0
            while ends < 10:
                lines.append(await each.next_line())
                ends += line_tags(lines[-1])[0] == "agent_settled"

        async with trio.open_nursery() as nursery:
            for number, each in enumerate(reading):
                nursery.start_soon(read_all, number, each)
            for _ in range(10):
                await run(live, client)
        assert all(lines == outlet.lines for lines in got.values())
        waiting = [each.target.waiting_bytes for each in live.host.audience.subscriptions]  # type: ignore[attr-defined]
        assert max(waiting) <= 2 << 20
        assert (await lines_until(stopped, "gap"))[-1]["missed"] > 0
        for each in clients:
            await each.aclose()


async def test_a_hundred_children_at_once_can_be_told_apart_byte_for_byte(tmp_path: Path) -> None:
    count = 100

    async def answer(request: ModelRequest) -> Any:
        if request.depth == 0 and request.call == 1:
            return [("spawn_agent", {"prompt": f"part {n}", "name": f"c{n}"}) for n in range(count)]
        if request.depth == 0:
            return "all are told"
        for _ in range(3):  # all of them are under way before any has ended
            await trio.lowlevel.checkpoint()
        return f"{request.session_name} " * 20

    async with live_host(tmp_path) as live, live.connected() as client, live.connected() as one:
        live.answer = answer
        said: dict[str, list[bytes]] = {}

        def hear(place: Place, event: Event, at: float) -> None:
            kind, tail = event_tail(event)
            said.setdefault(place.session_id, []).append(f'{{"type":"{kind}"'.encode() + tail + b"\n")

        live.planted.sink.watchers.append(hear)
        outlet = recorded(live)
        await client.call({"type": "subscribe"})
        await live.prompt(client, "go")
        lines = await read_until_settled(client, live.root_id)
        split: dict[str, list[bytes]] = {}
        for line in lines:
            split.setdefault(line_tags(line)[1], []).append(line)
        assert {session: [untagged(line) for line in own] for session, own in split.items()} == said
        assert len(split) == count + 1
        changes = sum(line_tags(a)[1] != line_tags(b)[1] for a, b in pairwise(lines))
        assert changes > 2 * count, "they did not work at the same time"
        child = live.planted.tree.root.children[57].id
        since = {"generation": live.host.id, "seq": 0}
        await one.call({"type": "subscribe", "sessionId": child, "since": since})
        assert await read(one, len(split[child])) == split[child]
        assert [found.text for found in check_stream(outlet.lines)] == []


async def read_until_settled(client: Client, session: str) -> list[bytes]:
    lines: list[bytes] = []
    while not lines or line_tags(lines[-1])[:2] != ("agent_settled", session):
        lines.append(await client.next_line())
    return lines


def untagged(line: bytes) -> bytes:
    """What a session said, without what publication has added."""
    found = re.match(
        rb'(\{"type":"[a-z_]+"),"sessionId":"[^"]+","seq":\d+,"at":"[^"]+"'
        rb'(?:,"rootSessionId":"[^"]+","depth":\d+(?:,"parentSessionId":"[^"]+")?)?',
        line,
    )
    assert found is not None
    return found[1] + line[found.end() :]


# The parts


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(0, 60))
def test_a_ring_holds_the_newest_lines_and_knows_which(sizes: list[int], limit: int) -> None:
    ring = Ring(limit)
    lines = [b"x" * size for size in sizes]
    for line in lines:
        ring.add(line)
    held = [seq for seq in range(len(lines) + 1) if ring.holds_all_after(seq)]
    for seq in held:
        assert list(ring.after(seq)) == lines[seq:]
    assert held[-1:] == [len(lines)]
    assert sum(map(len, ring.after(held[0]))) <= limit
    assert not ring.holds_all_after(len(lines) + 1)


def delta(session: str, seq: int, text: str, block: int = 0) -> Waiting:
    event = {"type": "text_delta", "contentIndex": block, "delta": text}
    line = {"type": "message_update", "sessionId": session, "seq": seq, "at": f"t{seq}", "messageId": 1}
    return Waiting(msgspec.json.encode({**line, "assistantMessageEvent": event}) + b"\n", "r")


def other(session: str, seq: int) -> Waiting:
    return Waiting(b'{"type":"turn_start","sessionId":"%b","seq":%d,"at":"t"}\n' % (session.encode(), seq), "r")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["delta 0", "delta 1", "other", "answer"])), max_size=30)
)
def test_joining_keeps_the_text_the_order_and_the_last_numbers(what: list[tuple[str, str]]) -> None:
    waiting: list[Waiting] = []
    for seq, (session, kind) in enumerate(what, start=1):
        if kind == "answer":
            waiting.append(Waiting(b'{"type":"response"}\n', None))
        elif kind == "other":
            waiting.append(other(session, seq))
        else:
            waiting.append(delta(session, seq, f"<{seq}>", int(kind[-1])))
    after = joined(waiting)

    def said(lines: Sequence[Waiting], session: str) -> list[str]:
        """Per session: its blocks' text in one, everything else by number."""
        parts: list[str] = []
        for one in lines:
            if one.root_id is None or line_tags(one.line)[1] != session:
                continue
            event = msgspec.json.decode(one.line)
            if event["type"] != "message_update":
                parts.append(str(event["seq"]))
                continue
            inner = event["assistantMessageEvent"]
            if parts and parts[-1].startswith(f"block {inner['contentIndex']}"):
                parts[-1] += inner["delta"]
            else:
                parts.append(f"block {inner['contentIndex']}{inner['delta']}")
        return parts

    assert all(said(after, session) == said(waiting, session) for session in "abc")
    seqs = [line_tags(one.line)[2] for one in after if one.root_id is not None]
    assert seqs == sorted(seqs)
    assert [one for one in after if one.root_id is None] == [one for one in waiting if one.root_id is None]
    assert seqs[-1:] == [line_tags(one.line)[2] for one in waiting if one.root_id is not None][-1:]


async def test_a_host_ends_though_a_subscriber_has_stopped_and_says_nothing_behind_half_a_line(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        stopped = await trio.open_unix_socket(live.path)
        await stopped.send_all(b'{"type":"subscribe"}\n')
        live.answer = lambda request: "z" * 200_000
        async with live.connected() as client:
            await client.call({"type": "hello"})
            for _ in range(2):
                await run(live, client)
    data = b""
    while piece := await stopped.receive_some():
        data += piece
    whole = data.split(b"\n")[:-1]
    assert len(whole) > 2
    for line in whole:
        msgspec.json.decode(line)
    await stopped.aclose()
