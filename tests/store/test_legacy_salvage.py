"""What is kept of torn, fused, zeroed and headless session files (J1 to J4 of the cases)."""

import json

import pytest

from store.entries import Header
from store.legacy.read import read_legacy
from tests.plain import HEADER, SESSION, TORN, A, B, C, D, entry, ids, links, read, skips, tells, texts

# --- J1, J2: torn, fused, zeroed ---------------------------------------------------------------------------------------


FUSED = {
    "a torn entry and a good one": (TORN + C, ["a", "c"], [3]),
    "torn outside of a string": ('{"type":"message","id":"b","parentId":"a","message":' + C, ["a", "c"], [3]),
    "torn twice": (TORN + TORN + C, ["a", "c"], [3]),
    "a good one, then a torn one": (B + TORN, ["a", "b"], [3]),
    "good, torn, good": (B + '{"type":"mess' + C, ["a", "b", "c"], [3]),
    "two good ones": (B + C, ["a", "b", "c"], []),
    "three with spaces": (f"{B} {C}\t{entry('x', 'c')}", ["a", "b", "c", "x"], []),
    "words in front": ("warning: disk full " + B, ["a", "b"], [3]),
    "torn inside of a block that has an id": (
        B[:-2] + ',"content":[{"type":"toolCall","id":"call","name":"x","arguments":{}}' + C,
        ["a", "c"],
        [3],
    ),
}


@pytest.mark.parametrize("case", FUSED)
def test_what_is_whole_on_a_torn_line_is_kept(case: str) -> None:
    line, kept, skipped = FUSED[case]

    legacy = read(HEADER, A, line, D)

    assert ids(legacy) == [*kept, "d"]
    assert skips(legacy) == skipped
    assert {note.line for note in legacy.salvaged if "entry on a line" in note.what} == {3}


def test_the_report_names_line_and_byte_of_both_parts_of_a_fused_line() -> None:
    start = len(f"{HEADER}\n{A}\n")

    legacy = read(HEADER, A, TORN + C, D)

    assert [(note.line, note.offset) for note in legacy.skipped] == [(3, start)]
    assert (3, start + len(TORN)) in [(note.line, note.offset) for note in legacy.salvaged]


def test_children_of_a_torn_entry_hang_on_what_its_beginning_says_that_it_hung_on() -> None:
    """The branches x and y began below the lost `b`, which hung on `a`, not on `d`."""
    legacy = read(HEADER, A, entry("d", "a"), TORN + C, entry("x", "b"), entry("y", "b"))

    assert links(legacy) == {"a": None, "d": "a", "c": "a", "x": "a", "y": "a"}


NULS = {
    "behind a record": (f"{B}".encode() + b"\0" * 9_000, ["a", "b"], []),
    "a last line of nothing else": (b"\0" * 143_000, ["a"], [3]),
    "between a torn and a good one": (TORN.encode() + b"\0" * 400 + C.encode(), ["a", "c"], [3]),
    "in front of a record": (b"\0" * 512 + B.encode(), ["a", "b"], []),
    "in the middle of a record": (B[:60].encode() + b"\0" * 7 + B[60:].encode(), ["a", "b"], []),
    "over a record's middle": (B[:60].encode() + b"\0" * 7 + B[90:].encode(), ["a"], [3, 3]),
}


@pytest.mark.parametrize("case", NULS)
def test_runs_of_nul_take_nothing_with_them(case: str) -> None:
    line, kept, skipped = NULS[case]

    legacy = read(HEADER, A, line, D)

    assert ids(legacy) == [*kept, "d"]
    assert skips(legacy) == skipped
    if not skipped:
        assert len([text for line, text in tells(legacy) if line == 3]) == 1


# --- J3, J4: bad lines, headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["", "42", "null", "[]", '"x"', "{}", '{"id":"b"}', '{"type":7}', "junk", TORN, "\\", "}"]
)
def test_one_bad_line_ends_nothing(bad: str) -> None:
    legacy = read(HEADER, A, bad, C)

    assert ids(legacy) == ["a", "c"]
    assert skips(legacy) == ([3] if bad else [])
    assert links(legacy)["c"] == "a"


def test_a_torn_last_line_is_told_and_costs_nothing_else() -> None:
    data = f"{HEADER}\n{A}\n{B}\n{C}".encode()
    for size in range(len(data) - len(C) + 1, len(data)):
        legacy = read_legacy(data[:size])
        assert ids(legacy) == ["a", "b"]
        assert skips(legacy) == [4]


