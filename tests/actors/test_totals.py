"""Random trees with random spends, failures and aborts: what each session is billed is in every ancestor, exactly once."""

from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.mail import Abort, Prompt
from actors.protocol.model import (
    CallArguments,
    CallStarted,
    FailureKind,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    UsageReported,
)
from actors.protocol.retry import RetryPolicy
from actors.testing import ROOT
from store.attribution import account
from store.context import last_assistant
from store.entries import ChildUsageAttributedEntry
from store.events import Event, Place
from store.repair import Node, repair_plan
from store.size import context_tokens
from store.tree import EntryTree
from store.usage import Usage
from store.wire import encode
from tests.actors.stage import Bench, assert_sound, bodies, nodes, row, rows, run, saying, spawn, stage, tool, truth

HOUR_S = 3_600.0


@attrs.frozen
class Say:
    """One answer: after a pause, with this usage, a text, a tool, children or a failure."""

    pause_s: float
    usage: Usage
    what: str
    children: tuple["Part", ...] = ()
    is_waited_for: bool = False
    kind: FailureKind = "overloaded"
    reports_late: bool = False


@attrs.frozen
class Part:
    """What a session says, answer by answer."""

    says: tuple[Say, ...]


counts = st.integers(0, 5_000)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts)
pauses = st.sampled_from([0.0, 0.0, 0.001, 1.0, 7.0])
kinds = st.sampled_from(["overloaded", "rate_limited", "network", "auth", "server"])


def says(depth: int) -> st.SearchStrategy[Say]:
    plain = st.builds(
        Say, pauses, usages, st.sampled_from(["text", "tool", "fail"]), kind=kinds, reports_late=st.booleans()
    )
    if depth == 3:
        return plain
    children = st.lists(parts(depth + 1), min_size=1, max_size=3).map(tuple)
    return plain | st.builds(Say, pauses, usages, st.just("spawn"), children, st.booleans())


def parts(depth: int) -> st.SearchStrategy[Part]:
    return st.builds(Part, st.lists(says(depth), min_size=1, max_size=3).map(tuple))


@attrs.define
class Player:
    """Plays the parts; children are named after their place, so that the model finds its part by the session's name."""

    script: dict[str, Part]
    calls: int = 0

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        self.calls += 1
        part = self.script[request.session_name]
        say = part.says[request.call - 1] if request.call <= len(part.says) else Say(0.0, Usage(output=1), "text")
        if not say.reports_late:
            await hear(UsageReported(say.usage))
        await trio.sleep(say.pause_s)
        await hear(UsageReported(say.usage))
        match say.what:
            case "text":
                await hear(TextChunk(0, f"{request.session_name} says {request.call}"))
                return ReplyEnd("stop")
            case "fail":
                await hear(TextChunk(0, "half"))
                return ModelFailure(say.kind, "it failed")
            case "tool":
                await hear(CallStarted(0, f"call_{request.call}", "quick"))
                return ReplyEnd("toolUse")
        for index, child in enumerate(say.children):
            name = f"{request.session_name}.{request.call}.{index}"
            self.script[name] = child
            arguments: dict[str, Any] = {"prompt": "work", "name": name, "wait": say.is_waited_for}
            await hear(CallStarted(index, f"call_{request.call}_{index}", "spawn_agent"))
            await hear(CallArguments(index, encode(arguments).decode()))
        return ReplyEnd("toolUse")


@attrs.frozen
class Disturbance:
    """Something that happens from outside: which session (by number, as far as there are so many), when, and what."""

    at_s: float
    target: int
    what: str


disturbances = st.lists(
    st.builds(
        Disturbance,
        st.sampled_from([0.0, 0.5, 1.0, 1.001, 5.0, 12.0]),
        st.integers(0, 6),
        st.sampled_from(["abort", "prompt", "steer", "message"]),
    ),
    max_size=3,
)


async def play(part: Part, disturbed: list[Disturbance]) -> Bench:
    tree = stage(
        Player({"root": part}),
        tool("quick", saying("quick")),
        limits=Limits(max_depth=3, max_children=200, max_live_children=3),
        retry=RetryPolicy(max_retries=2),
    )
    seen: dict[str, int] = {}

    def never_less(place: Place, event: Event, at: float) -> None:
        for one in rows(tree):
            assert one.total.total_pico >= seen.get(one.id, 0), f"the total of {one.name} fell"
            seen[one.id] = one.total.total_pico

    tree.tree.supervisor.sink.watchers.append(never_less)
    with trio.fail_after(24 * HOUR_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.run)
            began = trio.current_time()
            for number, one in enumerate(sorted(disturbed, key=lambda each: each.at_s)):
                await trio.sleep_until(began + one.at_s)
                known = rows(tree)
                target = known[one.target % len(known)]
                if tree.root.outcome and not tree.root.has_task:
                    break
                match one.what:
                    case "abort":
                        tree.tree.supervisor.directory.deliver(target, Abort("enough"))
                    case "message":
                        mail = Prompt(f"extra-{number}", "more", "auto", "another", "agent_message")
                        tree.tree.supervisor.directory.deliver(target, mail)
                    case mode:
                        mail = Prompt(f"extra-{number}", "more", "prompt" if mode == "prompt" else "steer")
                        tree.tree.supervisor.directory.deliver(target, mail)
    return tree


