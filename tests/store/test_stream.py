"""The checker of streams: sound ones pass, and whatever is lost, doubled or out of place is found where it is."""

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from store import entries, events, messages
from store.dialects import DIALECTS
from store.forest_stream import ForestChecker
from store.lines import event_tail, tagged
from store.stream import Finding, StreamChecker, check_stream
from store.usage import Usage
from store.wire import encode

DATA = Path(__file__).parents[1] / "data" / "streams"
AT = "2026-01-02T03:04:05.678Z"
OLD = "2025-12-31T23:59:59.999Z"
Line = dict[str, Any]
Step = tuple[events.Place, events.Event] | None
Stream = list[Line]

# --- a builder of sound streams --------------------------------------------------------------------------------------


@attrs.define
class Talk:
    """One session, telling what it does as (place, event); None where it waits for a child."""

    place: events.Place
    number: int = 0
    run: int = 0
    told: list[msgspec.Raw] = attrs.field(factory=list)
    turn: list[msgspec.Raw] = attrs.field(factory=list)

    @classmethod
    def of(cls, name: str, above: "Talk | None" = None) -> "Talk":
        own = f"{name}-0000-7000"
        if above is None:
            return cls(events.Place(own, own, None, 0))
        place = above.place
        return cls(events.Place(own, place.root_id, place.session_id, place.depth + 1))

    def say(self, *told: events.Event) -> Iterator[Step]:
        yield from ((self.place, event) for event in told)

    def header(self) -> Iterator[Step]:
        place = self.place
        yield from self.say(
            entries.Header(version=3, id=place.session_id, timestamp=AT, cwd="/", rlm_depth=place.depth or None)
        )

    def message(self, message: messages.Message) -> Iterator[Step]:
        raw = msgspec.Raw(encode(message))
        yield from self.say(events.MessageStart(message=raw), events.MessageEnd(message=raw))
        self.told.append(raw)
        self.turn.append(raw)

    def answer(self, *blocks: messages.Block, stop: str = "stop", cut: bool = False) -> Iterator[Step]:
        self.number += 1
        first = messages.AssistantMessage(content=(), stop_reason="pending")
        yield from self.say(events.MessageStart(message_id=self.number, message=msgspec.Raw(encode(first))))
        for place, block in enumerate(blocks):
            updates = list(block_updates(place, block))
            for update in updates[:-1] if cut else updates:
                yield from self.say(events.MessageUpdate(message_id=self.number, assistant_message_event=update))
        last = messages.AssistantMessage(content=blocks, stop_reason=stop, usage=Usage(input=7, total_tokens=7))
        raw = msgspec.Raw(encode(last))
        self.told.append(raw)
        self.turn = [raw]
        yield from self.say(events.MessageEnd(message_id=self.number, message=raw))

    def tools(self, *names: str, ends: tuple[str, ...] = ()) -> Iterator[Step]:
        for name in names:
            yield from self.say(events.ToolExecutionStart(tool_call_id=name, tool_name="t", args={}))
            part: Line = {"content": []}
            yield from self.say(
                events.ToolExecutionUpdate(tool_call_id=name, tool_name="t", args={}, partial_result=part)
            )
        for name in ends or names:
            yield from self.say(
                events.ToolExecutionEnd(tool_call_id=name, tool_name="t", result={}, is_error=False, duration_ms=3)
            )
        for name in names:
            yield from self.message(messages.ToolResultMessage(tool_call_id=name, tool_name="t"))

    def start(self, prompt: str | None = "go") -> Iterator[Step]:
        self.told, self.turn = [], []
        yield from self.say(events.AgentStart(), events.TurnStart())
        if prompt is not None:
            yield from self.message(messages.user_text(prompt, 1))

    def next_turn(self) -> Iterator[Step]:
        yield from self.end_turn()
        yield from self.say(events.TurnStart())

    def end_turn(self) -> Iterator[Step]:
        yield from self.say(events.TurnEnd(message=self.turn[0], tool_results=tuple(self.turn[1:])))

    def end_loop(self, will_retry: bool = False) -> Iterator[Step]:
        yield from self.end_turn()
        yield from self.say(events.AgentEnd(messages=tuple(self.told), will_retry=will_retry))

    def settle(self, outcome: str = "completed") -> Iterator[Step]:
        self.run += 1
        yield from self.say(
            entries.RunSettledEntry(run=self.run, outcome=outcome),
            events.AgentSettled(aborted=outcome == "aborted", outcome=outcome),
        )

    def simple_run(self, outcome: str = "completed") -> Iterator[Step]:
        yield from self.start()
        yield from self.answer(text("w0 w1 "))
        yield from self.end_loop()
        yield from self.settle(outcome)


def text(content: str) -> messages.TextContent:
    return messages.TextContent(text=content)


def call(name: str, **arguments: Any) -> messages.ToolCall:
    return messages.ToolCall(id=name, name="t", arguments=arguments)


