"""Streams as real servers send them, and what a whole run makes of each: how it ends, how often it asks, what it runs."""

from typing import Any

import attrs

from tests.orchestrator.http.chat_server import Answer, Raw, Said, chat_server, in_turn
from tests.orchestrator.http.command import Desk, each
from tests.orchestrator.http.told import answers_of
from tests.raw_server import events


def delta(finish: str | None = None, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def call(name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}} | members


def said(*values: Any, **how: Any) -> Raw:
    return Raw(events(*values, **how))


TEXT = delta(content="Grüße")
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
WELL = Said("done")
BASH = '{"command": "echo ran >> ran"}'


@attrs.frozen
class Outcome:
    """`text`: what the last answer says, or why it failed; `ran`: how often the tool ran."""

    status: int
    asked: int
    text: str
    ran: int = 0


CASES: dict[str, tuple[list[Answer], Outcome]] = {
    # P1
    "comments, CRLF, no space behind data": (
        [Raw(b": hello\r\n\r\n" + events(TEXT, delta("stop"), line_end="\r\n").replace(b"data: ", b"data:"))],
        Outcome(0, 1, "Grüße"),
    ),
    "bare CR": ([Raw(events(TEXT, delta("stop"), line_end="\r"))], Outcome(0, 1, "Grüße")),
    "comments alone": ([Raw(b": ping\n\n: ping\n\n"), WELL], Outcome(0, 2, "done")),
    "nothing": ([Raw(b""), WELL], Outcome(0, 2, "done")),
    # P3
    "a first chunk without choices, and null everywhere": (
        [said({"choices": [], "usage": None}, {"choices": None}, TEXT, delta("stop", content=None), {"usage": {}})],
        Outcome(0, 1, "Grüße"),
    ),
    # P4
    "two calls without an index": (
        [
            said(
                delta(tool_calls=[call("bash", BASH, id="a")]),
                delta(tool_calls=[call("bash", BASH, id="b")]),
                delta("tool_calls"),
            ),
            WELL,
        ],
        Outcome(0, 2, "done", ran=2),
    ),
    "a call that ends in `stop`": (
        [said(delta(tool_calls=[call("bash", BASH, id="a", index=0)]), delta("stop")), WELL],
        Outcome(0, 2, "done", ran=1),
    ),
    "the same id twice, arguments as an object": (
        [
            said(
                delta(tool_calls=[call("bash", {"command": "echo ran >> ran"}, id="x", index=0)]),
                delta(tool_calls=[call("bash", {"command": "echo ran >> ran"}, id="x", index=1)]),
                delta("tool_calls"),
            ),
            WELL,
        ],
        Outcome(0, 2, "done", ran=2),
    ),
    # P5
    "arguments that are empty, no JSON, no object": (
        [
            said(
                delta(tool_calls=[call("list_agents", "", id="a", index=0)]),
                delta(tool_calls=[call("bash", '{"command": "echo ran', id="b", index=1)]),
                delta(tool_calls=[call("bash", '["echo ran >> ran"]', id="c", index=2)]),
                delta(tool_calls=[call("bash", '"echo ran >> ran"', id="d", index=3)]),
                delta("tool_calls"),
            ),
            WELL,
        ],
        Outcome(0, 2, "done"),
    ),
    # P6
    "no finish reason": ([said(TEXT), WELL], Outcome(0, 2, "done")),
    "no [DONE] behind a finish reason": ([said(TEXT, delta("stop"), done=False)], Outcome(0, 1, "Grüße")),
    "calls announced and none sent": ([said(delta("tool_calls")), WELL], Outcome(0, 2, "done")),
    # P9
    "a finish reason of local servers": ([said(TEXT, delta("eos"))], Outcome(0, 1, "Grüße")),
    "a finish reason of nobody": (
        [said(TEXT, delta("MALFORMED_FUNCTION_CALL"))],
        Outcome(1, 1, "MALFORMED_FUNCTION_CALL"),
    ),
    "a network error as a finish reason": ([said(TEXT, delta("network_error")), WELL], Outcome(0, 2, "done")),
    "a content filter": ([said(TEXT, delta("content_filter"))], Outcome(1, 1, "content_filter")),
    # P11
    "overloaded before any text": ([said(OVERLOADED, done=False), WELL], Outcome(0, 2, "done")),
    "overloaded behind some text": ([said(TEXT, OVERLOADED, done=False), WELL], Outcome(0, 2, "done")),
    "an invalid request in the stream": (
        [said(TEXT, {"error": {"type": "invalid_request_error", "message": "no such image"}}, done=False)],
        Outcome(1, 1, "no such image"),
    ),
    "a used up quota in the stream": (
        [said({"error": {"code": "insufficient_quota", "message": "no money"}}, done=False)],
        Outcome(1, 1, "no money"),
    ),
    # P12
    "cut at the limit with text": ([said(TEXT, delta("length"))], Outcome(0, 1, "Grüße")),
    "cut at the limit before any text": (
        [said(delta(reasoning_content="hm"), delta("length"))],
        Outcome(1, 1, "token limit"),
    ),
    "cut at the limit in a call": (
        [said(delta(tool_calls=[call("bash", '{"command": "echo ran >> ran', id="a", index=0)]), delta("length"))],
        Outcome(1, 1, "token limit"),
    ),
}


