"""The index of a journal: the same tree as the records give, believed only where the journal bears it out."""

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk import backward, scan
from store.disk.backward import last_entries
from store.disk.fs import open_own
from store.disk.index import Indexed, extend, open_index, read_bodies, save
from store.disk.journal import Journal
from store.disk.scan import Scan
from store.entries import CustomEntry, Header, LabelEntry, MessageEntry
from store.errors import BadRecord, JournalDamaged, ReadLimit
from store.frame import COMMITS, FRAME_BYTES, PART, seal, seed
from store.ids import entry_id
from store.index import CODES, NONE, ROW_BYTES, Index, read_head
from store.records import Draft, Record, read_record
from store.recovery import examine
from store.tree import EntryTree
from tests.faulty_fs import FaultyFs

SESSION = "0198f0aa-session"
HEADER = Header(version=3, id=SESSION, timestamp="2026-01-01T00:00:00Z", cwd="/")
FOLDER = Path("/home/sessions")
PATH = FOLDER / f"{SESSION}.jsonl"
INDEX = PATH.with_suffix(".idx")


def message(number: int, parent: str | None, text: str = "") -> Record:
    raw = b'{"role":"user","content":"%b"}' % (text or "x" * (number * 13 % 50)).encode()
    body = MessageEntry(message=msgspec.Raw(raw))
    return Draft.of(body).record(entry_id(number), parent, "2026-01-01T00:00:00Z")


def chain(count: int) -> list[Record]:
    return [message(number, entry_id(number - 1) if number > 1 else None) for number in range(1, count + 1)]


def stored(fs: FaultyFs, records: list[Record], batches: int = 1) -> Journal:
    journal = Journal.create(fs, PATH, HEADER, epoch=1)
    for start in range(0, len(records), batches):
        journal.append([record.raw for record in records[start : start + batches]])
    journal.sync()
    return journal


def look(fs: FaultyFs, path: Path = PATH) -> Indexed:
    fd, found = open_own(fs, path, os.O_RDONLY)
    try:
        return open_index(fs, path, SESSION, fd, found)
    finally:
        fs.close(fd)


def walk(index: Index, records: dict[int, Record]) -> list[Record]:
    return [records[seq] for seq in index.path(index.leaf, lambda seq: records[seq].parent_id)]


def same(one: Indexed, other: Indexed) -> bool:
    return (
        one.index.data == other.index.data
        and (one.index.leaf, one.index.odd, one.index.is_plain)
        == (other.index.leaf, other.index.odd, other.index.is_plain)
        and (one.scan.good_bytes, one.scan.next_seq, one.scan.epoch, one.scan.durable, one.scan.last, one.scan.header)
        == (
            other.scan.good_bytes,
            other.scan.next_seq,
            other.scan.epoch,
            other.scan.durable,
            other.scan.last,
            other.scan.header,
        )
    )


# --- the rows ---------------------------------------------------------------------------------------------------------

some_ids = st.integers(1, 12).map(entry_id) | st.sampled_from(["a", "ü", "00000000", "0000000A", "f" * 8, "x" * 40])
shapes = st.tuples(
    st.sampled_from(["message", "label", "compaction", "mark", "custom", "new", "no entry"]),
    some_ids,
    st.none() | some_ids,
)


def line_of(shape: tuple[str, str, str | None]) -> bytes:
    kind, entry, parent = shape
    if kind == "no entry":
        return b'{"type":"message","n":1}'
    members: dict[str, Any] = {"type": kind, "id": entry, "parentId": parent, "timestamp": "t"}
    if kind in {"mark", "custom"}:
        members |= {"type": "custom", "customType": "sapwood.leaf" if kind == "mark" else "x", "data": "sapwood.leaf"}
    return msgspec.json.encode(members)


