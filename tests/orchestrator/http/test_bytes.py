"""How many bytes a reply costs on stdout: so much per delta and four times the text, whatever its length."""

from tests.orchestrator.http.chat_server import Said, chat_server, in_turn
from tests.orchestrator.http.command import Desk, Done

PER_DELTA = 215
COPIES = 1 + 4
"""The deltas themselves, then the ends of block, message, turn and loop."""


async def reply_of(desk: Desk, deltas: int) -> Done:
    async with chat_server(in_turn(Said("abcd" * deltas, piece=4))) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "hello")
    assert (done.status, done.faults) == (0, [])
    told = [event["assistantMessageEvent"] for event in done.of("message_update")]
    assert "".join(event["delta"] for event in told if event["type"] == "text_delta") == "abcd" * deltas
    return done


async def test_five_thousand_deltas_cost_what_the_contract_allows(desk: Desk) -> None:
    short, long = await reply_of(desk, 1), await reply_of(desk, 5000)

    more = len(long.stdout) - len(short.stdout)
    assert more <= 4999 * (PER_DELTA + 4 * COPIES)
    deltas = [line for line in long.lines if b'"text_delta"' in line]
    assert len(deltas) <= 5000
    # Half of a delta more or less does not matter, a snapshot of the text so far does: the last one is no longer.
    assert max(map(len, deltas)) <= PER_DELTA + 4 * (1 + 5000 - len(deltas))


async def test_twice_the_deltas_cost_twice_the_bytes(desk: Desk) -> None:
    half, whole = await reply_of(desk, 500), await reply_of(desk, 1000)

    assert len(whole.stdout) < 2.5 * len(half.stdout)