def block_updates(place: int, block: messages.Block) -> Iterator[events.AssistantMessageEvent]:
    match block:
        case messages.TextContent(text=whole):
            yield events.TextStart(content_index=place)
            for part in whole.split(" ")[:-1]:
                yield events.TextDelta(content_index=place, delta=part + " ")
            yield events.TextEnd(content_index=place, content=whole)
        case messages.ThinkingContent(thinking=whole):
            yield events.ThinkingStart(content_index=place)
            yield events.ThinkingDelta(content_index=place, delta=whole)
            yield events.ThinkingEnd(content_index=place, content=whole)
        case messages.ToolCall():
            name = events.CallName(id=block.id, name=block.name)
            yield events.ToolcallStart(content_index=place, tool_call=name, id=block.id, tool_name=block.name)
            whole = encode(block.arguments).decode()
            yield events.ToolcallDelta(content_index=place, delta=whole[:1])
            yield events.ToolcallDelta(content_index=place, delta=whole[1:])
            yield events.ToolcallEnd(content_index=place, tool_call=block)


def written(steps: Iterator[Step]) -> Stream:
    """The lines as publication tags them."""
    told = [step for step in steps if step is not None]
    lines = []
    for seq, (place, event) in enumerate(told, start=1):
        kind, tail = event_tail(event)
        lines.append(msgspec.json.decode(tagged(tail, kind, place, seq, AT)))
    return lines


def raw(stream: Stream) -> list[bytes]:
    return [msgspec.json.encode(line) + b"\n" for line in stream]


def renumbered(stream: Stream) -> Stream:
    return [line | {"seq": seq} for seq, line in enumerate(stream, start=1)]


def a_single_session() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    yield from talk.say(entries.SessionStateEntry(state={"status": "active"}))
    yield from talk.simple_run()
    yield from talk.say(entries.SessionInfoEntry(name="n"), events.Diagnostic(level="info", code="c", text="t"))
    yield from talk.say(entries.ModelChangeEntry(provider="p", model_id="m"))
    yield from talk.start("again")
    yield from talk.answer(messages.ThinkingContent(thinking="hm"), text("w2 w3 "))
    yield from talk.end_loop()
    yield from talk.settle()


def parallel_tools() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(text("w0 w1 "), call("a", x=1), call("b", y="\u2028"), stop="toolUse")
    yield from talk.tools("a", "b", ends=("b", "a"))
    yield from talk.next_turn()
    yield from talk.message(messages.user_text("a steer", 2))
    yield from talk.answer(call("a", x=2), stop="toolUse")  # some servers count ids from 1 in each answer
    yield from talk.tools("a")
    yield from talk.say(events.CompactionStart(reason="threshold"))
    yield from talk.say(events.CompactionEnd(reason="threshold", result={}, aborted=False, will_retry=False))
    yield from talk.next_turn()
    yield from talk.answer(text("done "))
    yield from talk.end_loop()
    yield from talk.settle()


def retried() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    yield from talk.start()
    for attempt in (1, 2):
        yield from talk.answer(text("w0 w1 "), stop="error", cut=True)
        yield from talk.end_loop(will_retry=True)
        yield from talk.say(
            events.AutoRetryStart(attempt=attempt, max_attempts=4, delay_ms=9, error_message="overloaded")
        )
        yield from talk.start(prompt=None)
    yield from talk.answer(text("w2 w3 "))
    yield from talk.say(events.AutoRetryEnd(success=True, attempt=2))
    yield from talk.end_loop()
    yield from talk.settle()


def aborted_in_a_pause() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(stop="error")
    yield from talk.end_loop(will_retry=True)
    yield from talk.say(events.AutoRetryStart(attempt=1, max_attempts=4, delay_ms=9, error_message="429"))
    yield from talk.say(events.AutoRetryEnd(success=False, attempt=1, final_error="aborted"))
    yield from talk.settle("aborted")


def aborted_in_a_word() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(text("w0 w1 "), stop="aborted", cut=True)
    yield from talk.end_loop()
    yield from talk.settle("aborted")


def gated() -> Iterator[Step]:
    talk = Talk.of("root")
    yield from talk.header()
    for attempt, passed in ((1, False), (2, True)):
        yield from talk.start()
        yield from talk.answer(text("w0 w1 "))
        yield from talk.end_loop()
        for command in ("build", "test") if passed else ("build",):
            yield from talk.say(
                events.GateStart(command=command, attempt=attempt),
                entries.GateEndEntry(command=command, attempt=attempt, passed=passed, result={}, duration_ms=3),
            )
    yield from talk.settle()


def bill(above: Talk, origin: Talk, through: Talk) -> Iterator[Step]:
    yield from above.say(
        entries.ChildUsageAttributedEntry(
            target_id=None,
            child_usage=Usage(input=7, total_tokens=7),
            origin_session_id=origin.place.session_id,
            origin_entry_id="00000003",
            child_session_id=through.place.session_id,
            origin="spawn_task",
        )
    )


