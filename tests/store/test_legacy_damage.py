"""What chance does to a session file: nothing raises, no line that is whole is lost, and the work stays linear."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.legacy import lines, salvage
from store.legacy.read import Legacy, read_legacy
from store.tree import EntryTree

DATA = Path(__file__).resolve().parents[1] / "data" / "sessions"
SOURCES = [
    (DATA / name).read_bytes()
    for name in (
        "pi.sdk.all_appends.session.jsonl",
        "pi.sdk.branched.session.jsonl",
        "pi.interop.all_types.before.jsonl",
        "pi.threshold_compaction_openai.session.jsonl",
        "prime.nested_depth2.parent.session.jsonl",
    )
]
# Names of entries may change where others are lost; all else of an entry that is whole stays.
LINKS = {"id", "parentId", "targetId", "firstKeptEntryId", "fromId"}

files = st.sampled_from(SOURCES)


def split(data: bytes) -> list[bytes]:
    return data.split(b"\n")


def said(raw: bytes) -> str:
    """What an entry says, names of entries left out."""
    value = json.loads(raw)
    return json.dumps({name: member for name, member in value.items() if name not in LINKS}, sort_keys=True)


def check(legacy: Legacy, whole: list[bytes], damaged: list[int]) -> None:
    """Every whole entry is there, in its order; every damaged line is told; every walk ends."""
    if legacy.refusal is not None:
        assert len(whole) == 0 or "version" in legacy.refusal
        return
    kept = [said(record.raw) for record in legacy.records]
    place = 0
    for raw in whole:
        place = kept.index(said(raw), place) + 1
    told = {note.line for note in (*legacy.skipped, *legacy.salvaged)}
    assert set(damaged) <= told
    assert len({record.id for record in legacy.records}) == len(legacy.records)
    tree = EntryTree.of(list(legacy.records))
    for record in legacy.records:
        assert record.parent_id is None or tree.get(record.parent_id) is not None
        assert tree.path(record.id)[0].parent_id is None


@given(files, st.data())
def test_a_file_that_was_cut_anywhere(source: bytes, draw: st.DataObject) -> None:
    size = draw.draw(st.integers(0, len(source)))
    cut = source[:size]
    kept = split(cut)

    legacy = read_legacy(cut)

    is_torn = kept[-1] != b"" and not source[size:].startswith(b"\n")
    check(legacy, kept[1:-1], [len(kept)] if is_torn and len(kept) > 1 else [])
    if is_torn and len(kept) > 1:
        assert [note.line for note in legacy.skipped] == [len(kept)]


@given(files, st.data())
def test_bits_that_flipped(source: bytes, draw: st.DataObject) -> None:
    flips = draw.draw(st.sets(st.integers(0, len(source) * 8 - 1), min_size=1, max_size=8))
    data = bytearray(source)
    touched: set[int] = set()
    for bit in flips:
        data[bit // 8] ^= 1 << bit % 8
        line = source.count(b"\n", 0, bit // 8)
        touched.add(line)
        if source[bit // 8] == 0x0A:
            touched.add(line + 1)
    legacy = read_legacy(bytes(data))

    if 0 in touched:
        return  # a header that says another version, or is none: other tests
    assert legacy.refusal is None
    check(legacy, [raw for place, raw in enumerate(split(source)) if raw and place and place not in touched], [])


@given(files, st.data())
def test_lines_that_were_torn_or_fused_anywhere(source: bytes, draw: st.DataObject) -> None:
    """Some lines lose their end, newline included: what stands behind is fused with what is left."""
    rows = split(source)[:-1]
    torn = draw.draw(st.dictionaries(st.integers(1, len(rows) - 1), st.integers(0, 400), min_size=1, max_size=4))
    data, number, damaged, whole = b"", 1, set(), []
    for place, row in enumerate(rows):
        if place not in torn:
            data += row + b"\n"
            if place:
                whole.append(row)
            number += 1
            continue
        left = row[: min(torn[place], len(row) - 1)]
        data += left
        if left:
            damaged.add(number)

    check(read_legacy(data), whole, sorted(damaged))


@given(files, st.data())
def test_blocks_of_nul_and_of_noise(source: bytes, draw: st.DataObject) -> None:
    rows = split(source)[:-1]
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(1, len(rows)))
        noise = draw.draw(st.one_of(st.binary(max_size=64), st.integers(1, 600).map(lambda count: b"\0" * count)))
        rows.insert(place, noise)
    data = b"\n".join(rows) + b"\n"

    check(read_legacy(data), split(source)[1:-1], [])


@given(st.lists(st.sampled_from([*b'{}[]":,\\n\n\r\0', *b"typesidmgarnul0123 "]), max_size=300).map(bytes))
def test_anything_at_all_is_read_or_refused(data: bytes) -> None:
    header = b'{"type":"session","version":3,"id":"01a229ab","timestamp":"t","cwd":"/"}\n'
    read_legacy(data)
    legacy = read_legacy(header + data)
    assert legacy.refusal is None


# --- linear work ------------------------------------------------------------------------------------------------------

HEADER = b'{"type":"session","version":3,"id":"01a229ab","timestamp":"t","cwd":"/"}\n'
OPEN = b'{"type":"message","timestamp":"t","x":'
HOSTILE = {
    "objects that never end": OPEN,
    "openings in strings that never end": b'{"type":"message","timestamp":"t',
    "openings of entries": b'{"type":"label"',
    "braces": b"{",
    "brackets": b'{"a":[',
    "blocks": b'{"type":"text","text":"x"},',
    "quotes": b'"',
    "escapes": b'\\"',
    "whole entries on one line": b'{"type":"custom","id":"a","parentId":null,"timestamp":"t"}',
    "nul and noise": b"\0x",
    "an id again and again": b'{"type":"custom","id":"a","parentId":"a","timestamp":"t","n":%d}\n',
    "orphans": b'{"type":"custom","id":"a%d","parentId":"b%d","timestamp":"t"}\n',
    "torn entries with ids": b'{"type":"custom","id":"b%d","parentId":"b%d","time\n',
    "a line that begins and goes on": b'{"type":"message","timestamp":"t","x":"\nmore\n\n',
    "a chain that runs forward": b'{"type":"custom","id":"c%d","parentId":"c%d","timestamp":"t"}\n',
}


def steps(data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that reading looks at: those given to each decoder, and those scanned for an object's end."""
    count = 0
    object_end, head_of = salvage.object_end, lines.head_of

    def counted_end(text: str, start: int) -> tuple[int | None, int]:
        nonlocal count
        found = object_end(text, start)
        count += found[1]
        return found

    def counted_head(raw: bytes) -> lines.Head | None:
        nonlocal count
        count += len(raw)
        return head_of(raw)

    with monkeypatch.context() as patch:
        patch.setattr(salvage, "object_end", counted_end)
        patch.setattr(salvage, "head_of", counted_head)
        patch.setattr(lines, "head_of", counted_head)
        read_legacy(data)
    return count


