"""Rows out of events: the same figures at every moment, and from a snapshot on as from the beginning."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.views.live import LiveTree
from orchestrator.views.money import money
from orchestrator.views.rows import AgentRow
from store.usage import Price, Spend, Usage, add_up, spend_of
from tests.orchestrator.views.events import PRICE, Stream, Told

PRICES: list[Price | None] = [PRICE, None, Price(), Price(input=3_333_333, output=7)]
STEPS = [
    "spawn",
    "begin",
    "think",
    "write",
    "open",
    "answer",
    "late",
    "fail",
    "tool",
    "result",
    "retry",
    "summary",
    "summarised",
    "queue",
    "status",
    "ask",
    "archive",
    "limit",
    "settle",
    "abort",
    "rename",
    "model",
    "fold",
]

scripts = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 30), st.tuples(*[st.integers(0, 500_000)] * 4), st.integers(0, 3)),
    max_size=60,
)
Script = list[tuple[str, int, tuple[int, ...], int]]


def played(script: Script) -> Stream:
    """A stream in which anything may follow anything."""
    stream = Stream()
    stream.root()
    for kind, where, tokens, price in script:
        told = list(stream.sessions.values())[where % len(stream.sessions)]
        _happen(stream, told, kind, tokens, price)
    return stream


def _happen(stream: Stream, told: Told, kind: str, tokens: tuple[int, ...], price: int) -> None:
    match kind:
        case "spawn":
            told.spawns(f"child-{len(stream.sessions)}", **({"max_cost": 0.25} if price else {}))
        case "answer" | "late":
            told.answers(
                f"text {price}", tokens, PRICES[price], model=f"test/model-{price}", is_folded=kind == "answer"
            )
        case "fail":
            told.answers("", tokens, PRICES[price], error="overloaded")
        case "tool":
            told.calls_tool("wait_agents" if price else "bash", command=f"pytest {price}")
        case "result" if told.calls:
            told.gets_result(text="x" * tokens[0] if tokens[0] < 1000 else "ok")
        case "settle":
            told.settles(["completed", "failed", "timed_out", "limit_reached"][price], ["", "no", None, None][price])
        case "status" | "ask":
            told.has_status(f"at step {price}", "needs_input" if kind == "ask" else "completed")
        case "fold":
            stream.fold_owed()
        case _:
            _SIMPLE[kind](told)


_SIMPLE = {
    "begin": Told.begins,
    "think": Told.thinks,
    "write": Told.writes,
    "open": Told.opens_answer,
    "retry": Told.retries,
    "summary": Told.starts_summary,
    "summarised": Told.has_summary,
    "queue": lambda told: told.has_queued(2),
    "archive": Told.is_archived,
    "limit": lambda told: told.reaches("cost", 0.25),
    "abort": lambda told: told.settles("aborted"),
    "rename": lambda told: told.is_called("renamed"),
    "model": lambda told: told.uses("test/opus"),
    "result": lambda told: told,
}


def spend(usage: Usage | None) -> Spend:
    assert usage is not None
    return spend_of(usage)


def assert_sums(rows: list[AgentRow]) -> None:
    for row in rows:
        children = [other for other in rows if other.parent_session_id == row.session_id]
        assert spend(row.total) == add_up([spend(row.own), *(spend(child.total) for child in children)])
        assert row.descendants == sum(child.descendants + 1 for child in children)
        assert row.issues == row.state.is_issue + sum(child.issues for child in children)
        assert money(row.total).startswith(("?", "≥ ")) == bool(row.unpriced_models)
        assert set(row.unpriced_models) >= {model for child in children for model in child.unpriced_models}


@settings(max_examples=80)
@given(scripts)
def test_a_parent_is_its_own_part_and_its_children_at_every_moment(script: Script) -> None:
    """M3, M5."""
    stream, fold = played(script), LiveTree()
    for place, event, at in stream.events:
        fold.take(place, event, at)
        assert_sums(fold.rows())


@settings(max_examples=120)
@given(scripts, st.integers(0, 200))
def test_a_snapshot_and_what_comes_after_it_are_the_same_as_all_events(script: Script, cut: int) -> None:
    stream = played(script)
    cut %= len(stream.events) + 1
    first, second = LiveTree(), LiveTree()
    for place, event, at in stream.events[:cut]:
        first.take(place, event, at)
    wire = msgspec.json.encode(first.rows(stream.events[cut - 1][2] + 0.5 if cut else None))
    second.seed(msgspec.json.decode(wire, type=list[AgentRow]))
    for place, event, at in stream.events[cut:]:
        second.take(place, event, at)

    assert second.rows(stream.now + 7) == stream.fold().rows(stream.now + 7)


def test_a_snapshot_replaces_what_was_known_of_its_trees_and_leaves_the_others() -> None:
    first, other = Stream(), Stream()
    first.root("first").begins().spawns("child")
    fold = first.fold()
    told = other.session("pad"), other.session("pad"), other.session("other")
    told[2].begins()
    for place, event, at in other.events:
        fold.take(place, event, at)
    only_root = msgspec.structs.replace(first.rows()[0], descendants=0)

    fold.seed([only_root])

    assert [row.session_id for row in fold.rows()] == [told[2].place.session_id, only_root.session_id]
    fold.forget(only_root.root_session_id)
    assert [row.session_id for row in fold.rows()] == [told[2].place.session_id]


def test_what_came_through_sessions_that_are_gone_stays_in_the_totals() -> None:
    stream = Stream()
    root = stream.root().begins()
    child = root.spawns("child").begins()
    child.spawns("gone").begins().answers(tokens=(500, 0, 0, 0))
    child.answers(tokens=(100, 0, 0, 0))
    rows = stream.rows()

    fold = LiveTree()
    fold.seed(rows[:2])

    found = fold.rows()
    assert [spend(row.total).input for row in found] == [600, 600]
    assert [spend(row.own).input for row in found] == [0, 100]


def test_attributions_of_sessions_that_the_fold_never_saw_count_once() -> None:
    stream = Stream()
    root = stream.root().begins()
    root.spawns("child").begins().answers(tokens=(500, 0, 0, 0))
    places = [root.place.session_id]
    fold = LiveTree()
    for place, event, at in stream.events * 2:
        if place.session_id in places and type(event).__name__ != "ChildSpawnedEntry":
            fold.take(place, event, at)

    [row] = fold.rows()

    assert spend(row.total).input == 500


def test_lines_and_events_fold_to_the_same_rows() -> None:
    stream = Stream()
    root = stream.root().begins()
    root.spawns("child").begins().writes("some words").answers("done").settles()
    fold = LiveTree()
    for line in stream.lines():
        assert fold.take_line(line) is not None

    assert fold.rows() == stream.fold().rows()
    assert fold.take_line(b'{"type":"from_the_future","sessionId":"x"}\n') is None


def test_rows_that_nothing_happened_to_are_the_same_objects() -> None:
    stream = Stream()
    root = stream.root().begins()
    first, second = root.spawns("first").begins(), root.spawns("second").begins()
    fold = stream.fold()
    before = {row.name: row for row in fold.rows()}
    fold.take(first.place, *stream.events[-1][1:])

    after = {row.name: row for row in fold.rows()}

    assert after["second"] is before["second"]
    assert after["first"] is not before["first"]
    assert second.place.session_id == after["second"].session_id


def test_clocks_count_while_a_session_works_and_stop_at_its_end() -> None:
    stream = Stream()
    root = stream.root().begins()
    child = root.spawns("child").begins()
    child.answers().settles()
    fold = stream.fold()

    one, later = fold.rows(stream.now), fold.rows(stream.now + 60)

    assert (later[0].elapsed_ms or 0) - (one[0].elapsed_ms or 0) == 60_000
    assert later[1].elapsed_ms == one[1].elapsed_ms


def test_what_a_session_does_now() -> None:
    stream = Stream()
    root = stream.root("root")
    labels = []

    def note() -> None:
        row = stream.rows()[0]
        labels.append((row.status, row.activity.kind if row.activity else None, row.activity and row.activity.label))

    root.begins()
    note()
    root.writes("word " * 8)
    note()
    root.answers("They work.").calls_tool("bash", command="pytest -q", timeout_s=5).calls_tool("read", path="a")
    note()
    root.gets_result(1).gets_result(2)
    child = root.spawns("child")
    note()
    root.calls_tool("wait_agents")
    note()
    child.begins().answers("x").settles()
    root.gets_result()
    root.retries("529 overloaded_error")
    note()
    root.begins().starts_summary()
    note()
    root.has_summary().answers("All is ported.\nReally.").runs_gate("make check")
    note()
    root.passes_gate("make check").settles()
    note()
    root.has_status("Which secret?", "needs_input")
    note()

    assert labels == [
        ("running", "thinking", "thinking"),
        ("running", "writing", "writing · 10 tok"),
        ("running", "tool", "bash pytest -q · +1"),
        ("waiting", "children", "for 1 of 1 children"),
        ("running", "tool", "wait_agents · 0 of 1 done"),
        ("retrying", "retry", "overloaded"),
        ("compacting", "compaction", f"summarising {stream.rows()[0].message_count - 1} messages"),  # type: ignore[operator]
        ("running", "tool", "gate make check"),
        ("idle", "answer", "All is ported."),
        ("idle", "question", "Which secret?"),
    ]


def test_a_child_that_has_not_begun_waits_for_a_slot_and_may_end_so() -> None:
    stream = Stream()
    root = stream.root().begins()
    child = root.spawns("child")
    waiting = stream.rows()[1]
    child.settles("aborted", "its parent was stopped")
    ended = stream.rows()[1]

    assert (waiting.status, waiting.elapsed_ms) == ("waiting", None)
    assert waiting.activity is not None
    assert waiting.activity.label == "for a free slot"
    assert ended.state.word == "aborted"
    assert ended.activity is not None
    assert ended.activity.label == "its parent was stopped"


def test_a_wait_for_some_children_counts_those() -> None:
    stream = Stream()
    root = stream.root().begins()
    first, second = root.spawns("first").begins(), root.spawns("second").begins()
    root.spawns("third").begins()
    root.calls_tool("wait_agents", names=["first", "second"])
    second.answers().settles()

    activity = stream.rows()[0].activity

    assert first.place.depth == 1
    assert activity is not None
    assert activity.label == "wait_agents · 1 of 2 done"
