"""Session files of other programs, whole: versions, byte order marks, clocks, tool calls, and journals read as plain files."""

import json
from pathlib import Path

import msgspec
import pytest

from store.context import build_context, dangling_calls, for_model
from store.frame import COMMITS, PART, seal, seed
from store.legacy.links import leaf_of_plain
from store.legacy.read import read_legacy
from store.messages import AssistantMessage
from store.tree import EntryTree
from tests.plain import HEADER, SESSION, TORN, A, B, C, entry, ids, links, read, skips, tells, texts

DATA = Path(__file__).resolve().parents[1] / "data" / "sessions"
FILES = sorted(path.name for path in DATA.glob("*.jsonl"))


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_is_read_without_a_word_and_byte_for_byte(name: str) -> None:
    data = (DATA / name).read_bytes()

    legacy = read_legacy(data)

    lines = data.split(b"\n")[:-1]
    assert [record.raw for record in legacy.records] == lines[1:]
    assert legacy.header_raw == lines[0]
    assert (legacy.skipped, legacy.salvaged, legacy.refusal, legacy.is_made) == ((), (), None, False)
    assert EntryTree.of(list(legacy.records)).leaf_id == leaf_of_plain(legacy.records)


# --- J7, J10, J11, J12: separators, size, BOM, clock -------------------------------------------------------------------


def test_other_separators_end_no_line() -> None:
    text = "a\u2028b\u2029c\x85d"
    legacy = read(HEADER, A, entry("b", "a").replace('"x"', f'"{text}"').encode(), C)

    assert texts(legacy) == ["x", text, "x"]
    assert (legacy.skipped, legacy.salvaged) == ((), ())


def test_a_bom_is_left_out_and_told() -> None:
    legacy = read(b"\xef\xbb\xbf" + HEADER.encode(), A, b"\xef\xbb\xbf" + B.encode())

    assert ids(legacy) == ["a", "b"]
    assert [line for line, _ in tells(legacy)] == [1, 3]


def test_crlf_and_blank_lines_are_no_fault() -> None:
    legacy = read(HEADER, "", A, "  ", B, "", end=b"\r\n")

    assert [record.raw for record in legacy.records] == [A.encode(), B.encode()]
    assert (legacy.skipped, legacy.salvaged) == ((), ())


def test_entries_stand_in_the_order_of_the_file_whatever_their_clocks_say() -> None:
    legacy = read(HEADER, entry("a", None, at="2026-11-29T10:00:00Z"), entry("b", "a", at="2026-11-29T09:00:00Z"))

    assert ids(legacy) == ["a", "b"]
    assert (legacy.skipped, legacy.salvaged) == ((), ())


def test_bytes_that_are_no_utf8_cost_one_character() -> None:
    legacy = read(HEADER, entry("b", None, "aXb").encode().replace(b"X", b"\xff"))

    assert texts(legacy) == ["a\ufffdb"]
    assert [line for line, _ in tells(legacy)] == [2]


def test_half_a_surrogate_pair_stays_as_it_was_written() -> None:
    line = entry("b", "a", "cut \ud83d")

    legacy = read(HEADER, A, line)

    assert legacy.records[1].raw == line.encode()
    assert legacy.salvaged == ()


def test_brackets_without_end_are_a_bad_line() -> None:
    legacy = read(HEADER, A, '{"type":"message","x":' + "[" * 100_000, B)

    assert (ids(legacy), skips(legacy)) == (["a", "b"], [3])


# --- versions ----------------------------------------------------------------------------------------------------------

V1 = [
    '{"type":"session","id":"01a229ab-af10-75d4-b1a0-3b61285b09a5","timestamp":"t0","cwd":"/w","provider":"p","modelId":"m"}',
    '{"type":"message","timestamp":"t1","message":{"role":"user","content":"one","timestamp":1}}',
    '{"type":"message","timestamp":"t2","message":{"role":"hookMessage","customType":"h","content":"two","display":true,"x": 1.0}}',
    '{"type":"message","timestamp":"t3","message":{"role":"user","content":"three","timestamp":3}}',
    '{"type":"compaction","timestamp":"t4","summary":"s","firstKeptEntryIndex":3,"tokensBefore":9}',
    '{"type":"message","timestamp":"t5","message":{"role":"user","content":"four","timestamp":4}}',
]


def test_version_1_gets_ids_and_parents() -> None:
    legacy = read(*V1)

    assert legacy.version == 1
    assert links(legacy) == {
        "00000001": None,
        "00000002": "00000001",
        "00000003": "00000002",
        "00000004": "00000003",
        "00000005": "00000004",
    }
    assert (legacy.skipped, legacy.salvaged) == ((), ())
    compaction = json.loads(legacy.records[3].raw)
    assert compaction["firstKeptEntryId"] == "00000003"
    assert "firstKeptEntryIndex" not in compaction
    assert texts(legacy) == ["", "three", "four"]
    assert b'"provider":"p","modelId":"m"' in legacy.header_raw


def test_a_line_that_version_1_has_lost_still_counts_for_what_a_compaction_keeps() -> None:
    legacy = read(V1[0], V1[1], V1[2][:50], *V1[3:])

    assert json.loads(legacy.records[2].raw)["firstKeptEntryId"] == legacy.records[1].id
    assert texts(legacy) == ["", "three", "four"]


