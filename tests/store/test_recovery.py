"""The rules of recovery, as a function of bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.frame import COMMITS, PART, seal, seed
from store.recovery import Recovery, examine, pieces

SESSION = "0198f0aa-session"
KEY = seed(SESSION)
HEADER = b'{"type":"session","version":3,"id":"0198f0aa-session","timestamp":"t","cwd":"/","framing":1}'


def content(seq: int) -> bytes:
    return HEADER if seq == 0 else b'{"type":"message","id":"%08x","text":"%b"}' % (seq, b"x" * (seq % 7))


def line(seq: int, durable: int = 0, epoch: int = 1, flag: bytes = COMMITS) -> bytes:
    return seal(content(seq), seq, durable, epoch, flag, KEY)


def lines(count: int, durable: int = 0) -> bytes:
    """Records 0 to count - 1; each knows that all before it are durable, but for those from `durable` on."""
    return b"".join(line(seq, min(seq, durable)) for seq in range(count))


def seqs(recovery: Recovery) -> list[int]:
    return [int(raw.split(b'"id":"')[1][:8], 16) for raw in recovery.records]


def test_an_empty_file_is_an_empty_journal() -> None:
    assert examine(b"", SESSION) == Recovery(None, (), 0, 0, 0, 0, None, (), None)


def test_a_whole_journal_comes_back_byte_for_byte() -> None:
    data = lines(5, durable=3)

    found = examine(data, SESSION)

    assert found.records == tuple(content(seq) for seq in range(1, 5))
    assert found.header is not None
    assert found.header.id == SESSION
    assert (found.next_seq, found.epoch, found.durable) == (5, 1, 3)
    assert (found.good_bytes, found.torn, found.damage, found.refusal) == (len(data), None, (), None)


def test_lines_end_at_newlines_only() -> None:
    text = '{"type":"message","id":"00000001","text":"\u2028\u2029\x85\\r\x0b\x0c"}'.encode()

    assert examine(lines(1) + seal(text, 1, 0, 1, COMMITS, KEY), SESSION).records == (text,)


def test_a_cut_at_any_byte_is_a_torn_tail_and_never_damage() -> None:
    data = lines(7, durable=6)
    ends = [len(lines(count, durable=6)) for count in range(8)]
    for cut in range(len(data) + 1):
        found = examine(data[:cut], SESSION)

        good = max(end for end in ends if end <= cut)
        assert (found.good_bytes, found.next_seq) == (good, ends.index(good))
        assert found.torn == ((good, cut) if good < cut else None)
        assert (found.damage, found.refusal) == ((), None)
        assert examine(data[:good], SESSION).records == found.records


def test_a_header_is_part_of_its_batch() -> None:
    data = line(0, flag=PART) + line(1, flag=PART) + line(2)
    whole = examine(data, SESSION)
    assert (whole.header is not None, seqs(whole), whole.torn) == (True, [1, 2], None)

    for cut in range(1, len(data)):
        found = examine(data[:cut], SESSION)
        assert (found.header, found.records, found.good_bytes, found.damage) == (None, (), 0, ())
        assert (found.torn or found.refusal) is not None


def test_a_batch_without_its_commit_is_torn_from_its_first_record() -> None:
    before = lines(3)
    batch = line(3, flag=PART) + line(4, flag=PART) + line(5)
    for cut in range(1, len(batch)):
        found = examine(before + batch[:cut], SESSION)
        assert (found.good_bytes, found.next_seq, found.torn) == (len(before), 3, (len(before), len(before) + cut))
        assert found.damage == ()
    assert seqs(examine(before + batch, SESSION)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (b"\0" * 300, "zeroed tail"),
        (b"\0" * 300 + b"\n", "zeroed tail with a newline"),
        (b'{"type":"mess\0\0\0\0', "zeroed in the record"),
        (line(5)[:-1] + b"\0", "newline lost"),
        (line(5)[:-1] + b"J" + line(6)[:-1], "newlines lost"),
        (line(4), "repeated"),
        (line(5, epoch=0), "lower epoch"),
        (line(5, flag=PART), "uncommitted"),
        (b"\n", "blank line"),
        (b"garbage\n\xff\n", "garbage"),
        (b'{"a":' * 100_000 + b"\n", "deep garbage"),
    ],
)
def test_a_bad_tail_above_what_is_durable_is_torn(tail: bytes, why: str) -> None:
    before = lines(5)

    found = examine(before + tail, SESSION)

    assert found.torn == (len(before), len(before) + len(tail)), why
    assert (found.next_seq, found.damage, found.refusal) == (5, (), None), why


@pytest.mark.parametrize(
    ("middle", "kept", "why"),
    [
        (b"", [1, 2, 4], "missing"),
        (line(3)[:20], [1, 2, 4], "torn and fused with the next"),
        (line(3)[:20] + b"\n", [1, 2, 4], "torn"),
        (b"\0" * 200, [1, 2, 4], "NULs in front of the next"),
        (line(3)[:-1] + b"\0" * 200, [1, 2, 3, 4], "NULs behind a whole record"),
        (line(3)[:-1] + b"J", [1, 2, 3, 4], "newline flipped"),
        (line(3) + b"\n", [1, 2, 3, 4], "blank line"),
        (line(3).replace(b"\n", b"\r\n"), [1, 2, 3, 4], "carriage return"),
        (line(3) + line(3), [1, 2, 3, 4], "repeated"),
        (line(3, epoch=0) + line(3), [1, 2, 3, 4], "lower epoch"),
        (line(3) + b'{"type":"message"}\n', [1, 2, 3, 4], "foreign line"),
        (line(3)[:40] + b"\n" + line(3)[41:], [1, 2, 4], "newline inside"),
        (line(3, flag=PART).replace(b"id", b"ID"), [1, 2, 4], "record of a batch"),
    ],
)
def test_anything_bad_with_intact_records_behind_it_is_damage(middle: bytes, kept: list[int], why: str) -> None:
    before, behind = lines(3), line(4, epoch=2)

    found = examine(before + middle + behind, SESSION)

    assert seqs(found) == kept, why
    assert (found.torn, found.refusal, found.epoch, found.next_seq) == (None, None, 2, 5), why
    assert found.damage, why
    for damage in found.damage:
        assert len(before) <= damage.start <= damage.end <= len(before + middle), why


def test_the_ranges_of_damage_are_exactly_the_bad_bytes() -> None:
    torn = line(3)[:30]

    (fused,) = examine(lines(3) + torn + line(4), SESSION).damage
    (missing,) = examine(lines(3) + line(6), SESSION).damage

    start = len(lines(3))
    assert (fused.start, fused.end) == (start, start + len(torn))
    assert (missing.start, missing.end, missing.reason) == (start, start, "records 3 to 5 are missing")


def test_a_bad_record_that_was_acknowledged_is_damage_also_at_the_end() -> None:
    knows = line(4, durable=4)
    data = lines(3) + line(3)[:30] + knows[:-1]  # the one who knows has lost its newline, but says what it says

    found = examine(data, SESSION)

    assert found.durable == 4
    assert found.torn is None
    assert [(d.start, d.end) for d in found.damage] == [(len(lines(3)), len(data))]


def test_records_that_were_acknowledged_and_are_not_there_are_damage() -> None:
    data = lines(3) + line(3, durable=9)

    assert [d.reason for d in examine(data, SESSION).damage] == ["records 4 to 8 were acknowledged and are missing"]


def test_a_repeated_record_below_the_durable_ones_is_damage() -> None:
    found = examine(lines(5, durable=4) + line(2), SESSION)

    assert [d.reason for d in found.damage] == ["record 2 again, where 5 was expected"]


@settings(deadline=None)
@given(st.data())
def test_no_flipped_bit_in_acknowledged_bytes_is_silent(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 8))
    durable = data.draw(st.integers(1, count - 1))
    bytes_of = bytearray(b"".join(line(seq, min(seq, durable)) for seq in range(count)))
    acknowledged = len(lines(durable, durable))
    place = data.draw(st.integers(0, acknowledged - 1))
    bytes_of[place] ^= 1 << data.draw(st.integers(0, 7))

    found = examine(bytes(bytes_of), SESSION)

    assert any(damage.start <= place < damage.end for damage in found.damage)
    assert found.torn is None
    assert len(found.records) >= count - 3  # of the two lines that one flipped newline can touch, and no other


@pytest.mark.parametrize("place", range(len(line(4))))
def test_a_flipped_bit_in_the_last_record_is_seen(place: int) -> None:
    data = bytearray(lines(5, durable=4))
    data[len(lines(4)) + place] ^= 1

    found = examine(bytes(data), SESSION)

    assert found.torn or found.damage or found.refusal
    assert found.records[:3] == tuple(content(seq) for seq in range(1, 4))


FOREIGN_HEADER = b'{"type":"session","version":3,"id":"0198f0aa-session","timestamp":"t","cwd":"/"}\n'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"hello\n", "found b'hello"),
        (b"\0" * 64, "expected a journal of session"),
        (b'{"a":1}\n{"b":2}\n', "sapwood sessions import"),
        (FOREIGN_HEADER + b'{"type":"message","id":"a"}\n', "without frames"),
        (FOREIGN_HEADER.replace(b":3", b":4"), "found version 4"),
        (FOREIGN_HEADER.replace(b'"/"', b'"/","framing":2'), "expected framing 1, found 2"),
        (HEADER + b"\n", "expected a journal of session"),
        (line(0).replace(b'"t"', b'"T"'), "expected a journal of session"),
        (seal(HEADER.replace(b"0198f0aa", b"0198f0ab"), 0, 0, 1, COMMITS, seed("0198f0ab-session")), "0198f0ab"),
        (seal(HEADER.replace(b":3", b":4"), 0, 0, 1, COMMITS, KEY) + line(1), "found version 4"),
        (seal(HEADER.replace(b'"framing":1', b'"framing":2'), 0, 0, 1, COMMITS, KEY), "found 2"),
        (seal(b'{"type":"message"}', 0, 0, 1, COMMITS, KEY), "expected a session header"),
        (lines(3) + b'{"type":"message","id":"a"}\n', "another program wrote to this file"),
        (lines(3) + b'{"type":"mess\n{"type":"message","id":"a"}\r\n', "another program wrote to this file"),
    ],
)
def test_what_is_not_ours_to_write_is_refused(data: bytes, says: str) -> None:
    found = examine(data, SESSION)

    assert found.refusal is not None
    assert says in found.refusal
    assert found.torn is None


def test_a_lost_header_is_damage_and_the_rest_is_kept() -> None:
    whole = lines(40)
    data = whole[:15] + whole[len(line(0)) - 1 :]  # `{"type":"sess`, then forty good lines

    found = examine(data, SESSION)

    assert found.header is None
    assert seqs(found) == list(range(1, 40))
    assert [(d.start, d.end) for d in found.damage] == [(0, 16)]


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(0, 9).map(line), st.binary(max_size=80), st.just(b"\n"), st.just(b'{"a":1}\n'))))
def test_pieces_cover_every_byte_once_and_nothing_raises(parts: list[bytes]) -> None:
    data = b"".join(parts)

    place = 0
    for piece in pieces(data, SESSION):
        assert piece.start == place
        assert piece.end > place
        place = piece.end
    assert place == len(data)
    found = examine(data, SESSION)
    if not found.damage and found.refusal is None:
        again = examine(data[: found.good_bytes], SESSION)
        assert (again.records, again.torn, again.damage, again.refusal) == (found.records, None, (), None)


def test_a_long_bad_line_is_looked_at_once() -> None:
    """Many braces and frames on one line: quadratic work would not end."""
    fake = b'{"a":{,"~":"00000001.00000000.00000001.c.00000000"}'
    data = lines(3) + fake * 4000 + line(3)

    assert seqs(examine(data, SESSION)) == [1, 2, 3]