def with_children(talk: Talk, names: tuple[str, ...], chain: tuple[Talk, ...], outcome: str) -> Iterator[Step]:
    """A session that calls one tool per child; the children work side by side and may have children themselves."""
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(*(call(name) for name in names), stop="toolUse")
    for name in names:
        yield from talk.say(events.ToolExecutionStart(tool_call_id=name, tool_name="t", args={}))
    children = [Talk.of(name, talk) for name in names]
    works = []
    for child in children:
        yield from talk.say(
            entries.ChildSpawnedEntry(
                child_session_id=child.place.session_id,
                name="c",
                child_depth=child.place.depth,
                prompt="p",
                model="m",
            )
        )
        works.append(child_work(child, (talk, *chain), outcome))
    yield from interleaved(works)
    for name, child in zip(names, children, strict=True):
        yield from talk.say(
            entries.ChildSettledEntry(child_session_id=child.place.session_id, run=1, outcome=outcome, text="t"),
            events.ToolExecutionEnd(tool_call_id=name, tool_name="t", result={}, is_error=False, duration_ms=3),
        )
    for name in names:
        yield from talk.message(messages.ToolResultMessage(tool_call_id=name, tool_name="t"))
    yield from talk.next_turn()
    yield from talk.answer(text("w0 w1 "))
    yield from talk.end_loop()
    yield from talk.settle(outcome)


def child_work(talk: Talk, chain: tuple[Talk, ...], outcome: str) -> Iterator[Step]:
    name = talk.place.session_id[0]
    if talk.place.depth == 1 and name == "a":
        yield from with_children(talk, ("g", "h"), chain, outcome)
    else:
        yield from talk.header()
        yield from talk.simple_run(outcome)
    path = (talk, *chain)
    for place, above in enumerate(chain):
        yield from bill(above, talk, path[place])


def interleaved(works: list[Iterator[Step]]) -> Iterator[Step]:
    chance = random.Random(7)
    while works:
        work = chance.choice(works)
        step = next(work, "over")
        if step == "over":
            works.remove(work)
        else:
            yield step  # type: ignore[misc]


def a_tree(outcome: str = "completed") -> Iterator[Step]:
    yield from with_children(Talk.of("root"), ("a", "b"), (), outcome)


SOUND: dict[str, Stream] = {
    build.__name__: written(build())
    for build in (a_single_session, parallel_tools, retried, aborted_in_a_pause, aborted_in_a_word, gated, a_tree)
}
SOUND["an_aborted_tree"] = written(a_tree("aborted"))

# --- what is sound passes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_stream_has_no_findings(name: str) -> None:
    status = 130 if "aborted" in name else 0

    assert check_stream(raw(SOUND[name]), exit_status=status) == []


def test_a_tree_interleaves_sessions_at_three_levels() -> None:
    names = [line["sessionId"] for line in SOUND["a_tree"]]
    changes = sum(one != two for one, two in pairwise(names))

    assert {line.get("depth") for line in SOUND["a_tree"]} >= {0, 1, 2}
    assert changes > 2 * len(set(names))


@pytest.mark.parametrize("name", SOUND)
def test_the_lines_of_one_session_without_tags_pass_as_the_stream_it_would_have_alone(name: str) -> None:
    root = SOUND[name][0]["sessionId"]
    tags = {"sessionId", "seq", "at", "rootSessionId", "depth"}
    hidden = ("child_", "run_settled")
    alone = [line for line in SOUND[name] if line["sessionId"] == root and not line["type"].startswith(hidden)]

    assert check_stream(raw([{k: v for k, v in line.items() if k not in tags} for line in alone]), "selesai") == []


def test_a_stream_of_the_root_alone_passes_as_a_filtered_one() -> None:
    root = [line for line in SOUND["a_tree"] if line["sessionId"].startswith("root")]

    assert check_stream(raw(root), is_filtered=True) == []
    assert {finding.rule for finding in check_stream(raw(root))} >= {"seq", "child"}


def a_child_that_is_older_than_the_stream() -> Iterator[Step]:
    talk = Talk.of("root")
    child = Talk.of("old", talk)
    child.run = 2
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(call("a"), stop="toolUse")
    yield from child.say(entries.Header(version=3, id=child.place.session_id, timestamp=OLD, cwd="/", rlm_depth=1))
    yield from child.simple_run()
    yield from talk.say(
        entries.ChildSettledEntry(child_session_id=child.place.session_id, run=3, outcome="completed", text="t")
    )
    yield from talk.tools("a")
    yield from talk.end_loop()
    yield from talk.settle()


def test_a_child_of_an_earlier_stream_needs_no_spawn_but_its_runs_are_told() -> None:
    stream = written(a_child_that_is_older_than_the_stream())
    untold = [line for line in stream if line["type"] != "child_settled"]

    assert check_stream(raw(stream)) == []
    assert [finding.rule for finding in check_stream(raw(renumbered(untold)))] == ["child", "child"]


