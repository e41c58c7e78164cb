"""Where sapwood does not say what a peer has said, and why; and the comparison of two streams without that."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from tests.orchestrator.dialects.recorded import Event, Events, role_of, update_of

ANYTHING = "(anything)"
IDS_AND_TIMES = frozenset({"timestamp", "durationMs", "cwd", "git", "rlmDepth", "firstKeptEntryId", "responseId"})


def as_it_is(events: Events) -> Events:
    return events


@attrs.frozen
class Difference:
    """Where sapwood does not say what the peer said, and why; `out` takes it out of one stream or the other."""

    reason: str
    theirs: Callable[[Events], Events] = as_it_is
    ours: Callable[[Events], Events] = as_it_is

    @property
    def is_ours_alone(self) -> bool:
        return self.theirs is as_it_is


def mapped(change: Callable[[Event], Event]) -> Callable[[Events], Events]:
    """A change of every object, the inner ones first."""

    def deep(value: Any) -> Any:
        if isinstance(value, dict):
            return change({name: deep(member) for name, member in value.items()})
        return [deep(member) for member in value] if isinstance(value, list) else value

    return lambda events: [deep(event) for event in events]


def without(*names: str) -> Callable[[Events], Events]:
    return mapped(lambda value: {name: member for name, member in value.items() if name not in names})


def no_event(*kinds: str) -> Callable[[Events], Events]:
    return lambda events: [event for event in events if event["type"] not in kinds]


def no_system_message(events: Events) -> Events:
    def kept(event: Event) -> Event:
        if event["type"] != "agent_end":
            return event
        return event | {"messages": [message for message in event["messages"] if message["role"] != "system"]}

    return [kept(event) for event in events if role_of(event) != "system"]


def empty_starts(events: Events) -> Events:
    """The beginning of a good answer says who answers, and nothing more."""

    def bare(event: Event) -> Event:
        message = event.get("message", {})
        if event["type"] != "message_start" or message.get("stopReason") not in {"pending", "stop"}:
            return event
        return event | {"message": {name: message[name] for name in ("role", "api", "provider", "model", "stopReason")}}

    return [bare(event) for event in events]


def ends_behind(events: Events) -> Events:
    """The ends of blocks, and what a snapshot of theirs shows, right before the end of their message, in their order."""
    found: Events = []
    ends: Events = []
    for event in events:
        if update_of(event).get("type", "").endswith("_end"):
            ends.append({"type": "message_update", "assistantMessageEvent": update_of(event)})
            continue
        if event["type"] == "message_end":
            found += sorted(ends, key=lambda end: int(update_of(end)["contentIndex"]))
            ends = []
        found.append(event)
    return found + ends


def late_usage(events: Events) -> Events:
    """Counts in updates that are already those of the whole message may have been anything when the update happened."""
    found: Events = []
    last: Any = None
    for event in reversed(events):
        if event["type"] == "message_end":
            last = event["message"].get("usage")
        if event["type"] == "message_update" and event.get("usage") == last:
            event = event | {"usage": ANYTHING}
        found.append(event)
    return found[::-1]


def plain_failures(events: Events) -> Events:
    """What a failure says, without how each of the two dresses it up."""

    def said(value: Event) -> Event:
        told = {name: value[name] for name in ("errorMessage", "finalError") if value.get(name)}
        return value | {name: failure_words(text) for name, text in told.items()}

    return mapped(said)(events)


def failure_words(text: str) -> str:
    inner = re.search(r'"message":"((?:[^"\\]|\\.)*)"', text)
    if inner is not None:
        return inner[1]
    if text.startswith(("terminated:", "the answer was cut off:")):
        return "the connection was cut"
    return re.sub(r"^\d{3} | \([^()]*HTTP \d{3}\)$", "", text)


def tool_ends_in_order(events: Events) -> Events:
    """Ends of parallel tools stand side by side; which came first is chance."""
    found: Events = []
    for event in events:
        found.append(event)
        place = len(found) - 1
        while (
            event["type"] == "tool_execution_end"
            and found[place - 1]["type"] == "tool_execution_end"
            and found[place - 1]["toolCallId"] > event["toolCallId"]
        ):
            found[place - 1 : place + 1] = [event, found[place - 1]]
            place -= 1
    return found


def bare_results(events: Events) -> Events:
    """The content of a result and whether it is an error, once."""

    def bare(event: Event) -> Event:
        if event["type"] != "tool_execution_end":
            return event
        return event | {"result": {name: value for name, value in event["result"].items() if name != "isError"}}

    return [bare(event) for event in without("structuredContent", "details")(events)]


def own_usage_alone(events: Events) -> Events:
    """A turn's answer without its usage, which `message_end` has told."""

    def bare(event: Event) -> Event:
        if event["type"] != "turn_end":
            return event
        return event | {"message": {name: value for name, value in event["message"].items() if name != "usage"}}

    return [bare(event) for event in events]


