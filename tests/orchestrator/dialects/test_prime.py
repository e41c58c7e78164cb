"""Recorded streams of Prime Agent 0.8.0, and what sapwood streams in its dialect for the same replies and the same cells."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import msgspec
import pytest

from store.stream import check_stream
from tests.orchestrator.dialects.differences import PRIME, assert_alike, kinds, without, without_differences
from tests.orchestrator.dialects.played import played
from tests.orchestrator.dialects.recorded import (
    DATA,
    Event,
    Events,
    Recording,
    Reply,
    replies_of_session,
    role_of,
    update_of,
)


async def test_we_stream_what_prime_agent_streamed(tmp_path: Path) -> None:
    recording = Recording.read("prime.plain")

    result = await played(recording, tmp_path, {})

    theirs = without_differences(list(recording.events), PRIME, "theirs")
    assert_alike(theirs, without_differences(result.told("prime-agent"), PRIME, "ours"))


async def test_base_context_nests_in_each_update_what_prime_agent_tells_beside_it(tmp_path: Path) -> None:
    result = await played(Recording.read("prime.plain"), tmp_path, {})

    ours = result.told("base-context")
    assert without("partial")(ours) == result.told("prime-agent")
    updates = [event for event in ours if event["type"] == "message_update"]
    assert updates
    assert all(update_of(event)["partial"] == event["message"] for event in updates)


async def test_a_failing_provider_is_tried_as_often_as_prime_agent_tries_it(tmp_path: Path) -> None:
    """Prime tries a refused request again, too: four times in vain. We do that where it may help, as with a status of 500."""
    recording = Recording.read("prime.root_model_error")
    busy = msgspec.json.decode(msgspec.json.encode(recording.events).replace(b"400 scripted", b"500 scripted"))

    result = await played(attrs.evolve(recording, events=tuple(busy)), tmp_path / "busy", {})
    refused = await played(recording, tmp_path / "refused", {})

    theirs = without_differences(list(recording.events), PRIME, "theirs")
    assert_alike(theirs, without_differences(result.told("prime-agent"), PRIME, "ours"))
    alone = without_differences(refused.told("prime-agent"), PRIME, "ours")
    assert_alike(theirs[: len(alone)], alone)
    assert [end.status for end in (*result.ends, *refused.ends)] == [1, 1], "where Prime ends with 0"


def said(text: str, after: Reply) -> Reply:
    """This text from the provider of another reply."""
    content = [{"type": "text", "text": text}]
    delta = {"assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": text}}
    return Reply((delta,), after.message | {"stopReason": "stop", "content": content})


def calling(tool: str, arguments: Event, after: Reply) -> Reply:
    """A call of this tool from the provider of another reply."""
    content = [{"type": "toolCall", "id": "call_0", "name": tool, "arguments": arguments}]
    delta = {"type": "toolcall_delta", "contentIndex": 0, "delta": msgspec.json.encode(arguments).decode()}
    start = {"type": "toolcall_start", "contentIndex": 0}
    updates = ({"assistantMessageEvent": start}, {"assistantMessageEvent": delta})
    return Reply(updates, after.message | {"stopReason": "toolUse", "content": content})


def thirty_two() -> dict[str, list[Reply]]:
    """Each sends its answer and is done; by the tool, as 32 kernels at once are more than a test needs."""
    sent = replies_of_session("prime.replies_lost_32.child1.depth1")[-1]
    return {
        f"c{n}": [calling("message_agent", {"to": "parent", "message": f"answer from c{n}"}, sent), sent]
        for n in range(32)
    }


def replies(name: str, *children: str) -> dict[str, list[Reply]]:
    return {child: replies_of_session(f"prime.{name}.child{n}.depth{n + 1}") for n, child in enumerate(children)}


@attrs.frozen
class Family:
    """A recording with children. `shown`: what has to reach the root's model. `printed`: a word of theirs and ours in its cell.

    `reason`: what is not as with Prime, behind the first event of the kind `until`.
    """

    name: str
    children: Callable[[], Mapping[str, list[Reply]]]
    shown: tuple[str, ...]
    printed: tuple[str, str]
    reason: str
    until: str = "turn_end assistant"


TOGETHER = "a notice that is there when a turn begins goes in with it; Prime begins another loop for it"
FAMILIES = [
    Family("single_child", lambda: replies("single_child", "c0"), ("answer c0",), ("completed", "completed"), TOGETHER),
    Family(
        "nested_depth2", lambda: replies("nested_depth2", "c0", "g"), ("nested",), ("completed", "completed"), TOGETHER
    ),
    Family(
        "child_model_error",
        lambda: replies("child_model_error", "c0"),
        ("scripted failure",),
        ("completed", "failed"),
        "a child whose model failed has failed; Prime calls it completed, and its error is lost",
    ),
    Family(
        "two_children_reply",
        lambda: {f"c{n}": replies_of_session(f"prime.two_children_reply.child{1 - n}.depth1") for n in (0, 1)},
        ("answer from c0", "answer from c1"),
        ("completed", "completed"),
        "messages that wait go in together; Prime begins a loop for each",
    ),
    Family(
        "replies_lost_32",
        thirty_two,
        tuple(f"answer from c{n}" for n in range(32)),
        ("completed", "completed"),
        "all 32 answers arrive; with Prime the tool never ends, no answer gets in, and 13 notices say that there was none",
        until="tool_execution_start None",
    ),
    Family(
        "exits_before_child",
        lambda: replies("exits_before_child", "c0"),
        ("answer c0",),
        ("", ""),
        "the run waits for its children; Prime exits, and the answer is lost",
    ),
    Family(
        "slow_child_cancelled",
        lambda: {"c0": [said("slow answer", replies_of_session("prime.plain.parent")[0])]},
        ("slow answer",),
        ("", ""),
        "the run waits for its children; Prime cancels them",
    ),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
async def test_a_parent_streams_what_it_streamed_until_its_children_are_heard(family: Family, tmp_path: Path) -> None:
    """The cells of the recording run as they stand, on a kernel of ours."""
    recording = Recording.read(f"prime.{family.name}")
    theirs = without_differences(list(recording.events), PRIME, "theirs")
    told = [event for event in theirs if event["type"] != "session_action_update"]

    result = await played(recording, tmp_path, family.children())

    ours = without_differences(result.told("prime-agent"), PRIME, "ours")
    ours = [event for event in ours if event["type"] != "session_action_update"]
    until = kinds(told).index(family.until) + 1
    expected = msgspec.json.decode(
        msgspec.json.encode(told[:until]).replace(*(word.encode() for word in family.printed))
    )
    assert_alike(expected, ours[:until])
    assert check_stream(raw(result.told("prime-agent")), "prime-agent", exit_status=result.ends[-1].status) == []
    assert kinds(ours)[-3:] == kinds(told)[-3:], family.reason
    heard = [event["message"] for event in ours if event["type"] == "message_end" and role_of(event) != "assistant"]
    for text in family.shown:
        assert any(re.search(rf"{text}\b", str(message["content"])) for message in heard), text


def raw(events: Events) -> list[bytes]:
    return [msgspec.json.encode(event) + b"\n" for event in events]


def test_no_difference_is_named_in_vain() -> None:
    streams = [list(Recording.read(path.stem).events) for path in DATA.glob("prime.*.jsonl")]
    for name, difference in PRIME.items():
        assert difference.is_ours_alone or any(difference.theirs(stream) != stream for stream in streams), name