async def outcome_of(desk: Desk, case: tuple[list[Answer], Outcome]) -> Outcome:
    async with chat_server(in_turn(*case[0])) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "go")
    assert done.faults == []
    last = answers_of(done)[-1]
    texts = [block["text"] for block in last["content"] if block["type"] == "text"]
    settled = next(event for event in done.of("run_settled") if event["depth"] == 0)
    text = "".join(texts) if done.status == 0 else str(settled.get("errorMessage"))
    expected = case[1].text
    ran = desk.folder / "ran"
    shown = expected if expected in text else text
    return Outcome(done.status, len(server.asked), shown, ran.read_text().count("ran\n") if ran.exists() else 0)


async def test_what_a_run_makes_of_streams_as_real_servers_send_them(desk: Desk) -> None:
    assert await each(desk, CASES, outcome_of) == {name: expected for name, (_, expected) in CASES.items()}


async def test_counts_that_nobody_can_mean_reach_no_total_and_are_told_of(desk: Desk) -> None:
    usages: list[Any] = [
        {"prompt_tokens": -5, "completion_tokens": 3},
        {"prompt_tokens": 7, "completion_tokens": 1e300},
        '{"prompt_tokens": NaN, "completion_tokens": Infinity}',
        {"prompt_tokens": "many", "completion_tokens": True},
    ]

    async def told(desk: Desk, usage: Any) -> tuple[int, int, int, list[str]]:
        chunk = f'{{"choices": [], "usage": {usage}}}' if isinstance(usage, str) else {"choices": [], "usage": usage}
        async with chat_server(in_turn(said(TEXT, delta("stop"), chunk))) as server:
            desk.use(server.url)
            done = await desk.run("--mode", "json", "go")
        assert done.faults == []
        counts = answers_of(done)[-1]["usage"]
        kinds = sorted({event["code"] for event in done.of("diagnostic")})
        return done.status, counts["input"], counts["output"], kinds

    assert await each(desk, {str(number): usage for number, usage in enumerate(usages)}, told) == {
        "0": (0, 0, 3, ["provider"]),
        "1": (0, 7, 0, ["provider"]),
        "2": (0, 0, 0, ["provider"]),
        "3": (0, 0, 0, ["provider"]),
    }


async def test_counts_that_are_told_again_and_again_are_not_added_up(desk: Desk) -> None:
    usages = [{"usage": {"prompt_tokens": 50, "completion_tokens": count}} for count in (1, 10, 50)]
    zero = {"usage": {"completion_tokens": 50, "prompt_tokens": None}}
    async with chat_server(
        in_turn(said(TEXT | usages[0], TEXT | usages[1], delta("stop") | usages[2], zero))
    ) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "go")

    counts = answers_of(done)[-1]["usage"]
    assert (done.faults, counts["input"], counts["output"]) == ([], 50, 50)


async def test_characters_that_were_cut_in_the_middle_are_whole(desk: Desk) -> None:
    text = "中文 🌲 é\u2028\u0085 "
    async with chat_server(
        in_turn(Said(text * 40, [("bash", {"command": f"printf '{text}'"})], piece=1), WELL)
    ) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "go")

    assert done.faults == []
    assert answers_of(done)[0]["content"][0]["text"] == text * 40
    assert server.asked[1].last == text