@pytest.mark.parametrize("case", HOSTILE)
def test_the_work_is_linear_in_the_bytes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piece = HOSTILE[case]

    def data(count: int) -> bytes:
        if b"%d" not in piece:
            return HEADER + piece * count
        numbers = (tuple(number + place for place in range(piece.count(b"%d"))) for number in range(count))
        return HEADER + b"".join(piece % each for each in numbers)

    for count in (10, 100, 1_000, 4_000):
        assert steps(data(count), monkeypatch) <= 16 * len(data(count))


def test_a_report_has_an_end() -> None:
    legacy = read_legacy(HEADER + b"x\n" * 30_000)

    assert len(legacy.skipped) == 20_001
    assert legacy.skipped[-1].reason == "10000 places more: see those before"


def test_a_line_of_20_mb_and_200_000_small_ones_fit_into_a_bounded_memory() -> None:
    script = """
import resource
small = b'{"type":"message","id":"%d","parentId":"%d","timestamp":"t","message":{"role":"user","content":"x"}}\\n'
big = b'{"type":"message","id":"big","parentId":null,"timestamp":"t","message":{"role":"user","content":"' + b"x" * 20_000_000
header = b'{"type":"session","version":3,"id":"01a229ab","timestamp":"t","cwd":"/"}\\n'
for line in (big + b'"}}\\n', big + b"\\n"):
    data = header + line + b"".join(small % (n, n - 1) for n in range(200_000))
    from store.legacy.read import read_legacy
    resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
    found = read_legacy(data)
    print(len(found.records), len(found.skipped))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )

    assert (done.stdout, done.stderr) == ("200001 0\n200000 1\n", "")