def test_version_2_changes_the_role_of_hook_messages_and_nothing_else() -> None:
    hook = '{"type":"message","id":"b","parentId":"a","timestamp":"t2","message":{"role":"hookMessage","customType":"h","x":1.00}}'

    legacy = read(HEADER.replace('"version":3', '"version":2'), A, hook)

    assert legacy.records[0].raw == A.encode()
    assert legacy.records[1].raw == hook.replace("hookMessage", "custom").encode()


def test_version_3_may_say_hook_message() -> None:
    hook = '{"type":"message","id":"b","parentId":"a","timestamp":"t2","message":{"role":"hookMessage","content":"h"}}'

    assert read(HEADER, A, hook).records[1].raw == hook.encode()


def test_version_1_with_ids_keeps_its_branches() -> None:
    legacy = read(HEADER.replace('"version":3,', ""), A, B, entry("c", "a"))

    assert links(legacy) == {"a": None, "b": "a", "c": "a"}


@pytest.mark.parametrize("version", ["4", "99", '"4"', "4.5"])
def test_a_newer_version_is_refused(version: str) -> None:
    legacy = read(HEADER.replace('"version":3', f'"version":{version}'), A)

    assert legacy.refusal is not None
    assert "expected a session of version 3 or older, found version" in legacy.refusal
    assert legacy.records == ()


def test_unknown_types_and_members_are_untouched() -> None:
    line = '{"type":"of_tomorrow", "id":"b","parentId":"a","timestamp":"t","n":1.10,"o":{"b":1,"a":[ ]},"e":"\\u00e9"}'

    legacy = read(HEADER, A, line)

    assert legacy.records[1].raw == line.encode()


# --- J13, J14: tool calls ----------------------------------------------------------------------------------------------


def call(arguments: str, calls: int = 1) -> str:
    blocks = ",".join(f'{{"type":"toolCall","id":"call_{n}","name":"bash"{arguments}}}' for n in range(calls))
    return (
        '{"type":"message","id":"b","parentId":"a","timestamp":"t","message":'
        f'{{"role":"assistant","content":[{blocks}],"stopReason":"toolUse","timestamp":2}}}}'
    )


@pytest.mark.parametrize(
    "arguments", ["", ',"arguments":null', ',"arguments":"{}"', ',"arguments":[]', ',"arguments":{}']
)
def test_arguments_that_are_no_object_are_tolerated(arguments: str) -> None:
    legacy = read(HEADER, A, call(arguments))

    path = EntryTree.of(list(legacy.records)).path()
    answer = build_context(path).messages[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.calls[0].checked_arguments == {}
    assert legacy.records[1].raw == call(arguments).encode()


def test_a_call_without_a_result_is_known_as_one() -> None:
    result = (
        '{"type":"message","id":"c","parentId":"b","timestamp":"t","message":{"role":"toolResult","toolCallId":"call_0",'
        '"toolName":"bash","content":[],"isError":false,"timestamp":3}}'
    )

    legacy = read(HEADER, A, call("", calls=2), result)

    path = EntryTree.of(list(legacy.records)).path()
    assert [dangling.id for dangling, _ in dangling_calls(path)] == ["call_1"]
    assert [type(message).__name__ for message in for_model(build_context(path).messages)] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "ToolResultMessage",
    ]


# --- our own journals --------------------------------------------------------------------------------------------------


def framed(*bodies: str, flags: bytes = b"") -> list[bytes]:
    header = HEADER[:-1] + ',"framing":1}'
    marks = [flags[place : place + 1] or COMMITS for place in range(len(bodies) + 1)]
    return [
        seal(body.encode(), seq, 0, 1, marks[seq], seed(SESSION)).rstrip(b"\n")
        for seq, body in enumerate((header, *bodies))
    ]


def test_a_journal_is_read_without_its_frames() -> None:
    legacy = read(*framed(A, B))

    assert legacy.header_raw == HEADER.encode()
    assert [record.raw for record in legacy.records] == [A.encode(), B.encode()]
    assert (legacy.skipped, legacy.salvaged) == ((), ())


def test_a_changed_byte_of_a_journal_and_a_line_of_another_program_are_told() -> None:
    lines = framed(A, B)
    lines[1] = lines[1].replace(b'"content":"x"', b'"content":"y"')

    legacy = read(*lines, C)

    assert texts(legacy) == ["y", "x", "x"]
    assert tells(legacy) == [
        (2, "its checksum does not match: it was changed"),
        (4, "it has no frame: another program wrote it"),
    ]


def test_a_batch_that_was_not_finished_is_left_out() -> None:
    legacy = read(*framed(A, B, C, flags=b"ccpp"))

    assert ids(legacy) == ["a"]
    assert skips(legacy) == [3, 4]
    assert PART == b"p"


def test_what_was_read_can_be_told_as_json() -> None:
    legacy = read(HEADER, A, TORN, C)

    assert msgspec.json.decode(msgspec.json.encode(legacy.skipped)) == [
        {"line": 3, "offset": len(f"{HEADER}\n{A}\n"), "reason": "no whole JSON object"}
    ]