def a_child_that_is_woken_before_its_parent_hears(outcomes: tuple[str, str]) -> Iterator[Step]:
    talk = Talk.of("root")
    child = Talk.of("child", talk)
    name = child.place.session_id
    yield from talk.header()
    yield from talk.start()
    yield from talk.answer(call("a"), stop="toolUse")
    yield from talk.say(
        entries.ChildSpawnedEntry(child_session_id=name, name="c", child_depth=1, prompt="p", model="m"),
        events.ToolExecutionStart(tool_call_id="a", tool_name="t", args={}),
    )
    yield from child.header()
    yield from child.simple_run("failed")
    yield from child.start()
    yield from talk.say(entries.ChildSettledEntry(child_session_id=name, run=1, outcome=outcomes[0], text="t"))
    yield from child.answer(text("w0 w1 "))
    yield from child.end_loop()
    yield from child.settle()
    yield from talk.say(
        entries.ChildSettledEntry(child_session_id=name, run=2, outcome=outcomes[1], text="t"),
        events.ToolExecutionEnd(tool_call_id="a", tool_name="t", result={}, is_error=False, duration_ms=3),
    )
    yield from talk.message(messages.ToolResultMessage(tool_call_id="a", tool_name="t"))
    yield from talk.end_loop()
    yield from talk.settle()


@pytest.mark.parametrize(
    ("outcomes", "rules"),
    [
        (("failed", "completed"), []),
        (("completed", "completed"), ["child"]),
        (("failed", "failed"), ["child"]),
    ],
)
def test_a_child_may_be_at_its_next_run_when_its_parent_hears_of_the_last(
    outcomes: tuple[str, str], rules: list[str]
) -> None:
    stream = written(a_child_that_is_woken_before_its_parent_hears(outcomes))

    assert [finding.rule for finding in check_stream(raw(stream))] == rules


@pytest.mark.parametrize(("delivery", "rules"), [("refused", []), ("delivered", ["after-settled"])])
def test_a_message_that_comes_too_late_is_refused_after_the_end(delivery: str, rules: list[str]) -> None:
    talk = Talk.of("root")
    late = events.AgentMessage(sender="c", to="root", mode="auto", delivery=delivery)
    stream = written(step for part in (talk.header(), talk.simple_run(), talk.say(late)) for step in part)

    assert [finding.rule for finding in check_stream(raw(stream))] == rules


def test_half_a_surrogate_pair_of_javascript_is_json_and_in_our_own_streams_it_is_not() -> None:
    lines = (DATA / "pi.text_openai.jsonl").read_bytes().replace(b"[[text:5]]", rb"\ud83d")
    split = [line + b"\n" for line in lines.split(b"\n")[:-1]]

    assert check_stream(split, "pi") == []
    assert "json" in {finding.rule for finding in check_stream(split)}


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.stem)
def test_what_real_peers_wrote_passes_but_for_what_a_signal_left_open(path: Path) -> None:
    dialect = "pi" if path.name.startswith("pi.") else "prime-agent"
    with path.open("rb") as lines:
        found = check_stream(lines, dialect)

    inner = {
        "pi.abort_sigint": (8, "message"),
        "pi.abort_sigterm": (8, "message"),
        "pi.abort_sigterm_tool": (14, "call"),
    }.get(path.stem)
    expected = [(2, "the loop"), (3, "the turn"), (inner[0], f"the {inner[1]}")] if inner else []
    assert [(finding.line, finding.rule) for finding in found] == [(line, "left-open") for line, _ in expected]
    assert all(finding.text.startswith(text) for finding, (_, text) in zip(found, expected, strict=True))


# --- what is broken is found, where it is ----------------------------------------------------------------------------


def where(stream: Stream, kind: str, nth: int = 0, **members: Any) -> int:
    """Place of the nth line of this type (or nested update type) that has these members."""
    places = [
        place
        for place, line in enumerate(stream)
        if kind in {line["type"], line.get("assistantMessageEvent", {}).get("type")}
        and all(line.get(name, line.get("message", {}).get(name)) == value for name, value in members.items())
    ]
    return places[nth]


Break = Callable[[Stream], int]


def drop(kind: str, nth: int = 0, at: str | None = None, at_nth: int = 0, **members: Any) -> Break:
    """Drop a line; the finding is where `at` then stands (default: the line that now stands in its place)."""

    def broken(stream: Stream) -> int:
        place = where(stream, kind, nth, **members)
        del stream[place]
        return place if at is None else where(stream, at, at_nth)

    return broken


def alter(kind: str, nth: int = 0, pick: dict[str, Any] | None = None, **members: Any) -> Break:
    def broken(stream: Stream) -> int:
        place = where(stream, kind, nth, **(pick or {}))
        stream[place] = {k: v for k, v in (stream[place] | members).items() if v is not ...}
        return place

    return broken


def swap(kind: str, other: str, nth: int = 0, other_nth: int = 0, second: bool = False, **pick: Any) -> Break:
    def broken(stream: Stream) -> int:
        one, two = where(stream, kind, nth, **pick), where(stream, other, other_nth)
        stream[one], stream[two] = stream[two], stream[one]
        return max(one, two) if second else min(one, two)

    return broken