BROKEN = {
    "inside a string": (entry("b", "a", "one TWO three").replace(" TWO ", "\n"), "one\nthree"),
    "twice, with an empty line": (entry("b", "a", "1 2").replace(" ", "\n\n"), "1\n\n2"),
    "with a carriage return": (entry("b", "a", "1 2").replace(" ", "\r\n"), "1\r\n2"),
    "between members": (json.dumps(json.loads(entry("b", "a", "pretty")), indent=2), "pretty"),
    "a tab inside a string": (entry("b", "a", "1 2").replace("1 2", "1\t2"), "1\t2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_entry_with_raw_newlines_in_it_is_one_entry(case: str) -> None:
    text, content = BROKEN[case]

    legacy = read(HEADER, A, text, C)

    assert ids(legacy) == ["a", "b", "c"]
    assert texts(legacy) == ["x", content, "x"]
    assert legacy.skipped == ()
    assert [line for line, _ in tells(legacy)] == [3]
    assert all(b"\n" not in record.raw for record in legacy.records)


def test_a_bad_line_behind_an_entry_with_raw_newlines_is_told() -> None:
    legacy = read(HEADER, A, entry("b", "a", "1 2").replace(" ", "\n\n"), "junk", C)

    assert ids(legacy) == ["a", "b", "c"]
    assert skips(legacy) == [6]


def test_an_entry_that_never_ends_swallows_no_later_one() -> None:
    legacy = read(HEADER, A, '{"type":"message","id":"b","text":"one', "two", B, C)

    assert ids(legacy) == ["a", "b", "c"]
    assert skips(legacy) == [3, 4]


def test_a_file_of_other_json_is_refused() -> None:
    claude = '{"type":"user","message":{"role":"user","content":"x"},"uuid":"1","timestamp":"2026-11-29T23:37:28.000Z"}'
    for lines in (['{"level":"info"}', '{"level":"warn"}'], [claude], ["not json at all"], [""], ["\0\0"]):
        legacy = read(*lines)
        assert legacy.refusal is not None
        assert "expected a session file" in legacy.refusal
        assert (legacy.header, legacy.records) == (None, ())


def test_a_stream_of_events_is_no_session() -> None:
    legacy = read(HEADER, '{"type":"agent_start"}', '{"type":"message_end","message":{}}')

    assert legacy.refusal == "expected a session file, found a stream of events (agent_start, message_end)"


def test_a_torn_header_is_made_anew_out_of_what_is_left_of_it() -> None:
    for size in range(12, len(HEADER)):
        legacy = read(HEADER[:size], A, B)
        assert ids(legacy) == ["a", "b"]
        assert legacy.is_made
        assert skips(legacy) == [1]
        assert legacy.header is not None
        assert legacy.header.id in {"", SESSION}
        assert (1, "there is no header: one was made") in tells(legacy)


def test_without_a_header_the_first_time_that_is_told_becomes_the_session_s() -> None:
    legacy = read(A, B)

    assert legacy.header == Header(version=3, id="", timestamp="2026-11-29T23:37:28.000Z", cwd="")
    assert ids(legacy) == ["a", "b"]


def test_a_header_further_down_is_found_and_told() -> None:
    legacy = read(A, HEADER, B)

    assert ids(legacy) == ["a", "b"]
    assert legacy.header is not None
    assert legacy.header.cwd == "/w"
    assert tells(legacy) == [(2, "the header stands behind 1 entries")]


def test_a_second_header_is_no_entry() -> None:
    legacy = read(HEADER, A, HEADER, B)

    assert (ids(legacy), skips(legacy)) == (["a", "b"], [3])


ODD_HEADERS = {
    '{"type":"session","version":3,"id":5,"timestamp":"t","cwd":"/w"}': Header(
        version=3, id="", timestamp="t", cwd="/w"
    ),
    '{"type":"session","id":"abcdefgh","timestamp":"t"}': Header(version=3, id="abcdefgh", timestamp="t", cwd=""),
    '{"type":"session","version":"3","id":"abcdefgh","timestamp":7,"cwd":"/w","rlmDepth":"deep"}': Header(
        version=3, id="abcdefgh", timestamp="", cwd="/w"
    ),
    '{"type":"session","version":null,"id":"abcdefgh","timestamp":"t","cwd":"/w","x":{"y":[1.0]}}': Header(
        version=3, id="abcdefgh", timestamp="t", cwd="/w"
    ),
}


@pytest.mark.parametrize("line", ODD_HEADERS)
def test_what_is_odd_in_a_header_costs_no_entry(line: str) -> None:
    legacy = read(line, A)

    assert legacy.header == ODD_HEADERS[line]
    assert ids(legacy) == ["a"]


def test_members_of_a_header_that_we_do_not_know_stay() -> None:
    legacy = read(HEADER[:-1] + ',"systemPrompt":"p\\u00e9","x":{"y":[1.0,null]}}', A)

    assert legacy.header_raw.endswith(b'"systemPrompt":"p\\u00e9","x":{"y":[1.0,null]}}')


def test_a_header_that_is_too_long_loses_its_longest_member() -> None:
    legacy = read(HEADER[:-1] + f',"x":"{"y" * 20_000}","z":1}}', A)

    assert legacy.header_raw == (HEADER[:-1] + ',"z":1}').encode()
    assert tells(legacy) == [(1, "the header's x was left out: it is too long")]
