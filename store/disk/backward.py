"""The last entries of a journal, read from its end: what is before them costs nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from store.disk.fs import Fs, open_own
from store.disk.scan import read_span
from store.errors import BadRecord, ReadLimit
from store.frame import body, check, seed
from store.records import Record, read_record

_CHUNK_BYTES = 256 << 10
SOURCE_BYTES = 64 << 20


class Ending(msgspec.Struct, frozen=True):
    """`records` in the order of the file. `is_all`: there are no others. `trouble`: what stands before them and is no record."""

    records: tuple[Record, ...]
    is_all: bool
    trouble: str = ""


def last_entries(fs: Fs, path: Path, session_id: str, count: int, source_bytes: int = SOURCE_BYTES) -> Ending:
    """The last `count` committed entries. Each is checked, and that none is missing between them.

    Bytes that a crash left behind the last record are passed over. Raises ReadLimit where more than `source_bytes` would
    have to be read, JournalRefused, OSError.
    """
    fd, found = open_own(fs, path, os.O_RDONLY)
    lines = _backward(fs, fd, found.size, source_bytes, path)
    try:
        return _collected(lines, seed(session_id), count)
    finally:
        fs.close(fd)


def _collected(lines: Iterator[tuple[int, bytes]], key: int, count: int) -> Ending:
    records: list[Record] = []
    expected = None
    is_committed = False
    trouble = ""
    while len(records) < count:
        offset, line = next(lines, (0, b""))
        if not line:
            trouble = "it does not begin with a header"
            break
        frame = check(line, key)
        if frame is None and expected is None:
            continue
        if frame is None or (expected is not None and frame.seq != expected):
            trouble = f"bytes {offset} to {offset + len(line)} are not the record that was expected there"
            break
        is_committed = is_committed or frame.commits
        expected = frame.seq - 1
        if frame.seq == 0:
            break
        if is_committed and (record := _entry(line)) is not None:
            records.append(record)
    return Ending(tuple(reversed(records)), expected in (0, -1) and not trouble, trouble)


def _entry(line: bytes) -> Record | None:
    """None for a line that checks itself and is no entry."""
    try:
        return read_record(body(line))
    except BadRecord:
        return None


def _backward(fs: Fs, fd: int, size: int, limit_bytes: int, path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and line, from the last whole line to the first. Reads more at a time where a line is long."""
    start, rest = size, b""
    is_begun = False
    given = 0
    wanted = _CHUNK_BYTES
    while start > 0:
        if given + len(rest) > limit_bytes:
            raise ReadLimit(f"{path}: expected the last entries within {limit_bytes} bytes, found longer ones")
        wanted = min(wanted, start)
        start -= wanted
        data = read_span(fs, fd, wanted, start)
        if len(data) < wanted:
            raise OSError(f"{path}: expected {size} bytes, found fewer: the file was cut meanwhile")
        data += rest
        end = len(data)
        if not is_begun:
            end = data.rfind(b"\n") + 1
            is_begun = end > 0
        while end > 1 and (line_start := data.rfind(b"\n", 0, end - 1) + 1) > 0:
            yield start + line_start, data[line_start:end]
            given += end - line_start
            end = line_start
        rest = data[:end] if is_begun else b""
        wanted = max(_CHUNK_BYTES, len(rest))
    if rest:
        yield 0, rest