def repeat(kind: str, nth: int = 0) -> Break:
    def broken(stream: Stream) -> int:
        place = where(stream, kind, nth)
        stream.insert(place, stream[place])
        return place + 1

    return broken


def append(line: Line) -> Break:
    def broken(stream: Stream) -> int:
        tags = {name: stream[0][name] for name in ("sessionId", "rootSessionId", "depth", "at")}
        stream.append(line | tags)
        return len(stream) - 1

    return broken


def drop_header(stream: Stream) -> int:
    """Of the first child; its first event is found."""
    header = stream.pop(where(stream, "session", 1))
    return next(place for place, line in enumerate(stream) if line["sessionId"] == header["sessionId"])


def drop_spawn(stream: Stream) -> int:
    """Of the first child; its header is found."""
    spawned = stream.pop(where(stream, "child_spawned"))
    return where(stream, "session", id=spawned["childSessionId"])


def fail_last_gate(stream: Stream) -> int:
    """The end of the run that is completed all the same is found."""
    alter("gate_end", nth=-1, passed=False)(stream)
    return where(stream, "run_settled")


def gate_of_a_child(stream: Stream) -> int:
    place = where(stream, "agent_start", depth=1)
    stream.insert(place, stream[place] | {"type": "gate_start", "command": "build", "attempt": 1})
    return place


def update(kind: str, **members: Any) -> Break:
    def broken(stream: Stream) -> int:
        place = where(stream, kind)
        nested = stream[place]["assistantMessageEvent"] | members
        stream[place] = stream[place] | {"assistantMessageEvent": nested}
        return place

    return broken


def final(nth: int, **members: Any) -> Break:
    def broken(stream: Stream) -> int:
        place = where(stream, "message_end", nth, role="assistant")
        stream[place] = stream[place] | {"message": stream[place]["message"] | members}
        return place

    return broken


BROKEN: list[tuple[str, str, Break]] = [
    ("a_single_session", "header", drop("session")),
    ("a_single_session", "header", repeat("session")),
    ("a_single_session", "header", alter("session", id="other-000")),
    ("a_single_session", "unknown-type", alter("diagnostic", type="rumour")),
    ("a_single_session", "shape", alter("agent_end", willRetry=...)),
    ("a_single_session", "shape", alter("agent_settled", aborted=...)),
    ("a_single_session", "shape", alter("diagnostic", level="loud")),
    ("a_single_session", "tags", alter("agent_start", sessionId=...)),
    ("a_single_session", "tags", alter("agent_start", depth=1)),
    ("a_single_session", "tags", alter("agent_start", rootSessionId=...)),
    ("a_single_session", "tags", alter("message_update", at="yesterday")),
    ("a_tree", "tags", alter("message_start", pick={"depth": 1}, parentSessionId=...)),
    ("a_single_session", "agent", drop("agent_end", at="agent_start", at_nth=1)),
    ("a_single_session", "agent", drop("turn_end")),
    ("a_single_session", "agent", alter("agent_end", messages=[])),
    ("a_single_session", "turn", drop("agent_start")),
    ("parallel_tools", "turn", drop("turn_end", at="turn_start", at_nth=1)),
    ("parallel_tools", "turn", swap("turn_end", "message_end", other_nth=3)),
    ("parallel_tools", "turn", alter("turn_end", message={"role": "assistant", "content": []})),
    ("a_single_session", "message", drop("turn_start", at="message_start", at_nth=1)),
    ("a_single_session", "message", drop("message_end", at="message_start", at_nth=1)),
    ("a_single_session", "message", drop("message_start")),
    ("a_single_session", "message", drop("message_start", role="assistant")),
    ("a_single_session", "message-id", alter("message_start", pick={"role": "assistant"}, messageId=2)),
    ("a_single_session", "message-id", alter("message_update", messageId=7)),
    ("a_single_session", "message-id", alter("message_end", pick={"role": "assistant"}, messageId=...)),
    ("a_single_session", "dialect", alter("message_update", message={"role": "assistant", "content": []})),
    ("a_single_session", "dialect", alter("diagnostic", type="queue_update", steering=[], followUp=[])),
    ("a_single_session", "block", drop("text_start")),
    ("a_single_session", "block", drop("text_delta", at="text_end")),
    ("a_single_session", "block", drop("text_end")),
    ("a_single_session", "block", update("text_end", content="w0 w1")),
    ("a_single_session", "block", update("thinking_delta", contentIndex=1)),
    ("a_single_session", "block", final(0, content=[{"type": "text", "text": "else"}])),
    ("a_single_session", "block", final(0, content=[])),
    ("parallel_tools", "block", drop("toolcall_delta", at="toolcall_end")),
    ("parallel_tools", "tool", swap("tool_execution_start", "tool_execution_start", other_nth=1, second=True)),
    ("parallel_tools", "tool", drop("tool_execution_start")),
    ("parallel_tools", "tool", repeat("tool_execution_start")),
    ("parallel_tools", "tool", repeat("tool_execution_end")),
    ("parallel_tools", "tool", drop("tool_execution_end", at="message_start", at_nth=2)),
    ("parallel_tools", "tool", swap("tool_execution_update", "tool_execution_end", nth=1, second=True)),
    ("parallel_tools", "shape", alter("tool_execution_end", durationMs=...)),
    ("parallel_tools", "shape", alter("tool_execution_end", isError=...)),
    ("parallel_tools", "tool-result", swap("message_start", "message_start", nth=2, other_nth=3, second=True)),
    ("parallel_tools", "tool-result", alter("turn_end", toolResults=[])),
    ("parallel_tools", "compaction", drop("compaction_start")),
    ("retried", "retry", drop("auto_retry_start")),
    ("retried", "retry", drop("agent_end")),
    ("retried", "retry", drop("auto_retry_start", nth=1)),
    ("retried", "retry", alter("auto_retry_start", attempt=2)),
    ("retried", "retry", repeat("auto_retry_end")),
    ("retried", "retry", swap("message_end", "auto_retry_end", nth=3)),
    ("retried", "settle", drop("auto_retry_end", at="agent_settled")),
    ("aborted_in_a_pause", "retry", swap("agent_end", "auto_retry_start")),
    ("a_single_session", "settle", drop("run_settled")),
    ("a_single_session", "settle", alter("agent_settled", outcome="failed")),
    ("aborted_in_a_word", "settle", alter("agent_settled", aborted=False)),
    ("a_single_session", "settle", alter("run_settled", nth=1, run=1)),
    ("a_single_session", "settle", drop("agent_settled", at="run_settled", at_nth=1)),
    ("a_single_session", "after-settled", repeat("agent_settled")),
    ("a_single_session", "after-settled", append({"type": "session_action_update", "actions": {"queuedCount": 0}})),
    ("a_tree", "header", drop_header),
    ("a_tree", "child", drop_spawn),
    ("a_tree", "child", swap("child_spawned", "session", other_nth=1)),
    ("a_tree", "child", repeat("child_spawned")),
    ("a_tree", "child", alter("child_spawned", childDepth=2)),
    ("a_tree", "child", repeat("child_settled")),
    ("a_tree", "child", drop("child_settled", nth=-1, at="agent_settled", at_nth=-1)),
    ("a_tree", "child", alter("child_settled", outcome="failed")),
    ("a_tree", "child", swap("child_settled", "agent_settled")),
    ("gated", "gate", drop("gate_start")),
    ("gated", "gate", drop("gate_end", at="agent_start", at_nth=1)),
    ("gated", "gate", swap("agent_end", "gate_start")),
    ("gated", "gate", fail_last_gate),
    ("a_tree", "gate", gate_of_a_child),
    ("gated", "shape", alter("gate_end", passed=...)),
    ("a_tree", "attribution", repeat("child_usage_attributed")),
    ("a_tree", "attribution", alter("child_usage_attributed", originEntryId=...)),
]


