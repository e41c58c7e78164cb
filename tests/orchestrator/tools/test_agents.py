import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.tools import (
    ChildReport,
    Handle,
    ListFamily,
    Members,
    Refused,
    Relative,
    Spawn,
    ToolResult,
    Waited,
    WaitFor,
)
from orchestrator.tools.agents import ListAgentsTool, SpawnAgentTool, WaitAgentsTool
from orchestrator.tools.output import MAX_BYTES, MAX_LINES
from orchestrator.tools.reports import fair_shares

SPAWN, WAIT, LIST = SpawnAgentTool(), WaitAgentsTool(), ListAgentsTool()
TextOf = Callable[[ToolResult], str]
HANDLE = Handle("s1", "scout", "local/chat")


def report(name: str = "scout", outcome: str = "completed", **members: Any) -> ChildReport:
    return ChildReport(members.pop("session_id", "s1"), name, outcome, run=members.pop("run", 1), **members)


async def test_a_spawn_asks_for_a_child_and_returns_its_handle_at_once(place: Any, text_of: TextOf) -> None:
    place.family.answers = [HANDLE]
    result = await place.run(
        SPAWN, prompt="look", name="scout", model=None, tools=["bash"], max_cost=1, timeout_s=60, wait=False
    )
    assert place.family.asked == [
        Spawn("look", "scout", None, None, ("bash",), {"max_cost": 1.0, "timeout_s": 60.0}, "call/1")
    ]
    assert json.loads(text_of(result)) == {"name": "scout", "sessionId": "s1", "model": "local/chat"}
    assert not result.is_error
    assert result.delivers == ()


async def test_a_refused_spawn_names_the_reason(place: Any, text_of: TextOf) -> None:
    place.family.answers = [Refused("depth 3 is above the limit of 2 (--max-depth)")]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert result.is_error
    assert "depth 3 is above the limit of 2 (--max-depth)" in text_of(result)


async def test_a_spawn_that_waits_hands_over_the_answer_and_its_notice(place: Any, text_of: TextOf) -> None:
    place.family.answers = [HANDLE, Waited("settled", (report(text="42", turns=1),))]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert place.family.asked[1] == WaitFor(("scout",), "all", 600.0)
    assert text_of(result).endswith("## scout: completed (1 turn, session s1)\n42")
    assert not result.is_error
    assert result.delivers == ("s1/1",)
    assert result.details["outcome"] == "completed"


@pytest.mark.parametrize("outcome", ["failed", "aborted", "timed_out", "limit_reached", "lost"])
async def test_a_child_that_did_not_complete_is_an_error_with_all_that_is_known(
    place: Any, text_of: TextOf, outcome: str
) -> None:
    child = report(outcome=outcome, text="half of it", error_message="529 overloaded")
    place.family.answers = [HANDLE, Waited("settled", (child,))]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert result.is_error
    assert f"scout: {outcome}" in text_of(result)
    assert "error: 529 overloaded\nhalf of it" in text_of(result)
    assert result.delivers == ("s1/1",)


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_text_is_never_taken_for_an_answer(place: Any, text_of: TextOf, text: str) -> None:
    place.family.answers = [HANDLE, Waited("settled", (report(outcome="failed", text=text),))]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert result.is_error
    assert text_of(result).endswith("scout: failed (0 turns, session s1)\n(no text)")


@pytest.mark.parametrize(
    ("ended", "words"), [("timeout", "timed out after 600 s"), ("message", "a message for you arrived")]
)
async def test_a_spawn_whose_wait_ended_early_shows_progress_and_delivers_nothing(
    place: Any, text_of: TextOf, ended: Any, words: str
) -> None:
    place.family.answers = [HANDLE, Waited(ended, (report(outcome="", run=0, text="looking", turns=2),))]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert result.is_error
    assert "scout: still running (2 turns, session s1)\nso far:\nlooking" in text_of(result)
    assert words in text_of(result)
    assert result.delivers == ()


async def test_a_child_that_was_started_is_named_even_if_it_cannot_be_waited_for(place: Any, text_of: TextOf) -> None:
    place.family.answers = [HANDLE, Refused("no")]
    result = await place.run(SPAWN, prompt="look", wait=True)
    assert result.is_error
    assert '"sessionId": "s1"' in text_of(result)


