"""Bounded reads: complete or refused, and each record counted once for all that is read in one look."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk.history import Capture, ReadLimits, TreeNode
from store.disk.manager import SessionManager
from store.disk.sources import MemorySource
from store.errors import ReadLimit, StoreError
from store.ids import entry_id
from store.messages import user_text
from store.records import Record, read_record
from store.tree import EntryTree


def record(entry: str, parent: str | None, kind: str = "message", **members: object) -> Record:
    return read_record(msgspec.json.encode({"type": kind, "id": entry, "parentId": parent, **members}))


def holding(records: list[Record]) -> MemorySource:
    source = MemorySource()
    source.append(records)
    return source


def captured(records: list[Record], entries: int = 100, source_bytes: int = 1 << 20) -> Capture:
    source = holding(records)
    with source.look() as (index, bodies):
        return Capture(index, bodies, ReadLimits(entries, source_bytes))


# Two branches of 3 that part behind entry 4.
FORKED = [record(entry_id(n), entry_id(n - 1) if n > 1 else None) for n in range(1, 8)] + [
    record(entry_id(8), entry_id(4)),
    record(entry_id(9), entry_id(8)),
    record(entry_id(10), entry_id(9)),
]
SIZE = sum(len(each.raw) + 45 for each in FORKED)


def test_an_answer_is_complete_or_refused_at_the_exact_limit() -> None:
    assert len(captured(FORKED, entries=10, source_bytes=SIZE).all_entries()) == 10
    for capture in (captured(FORKED, entries=9), captured(FORKED, source_bytes=SIZE - 1)):
        with pytest.raises(ReadLimit, match=r"expected at most|expected entries of at most"):
            capture.all_entries()
        assert (capture.entries, capture.source_bytes) == (0, 0)  # what was refused costs nothing
        assert len(capture.branch("00000004")) == 4


def test_what_paths_have_in_common_counts_once() -> None:
    leaves = [entry_id(7), entry_id(10)]

    capture = captured(FORKED, entries=10)
    paths = capture.branches(leaves)

    assert [len(path) for path in paths] == [7, 7]
    assert paths[0][:4] == paths[1][:4]
    assert (capture.entries, capture.source_bytes) == (10, SIZE)
    with pytest.raises(ReadLimit):
        captured(FORKED, entries=9).branches(leaves)


def test_reads_of_one_capture_share_their_account() -> None:
    capture = captured(FORKED, entries=7)

    assert len(capture.branch(entry_id(7))) == 7
    assert capture.entry(entry_id(3)) == FORKED[2]
    assert len(capture.branch(entry_id(4))) == 4
    with pytest.raises(ReadLimit):
        capture.entry(entry_id(8))


def test_a_capture_does_not_see_what_comes_later() -> None:
    source = holding(FORKED[:7])
    with source.look() as (index, bodies):
        capture = Capture(index, bodies)
        source.append(FORKED[7:])

        assert len(capture.all_entries()) == 7
        assert capture.leaf_entry() == FORKED[6]
        assert capture.entry(entry_id(8)) is None
        with pytest.raises(StoreError, match="expected the id of an entry"):
            capture.branch(entry_id(8))
        assert len(Capture(index, bodies).all_entries()) == 10


def test_the_last_label_counts_and_may_be_none() -> None:
    labels = [
        record("00000002", "00000001", "label", targetId="00000001", label="first"),
        record("00000003", "00000001", "label", targetId="00000001", label="second"),
        record("00000004", "00000001", "label", targetId="other", label="x"),
    ]
    cleared = record("00000005", "00000001", "label", targetId="00000001")

    assert captured([FORKED[0], *labels]).label("00000001") == "second"
    assert captured([FORKED[0], *labels]).tree()[0].label == "second"
    assert captured([FORKED[0], *labels, cleared]).label("00000001") is None
    assert captured([FORKED[0], *labels, cleared]).labels() == {"other": "x"}


def nodes_below(roots: list[TreeNode]) -> list[tuple[TreeNode, TreeNode | None]]:
    waiting: list[tuple[TreeNode, TreeNode | None]] = [(node, None) for node in roots]
    found = []
    while waiting:
        node, parent = waiting.pop()
        found.append((node, parent))
        waiting += [(child, node) for child in node.children]
    return found


some_ids = st.sampled_from(["00000001", "00000002", "00000003", "a", "b", "c"])


@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(some_ids, st.none() | some_ids), max_size=8))
def test_a_tree_holds_every_entry_once_whatever_the_links_say(links: list[tuple[str, str | None]]) -> None:
    records = [record(entry, parent, n=place) for place, (entry, parent) in enumerate(links)]

    found = nodes_below(captured(records).tree())

    assert sorted(node.entry.raw for node, _ in found) == sorted(each.raw for each in records)
    tree = EntryTree.of(records)
    above = {node.entry.raw: parent.entry if parent else None for node, parent in found}
    path = tree.path()
    for parent, child in pairwise(path):
        if above[child.raw] is not None:  # else a circle was cut open there
            assert above[child.raw] == parent
    if path and path[0].parent_id is None:
        assert above[path[0].raw] is None


def test_a_long_chain_and_a_long_circle_are_walked_without_recursion() -> None:
    chain = [record(entry_id(n), entry_id(n - 1) if n > 1 else None) for n in range(1, 5001)]
    circle = [record("x0", "x4999"), *(record(f"x{n}", f"x{n - 1}") for n in range(1, 5000))]

    assert len(nodes_below(captured(chain, entries=5000).tree())) == 5000
    [root] = captured(circle, entries=5000).tree()
    assert root.entry.id == "x0"
    assert len(captured(circle, entries=5000).branch("x42")) == 5000


def test_limits_are_those_of_the_seeds_by_default() -> None:
    assert ReadLimits() == ReadLimits(entries=16_384, source_bytes=64 << 20)
    manager = SessionManager.in_memory("/")
    for number in range(16_385):
        manager.append_message(user_text("", number))

    with pytest.raises(ReadLimit, match="16384 entries, found 16385"):
        manager.read_branch()
    assert len(manager.read_branch(entry_id(16_384))) == 16_384
    with manager.captured() as capture:
        assert len(capture.last_entries(16_384)) == 16_384
        with pytest.raises(ReadLimit):
            capture.entry(entry_id(1))
