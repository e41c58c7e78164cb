"""The multiplexed stream: every line says whose it is, and the lines of one session are the stream it would have had alone."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.model import Hear, ModelFailure, ModelRequest, ReplyEnd, TextChunk
from actors.testing import FunctionModel
from store.events import Event, Place
from store.lines import SHORT_TAGGED, event_tail
from store.wire import encode
from tests.actors.stage import (
    Bench,
    Line,
    assert_sound,
    pausing,
    row,
    rows,
    run,
    saying,
    spawn,
    stage,
    tool,
    use,
    wait,
)

TAGS = ("sessionId", "seq", "at", "rootSessionId", "depth", "parentSessionId")
STORY: list[Line] = [
    use("quick"),
    pausing(1.0, ModelFailure("overloaded", "busy")),
    pausing(1.0, use("quick")),
    "the answer",
]


def interleaved() -> Bench:
    parts: dict[str, list[Line]] = {
        "root": [spawn("a", "b", "c"), wait(), "done"],
        "a": STORY,
        "b": STORY,
        "c": [spawn("d", wait=True), "done"],
        "d": STORY,
    }
    return stage(parts, tool("quick", saying("quick")))


def untagged(tree: Bench, session: str) -> list[dict[str, Any]]:
    """The lines of one session without what publication adds."""
    return [bare(event) for event in tree.events(session)]


def bare(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in TAGS}


async def test_the_lines_of_one_session_without_their_tags_are_what_it_said_byte_for_byte(
    autojump_clock: MockClock,
) -> None:
    tree = interleaved()
    said: dict[str, list[bytes]] = {}

    def hear(place: Place, event: Event, at: float) -> None:
        kind, tail = event_tail(event)
        said.setdefault(place.session_id, []).append(f'{{"type":"{kind}"'.encode() + tail + b"\n")

    tree.tree.supervisor.sink.watchers.append(hear)

    await run(tree)

    split: dict[str, list[bytes]] = {}
    for line in tree.outlet.lines:
        session, bare = split_line(line)
        split.setdefault(session, []).append(bare)
    assert split == said
    assert set(split) == {one.id for one in rows(tree)}
    assert_sound(tree)


def split_line(line: bytes) -> tuple[str, bytes]:
    """Whose line it is, and the line without its tags."""
    found = re.match(
        rb'(\{"type":"[a-z_]+")(,"sessionId":"([^"]+)","seq":\d+,"at":"[^"]+"'
        rb'(,"rootSessionId":"[^"]+","depth":\d+(,"parentSessionId":"[^"]+")?)?)',
        line,
    )
    assert found is not None, line
    return found[3].decode(), found[1] + line[found.end() :]


async def test_a_child_tells_what_it_would_have_told_as_a_root(autojump_clock: MockClock) -> None:
    tree = interleaved()
    await run(tree)
    alone = stage({"root": STORY}, tool("quick", saying("quick")))
    await run(alone, "task of a")

    for name in ("a", "b", "d"):
        header, *lines = without_places(untagged(tree, row(tree, name).id))
        first, *expected = without_places(untagged(alone, alone.root.id))
        assert header == first | {"name": name}
        assert lines == msgspec.json.decode(encode(expected).replace(b"task of a", f"task of {name}".encode()))


async def test_each_of_a_hundred_that_are_told_across_each_other_tells_what_it_would_have_told_alone(
    autojump_clock: MockClock,
) -> None:
    names = [f"kid-{number}" for number in range(100)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names), wait(), "done"], **dict.fromkeys(names, STORY)}
    tree = stage(parts, tool("quick", saying("quick")), limits=Limits(max_children=100, max_live_children=16))
    await run(tree)
    alone = stage({"root": STORY}, tool("quick", saying("quick")))
    await run(alone, "task of a kid")

    told = tree.events()
    changes = [one["sessionId"] != other["sessionId"] for one, other in pairwise(told)]
    assert sum(changes) > 5 * len(names), "they were told one after the other"
    _, *expected = without_places(untagged(alone, alone.root.id))
    for name in names:
        kid = row(tree, name).id
        _, *lines = without_places([bare(event) for event in told if event["sessionId"] == kid])
        assert lines == msgspec.json.decode(encode(expected).replace(b"task of a kid", f"task of {name}".encode()))
    assert_sound(tree)


def without_places(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Times, lengths of time and what only a header says are another matter each time."""
    dull = {"timestamp", "durationMs", "delayMs", "parentSession", "rlmDepth", "messages"}

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(member) for key, member in value.items() if key not in dull}
        return [timeless(member) for member in value] if isinstance(value, list) else value

    for line in lines:
        if line["type"] == "session":
            line = line | {"id": "-"}
        yield timeless(line)


async def test_every_line_says_whose_it_is_and_all_but_deltas_where_in_the_tree(autojump_clock: MockClock) -> None:
    tree = interleaved()
    await run(tree)
    places = {one.id: one.place for one in rows(tree)}

    for number, event in enumerate(tree.events(), start=1):
        place = places[event["sessionId"]]
        assert event["seq"] == number
        if event["type"] in SHORT_TAGGED:
            assert "depth" not in event
            continue
        assert (event["rootSessionId"], event["depth"]) == (place.root_id, place.depth)
        assert event.get("parentSessionId") == place.parent_id


async def test_a_header_comes_before_everything_else_that_a_child_says_and_behind_its_spawn(
    autojump_clock: MockClock,
) -> None:
    tree = interleaved()
    await run(tree)

    for one in rows(tree)[1:]:
        kinds = [(event["type"], event["sessionId"], event.get("childSessionId")) for event in tree.events()]
        first = next(place for place, (_, session, _) in enumerate(kinds) if session == one.id)
        spawned = kinds.index(("child_spawned", one.parent.id if one.parent else "", one.id))
        settled = kinds.index(("child_settled", one.parent.id if one.parent else "", one.id))
        assert kinds[first][0] == "session"
        assert spawned < first
        assert settled > max(
            place for place, (kind, session, _) in enumerate(kinds) if (kind, session) == ("agent_settled", one.id)
        )


async def test_each_line_is_one_json_object_and_ends_with_a_newline(autojump_clock: MockClock) -> None:
    text = "line\nline\u2028line\r\n\x00 \ud7ff 𝄞"
    tree = stage({"root": [use("odd"), text]}, tool("odd", saying(text)))

    await run(tree)

    for line in tree.outlet.lines:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert isinstance(msgspec.json.decode(line), dict)
    assert_sound(tree)


async def test_deltas_cost_as_much_as_they_are_long_and_not_as_what_came_before(autojump_clock: MockClock) -> None:
    class Long(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            for _ in range(int(request.messages[-1].content[0].text)):  # type: ignore[union-attr]
                await hear(TextChunk(0, "word"))
            return ReplyEnd("stop")

    async def cost(deltas: int) -> int:
        tree = stage(Long(lambda request: ""))
        await run(tree, str(deltas))
        return sum(len(line) for line in tree.outlet.lines if b'"text_delta"' in line)

    small, large = await cost(500), await cost(1_000)

    assert large < 2.5 * small
    assert large / 1_000 < 219