async def test_a_wait_tells_how_each_child_stands(place: Any, text_of: TextOf) -> None:
    reports = (
        report(text="done"),
        report("b", "failed", session_id="s2", run=3, error_message="quota"),
        report("c", "", session_id="s3", run=0),
    )
    place.family.answers = [Waited("timeout", reports)]
    result = await place.run(WAIT, mode="any", timeout_s=5)
    assert place.family.asked == [WaitFor((), "any", 5.0)]
    text = text_of(result)
    assert "## scout: completed (0 turns, session s1)\ndone" in text
    assert "## b: failed (0 turns, session s2)\nerror: quota\n(no text)" in text
    assert "## c: still running (0 turns, session s3)\n(no text yet)" in text
    assert "timed out after 5 s" in text
    assert not result.is_error
    assert result.delivers == ("s1/1", "s2/3")


async def test_a_wait_without_arguments_is_for_all_and_bounded(place: Any, text_of: TextOf) -> None:
    place.family.answers = [Waited("settled", ())]
    result = await WAIT.run(None, place.context)  # type: ignore[arg-type]
    assert place.family.asked == [WaitFor((), "all", 600.0)]
    assert text_of(result) == "There are no children to wait for."
    assert not result.is_error


async def test_a_longer_wait_is_cut_to_the_limit_and_says_so(place: Any, text_of: TextOf) -> None:
    place.family.answers = [Waited("settled", (report(text="x"),))]
    result = await place.run(WAIT, names=["scout", "scout"], timeout_s=3600)
    assert place.family.asked == [WaitFor(("scout",), "all", 600.0)]
    assert "timeout_s was 3600; the limit is 600." in text_of(result)


async def test_a_name_that_nobody_has_is_an_error(place: Any, text_of: TextOf) -> None:
    place.family.answers = [Waited("settled", (report(text="x"),)), Refused("no child is named 'ghost'")]
    for names in (["scout", "ghost"], ["ghost"]):
        result = await place.run(WAIT, names=names)
        assert result.is_error
        assert "'ghost'" in text_of(result)


async def test_long_answers_share_the_bound_and_are_whole_in_files(place: Any, text_of: TextOf) -> None:
    long = "".join(f"line {n}\n" for n in range(20_000))
    reports = (report("../a", text=long), report("b", text="short", session_id="s2"), report("c", text=long))
    place.family.answers = [Waited("settled", reports)]
    text = text_of(await place.run(WAIT))
    assert len(text.encode()) <= MAX_BYTES
    assert text.count("\n") <= MAX_LINES
    assert len(text.encode()) > MAX_BYTES * 0.3
    assert "\nshort\n" in text
    paths = [Path(line.rpartition("whole output: ")[2].rstrip("]")) for line in text.split("\n") if "whole out" in line]
    assert [path.read_text() for path in paths] == [long, long]
    assert all(path.parent == place.artifacts for path in paths)


async def test_very_many_children_stay_within_the_bound(place: Any, text_of: TextOf) -> None:
    reports = tuple(report(f"child-{n}", text="x" * 5000, session_id=f"s{n}") for n in range(128))
    place.family.answers = [Waited("settled", reports)]
    result = await place.run(WAIT)
    assert len(text_of(result).encode()) <= MAX_BYTES
    assert len(result.delivers) == 128


@pytest.mark.parametrize(
    ("wants", "room", "shares"),
    [([], 10, []), ([3], 10, [3]), ([30], 10, [10]), ([2, 30, 30], 20, [2, 9, 9]), ([30, 1], -5, [0, 0])],
)
def test_what_one_does_not_need_goes_to_the_others(wants: list[int], room: int, shares: list[int]) -> None:
    assert fair_shares(wants, room) == shares


async def test_the_family_is_listed_with_status_and_usage(place: Any, text_of: TextOf) -> None:
    relatives = (
        Relative("root", "parent", "s0", "waiting", "", 10, 2_000, 0.1, 0.25),
        Relative("scout", "child", "s1", "idle", "completed", 5, 5, 0.0, 0.0, ("local/chat",)),
    )
    place.family.answers = [Members(relatives)]
    result = await place.run(LIST)
    assert place.family.asked == [ListFamily()]
    lines = text_of(result).split("\n")
    assert lines[0].startswith("root (parent, s0): waiting; own 10 tokens, $0.1000; with children 2,000 tokens, $0.25")
    assert lines[1].startswith("scout (child, s1): idle, completed;")
    assert lines[1].endswith("and the unknown price of local/chat")
    assert result.details["agents"][1]["sessionId"] == "s1"


async def test_nobody_else_is_said_in_words(place: Any, text_of: TextOf) -> None:
    place.family.answers = [Members(())]
    assert text_of(await place.run(LIST)) == "There is nobody else."
