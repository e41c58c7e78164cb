"""Plain files: what others need to stand where we stand, and where they look for a file."""

import json
from typing import Any

import pytest

from store.entries import Header
from store.legacy.links import leaf_of_plain
from store.legacy.read import read_legacy
from store.plain import pi_file, pi_folder, plain_lines
from store.records import Record, read_record
from store.tree import EntryTree
from tests.plain import HEADER, SESSION, A, B, C, D, entry


def lines(*entries: str, header: str = HEADER) -> list[dict[str, Any]]:
    return [json.loads(line) for line in plain_lines(header.encode(), [read_record(each.encode()) for each in entries])]


def mark(name: str, parent: str | None) -> str:
    return json.dumps(
        {"type": "custom", "id": name, "parentId": parent, "timestamp": "t", "customType": "sapwood.leaf"}
    )


def test_lines_are_as_they_were_without_what_only_a_journal_has() -> None:
    header = HEADER[:-1] + ',"framing":1,"x":{"y":1.0}}'

    found = b"".join(plain_lines(header.encode(), [read_record(A.encode()), read_record(B.encode())]))

    assert found == f'{HEADER[:-1]},"x":{{"y":1.0}}}}\n{A}\n{B}\n'.encode()


PATHS: dict[str, list[str]] = {
    "a straight one": [A, B, C],
    "a branch": [A, B, C, entry("x", "a")],
    "a change of branch": [A, B, C, mark("m", "a")],
    "a change to the beginning": [A, B, mark("m", None)],
    "bookkeeping behind a change of branch": [
        A,
        B,
        C,
        mark("m", "a"),
        '{"type":"session_info","id":"n","parentId":"a","timestamp":"t","name":"x"}',
    ],
    "bookkeeping of ours": [
        A,
        B,
        '{"type":"run_settled","id":"n","parentId":"b","timestamp":"t","run":1,"outcome":"lost"}',
    ],
    "a last line that hangs elsewhere": [
        A,
        B,
        C,
        '{"type":"label","id":"n","parentId":"a","timestamp":"t","targetId":"b"}',
    ],
    "an orphan": [A, entry("c", "lost"), D],
    "orphans from the beginning": [entry("c", "lost"), D],
    "a last orphan that moves nothing": [
        A,
        B,
        '{"type":"label","id":"n","parentId":"lost","timestamp":"t","targetId":"b"}',
    ],
    "nothing": [],
    "no message": ['{"type":"session_info","id":"n","parentId":null,"timestamp":"t","name":"x"}'],
}


def as_pi_walks(found: list[dict[str, Any]]) -> list[str]:
    """Entries from the root to pi's leaf, the last line; a parent that is not there ends the walk."""
    by_id = {each["id"]: each for each in found}
    path: list[str] = []
    at = found[-1]["id"] if found else None
    while at in by_id:
        path.append(str(at))
        at = by_id[at]["parentId"]
    return path[::-1]


@pytest.mark.parametrize("name", PATHS)
def test_others_walk_the_path_that_we_walk(name: str) -> None:
    records = [read_record(each.encode()) for each in PATHS[name]]
    ours = [record.id for record in EntryTree.of(records).path() if record.type == "message"]

    found = lines(*PATHS[name])[1:]

    types = {each["id"]: each["type"] for each in found}
    assert [each for each in as_pi_walks(found) if types[each] == "message"] == ours


@pytest.mark.parametrize("name", PATHS)
def test_an_export_of_an_export_is_the_same(name: str) -> None:
    first = [json.dumps(line) for line in lines(*PATHS[name])]
    legacy = read_legacy("\n".join(first).encode())

    again = lines(*(record.raw.decode() for record in legacy.records))

    assert again == [json.loads(line) for line in first]
    assert leaf_of_plain(legacy.records) == EntryTree.of(list(legacy.records)).leaf_id


def test_a_name_in_the_header_becomes_one_that_others_show() -> None:
    header = HEADER[:-1] + ',"name":"say \\"hi\\""}'

    assert [line.get("name") for line in lines(A, B, header=header)] == ['say "hi"', None, None, 'say "hi"']
    named = '{"type":"session_info","id":"n","parentId":"a","timestamp":"t","name":"later"}'
    assert [line.get("name") for line in lines(A, named, header=header)] == ['say "hi"', None, "later"]


def test_times_that_are_none_are_not_written_on() -> None:
    header = HEADER[:-1] + ',"name":"x"}'

    added = lines(entry("a", None, at='","x":"'), header=header)[-1]

    assert added["timestamp"] == "2026-11-29T23:37:27.057Z"


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/path/to/project", "--path-to-project--"),
        ("/path/to/project/", "--path-to-project--"),
        ("/", "----"),
        ("", "----"),
        ("C:\\Users\\me", "--C--Users-me--"),
        ("/a/../../b", "--b--"),
        ("..", "--..--"),
        ("/nul\0and\nline", "--nul-and-line--"),
    ],
)
def test_a_folder_of_pi_is_one_name_whatever_the_path(cwd: str, folder: str) -> None:
    assert pi_folder(cwd) == folder


@pytest.mark.parametrize(
    ("timestamp", "name"),
    [
        ("2026-11-29T23:37:27.057Z", f"2026-11-29T23-37-27-057Z_{SESSION}.jsonl"),
        ("../../x", f"------x_{SESSION}.jsonl"),
        ("", f"_{SESSION}.jsonl"),
    ],
)
def test_a_file_of_pi_is_named_after_its_time_and_id(timestamp: str, name: str) -> None:
    assert pi_file(Header(id=SESSION, timestamp=timestamp, cwd="/")) == name


def test_records_are_not_changed() -> None:
    record: Record = read_record(entry("c", "lost").encode())

    list(plain_lines(HEADER.encode(), [record]))

    assert record.parent_id == "lost"
