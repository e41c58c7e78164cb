"""Seven agents on three levels over real HTTP: exact at every node, on the stream and on disk, with tools that really run."""

from typing import Any

from store.attribution import account
from store.repair import runs
from store.usage import Spend, add_up
from tests.orchestrator.engine.rig import sums_of_journals, sums_of_stream
from tests.orchestrator.http.chat_server import Answer, Asked, Refused, Said, Tokens, by_agent, chat_server
from tests.orchestrator.http.command import Desk

PRICE = (3_000_000, 15_000_000, 300_000, 3_750_000)
BELOW = {
    "root": ("left", "right", "left-1", "left-2", "right-1", "right-2"),
    "left": ("left-1", "left-2"),
    "right": ("right-1", "right-2"),
}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def child(name: str, prompt: str, *, wait: bool = False) -> tuple[str, dict[str, Any]]:
    return "spawn_agent", {"name": name, "prompt": prompt} | ({"wait": True} if wait else {})


def heard(asked: Asked) -> str:
    """Everything that the tools have told this agent."""
    return "\n".join(str(message["content"]) for message in asked.messages if message["role"] == "tool")


# Every reply has counts of its own, so that no two sums are alike by chance.
PLAN: dict[str, list[Answer]] = {
    "root": [
        Said(
            "Ich frage zwei – 中文 – 🌲.",
            [child("left", "die linke Hälfte"), child("right", "the right half")],
            (1000, 101, 0, 0),
            thinking="Two halves; 二つ.",
        ),
        Said(calls=[("wait_agents", {}), bash("printf 'root waits' > root.txt")], usage=(1200, 7, 1000, 200)),
        Said(lambda asked: f"All of it:\n{heard(asked)}", usage=(1500, 59, 1200, 0)),
    ],
    "left": [
        Said("", [child("left-1", "quarter 1", wait=True), child("left-2", "quarter 2", wait=True)], (211, 17, 0, 0)),
        Said(calls=[bash("cat one.txt two.txt")], usage=(307, 23, 211, 0)),
        Said(lambda asked: f"left has {asked.last}", usage=(313, 27, 300, 1)),
    ],
    "right": [
        Said("", [child("right-1", "quarter 3"), child("right-2", "quarter 4")], (223, 19, 0, 0)),
        Said(calls=[("wait_agents", {"mode": "all"})], usage=(311, 29, 0, 0)),
        Said(lambda asked: f"right has {asked.last}", usage=(419, 31, 0, 8)),
    ],
    "left-1": [
        Said(
            "Both at once.",
            [bash("printf 'one 🌱' > one.txt"), ("write", {"path": "three.txt", "content": "drei\u2028\u0085"})],
            (503, 37, 0, 0),
            piece=1,
        ),
        Said("quarter one is done", usage=(509, 3, 503, 0)),
    ],
    "left-2": [
        Said(calls=[bash("printf 'two' > two.txt && echo written")], usage=(601, 41, 0, 0)),
        Said(lambda asked: f"quarter two: {asked.last.strip()}", usage=(607, 5, 0, 0)),
    ],
    # What a cut call reported counts, what a refused one used is nothing.
    "right-1": [
        Refused(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, {"retry-after": "0"}),
        Said("cut in the mid", usage=(701, 43, 0, 0), ending="cut"),
        Said(calls=[("list_agents", {})], usage=(809, 47, 701, 0)),
        Said("quarter three is done", usage=(811, 53, 0, 0)),
    ],
    "right-2": [
        Refused(503, "<html>busy</html>"),
        Said(calls=[("read", {"path": "given.txt"})], usage=(907, 61, 0, 0)),
        Said(lambda asked: f"it says {asked.last}", usage=(1009, 67, 900, 0)),
    ],
}


def spend(tokens: Tokens) -> Spend:
    parts = [count * each for count, each in zip(tokens, PRICE, strict=True)]
    return Spend(*tokens, *parts, sum(parts))


def expected() -> tuple[dict[str, Spend], dict[str, Spend]]:
    own = {
        name: add_up(spend(said.usage) for said in answers if isinstance(said, Said) and said.usage)
        for name, answers in PLAN.items()
    }
    return own, {name: add_up(own[each] for each in (name, *BELOW.get(name, ()))) for name in own}


async def test_every_sum_of_seven_agents_over_http_is_exact_and_their_tools_have_run(desk: Desk) -> None:
    (desk.folder / "given.txt").write_text("what was given")
    async with chat_server(by_agent(PLAN)) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "in", "halves", "and", "quarters")

    assert (done.faults, done.status, done.stderr) == ([], 0, "")
    assert {name: len(server.of(name)) for name in PLAN} == {name: len(answers) for name, answers in PLAN.items()}
    names = done.names
    own, total = expected()
    seen = sums_of_stream(done.events)
    assert {names[session]: each for session, each in seen.own.items()} == own
    assert {names[session]: each for session, each in seen.total.items()} == total
    stored = desk.stored(done.root_id)
    assert (stored.unrepaired, stored.troubles) == (0, {})
    kept = sums_of_journals(stored.nodes)
    assert (kept.own, kept.total) == (seen.own, seen.total)
    assert all([run.outcome for run in runs(node.records)] == ["completed"] for node in stored.nodes.values())
    assert account(stored.nodes[done.root_id].header, stored.nodes[done.root_id].records).total == total["root"]

    assert (desk.folder / "one.txt").read_text() == "one 🌱"
    assert (desk.folder / "three.txt").read_text("utf-8") == "drei\u2028\u0085"
    assert (desk.folder / "root.txt").read_text() == "root waits"
    [answer] = [event for event in done.of("agent_end") if event["depth"] == 0 and not event["willRetry"]]
    text = answer["messages"][-1]["content"][0]["text"]
    for part in ("left has one 🌱two", "right has ", "quarter three is done", "it says what was given"):
        assert part in text


async def test_what_was_streamed_is_what_is_kept_and_what_the_next_request_holds(desk: Desk) -> None:
    (desk.folder / "given.txt").write_text("what was given")
    async with chat_server(by_agent(PLAN)) as server:
        desk.use(server.url)
        done = await desk.run("--json", "in halves and quarters")

    assert done.faults == []
    for event in done.of("message_end"):
        if event["message"]["role"] == "assistant" and event["message"]["stopReason"] != "error":
            deltas = [
                update["assistantMessageEvent"]
                for update in done.of("message_update")
                if (update["sessionId"], update["messageId"]) == (event["sessionId"], event["messageId"])
            ]
            told = "".join(delta["delta"] for delta in deltas if delta["type"] == "text_delta")
            assert told == "".join(block["text"] for block in event["message"]["content"] if block["type"] == "text")
    second = server.of("root")[1]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert second.messages[2]["content"] == "Ich frage zwei – 中文 – 🌲."
    called = [call["id"] for call in second.messages[2]["tool_calls"]]
    assert called == [message["tool_call_id"] for message in second.messages[3:]]
    again = server.of("right-1")[2]
    assert [message["role"] for message in again.messages] == ["system", "user"]