@settings(deadline=None, max_examples=400)
@given(st.lists(shapes, max_size=14))
def test_an_index_walks_as_the_tree_of_the_records_does(drawn: list[tuple[str, str, str | None]]) -> None:
    index, tree, records = Index(), EntryTree(), {}
    index.add_header(10)
    for seq, line in enumerate(map(line_of, drawn), start=1):
        index.add(seq * 100, 100, read_head(line[:-1] + b',"~":"' + b"0" * (FRAME_BYTES - 9) + b'"}\n'))
        try:
            records[seq] = read_record(line)
        except BadRecord:
            continue
        tree.add(records[seq])
    again = Index.of(bytes(index.data), index.leaf, index.is_plain)

    for each in (index, again):
        assert walk(each, records) == tree.path()
        assert list(each.entries()) == list(records)
        for record in records.values():
            assert records[each.find(record.id) or NONE] is tree.get(record.id)
        assert each.find("no such id") is None
        fresh = [entry_id(number) for number in each.fresh_numbers(3)]
        assert not {record.id for record in records.values()} & set(fresh)
        labels = [seq for seq, record in records.items() if record.type == "label"]
        assert list(each.last_of(CODES["label"])) == labels[::-1]
    assert (again.odd, again.is_plain) == (index.odd, index.is_plain)


def test_new_entries_are_called_by_their_numbers() -> None:
    index = Index()
    index.add_header(10)
    for seq, record in enumerate(chain(3), start=1):
        index.add(seq, 1, read_head(record.raw))

    assert index.fresh_numbers(2) == [4, 5]
    assert len(index.data) == 4 * ROW_BYTES


# --- looking at a journal ---------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_looking_forward_finds_what_a_whole_examination_finds(data: st.DataObject) -> None:
    key = seed(SESSION)
    lines = [b'{"type":"session","version":3,"id":"%b","timestamp":"","cwd":"/","framing":1}' % SESSION.encode()]
    lines += [record.raw for record in chain(data.draw(st.integers(0, 5)))]
    whole, first, flag = b"", 0, COMMITS
    for seq, line in enumerate(lines):
        first = seq if flag == COMMITS else first  # of its batch, all of which was written when so much was durable
        flag = data.draw(st.sampled_from([COMMITS, PART])) if seq else COMMITS
        whole += seal(line, seq, data.draw(st.integers(0, first)), 1, flag, key)
    change = data.draw(st.sampled_from(["none", "cut", "flip", "zeros", "doubled", "foreign"]))
    place = data.draw(st.integers(0, max(0, len(whole) - 1)))
    altered = {
        "none": whole,
        "cut": whole[:place],
        "flip": whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
        "zeros": whole[:place] + bytes(len(whole) - place),
        "doubled": whole + whole[place:],
        "foreign": whole + b'{"type":"message"}\n',
    }[change]
    fs = FaultyFs()
    fs.plant(PATH, altered)
    fd, _ = open_own(fs, PATH, os.O_RDONLY)

    look = Scan(SESSION)
    bodies = [line[:-FRAME_BYTES] + b"}" for _, line in look.lines(fs, fd, len(altered))]

    found = examine(altered, SESSION)
    if look.trouble:
        assert found.damage or found.refusal or found.torn
    else:
        assert (tuple(bodies[1:]), look.good_bytes, look.next_seq) == (found.records, found.good_bytes, found.next_seq)
        assert (look.header, look.epoch) == (found.header, found.epoch)
        assert not found.damage
        assert found.refusal is None
    if found.damage or found.refusal:
        assert look.trouble


def test_a_look_goes_on_where_the_last_one_ended() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    records = chain(9)
    journal = stored(fs, records[:4])
    first = look(fs)
    journal.append([record.raw for record in records[4:]])
    fd, found = open_own(fs, PATH, os.O_RDONLY)

    before = first.scan.read_bytes
    extend(fs, first, fd, found)

    assert first.scan.still_holds(fs, fd, found.size)
    assert first.scan.read_bytes - before == sum(len(record.raw) + FRAME_BYTES - 1 for record in records[4:])
    assert same(first, look(fs))
    assert read_bodies(fs, fd, PATH, SESSION, first.index, [2, 9, 3, 4]) == [records[n - 1].raw for n in (2, 9, 3, 4)]


def test_long_lines_are_put_together_from_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_CHUNK_BYTES", 7)
    monkeypatch.setattr(backward, "_CHUNK_BYTES", 7)
    fs = FaultyFs.holding(str(FOLDER))
    records = [*chain(3), message(4, entry_id(3), "y" * 900)]
    stored(fs, records)

    indexed = look(fs)

    assert [indexed.index.row(seq).length for seq in indexed.index.entries()] == [
        len(record.raw) + FRAME_BYTES - 1 for record in records
    ]
    assert list(last_entries(fs, PATH, SESSION, 9).records) == records