def assert_exact(tree: Bench) -> None:
    """Invariant 1, in memory and in journals; and nothing is attributed twice or to the wrong child."""
    for one in rows(tree):
        written = account(tree.store.headers[one.id], tree.store.read(one.id).records)
        assert one.own == written.own, one.name
        assert one.total == truth(tree, one) == written.total, one.name
        seen = [(body.origin_session_id, body.origin_entry_id) for body in attributions(tree, one.id)]
        assert len(seen) == len(set(seen))
        direct = {child.id for child in one.children}
        assert {body.child_session_id for body in attributions(tree, one.id)} <= direct
    assert repair_plan(nodes(tree.store), ROOT) == []


def assert_told_alike(tree: Bench) -> None:
    """What a repair would write in place of the attributions of a session says the same: through whom, and why that one ran."""
    for one in rows(tree):
        stored = nodes(tree.store)
        node = stored[one.id]
        kept = [record for record in node.records if record.type != "child_usage_attributed"]
        stored[one.id] = Node(node.header, EntryTree.of(kept, node.header))
        plan = [fix.body for fix in repair_plan(stored, ROOT)]
        assert {facts(body) for body in plan} == {facts(body) for body in attributions(tree, one.id)}, one.name


def facts(body: ChildUsageAttributedEntry) -> tuple[object, ...]:
    return (
        body.origin_session_id,
        body.origin_entry_id,
        body.child_session_id,
        body.origin,
        body.target_id,
        body.child_usage,
    )


def attributions(tree: Bench, session: str) -> list[Any]:
    return bodies(tree.store, session, "child_usage_attributed")


@given(parts(0))
@settings(max_examples=60, deadline=None)
def test_the_total_of_every_session_is_what_its_subtree_was_billed(part: Part) -> None:
    tree = trio.run(play, part, [], clock=MockClock(autojump_threshold=0))

    assert_exact(tree)
    assert_sound(tree)


@given(parts(0), disturbances)
@settings(max_examples=150, deadline=None)
def test_aborts_and_messages_at_any_time_change_no_invariant(part: Part, disturbed: list[Disturbance]) -> None:
    tree = trio.run(play, part, disturbed, clock=MockClock(autojump_threshold=0))

    assert_exact(tree)
    assert_sound(tree)
    assert_told_alike(tree)
    for one in rows(tree):
        settled = [body.run for body in bodies(tree.store, one.id, "run_settled")]
        assert settled == list(range(1, one.runs + 1))
        for child in one.children:
            heard = [
                (b.run, b.outcome)
                for b in bodies(tree.store, one.id, "child_settled")
                if b.child_session_id == child.id
            ]
            ended = [(b.run, b.outcome) for b in bodies(tree.store, child.id, "run_settled")]
            assert heard == ended


def test_aggregates_of_a_target_are_its_own_usage_and_all_that_came_through_it() -> None:
    one = Say(0.0, Usage(input=10, output=1), "text")
    leaf = Part((Say(0.0, Usage(input=5), "tool"), one))
    part = Part((Say(0.0, Usage(input=100), "spawn", (leaf, leaf), True), one))

    tree = trio.run(play, part, [], clock=MockClock(autojump_threshold=0))

    entries = attributions(tree, ROOT)
    target = entries[0].target_id
    assert {body.target_id for body in entries} == {target}
    assert [body.aggregate_usage.input for body in entries] == sorted(body.aggregate_usage.input for body in entries)
    assert entries[-1].aggregate_usage.input == 100 + 2 * (5 + 10)
    assert {body.aggregate_usage.total_tokens for body in entries} == {100}
    assert row(tree, "root").total.input == 100 + 10 + 2 * (5 + 10)


async def test_what_children_spend_is_in_the_total_and_not_in_the_context_of_their_parent(
    autojump_clock: MockClock,
) -> None:
    """C1."""
    tree = stage({"root": [spawn("a", "b", wait=True), "done"], "a": [spawn("c", wait=True), "fine"]})

    await run(tree)

    calls = {"root": 2, "a": 2, "b": 1, "c": 1}
    assert tree.root.total.input == 100 * sum(calls.values())
    path = tree.store.read(ROOT).path()
    last = last_assistant(path)
    assert last is not None
    assert context_tokens(path) == last.usage.total_tokens < tree.root.total.input
