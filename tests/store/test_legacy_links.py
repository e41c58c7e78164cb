"""Circles, orphans and ids that are there twice, in the files of other programs (J5, J6 of the cases)."""

import json

import pytest

from tests.plain import HEADER, A, B, C, entry, links, read, tells, texts

CIRCLES = {
    "two": ([entry("a", "b"), entry("b", "a")], {"a": None, "b": "a"}),
    "itself": ([A, entry("b", "b")], {"a": None, "b": "a"}),
    "a tail into a circle": ([entry("a", "b"), entry("b", "a"), entry("c", "b")], {"a": None, "b": "a", "c": "b"}),
    "behind a beginning": (
        [A, entry("b", "d"), entry("c", "b"), entry("d", "c")],
        {"a": None, "b": "a", "c": "b", "d": "c"},
    ),
    "through an orphan": ([entry("a", "b"), entry("b", "gone")], {"a": None, "b": "a"}),
}


@pytest.mark.parametrize("case", CIRCLES)
def test_circles_are_broken_and_told(case: str) -> None:
    lines, wanted = CIRCLES[case]

    legacy = read(HEADER, *lines)

    assert links(legacy) == wanted
    assert any("in a circle" in text for _, text in tells(legacy))


def test_a_child_in_front_of_its_parent_is_no_circle() -> None:
    legacy = read(HEADER, B, A, C)

    assert links(legacy) == {"b": "a", "a": None, "c": "b"}
    assert legacy.salvaged == ()


def test_an_orphan_hangs_on_what_stood_before_it_and_its_siblings_with_it() -> None:
    legacy = read(HEADER, A, entry("c", "gone"), entry("d", "c"), entry("e", "gone"))

    assert links(legacy) == {"a": None, "c": "a", "d": "c", "e": "a"}
    assert tells(legacy) == [
        (3, "its parent 'gone' is not there: attached to entry a"),
        (5, "its parent 'gone' is not there: attached to entry a"),
    ]


def test_the_second_of_two_entries_with_one_id_keeps_the_children_that_came_behind_it() -> None:
    lines = [
        A,
        entry("b", "a", "first"),
        entry("c", "b"),
        entry("b", "c", "second"),
        entry("d", "b"),
        '{"type":"label","id":"l","parentId":"d","timestamp":"t","targetId":"b","label":"here"}',
        '{"type":"compaction","id":"k","parentId":"l","timestamp":"t","summary":"s","firstKeptEntryId":"b","tokensBefore":1}',
    ]

    legacy = read(HEADER, *lines)

    second = legacy.records[3].id
    assert second not in {"a", "b", "c", "d", "l", "k"}
    assert links(legacy) == {"a": None, "b": "a", "c": "b", second: "c", "d": second, "l": "d", "k": "l"}
    assert json.loads(legacy.records[5].raw)["targetId"] == second
    assert json.loads(legacy.records[6].raw)["firstKeptEntryId"] == second
    assert tells(legacy) == [(5, f"its id 'b' became {second}: an earlier entry has it")]


def test_an_entry_that_is_there_twice_is_kept_once() -> None:
    legacy = read(HEADER, A, B, B, C)

    assert links(legacy) == {"a": None, "b": "a", "c": "b"}
    assert [(note.line, note.reason) for note in legacy.skipped] == [(4, "the entry of line 3 once more")]


def test_two_files_in_one_keep_both_their_chains() -> None:
    second = [entry("a", None, "2"), entry("b", "a", "2"), entry("c", "b", "2")]

    legacy = read(HEADER, A, B, C, HEADER, *second)

    found = links(legacy)
    assert len(found) == 6
    assert texts(legacy) == ["2", "2", "2"]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\x1b[31m", "x" * 200])
def test_an_id_that_could_break_later_lines_is_replaced(name: str) -> None:
    legacy = read(HEADER, A, entry(name, "a"), entry("c", name))

    fresh = legacy.records[1].id
    assert links(legacy) == {"a": None, fresh: "a", "c": fresh}
    assert fresh == "00000002"


def test_ids_that_are_missing_or_numbers_are_given() -> None:
    legacy = read(
        HEADER,
        '{"type":"message","id":1,"parentId":null,"timestamp":"t","message":{}}',
        '{"type":"message","parentId":1,"timestamp":"t","message":{}}',
        '{"type":"message","id":"c","timestamp":"t","message":{}}',
    )

    assert links(legacy) == {"1": None, "00000002": "1", "c": "00000002"}
    assert tells(legacy) == [
        (3, "it had no id and got 00000002"),
        (4, "it names no parent: attached to entry 00000002"),
    ]
