"""What one connection is sent, whatever is offered and however slowly it reads."""

import re

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.control.outgoing import Outgoing

LIMIT = 2_000
ROOTS = ("root-a", "root-b")
OFFER = st.tuples(st.just("offer"), st.sampled_from(ROOTS), st.sampled_from(["delta", "other"]), st.integers(0, 300))
SAY = st.tuples(st.just("say"), st.just(""), st.just(""), st.integers(0, 50))
READ = st.tuples(st.just("read"), st.just(""), st.just(""), st.integers(1, 3))


def line(root: str, kind: str, seq: int, width: int) -> bytes:
    """A line that says its number in its text, so that it can be found again when it was joined."""
    text = f"<{seq}>".ljust(width, ".")
    tags = {"sessionId": root, "seq": seq, "at": "t"}
    if kind == "delta":
        event = {"type": "text_delta", "contentIndex": 0, "delta": text}
        return (
            msgspec.json.encode({"type": "message_update", **tags, "messageId": 1, "assistantMessageEvent": event})
            + b"\n"
        )
    return msgspec.json.encode({"type": "diagnostic", **tags, "level": "info", "code": "c", "text": text}) + b"\n"


@given(st.lists(OFFER | SAY | READ, max_size=80))
async def test_every_line_is_sent_or_counted_as_missed_and_answers_are_all_sent(
    what: list[tuple[str, str, str, int]],
) -> None:
    outgoing = Outgoing(LIMIT)
    sent: list[bytes] = []
    may_send = trio.Semaphore(0)

    async def send(data: bytes) -> None:
        await may_send.acquire()
        sent.append(data)

    offered: dict[str, list[int]] = {root: [] for root in ROOTS}
    said: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outgoing.run, send)
        for seq, (step, root, kind, number) in enumerate(what, start=1):
            if step == "offer":
                outgoing.offer(line(root, kind, seq, number), root)
                offered[root].append(seq)
            elif step == "say":
                outgoing.say(b'{"type":"response","id":%d}\n' % seq)
                said.append(seq)
            else:
                for _ in range(number):
                    may_send.release()
                await trio.testing.wait_all_tasks_blocked()
            waiting_answers = sum(len(b'{"type":"response","id":%d}\n' % each) for each in said)
            assert outgoing.waiting_bytes <= LIMIT + 600 + waiting_answers
        outgoing.finish()
        for _ in range(1_000):
            may_send.release()

    lines = [msgspec.json.decode(one) for one in b"".join(sent).split(b"\n") if one]
    assert [one["id"] for one in lines if one["type"] == "response"] == said
    for root in ROOTS:
        own = [one for one in lines if root in {one.get("sessionId"), one.get("rootSessionId")}]
        seen: list[int] = []
        missed = 0
        for one in own:
            if one["type"] == "gap":
                missed += one["missed"]
                continue
            text = one["text"] if "text" in one else one["assistantMessageEvent"]["delta"]
            numbers = [int(found) for found in re.findall(r"<(\d+)>", text)]
            assert numbers[-1] == one["seq"]
            seen += numbers
        assert seen == sorted(set(seen))
        assert set(seen) <= set(offered[root])
        assert len(seen) + missed == len(offered[root])


async def test_lines_that_are_not_wanted_any_more_are_not_sent_and_answers_are() -> None:
    outgoing = Outgoing(LIMIT)
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        sent.append(data)

    for seq in range(1, 40):
        outgoing.offer(line("root-a", "other", seq, 100), "root-a")
    outgoing.say(b'{"type":"response"}\n')
    outgoing.forget_lines()
    outgoing.finish()
    await outgoing.run(send)
    assert b"".join(sent) == b'{"type":"response"}\n'


async def test_who_does_not_read_of_trees_that_come_and_go_is_told_of_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.engine.control.outgoing.ANSWERS_BYTES", 1_000)
    outgoing, sent = Outgoing(LIMIT), bytearray()
    for number in range(100):
        outgoing.note(b'{"type":"left","n":%d}\n' % number, "root-a")
    outgoing.offer(line("root-b", "other", 1, 10), "root-b")
    assert outgoing.waiting_bytes < 1_100

    async def send(data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        sent.extend(data)

    outgoing.finish()
    await outgoing.run(send)
    lines = [msgspec.json.decode(each) for each in bytes(sent).split(b"\n") if each]
    told = [each for each in lines if each["type"] == "left"]
    assert [each["n"] for each in told] == list(range(len(told)))
    assert {each["rootSessionId"]: each["missed"] for each in lines if each["type"] == "gap"} == {
        "root-a": 100 - len(told),
        "root-b": 1,
    }
