"""The saved index of a journal: derived, so anybody may write it, and nobody fails because it cannot be written."""

import os
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import attrs
import msgspec

from store.disk.fs import Fs, Stat, open_own, read_whole, write_whole
from store.disk.scan import Scan, read_span
from store.entries import Header
from store.errors import JournalDamaged, StoreError
from store.frame import FRAME_BYTES, body, check, seed
from store.index import ROW_BYTES, Index, read_head

WORTH_BYTES = 1 << 20
"""Less than this is read again sooner than its index is written."""
_MAGIC = b"sapwidx1"
# Magic; device, inode, size and mtime of the journal; good bytes; rows, leaf, epoch, durable; flags; the last frame;
# the CRC-32 of all before it and of the rows, which starts from that of the session id.
_HEAD = struct.Struct(f"<8sQQQQQIIIIB{FRAME_BYTES}sI")
_CRC_BYTES = 4
_PLAIN, _FLUSHED = 1, 2
_RUN_BYTES = 256 << 10


@attrs.define(eq=False)
class Indexed:
    """A journal as far as it was looked at, and its index. `found`: the file at that time.

    `is_untouched`: the file is just as it was when the index was saved by one who had flushed it.
    """

    scan: Scan
    index: Index
    found: Stat
    is_untouched: bool = False

    @property
    def trouble(self) -> str:
        return self.scan.trouble


def open_index(fs: Fs, path: Path, session_id: str, fd: int, found: Stat) -> Indexed:
    """The index of the journal open as `fd`, to the end of its committed records.

    What was saved is believed if it is whole and the last record that it knows is in its place; only what stands behind
    is read then. A long way is saved. Raises OSError.
    """
    index_path = path.with_suffix(".idx")
    indexed = _load(fs, index_path, session_id, fd, found) or Indexed(Scan(session_id), Index(), found)
    before = indexed.scan.good_bytes
    extend(fs, indexed, fd, found)
    if indexed.scan.good_bytes - before >= WORTH_BYTES and not indexed.trouble:
        save(fs, index_path, indexed)
    return indexed


def extend(fs: Fs, indexed: Indexed, fd: int, found: Stat) -> None:
    """Take in what was appended since. Raises OSError."""
    index = indexed.index
    for offset, line in indexed.scan.lines(fs, fd, found.size):
        if offset:
            index.add(offset, len(line), read_head(line))
        else:
            index.add_header(len(line))
    indexed.found = found


def save(fs: Fs, path: Path, indexed: Indexed, is_flushed: bool = False) -> bool:
    """Put the index in its place in one step; False where that cannot be done.

    Nothing is flushed: an index that is lost is made anew. `is_flushed`: the owner says that the journal is durable.
    """
    scan, index, found = indexed.scan, indexed.index, indexed.found
    place = found.device, found.inode, found.size, found.mtime_ns
    flags = _PLAIN * index.is_plain | _FLUSHED * is_flushed
    head = _HEAD.pack(
        _MAGIC, *place, scan.good_bytes, index.count, index.leaf, scan.epoch, scan.durable, flags, scan.last, 0
    )[:-_CRC_BYTES]
    crc = zlib.crc32(index.data, zlib.crc32(head, seed(scan.session_id)))
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            fs.unlink(new)  # of a process that had our number and died
        fd, _ = open_own(fs, new, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            write_whole(fs, fd, head + struct.pack("<I", crc) + index.data)
        finally:
            fs.close(fd)
        fs.rename(new, path)
    except (OSError, StoreError):
        with suppress(OSError):
            fs.unlink(new)
        return False
    return True


def _load(fs: Fs, path: Path, session_id: str, fd: int, found: Stat) -> Indexed | None:
    """The saved index, if it is whole, of this file, and its last record is where it says. Raises OSError of the journal."""
    try:
        index_fd, index_found = open_own(fs, path, os.O_RDONLY)
    except (OSError, StoreError):
        return None
    try:
        data = read_whole(fs, index_fd, index_found.size)
    except OSError:
        return None
    finally:
        fs.close(index_fd)
    rows = data[_HEAD.size :]
    if len(data) < _HEAD.size + ROW_BYTES or len(rows) % ROW_BYTES:
        return None
    magic, device, inode, size, mtime_ns, good, count, leaf, epoch, durable, flags, last, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or (device, inode) != (found.device, found.inode) or count * ROW_BYTES != len(rows):
        return None
    if zlib.crc32(rows, zlib.crc32(data[: _HEAD.size - _CRC_BYTES], seed(session_id))) != crc:
        return None
    index = Index.of(rows, leaf, bool(flags & _PLAIN))
    try:
        header = _header(fs, fd, path, session_id, index, last)
    except (JournalDamaged, msgspec.DecodeError):
        return None
    scan = Scan(session_id, header, good, count, epoch, durable, last)
    is_untouched = bool(flags & _FLUSHED) and size == good == found.size and mtime_ns == found.mtime_ns
    return Indexed(scan, index, found, is_untouched)


def _header(fs: Fs, fd: int, path: Path, session_id: str, index: Index, last: bytes) -> Header:
    """The header, if it and the last record are what the rows speak of. Raises JournalDamaged, msgspec.DecodeError."""
    first, end = index.row(0), index.row(index.count - 1)
    if fs.read_at(fd, FRAME_BYTES, end.offset + end.length - FRAME_BYTES) != last:
        raise JournalDamaged(f"{path}: another record stands where record {end.seq} was")
    header = read_bodies(fs, fd, path, session_id, index, [end.seq, first.seq])[1]
    return msgspec.json.decode(header, type=Header)


def read_bodies(fs: Fs, fd: int, path: Path, session_id: str, index: Index, numbers: Iterable[int]) -> list[bytes]:
    """The JSON of these records, in the order asked for; neighbours are read in one go. Each is checked.

    Raises JournalDamaged where one is not what was written; OSError.
    """
    key = seed(session_id)
    found: list[bytes] = []
    for run in _runs(index, numbers):
        start = run[0][1]
        data = read_span(fs, fd, run[-1][1] + run[-1][2] - start, start)
        for seq, offset, length in run:
            line = data[offset - start : offset - start + length]
            frame = check(line, key) if line else None
            if frame is None or frame.seq != seq:
                raise JournalDamaged(
                    f"{path}: expected record {seq} at bytes {offset} to {offset + length}, found something else. Nothing "
                    "was changed; `sapwood sessions check` lists what is damaged"
                )
            found.append(body(line))
    return found


def _runs(index: Index, numbers: Iterable[int]) -> Iterable[list[tuple[int, int, int]]]:
    """Number, offset and length, in order; those that lie one behind the other together."""
    run: list[tuple[int, int, int]] = []
    size = 0
    for seq in numbers:
        offset, length = index.span(seq)
        if run and (seq != run[-1][0] + 1 or size + length > _RUN_BYTES):
            yield run
            run, size = [], 0
        run.append((seq, offset, length))
        size += length
    if run:
        yield run
