"""The summary of a session: what a second look at all its records says, and the same wherever a fold was interrupted."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from store.attribution import account
from store.context import last_assistant
from store.entries import ChildSpawnedEntry, ForkedFrom, Header
from store.folding import Fold, first_line, summarized
from store.ids import entry_id
from store.records import Record, read_record
from store.repair import Node, own_children
from store.size import context_tokens
from store.summary import Rest, Summary
from store.times import unix_s
from store.tree import EntryTree

Shape = tuple[str, dict[str, Any], int, int]
"""Type, members, how far the id is from the record's own number, and how far back its parent is."""

words = st.sampled_from(["", "a", "two words", "\n\n line two", "x" * 300])
tokens = st.sampled_from([0, 0, 7, 1000, 10**13, -1])
usages = st.builds(
    lambda count, cost, unpriced: {
        "input": count,
        "output": 3,
        "totalTokens": count,
        "cost": {"input": cost, "total": cost} | ({"unpriced": ["p/" + unpriced]} if unpriced else {}),
    },
    tokens,
    st.sampled_from([0, 0.5, 1e-6]),
    st.sampled_from(["", "", "m"]),
)
deliveries = st.sampled_from(
    [{}, {"details": {"delivers": ["m1"]}}, {"details": {"delivers": ["m2", 5, "m1"]}}, {"details": 1}]
)


def message(role: str, **members: Any) -> dict[str, Any]:
    return {"message": {"role": role, **members}}


shapes: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.builds(lambda text, more: ("message", message("user", content=text, **more)), words, deliveries),
    st.builds(
        lambda text, usage, stop: (
            "message",
            message(
                "assistant",
                content=[{"type": "text", "text": text}],
                provider="p",
                model="m",
                usage=usage,
                stopReason=stop,
                errorMessage="no" if stop == "error" else None,
            ),
        ),
        words,
        usages,
        st.sampled_from(["stop", "stop", "error", "aborted"]),
    ),
    st.builds(
        lambda text, more: (
            "message",
            message("toolResult", toolCallId="c", content=[{"type": "text", "text": text}], **more),
        ),
        words,
        deliveries,
    ),
    st.just(("message", message("bashExecution", command="ls", output="x"))),
    st.sampled_from(
        [
            ("message", {"message": {"content": "x"}}),
            ("message", {"message": 3}),
            ("message", message("assistant", content=4, model="odd")),
            ("message", message("assistant", content=[], model="odd")),
        ]
    ),
    st.builds(
        lambda text, more: ("custom_message", {"customType": "t", "content": text, "display": True, **more}),
        words,
        deliveries,
    ),
    st.sampled_from(
        [("mail", {"messageId": name, "from": "user", "mode": "steer", "content": "x"}) for name in ("m1", "m2", "m3")]
    ),
    st.builds(lambda name: ("model_change", {"provider": "q", "modelId": name}), words),
    st.builds(lambda name: ("session_info", {"name": name} if name else {}), words),
    st.builds(
        lambda status: ("session_state", {"state": {"status": status}}),
        st.sampled_from(["active", "archived", "sleep", 4]),
    ),
    st.builds(
        lambda text: ("agent_status", {"status": {"summary": text, "taskState": "needs_input"}}),
        st.sampled_from(["s", 3]),
    ),
    st.builds(
        lambda run, outcome: (
            "run_settled",
            {"run": run, "outcome": outcome, "errorMessage": "why" if outcome == "failed" else None},
        ),
        st.integers(1, 3),
        st.sampled_from(["completed", "failed", "lost"]),
    ),
    st.builds(
        lambda child: (
            "child_spawned",
            {"childSessionId": child, "name": "n", "childDepth": 1, "prompt": "p", "model": "m"},
        ),
        st.sampled_from(["c1", "c2"]),
    ),
    st.builds(
        lambda usage, entry: (
            "child_usage_attributed",
            {"targetId": None, "childUsage": usage, "originSessionId": "c1", "originEntryId": entry},
        ),
        usages,
        st.sampled_from(["1", "2", "3"]),
    ),
    st.builds(
        lambda usage: (
            "compaction",
            {"summary": "s", "firstKeptEntryId": "00000001", "tokensBefore": 5, "usage": usage},
        ),
        usages,
    ),
    st.builds(lambda usage: ("usage", {"kind": "k", "provider": "p", "model": "m", "usage": usage}), usages),
    st.just(("custom", {"customType": "sapwood.leaf"})),
    st.sampled_from(
        [
            ("label", {"targetId": "00000001", "label": "sapwood.leaf"}),
            ("dream", {"x": 1}),
            ("custom", {"customType": "t", "data": "sapwood.leaf"}),
        ]
    ),
)
drawn = st.tuples(shapes, st.sampled_from([0, 0, 0, 0, 0, -1, -2, 2]), st.sampled_from([0, 0, 0, 0, 0, 1, 2])).map(
    lambda each: (*each[0], each[1], each[2])
)
foreign = st.builds(
    lambda usage: (
        "child_usage_attributed",
        {"targetId": "00000001", "childUsage": usage, "aggregateUsage": usage},
        0,
        0,
    ),
    usages,
)