@pytest.mark.parametrize(("name", "rule", "broken"), BROKEN)
def test_a_broken_rule_is_found_where_it_is_broken(name: str, rule: str, broken: Break) -> None:
    stream = list(SOUND[name])
    place = broken(stream)

    found = check_stream(raw(renumbered(stream)))

    assert (place + 1, rule) in [(finding.line, finding.rule) for finding in found]


FORMS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("newline", lambda line: line[:-1] + b"\r\n"),
    ("newline", lambda line: line[:-1]),
    ("json", lambda line: b"\xef\xbb\xbf" + line),
    ("json", lambda line: b"\n"),
    ("json", lambda line: b"[1]\n"),
    ("json", lambda line: b"changed 1 package in 471ms\n"),
    ("json", lambda line: line.replace(b"agent_end", b"agent_\xff")),
    ("json", lambda line: b"[" * 100_000 + b"\n"),
    ("json", lambda line: b"\0" * 9 + line),
    ("json", lambda line: line.rstrip() + line),
]


@pytest.mark.parametrize(("rule", "broken"), FORMS)
def test_a_line_that_is_no_json_object_ended_by_lf_is_found(rule: str, broken: Callable[[bytes], bytes]) -> None:
    lines = raw(SOUND["a_single_session"])
    place = where(SOUND["a_single_session"], "agent_end")
    lines[place] = broken(lines[place])

    found = check_stream(lines)

    assert (found[0].line, found[0].rule) == (place + 1, rule)


# --- the end ---------------------------------------------------------------------------------------------------------

EXITS = [
    ("a_single_session", 0, True),
    ("a_single_session", 1, True),  # the answer could not be written to a file
    ("a_single_session", 3, False),
    ("a_single_session", 2, False),
    ("a_single_session", 143, False),
    ("a_single_session", 141, True),
    ("aborted_in_a_word", 0, False),
    ("aborted_in_a_word", 1, True),
    ("aborted_in_a_word", 130, True),
]


@pytest.mark.parametrize(("name", "status", "agrees"), EXITS)
def test_the_exit_status_agrees_with_the_outcome(name: str, status: int, agrees: bool) -> None:
    rules = [finding.rule for finding in check_stream(raw(SOUND[name]), exit_status=status)]

    assert rules == ([] if agrees else ["exit-status"])


