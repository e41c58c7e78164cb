"""The frame: the last member of every line of a journal, by which the line checks itself.

    {"type":"message","id":"0000000a",…,"~":"ssssssss.dddddddd.eeeeeeee.f.cccccccc"}\\n

Hex u32: sequence number, count of durable records, epoch; flag `c` or `p`; CRC-32. The CRC runs over the line up to its
own digits and starts from the CRC-32 of the session id, so a line of another session does not pass.
"""

import re
import zlib
from collections.abc import Iterator

import msgspec

FRAME_BYTES = 46
COMMITS = b"c"
PART = b"p"
U32_MAX = 0xFFFF_FFFF

_SHAPE = rb',"~":"([0-9a-f]{8})\.([0-9a-f]{8})\.([0-9a-f]{8})\.([cp])\.([0-9a-f]{8})"\}'
_ANYWHERE = re.compile(_SHAPE)
_AT_THE_END = re.compile(_SHAPE + b"\n")
_CRC_FROM_END = 11  # the digits of the CRC, then `"}\n`
_BRACE = ord("{")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What a frame says. `durable`: how many leading records the writer knew to be durable when it wrote this one."""

    seq: int
    durable: int
    epoch: int
    commits: bool


class Found(msgspec.Struct, frozen=True, gc=False):
    """A record inside bytes that are no line: `start` of its `{`, `end` behind its `}`."""

    start: int
    end: int
    frame: Frame


def seed(session_id: str) -> int:
    """Where the CRC of this session's lines starts."""
    return zlib.crc32(session_id.encode())


def seal(body: bytes, seq: int, durable: int, epoch: int, flag: bytes, seed: int) -> bytes:
    """The line of a record.

    `body` is one compact JSON object with at least one member and without newline; the numbers are u32.
    """
    content = body[:-1]
    numbers = b',"~":"%08x.%08x.%08x.%b.' % (seq, durable, epoch, flag)
    return b'%b%b%08x"}\n' % (content, numbers, zlib.crc32(numbers, zlib.crc32(content, seed)))


def check(line: bytes | memoryview, seed: int) -> Frame | None:
    """The frame of a whole line with its newline; None unless every byte of it is as it was written."""
    match = _AT_THE_END.fullmatch(line, max(0, len(line) - FRAME_BYTES))
    if match is None or line[0] != _BRACE:
        return None
    if zlib.crc32(line[:-_CRC_FROM_END], seed) != int(match[5], 16):
        return None
    return _frame(match)


def body(line: bytes) -> bytes:
    """The JSON object of a line that passed `check`, without frame and newline."""
    return line[:-FRAME_BYTES] + b"}"


def records_inside(data: bytes, start: int, end: int, seed: int) -> Iterator[Found]:
    """Records in `data[start:end]`, which as a whole is no good line: fused behind a torn one, behind NULs, …

    The span is cut behind each thing that looks like a frame; where its record begins is found by running the CRC
    backwards from the digits until it is the seed, so every byte is looked at once, however many `{` there are.
    """
    floor = start
    for match in _ANYWHERE.finditer(data, start, end):
        begin = _begin(data, floor, match.start(5), int(match[5], 16), seed)
        floor = match.end()
        if begin is not None:
            yield Found(begin, floor, _frame(match))


def _frame(match: "re.Match[bytes]") -> Frame:
    return Frame(int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4] == COMMITS)


def _begin(data: bytes, floor: int, end: int, crc: int, seed: int) -> int | None:
    """The last `{` at or above `floor` from which the CRC up to `end` is `crc`."""
    register, wanted = crc ^ U32_MAX, seed ^ U32_MAX
    for offset in range(end - 1, floor - 1, -1):
        byte = data[offset]
        index = _INDEX_OF_TOP[register >> 24]
        register = ((register ^ _TABLE[index]) << 8) & U32_MAX | (index ^ byte)
        if register == wanted and byte == _BRACE:
            return offset
    return None


def _crc_table() -> list[int]:
    """Table of CRC-32, reflected polynomial EDB88320. Source: RFC 1952, section 8."""
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB8_8320 if register & 1 else 0)
        table.append(register)
    return table


_TABLE = _crc_table()
# The top bytes of the table are all different: that is what lets the CRC run backwards.
_INDEX_OF_TOP = [0] * 256
for _index, _entry in enumerate(_TABLE):
    _INDEX_OF_TOP[_entry >> 24] = _index