def records_of(shapes: list[Shape]) -> list[Record]:
    found: list[Record] = []
    tree = EntryTree()
    for number, (kind, members, off, back) in enumerate(shapes, start=1):
        parent = tree.leaf_id
        for _ in range(back if kind in {"custom", "message"} else 0):
            above = tree.get(parent or "")
            parent = above.parent_id if above is not None else parent
        entry = {
            "type": kind,
            "id": entry_id(max(1, number + off)),
            "parentId": parent,
            "timestamp": f"2026-01-01T00:00:{number % 60:02}Z",
        }
        found.append(read_record(msgspec.json.encode(entry | members)))
        tree.add(found[-1])
    return found


def header_of(inherited: int, name: str | None) -> Header:
    origin = ForkedFrom(session_id="s", entry_id=None, records=inherited) if inherited else None
    return Header(version=3, id="0198f0aa-s", timestamp="2026-01-01T00:00:00Z", cwd="/w", name=name, forked_from=origin)


def fold_of(header: Header, records: list[Record]) -> Fold:
    fold = Fold.of(header)
    for record in records:
        fold.add(record)
    return fold


def role(entry: dict[str, Any]) -> str:
    message = entry.get("message")
    return message.get("role", "") if isinstance(message, dict) else ""


def begins_run(entry: dict[str, Any]) -> bool:
    return entry["type"] == "custom_message" or (entry["type"] == "message" and role(entry) != "bashExecution")


def delivers(entry: dict[str, Any]) -> list[Any]:
    message = entry.get("message")
    details = message.get("details") if isinstance(message, dict) else entry.get("details")
    return details.get("delivers", []) if isinstance(details, dict) else []


def asked_again(header: Header, records: list[Record]) -> dict[str, Any]:
    """Parts of a summary, each found by a look of its own at all entries."""
    entries = [msgspec.json.decode(record.raw) for record in records]
    own = entries[header.forked_from.records if header.forked_from else 0 :]
    ends = [place for place, entry in enumerate(own) if entry["type"] == "run_settled"]
    parts = [own[start:end] for start, end in pairwise([0, *(end + 1 for end in ends), len(own)])]
    begins = [next((entry["timestamp"] for entry in part if begins_run(entry)), None) for part in parts]
    worked = [
        max(0.0, (unix_s(own[end]["timestamp"]) or 0.0) - (unix_s(begin) or 0.0))
        for begin, end in zip(begins, ends, strict=False)
        if begin is not None
    ]
    models = [f"q/{entry['modelId']}" for entry in entries if entry["type"] == "model_change"]
    spoken = [entry["message"] for entry in entries if role(entry) == "assistant"]
    states = [entry["state"]["status"] for entry in own if entry["type"] == "session_state"]
    statuses = [place for place, entry in enumerate(own) if entry["type"] == "agent_status"]
    told = [own[place]["status"]["summary"] for place in statuses if own[place]["status"]["summary"] == "s"]
    is_asking = bool(statuses) and not any(map(begins_run, own[statuses[-1] :]))
    late = {
        entry["messageId"]
        for place, entry in enumerate(own)
        if entry["type"] == "mail" and not any(entry["messageId"] in delivers(later) for later in own[place:])
    }
    return {
        "name": [header.name, *(entry.get("name") for entry in own if entry["type"] == "session_info")][-1],
        "model": models[-1] if models else next(("p/m" if each.get("provider") else "odd" for each in spoken), None),
        "first_prompt": next((entry["message"]["content"][:200] for entry in entries if role(entry) == "user"), None),
        "summary": told[-1] if told else None,
        "task_state": "needs_input" if is_asking else None,
        "is_archived": bool(states) and states[-1] in {"archived", "sleep"},
        "is_open": begins[-1] is not None,
        "open_since": begins[-1] and unix_s(begins[-1]),
        "worked_s": sum(worked) if worked else None,
        "messages": sum(entry["type"] == "message" for entry in entries),
        "turns": sum(role(entry) == "assistant" for entry in own),
        "modified": own[-1]["timestamp"] if own else header.timestamp,
        "queued": len(late),
        "runs": len(ends),
        "outcome": own[ends[-1]]["outcome"] if ends else None,
        "run_error": own[ends[-1]]["errorMessage"] if ends else None,
        "entries": len(records),
    }


