"""The frame: what is sealed checks, and nothing else does."""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.frame import COMMITS, FRAME_BYTES, PART, U32_MAX, Frame, body, check, records_inside, seal, seed
from store.wire import encode

KEY = seed("0198f0aa-session")
u32 = st.integers(0, U32_MAX)
objects = st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**63 - 1), min_size=1).map(encode)


def test_a_line_looks_as_the_specification_says() -> None:
    line = seal(b'{"type":"message","id":"0000000a"}', seq=10, durable=9, epoch=3, flag=COMMITS, seed=KEY)

    start = b'{"type":"message","id":"0000000a","~":"0000000a.00000009.00000003.c.'
    assert line == b'%b%08x"}\n' % (start, zlib.crc32(start, zlib.crc32(b"0198f0aa-session")))
    assert len(line) == len(b'{"type":"message","id":"0000000a"') + FRAME_BYTES
    assert list(json.loads(line))[-1] == "~"


@settings(deadline=None)
@given(objects, u32, u32, u32, st.sampled_from([COMMITS, PART]))
def test_what_is_sealed_checks_and_comes_back(content: bytes, seq: int, durable: int, epoch: int, flag: bytes) -> None:
    line = seal(content, seq, durable, epoch, flag, KEY)

    assert check(line, KEY) == check(memoryview(line), KEY) == Frame(seq, durable, epoch, flag == COMMITS)
    assert body(line) == content
    assert line.count(b"\n") == 1


@settings(deadline=None)
@given(objects, st.data())
def test_no_line_with_a_flipped_bit_checks(content: bytes, data: st.DataObject) -> None:
    line = bytearray(seal(content, 7, 3, 1, COMMITS, KEY))
    line[data.draw(st.integers(0, len(line) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    assert check(bytes(line), KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-1],
        lambda line: line[1:],
        lambda line: line[-FRAME_BYTES:],
        lambda line: b" " + line,
        lambda line: line + b"\n",
        lambda line: line[:-1] + b"\r\n",
        lambda line: line.upper(),
        lambda line: seal(b"}", 1, 1, 1, COMMITS, KEY),
        lambda line: b"",
        lambda line: b"\n",
    ],
)
def test_a_line_that_is_not_byte_for_byte_ours_does_not_check(change) -> None:  # type: ignore[no-untyped-def]
    assert check(change(seal(b'{"a":1}', 1, 1, 1, COMMITS, KEY)), KEY) is None


def test_a_line_of_another_session_does_not_check() -> None:
    assert check(seal(b'{"a":1}', 1, 1, 1, COMMITS, KEY), seed("0198f0aa-sessio2")) is None


@settings(deadline=None)
@given(st.binary(max_size=60), objects, st.binary(max_size=60), objects, st.binary(max_size=60))
def test_records_are_found_inside_any_bytes(one: bytes, first: bytes, two: bytes, second: bytes, three: bytes) -> None:
    a, b = seal(first, 1, 0, 1, PART, KEY)[:-1], seal(second, 2, 0, 1, COMMITS, KEY)[:-1]
    data = one + a + two + b + three

    found = [(r.start, r.end, r.frame.seq) for r in records_inside(data, 0, len(data), KEY)]

    start = len(one) + len(a) + len(two)
    assert found == [(len(one), len(one) + len(a), 1), (start, start + len(b), 2)]


def test_a_record_is_found_behind_the_torn_start_of_another() -> None:
    torn = b'{"type":"message","content":[{"type":"text","text":"{\\"type'
    whole = seal(b'{"type":"message","content":[{"type":"text"}]}', 4, 0, 1, COMMITS, KEY)

    (found,) = records_inside(torn + whole, 0, len(torn + whole), KEY)

    assert (found.start, found.frame.seq) == (len(torn), 4)