@pytest.mark.parametrize(("outcome", "status"), [("failed", 1), ("limit_reached", 3), ("timed_out", 3), ("lost", 1)])
def test_each_outcome_has_its_status(outcome: str, status: int) -> None:
    talk = Talk.of("root")
    stream = raw(written(step for part in (talk.header(), talk.simple_run(outcome)) for step in part))

    assert check_stream(stream, exit_status=status) == []
    assert [finding.rule for finding in check_stream(stream, exit_status=0)] == ["exit-status"]


@pytest.mark.parametrize("name", SOUND)
def test_a_stream_that_is_cut_anywhere_is_never_a_success(name: str) -> None:
    lines = raw(SOUND[name])
    last = where(SOUND[name], "agent_settled", -1)
    ends = {place for place, line in enumerate(SOUND[name]) if line["type"] == "agent_settled" and line["depth"] == 0}
    for cut in range(1, last + 1):
        found = check_stream(lines[:cut])
        idle = max(ends & set(range(cut)), default=-1)
        if idle < 0 or any(line["type"] == "agent_start" for line in SOUND[name][idle:cut]):
            assert {finding.rule for finding in found} & {"left-open", "terminal"}, cut


def test_an_empty_stream_is_right_only_for_a_failed_start() -> None:
    assert [check_stream([], exit_status=status) for status in (1, 2, 4)] == [[], [], []]
    assert [finding.rule for finding in check_stream([], exit_status=0)] == ["header"]
    assert [finding.rule for finding in check_stream([])] == ["header"]


# --- several trees in one stream --------------------------------------------------------------------------------------


def of_forest(lines: Iterable[bytes], exit_status: int | None = None, dialect: str = "native") -> list[Finding]:
    checker = ForestChecker(DIALECTS[dialect])
    return [found for line in lines for found in checker.feed(line)] + checker.end(exit_status)


def across(*streams: list[bytes], seed: int = 1) -> list[bytes]:
    """Lines of several streams in any order, each stream in its own."""
    chance = random.Random(seed)
    left = [list(stream) for stream in streams]
    found = []
    while left := [stream for stream in left if stream]:
        found.append(chance.choice(left).pop(0))
    return found


def renamed(stream: Stream, name: str) -> list[bytes]:
    return [line.replace(b"-0000-7000", f"-{name}-7000".encode()) for line in raw(stream)]


@pytest.mark.parametrize("seed", range(5))
def test_trees_that_are_told_across_each_other_are_each_sound(seed: int) -> None:
    one, other = renamed(SOUND["a_tree"], "1111"), renamed(SOUND["a_tree"], "2222")

    assert of_forest(across(one, other, seed=seed)) == []
    assert of_forest([*one, *other]) == []


@pytest.mark.parametrize("seed", range(5))
def test_what_is_missing_in_one_tree_is_found_where_it_is_missed(seed: int) -> None:
    one, other = renamed(SOUND["a_tree"], "1111"), renamed(SOUND["a_tree"], "2222")
    lines = across(one, other, seed=seed)
    place = lines.index(other[5])

    found = of_forest([*lines[:place], *lines[place + 1 :]])

    assert "seq" in {finding.rule for finding in found}
    assert all(finding.line > place for finding in found if finding.rule == "seq")


@pytest.mark.parametrize("name", SOUND)
def test_a_stream_of_one_tree_is_judged_as_ever(name: str) -> None:
    lines = raw(SOUND[name])

    assert of_forest(lines) == check_stream(lines)
    for place in range(1, len(lines)):
        cut = [*lines[:place], *lines[place + 1 :]]
        assert of_forest(cut) == check_stream(cut)
    assert of_forest([b"rubbish\n", *lines]) == check_stream([b"rubbish\n", *lines])
    assert of_forest([]) == check_stream([])
    assert of_forest(lines, exit_status=2) == check_stream(lines, exit_status=2)


def test_peers_differ_in_what_an_update_holds() -> None:
    def rules(name: str, dialect: str) -> set[str]:
        with (DATA / name).open("rb") as lines:
            return {finding.rule for finding in check_stream(lines, dialect)}

    assert "dialect" in rules("pi.text_openai.jsonl", "prime-agent")
    assert "dialect" in rules("prime.plain.jsonl", "pi")
    assert rules("prime.plain.jsonl", "base-context") == set()
    assert set(DIALECTS) == {"native", "base-context", "prime-agent", "selesai", "pi"}


def test_a_failed_answer_with_status_0_is_found_where_the_seed_forbids_it() -> None:
    lines = (DATA / "prime.root_model_error.jsonl").read_bytes().split(b"\n")[:-1]
    lines = [line + b"\n" for line in lines]

    assert check_stream(lines, "prime-agent", exit_status=0) == []
    assert [finding.rule for finding in check_stream(lines, "base-context", exit_status=0)] == ["exit-status"]


# --- whatever happens to a line --------------------------------------------------------------------------------------