def plain_tool_text(events: Events) -> Events:
    """What a failed tool says to the model; each has its own words for the status, the call, the arguments."""

    def plain(value: Event) -> Event:
        value = value | ({"argumentsError": "…"} if value.get("argumentsError") else {})
        if value.get("isError") is True and "content" in value:
            return value | {"content": "…"}
        if value.get("type") == "tool_execution_end" and value["isError"]:
            return value | {"result": "…"}
        return value

    return mapped(plain)(events)


PI = {
    "prompt as a message": Difference(
        "pi shows its instructions as a message of role system; ours are not part of the conversation",
        no_system_message,
    ),
    "members of its own": Difference(
        "no page of pi's names them: what its prices come from, the level of thinking in every message, tokens that are zero",
        without("totalFromProvider", "cacheWrite1h", "thinkingLevel", "reasoning", "rawStopReason"),
        without("rawStopReason"),
    ),
    "entries": Difference(
        "pi appends an entry that takes a failed answer out of its context; ours never gets in",
        no_event("entry_appended"),
    ),
    "deltas of nothing": Difference(
        "pi has a delta for every piece of a call, also for an empty one",
        lambda events: [event for event in events if update_of(event).get("delta") != ""],
    ),
    "objects told late": Difference(
        "pi writes an object when its turn comes, and by then it has grown: a beginning shows a first block, an update the "
        "counts of the end. We show what was there",
        lambda events: late_usage(empty_starts(events)),
        empty_starts,
    ),
    "when a block ends": Difference(
        "pi ends the blocks of some APIs with the reply; ours end when the next begins", ends_behind, ends_behind
    ),
    "progress of tools": Difference(
        "how often output is shown is a matter of time",
        no_event("tool_execution_update"),
        no_event("tool_execution_update"),
    ),
    "results of tools": Difference(
        "each has its own details beside the text of a result",
        bare_results,
        bare_results,
    ),
    "words of failures": Difference(
        "pi shows the body of an error; ours its message, its code and the status", plain_failures, plain_failures
    ),
    "pauses": Difference("ours are drawn by chance, and here they are short", without("delayMs"), without("delayMs")),
    "parallel ends": Difference("which of two tools ends first is chance", ours=tool_ends_in_order),
}

PRIME = {
    "members of its own": Difference(
        "what its parser of calls keeps beside them is in its snapshots", without("partialArgs", "streamIndex")
    ),
    **{
        name: PI[name]
        for name in (
            "deltas of nothing",
            "objects told late",
            "when a block ends",
            "progress of tools",
            "results of tools",
            "words of failures",
            "pauses",
        )
    },
    "folded usage": Difference(
        "Prime adds what children cost to the message that it has told already; ours is told by `child_usage_attributed`",
        own_usage_alone,
        own_usage_alone,
    ),
    "raw reasons": Difference("only pi and ours keep the provider's own word", ours=without("rawStopReason")),
    "children": Difference(
        "Prime shows its children in an event of its own; ours are in the stream, for who asks for the tree",
        no_event("rlm_child_update"),
    ),
}

# --- the comparison ---------------------------------------------------------------------------------------------------


def without_differences(events: Events, differences: Mapping[str, Difference], whose: str) -> Events:
    """The stream without ids, times and what is named in the tables."""
    events = without(*IDS_AND_TIMES)(events)
    for difference in differences.values():
        events = getattr(difference, whose)(events)
    return [event | {"id": "…"} if event["type"] == "session" else event for event in events]


def unequal(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Each value that is not the same, with the way to it."""
    if theirs == ANYTHING:
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in dict.fromkeys((*theirs, *ours)):
            yield from unequal(theirs.get(name, "(absent)"), ours.get(name, "(absent)"), f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for place, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from unequal(one, other, f"{path}[{place}]")
    elif isinstance(theirs, float) or isinstance(ours, float):
        if theirs != pytest.approx(ours, abs=1e-12):
            yield f"{path}: theirs {theirs!r}, ours {ours!r}"
    elif theirs != ours:
        yield f"{path}: theirs {theirs!r:.300}, ours {ours!r:.300}"


def kinds(events: Events) -> list[str]:
    return [f"{event['type']} {update_of(event).get('type', '') or role_of(event)}" for event in events]


def assert_alike(theirs: Events, ours: Events) -> None:
    assert kinds(ours) == kinds(theirs)
    assert list(unequal(theirs, ours)) == []
