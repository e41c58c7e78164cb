"""Runs against aimock, a provider that others wrote: a tree with exact sums, and the ways in which calls fail there."""

from pathlib import Path

import pytest

from store.repair import runs
from store.usage import Spend
from tests.orchestrator.engine.rig import sums_of_journals, sums_of_stream
from tests.orchestrator.http.command import Desk
from tests.orchestrator.http.told import answers_of, retries
from tests.peers.aimock import aimock

pytestmark = pytest.mark.usefixtures("npm_peers")

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "aimock"
# (input, output) of each agent: the sums of its usage in tree.json, by hand.
OWN = {
    "root": (1009 + 1201 + 1511, 101 + 7 + 59),
    "left": (211 + 307, 17 + 23),
    "right": (223 + 419, 19 + 31),
    "left-1": (503 + 601, 37 + 41),
}
BELOW = {"root": ("left", "right", "left-1"), "left": ("left-1",), "right": (), "left-1": ()}


def spend(tokens: tuple[int, int]) -> Spend:
    cost = (tokens[0] * 3_000_000, tokens[1] * 15_000_000)
    return Spend(*tokens, input_pico=cost[0], output_pico=cost[1], total_pico=sum(cost))


async def test_a_tree_on_aimock_has_exact_sums_a_sound_stream_and_tools_that_ran(desk: Desk) -> None:
    (desk.folder / "given.txt").write_text("what was given")
    async with aimock(FIXTURES / "tree.json") as url:
        desk.use(f"{url}/v1")
        done = await desk.run("--mode", "json", "in halves")

    assert (done.faults, done.status, done.stderr) == ([], 0, "")
    own = {name: spend(tokens) for name, tokens in OWN.items()}
    total = {name: sum((own[each] for each in BELOW[name]), own[name]) for name in own}
    seen = sums_of_stream(done.events)
    assert {done.names[session]: each for session, each in seen.own.items()} == own
    assert {done.names[session]: each for session, each in seen.total.items()} == total
    stored = desk.stored(done.root_id)
    assert (stored.unrepaired, stored.troubles) == (0, {})
    kept = sums_of_journals(stored.nodes)
    assert (kept.own, kept.total) == (seen.own, seen.total)
    assert all([run.outcome for run in runs(node.records)] == ["completed"] for node in stored.nodes.values())
    written = {path.name: path.read_text() for path in desk.folder.iterdir()}
    assert written == {
        "given.txt": "what was given",
        "root.txt": "root",
        "one.txt": "by bash 🌱",
        "two.txt": "by write",
    }
    assert [block["type"] for block in answers_of(done)[-1]["content"]] == ["thinking", "text"]


async def test_a_429_of_aimock_is_waited_out_as_it_asks_and_ends_well(desk: Desk) -> None:
    async with aimock(FIXTURES / "failures.json") as url:
        desk.use(f"{url}/v1", retry="base_s = 50.0")  # whoever does not listen to Retry-After waits for very long
        done = await desk.run("--mode", "json", "busy, then well")

    assert (done.status, done.faults) == (0, [])
    assert retries(done) == [
        ("message_end", "error"),
        ("agent_end", True),
        ("auto_retry_start", 1),
        ("message_end", "stop"),
        ("auto_retry_end", True),
        ("agent_end", False),
        ("agent_settled", "completed"),
    ]
    assert [event["delayMs"] for event in done.of("auto_retry_start")] == [0]


FAILING = {
    "busy for an hour": (1, 0, "retry after 3600 s"),
    "broken for ever": (1, 4, "our fault"),
    "no such key": (1, 0, "wrong key"),
    "no JSON at all": (1, 4, ""),
}


@pytest.mark.parametrize("prompt", FAILING)
async def test_a_call_that_keeps_failing_on_aimock_is_status_1_with_its_reason(desk: Desk, prompt: str) -> None:
    status, tries_again, text = FAILING[prompt]
    async with aimock(FIXTURES / "failures.json") as url:
        desk.use(f"{url}/v1")
        as_json = await desk.run("--mode", "json", prompt)
        as_text = await desk.run(prompt)

    assert (as_json.status, as_json.faults) == (status, [])
    assert len(as_json.of("auto_retry_start")) == tries_again
    assert (as_text.status, as_text.stdout) == (status, b"")
    assert text in as_text.stderr


async def test_a_reply_that_aimock_cuts_is_asked_for_again(desk: Desk) -> None:
    async with aimock(FIXTURES / "failures.json") as url:
        desk.use(f"{url}/v1")
        done = await desk.run("--mode", "json", "cut, then whole")

    assert (done.status, done.faults) == (0, [])
    partial, whole = answers_of(done)
    assert partial["stopReason"] == "error"
    assert "a secret beginning".startswith(partial["content"][0]["text"][:5])
    assert whole["content"][0]["text"] == "whole"


async def test_comments_in_the_stream_and_cached_tokens_as_openrouter_sends_them(desk: Desk) -> None:
    async with aimock(FIXTURES / "failures.json") as url:
        desk.use(f"{url}/api/v1")
        done = await desk.run("--mode", "json", "with comments")

    assert (done.status, done.faults) == (0, [])
    [answer] = answers_of(done)
    usage = answer["usage"]
    counts = (usage["input"], usage["cacheRead"], usage["cacheWrite"], usage["output"], usage["reasoning"])
    assert (answer["content"][0]["text"], counts) == ("between comments", (10, 60, 30, 10, 4))