# --- what was saved ---------------------------------------------------------------------------------------------------


def test_a_saved_index_spares_reading_what_it_knows() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    records = chain(60)
    journal = stored(fs, records[:50])
    whole = look(fs)
    assert save(fs, INDEX, whole, is_flushed=True)
    assert look(fs).is_untouched
    journal.append([record.raw for record in records[50:]])

    indexed = look(fs)

    assert indexed.scan.read_bytes == sum(len(record.raw) + FRAME_BYTES - 1 for record in records[50:])
    assert not indexed.is_untouched
    assert walk(indexed.index, dict(enumerate(records, start=1))) == records
    fs.unlink(INDEX)
    assert same(indexed, look(fs))
    assert fs.names.keys() & {INDEX} == set()  # small ones are not worth a file


def test_only_an_owner_that_has_flushed_vouches_for_the_whole() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(3))
    save(fs, INDEX, look(fs))

    assert not look(fs).is_untouched


def test_whatever_happened_to_a_saved_index_the_answer_is_the_same() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = stored(fs, [*chain(5), message(77, entry_id(3))])
    whole = look(fs)
    save(fs, INDEX, whole)
    saved = fs.content(INDEX)
    journal.append([message(7, "0000004d").raw])
    fs.unlink(INDEX)
    expected = look(fs)

    for place in range(len(saved)):
        for bad in (saved[:place], saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :]):
            fs.plant(INDEX, bad)
            assert same(look(fs), expected)


def test_the_index_of_another_journal_is_not_believed() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(5)).close()
    save(fs, INDEX, look(fs))
    shorter = Path("/home/other") / PATH.name
    fs.plant(shorter, b"")
    fs.unlink(PATH)
    stored(fs, [message(n, None, "z" * 30) for n in range(1, 7)])  # as a repair would put it there

    assert look(fs).index.row(1).length == len(message(1, None, "z" * 30).raw) + FRAME_BYTES - 1


def test_an_index_is_not_believed_of_a_file_that_only_ends_alike() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    last = message(3, entry_id(2))
    stored(fs, [message(1, None, "x" * 10), message(2, entry_id(1), "y" * 90), last]).close()
    save(fs, INDEX, look(fs))
    fs.unlink(PATH)
    stored(fs, [message(1, None, "x" * 90), message(2, entry_id(1), "y" * 10), last]).close()

    indexed = look(fs)

    fd, _ = open_own(fs, PATH, os.O_RDONLY)
    assert read_bodies(fs, fd, PATH, SESSION, indexed.index, [1]) == [message(1, None, "x" * 90).raw]


def test_a_journal_that_was_cut_and_grew_again_to_its_size_is_read_anew() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(5)).close()
    save(fs, INDEX, look(fs))
    whole = fs.content(PATH)
    fs.names[PATH].data = bytearray(whole[: look(fs).index.row(3).offset])
    journal, _ = Journal.open(fs, PATH, SESSION, epoch=2)
    journal.append([record.raw for record in chain(5)[2:]])

    assert len(fs.content(PATH)) == len(whole)
    fresh = look(fs)
    assert fresh.scan.epoch == 2


def test_an_index_that_cannot_be_written_is_no_failure() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(5)).close()
    whole = look(fs)
    before = fs.calls
    assert save(fs, INDEX, whole)
    calls = fs.calls - before
    fs.unlink(INDEX)
    for number in range(1, calls + 1):
        for code in (errno.EACCES, errno.ENOSPC, errno.EROFS):
            fs.errors = {fs.calls + number: code}
            save(fs, INDEX, whole)
            fs.errors = {}
            assert same(look(fs), whole)
            assert [name.name for name in fs.names if name.parent == FOLDER and name not in (PATH, INDEX)] == []
    assert list(fs.fds) == []


def test_a_long_way_is_saved_by_whoever_went_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.disk.index.WORTH_BYTES", 500)
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(20))

    look(fs)

    assert INDEX in fs.names
    assert look(fs).scan.read_bytes == 0