def is_what_the_records_say(found: Summary, header: Header, records: list[Record]) -> None:
    expected = asked_again(header, records)
    assert {name: getattr(found, name) for name in expected} == expected
    tree = EntryTree.of(records, header)
    path = tree.path()
    assert found.children == tuple(child.child_session_id for child in own_children(Node(header, tree)))
    if len({record.id for record in records}) < len(records):
        return  # of two with one id the tree takes the first, so its path is not what was appended last
    said = last_assistant(path)
    assert found.leaf_id == tree.leaf_id
    assert found.answer in {None, first_line(said.text) if said else None}
    assert found.answer_error in {None, said.error_message if said else None}
    assert found.context_tokens in {None, context_tokens(path)}


@settings(deadline=None, max_examples=200)
@given(st.lists(drawn, max_size=12), st.integers(0, 4), st.sampled_from([None, "born"]))
def test_a_summary_is_what_the_records_say(shapes: list[Shape], inherited: int, name: str | None) -> None:
    header, records = header_of(inherited, name), records_of(shapes)

    fold = fold_of(header, records)
    found, _ = fold.finished()

    known = account(header, records)
    assert (found.own, found.total) == (known.own, known.total)
    assert not fold.is_unsure
    is_what_the_records_say(found, header, records)
    whole, said = summarized(Node(header, EntryTree.of(records, header)))
    is_what_the_records_say(whole, header, records)
    assert whole.own == found.own
    assert said == fold.said


@settings(deadline=None, max_examples=200)
@given(st.lists(drawn, max_size=12), st.integers(0, 4), st.data())
@example([("message", message("user", content="x"), 0, 0)] * 3, 2, None)
def test_a_fold_goes_on_where_another_came_to(shapes: list[Shape], inherited: int, data: Any) -> None:
    header, records = header_of(inherited, "born"), records_of(shapes)
    cut = data.draw(st.integers(0, len(records))) if data is not None else 2
    expected, expected_rest = fold_of(header, records).finished()
    first, rest = fold_of(header, records[:cut]).finished()
    assert rest.can_go_on == (cut >= inherited)
    if not rest.can_go_on:
        return

    first = msgspec.convert(msgspec.to_builtins(first), Summary)
    rest = msgspec.json.decode(msgspec.json.encode(rest), type=Rest)
    fold = Fold.going_on(first, inherited, rest)
    for record in records[cut:]:
        fold.add(record)

    found, found_rest = fold.finished()
    if not fold.is_unsure:
        assert found == expected
        assert found_rest == expected_rest
    else:
        odd = [entry for place, entry in enumerate(records, start=1) if entry.id != entry_id(place)]
        once = [record.key for record in records if record.key] + children_named(records)
        assert odd or len(set(once)) < len(once)  # all else is counted without a look back


def children_named(records: list[Record]) -> list[str]:
    bodies = [record.body() for record in records]
    return [body.child_session_id for body in bodies if isinstance(body, ChildSpawnedEntry)]


def test_most_sessions_can_go_on_without_keeping_anything() -> None:
    header = header_of(0, None)
    shapes: list[Shape] = [("message", message("assistant", content=[], usage={"input": 5}), 0, 0)] * 30

    _, rest = fold_of(header, records_of(shapes)).finished()

    assert (rest.seen, rest.mail, rest.can_go_on) == (b"", [], True)


@given(st.lists(drawn, max_size=5), foreign, st.lists(drawn, max_size=3))
@settings(deadline=None, max_examples=60)
def test_attributions_of_another_program_are_summed_up_out_of_the_whole(
    before: list[Shape], odd: Shape, after: list[Shape]
) -> None:
    header, records = header_of(0, None), records_of([*before, odd, *after])

    fold = fold_of(header, records)
    whole, _ = summarized(Node(header, EntryTree.of(records, header)))

    assert fold.is_unsure
    assert not fold.finished()[1].can_go_on
    known = account(header, records)
    assert (whole.own, whole.total) == (known.own, known.total)


def test_what_was_said_is_bounded_and_told_with_its_place() -> None:
    shapes: list[Shape] = [("label", {"targetId": "x"}, 0, 0), ("message", message("user", content="y" * 20_000), 0, 0)]

    assert fold_of(header_of(0, None), records_of(shapes)).said == [(2, "00000002", "y" * 8_000)]