MAY_BE_LOST = {
    "diagnostic",
    "session_info",
    "session_state",
    "model_change",
    "tool_execution_update",
    "child_usage_attributed",
}
MAY_BE_REPEATED = MAY_BE_LOST - {"child_usage_attributed"}
MOVES_FREELY = MAY_BE_LOST | {"child_spawned", "child_settled", "compaction_start", "compaction_end"}
places = st.sampled_from([(name, place) for name in SOUND for place in range(len(SOUND[name]))])


@given(places)
def test_without_renumbering_every_lost_line_but_the_last_is_found(at: tuple[str, int]) -> None:
    stream = list(SOUND[at[0]])
    del stream[at[1]]

    assert check_stream(raw(stream))


@given(places)
def test_without_renumbering_every_repeated_line_is_found(at: tuple[str, int]) -> None:
    stream = list(SOUND[at[0]])
    stream.insert(at[1], stream[at[1]])

    assert "seq" in {finding.rule for finding in check_stream(raw(stream))}


@given(places, places)
def test_without_renumbering_every_swap_is_found(at: tuple[str, int], other: tuple[str, int]) -> None:
    stream = list(SOUND[at[0]])
    second = other[1] % len(stream)
    assume(at[1] != second)
    stream[at[1]], stream[second] = stream[second], stream[at[1]]

    assert "seq" in {finding.rule for finding in check_stream(raw(stream))}


@pytest.mark.parametrize("name", SOUND)
def test_a_lost_structural_line_is_found_by_its_structure(name: str) -> None:
    for place, line in enumerate(SOUND[name]):
        if line["type"] not in MAY_BE_LOST:
            assert check_stream(raw(renumbered(SOUND[name][:place] + SOUND[name][place + 1 :]))), line


@pytest.mark.parametrize("name", SOUND)
def test_a_repeated_structural_line_is_found_by_its_structure(name: str) -> None:
    for place, line in enumerate(SOUND[name]):
        if line["type"] not in MAY_BE_REPEATED:
            stream = SOUND[name][: place + 1] + SOUND[name][place:]
            assert check_stream(raw(renumbered(stream))), line


def commute(one: Line, two: Line) -> bool:
    """Whether two lines of one session that follow each other may stand the other way round."""
    kinds = {one["type"], two["type"]}
    if kinds & MOVES_FREELY:
        return True
    if kinds == {"message_update"}:
        first, second = one["assistantMessageEvent"], two["assistantMessageEvent"]
        both_start = first["type"].endswith("_start") and second["type"].endswith("_start")
        return first["contentIndex"] != second["contentIndex"] and not both_start
    if kinds <= {"tool_execution_start", "tool_execution_end"}:
        return one["toolCallId"] != two["toolCallId"] and kinds != {"tool_execution_start"}
    return kinds == {"auto_retry_end", "turn_end"}


@pytest.mark.parametrize("name", SOUND)
def test_a_swap_of_neighbours_in_one_session_is_found_by_its_structure(name: str) -> None:
    for place, line in enumerate(SOUND[name]):
        after = [n for n in range(place + 1, len(SOUND[name])) if SOUND[name][n]["sessionId"] == line["sessionId"]]
        if after and not commute(line, SOUND[name][after[0]]):
            stream = list(SOUND[name])
            stream[place], stream[after[0]] = stream[after[0]], stream[place]
            assert check_stream(raw(renumbered(stream))), (line, SOUND[name][after[0]])


# --- memory ----------------------------------------------------------------------------------------------------------


def test_what_is_remembered_does_not_grow_with_the_stream() -> None:
    checker = StreamChecker()
    talk = Talk.of("root")
    sizes = []
    for seq, step in enumerate((step for part in (talk.header(), endless(talk)) for step in part), start=1):
        assert step is not None
        place, event = step
        kind, tail = event_tail(event)
        assert checker.feed(tagged(tail, kind, place, seq, AT)) == []
        if kind == "agent_settled":
            sizes.append(size_of(checker))

    assert len(sizes) == 60
    assert sizes[5] == sizes[-1]
    assert checker.end(0) == []


def endless(talk: Talk) -> Iterator[Step]:
    for _ in range(60):
        yield from talk.start()
        yield from talk.answer(text("w0 w1 "), call("a", x=1), stop="toolUse")
        yield from talk.tools("a")
        yield from talk.next_turn()
        yield from talk.answer(text("done "))
        yield from talk.end_loop()
        yield from talk.settle()


def size_of(value: Any, seen: set[int] | None = None) -> int:
    """Objects reachable from `value`, numbers not counted."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, int | str | type(None)):
        return 0
    seen.add(id(value))
    if isinstance(value, dict):
        return 1 + sum(size_of(part, seen) for part in value.values())
    if isinstance(value, list | set | tuple):
        return 1 + sum(size_of(part, seen) for part in value)
    if attrs.has(type(value)):
        return 1 + sum(size_of(getattr(value, name.name), seen) for name in attrs.fields(type(value)))
    return 1