def test_a_record_that_is_not_what_was_written_is_never_handed_out() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(5))
    indexed = look(fs)
    row = indexed.index.row(3)
    for place in range(row.offset, row.offset + row.length):
        fs.names[PATH].data[place] ^= 1
        fd, _ = open_own(fs, PATH, os.O_RDONLY)
        with pytest.raises(JournalDamaged, match=f"expected record 3 at bytes {row.offset} to"):
            read_bodies(fs, fd, PATH, SESSION, indexed.index, [3])
        assert len(read_bodies(fs, fd, PATH, SESSION, indexed.index, [1, 2, 4, 5])) == 4
        fs.names[PATH].data[place] ^= 1


def test_a_sound_record_in_the_place_of_another_is_never_handed_out() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, [message(n, None, "y" * 20) for n in range(1, 4)])
    indexed = look(fs)
    lines = fs.content(PATH).splitlines(keepends=True)
    fs.names[PATH].data = bytearray(b"".join([lines[0], lines[2], lines[1], lines[3]]))

    fd, _ = open_own(fs, PATH, os.O_RDONLY)
    with pytest.raises(JournalDamaged, match="expected record 1 at bytes"):
        read_bodies(fs, fd, PATH, SESSION, indexed.index, [1])


# --- from the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [1, 3])
def test_the_last_entries_are_those_that_a_reader_of_the_whole_sees(
    batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backward, "_CHUNK_BYTES", 50)
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, chain(7), batches)
    whole = fs.content(PATH)
    for end in range(len(whole), whole.index(b"\n"), -1):
        for torn in (b"", b"\0\0\n\0"):
            fs.plant(PATH, whole[:end] + torn)
            found = examine(whole[:end] + torn, SESSION)
            for count in (0, 1, 4, 9):
                ending = last_entries(fs, PATH, SESSION, count)
                assert (
                    tuple(record.raw for record in ending.records)
                    == found.records[len(found.records) - count if count < len(found.records) else 0 :]
                )
                assert ending.is_all == (count >= len(found.records) and count > 0)
                assert ending.trouble == ""


def test_damage_before_the_last_entries_is_told_once_it_is_reached() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    records = chain(6)
    stored(fs, records)
    fs.names[PATH].data[look(fs).index.row(3).offset + 5] ^= 1

    assert last_entries(fs, PATH, SESSION, 3).trouble == ""
    ending = last_entries(fs, PATH, SESSION, 4)

    assert list(ending.records) == records[3:]
    assert "not the record that was expected there" in ending.trouble


def test_a_record_that_is_missing_before_the_last_entries_is_told_once_it_is_reached() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    records = chain(6)
    stored(fs, records)
    lines = fs.content(PATH).splitlines(keepends=True)
    fs.plant(PATH, b"".join(lines[:3] + lines[4:]))

    ending = last_entries(fs, PATH, SESSION, 5)

    assert list(ending.records) == records[3:]
    assert "not the record that was expected there" in ending.trouble


def test_a_file_without_records_has_no_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FaultyFs.holding(str(FOLDER))
    for data in (b"", b"\n", b"\n\n\n", b"rubbish", b'{"type":"message"}\n'):
        fs.plant(PATH, data)
        ending = last_entries(fs, PATH, SESSION, 3)
        assert (ending.records, ending.is_all, bool(ending.trouble)) == ((), False, True)


def test_reading_from_the_end_is_bounded() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    stored(fs, [message(n, None, "y" * 400_000) for n in range(1, 4)])

    assert len(last_entries(fs, PATH, SESSION, 1, source_bytes=500_000).records) == 1
    with pytest.raises(ReadLimit):
        last_entries(fs, PATH, SESSION, 3, source_bytes=500_000)


def test_labels_are_among_the_rows() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    label = Draft.of(LabelEntry(target_id=entry_id(1), label="here")).record(entry_id(2), entry_id(1), "t")
    mark = Draft.of(CustomEntry(custom_type="sapwood.leaf")).record(entry_id(3), None, "t")
    stored(fs, [*chain(1), label, mark])

    index = look(fs).index

    assert list(index.last_of(CODES["label"])) == [2]
    assert index.leaf == NONE
