"""The tree of entries: every walk ends, whatever the links say, and the leaf is where the rules put it."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.entries import LEAF_MARK, MOVES_LEAF, CustomEntry, Known
from store.records import Draft, Record, read_record
from store.tree import EntryTree, leaf_after

KINDS = [str(kind.__struct_config__.tag) for kind in Known.__args__]
MOVING = {
    "message",
    "custom_message",
    "compaction",
    "branch_summary",
    "model_change",
    "thinking_level_change",
    "service_tier_change",
    "context_edit",
}


def entry(name: str, parent: str | None = None, kind: str = "message", **members: Any) -> Record:
    wire = {"type": kind, "id": name, "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z"} | members
    return read_record(msgspec.json.encode(wire))


def mark(name: str, target: str | None) -> Record:
    return Draft.of(CustomEntry(custom_type=LEAF_MARK)).record(name, target, "")


def tree(*links: tuple[str, str | None]) -> EntryTree:
    return EntryTree.of([entry(name, parent) for name, parent in links])


def names(path: list[Record]) -> str:
    return "".join(record.id for record in path)


few_names = st.sampled_from("abcdef")
links = st.lists(st.tuples(few_names, st.none() | few_names | st.just("gone")), max_size=12)
records = st.lists(
    st.builds(entry, few_names, st.none() | few_names | st.just("gone"), st.sampled_from([*KINDS, "new"]))
    | st.builds(mark, few_names, st.none() | few_names | st.just("gone")),
    max_size=12,
)

# --- walks -----------------------------------------------------------------------------------------------------------


@given(records, few_names)
def test_every_walk_ends_with_its_leaf_and_shows_no_record_twice(found: list[Record], leaf: str) -> None:
    for path in (EntryTree.of(found).path(leaf), EntryTree.of(found).path()):
        places = [next(n for n, record in enumerate(found) if record is step) for step in path]
        assert len(set(places)) == len(path) <= len(found)
    if any(record.id == leaf for record in found):
        assert EntryTree.of(found).path(leaf)[-1].id == leaf
    else:
        assert EntryTree.of(found).path(leaf) == []


@given(records, few_names)
def test_each_step_follows_a_link_or_the_order_of_the_file(found: list[Record], leaf: str) -> None:
    path = EntryTree.of(found).path(leaf)
    known = {record.id for record in found}

    for above, below in pairwise(path):
        if below.parent_id in known:
            assert above.id == below.parent_id
        else:
            assert above is found[next(n for n, record in enumerate(found) if record is below) - 1]


@given(links)
def test_a_sound_tree_is_walked_by_its_links_alone(drawn: list[tuple[str, str | None]]) -> None:
    sound: dict[str, str | None] = {}
    for name, parent in drawn:
        if name not in sound:
            sound[name] = parent if parent in sound else None
    built = tree(*sound.items())

    for name in sound:
        expected = [name]
        while (parent := sound[expected[0]]) is not None:
            expected.insert(0, parent)
        assert names(built.path(name)) == "".join(expected)


@pytest.mark.parametrize(
    ("drawn", "leaf", "path"),
    [
        ([("a", "b"), ("b", "a")], "b", "ab"),
        ([("a", "b"), ("b", "a")], "a", "ba"),
        ([("a", "a")], "a", "a"),
        ([("b", "a"), ("a", "b"), ("c", "b")], "c", "abc"),
        ([("a", None), ("b", "c"), ("c", "b"), ("d", "a")], "d", "ad"),
        ([("a", None), ("b", "b"), ("c", "b")], "c", "bc"),
    ],
)
def test_a_circle_is_walked_once(drawn: list[tuple[str, str | None]], leaf: str, path: str) -> None:
    assert names(tree(*drawn).path(leaf)) == path


@pytest.mark.parametrize(
    ("drawn", "leaf", "path"),
    [
        ([("a", None), ("b", "a"), ("c", "gone"), ("d", "c")], "d", "abcd"),
        ([("a", "gone"), ("b", "a")], "b", "ab"),
        ([("a", "gone"), ("b", "gone"), ("c", "gone")], "c", "abc"),
        ([("a", None), ("b", ""), ("c", "b")], "c", "abc"),
    ],
)
def test_an_orphan_hangs_on_what_came_before_it(drawn: list[tuple[str, str | None]], leaf: str, path: str) -> None:
    assert names(tree(*drawn).path(leaf)) == path


def test_of_two_records_with_one_id_the_first_keeps_it() -> None:
    first, second = entry("a", None, "message", n=1), entry("a", "b", "message", n=2)
    built = EntryTree.of([first, entry("b", "a"), second])

    assert built.get("a") is first
    assert names(built.path("b")) == "ab"
    assert built.records == [first, built.get("b"), second]
    assert built.leaf_id == "a"


def test_a_long_path_is_walked_without_the_stack() -> None:
    count = 200_000
    built = EntryTree.of(
        [Record("message", f"{n:08x}", f"{n - 1:08x}" if n else None, "", b"{}") for n in range(count)]
    )

    assert len(built.path()) == count


def test_there_is_no_path_to_what_is_not_there() -> None:
    assert EntryTree().path() == []
    assert tree(("a", None)).path("z") == []
    assert tree(("a", None)).get("z") is None


# --- the leaf --------------------------------------------------------------------------------------------------------


def test_the_types_that_move_the_leaf_are_those_of_the_contract() -> None:
    assert MOVES_LEAF == MOVING
    assert set(KINDS) > MOVING


@pytest.mark.parametrize("kind", [*KINDS, "from_the_future", "leaf"])
def test_only_some_types_move_the_leaf(kind: str) -> None:
    record = entry("b", "a", kind, customType="other")

    assert leaf_after(record, "a") == ("b" if kind in MOVING else "a")
    assert EntryTree.of([entry("a"), record]).leaf_id == ("b" if kind in MOVING else "a")


def test_bookkeeping_of_an_abandoned_place_does_not_bring_the_leaf_back() -> None:
    built = EntryTree.of([entry("a"), entry("b", "a"), mark("c", "a"), entry("d", "b", "label")])

    assert built.leaf_id == "a"
    assert names(built.path()) == "a"


def test_a_mark_moves_the_leaf_to_its_parent_also_before_all_entries() -> None:
    built = EntryTree.of([entry("a"), entry("b", "a"), mark("c", "a")])
    assert built.leaf_id == "a"

    built.add(mark("d", None))
    assert built.leaf_id is None
    assert built.path() == []

    built.add(entry("e", None))
    assert names(built.path()) == "e"


def test_a_mark_whose_target_was_lost_leaves_the_leaf_where_it_is() -> None:
    built = EntryTree.of([entry("a"), entry("b", "a"), mark("c", "gone")])

    assert names(built.path()) == "ab"


def test_a_mark_in_a_tree_that_let_its_records_go_is_believed() -> None:
    built = EntryTree.of([entry("a"), entry("b", "a")])
    built.shed()
    built.add(mark("c", "a"))

    assert built.leaf_id == "a"


def test_a_custom_entry_that_only_looks_like_a_mark_moves_nothing() -> None:
    built = EntryTree.of([entry("a"), entry("b", "a"), entry("c", "a", "custom", customType="sapwood.leaf.other")])

    assert built.leaf_id == "b"


@given(records)
def test_the_leaf_is_always_nothing_or_something_that_is_there(found: list[Record]) -> None:
    built = EntryTree.of(found)

    assert built.leaf_id is None or built.get(built.leaf_id) is not None


# --- ids -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 12), max_size=8, unique=True), st.integers(1, 4), st.booleans())
def test_fresh_ids_are_those_of_no_entry(taken: list[int], count: int, is_shed: bool) -> None:
    built = EntryTree.of([entry(f"{number:08x}") for number in taken])
    if is_shed:
        built.shed()
    fresh = built.next_ids(count)

    assert len(set(fresh)) == count
    assert not set(fresh) & {f"{number:08x}" for number in taken}
    assert fresh == sorted(fresh)
    assert all(int(name, 16) > len(taken) for name in fresh)


def test_a_journal_of_our_own_counts_its_entries() -> None:
    built = EntryTree()
    for _ in range(3):
        built.add(entry(built.next_ids(1)[0]))

    assert [record.id for record in built.records] == ["00000001", "00000002", "00000003"]
