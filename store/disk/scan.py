"""Reading a journal forward in bounded memory, and checking every line of it."""

from collections.abc import Iterator

import attrs
import msgspec

from store.disk.fs import Fs
from store.disk.journal import RECORD_LIMIT_BYTES
from store.entries import FRAMING, VERSION, Header
from store.frame import FRAME_BYTES, Frame, body, check, seed
from store.index import quick_record
from store.records import Record

_CHUNK_BYTES = 256 << 10  # so that a chunk is still in the processor's cache when its lines are looked at
_LINE_LIMIT_BYTES = RECORD_LIMIT_BYTES + FRAME_BYTES
_header: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)

Line = tuple[int, bytes]
"""Offset, and the line with its newline."""


@attrs.define(eq=False)
class Scan:
    """Where a look at a journal has come to: the end of the last committed record that checks itself.

    good_bytes  length up to there
    next_seq    number of the record behind it
    epoch       of the last record
    durable     how many leading records were known to be durable
    last        the frame of the last record, which stands for all before it when the look goes on another time
    trouble     what stands behind it and is no unfinished write; then only `examine` can tell what the file holds
    """

    session_id: str
    header: Header | None = None
    good_bytes: int = 0
    next_seq: int = 0
    epoch: int = 0
    durable: int = 0
    last: bytes = b""
    trouble: str = ""
    read_bytes: int = 0

    def still_holds(self, fs: Fs, fd: int, size: int) -> bool:
        """Whether the last record is still where it was. Raises OSError."""
        if not self.last or size < self.good_bytes:
            return False
        return fs.read_at(fd, FRAME_BYTES, self.good_bytes - FRAME_BYTES) == self.last

    def lines(self, fs: Fs, fd: int, size: int) -> Iterator[Line]:
        """The committed lines from here to `size`, the header's included. Raises OSError.

        Ends where the file ends, at an unfinished write, or at `trouble`.
        """
        key = seed(self.session_id)
        pending: list[Line] = []
        seq, epoch, durable = self.next_seq, self.epoch, self.durable
        for offset, line in self._split(fs, fd, size):
            frame = check(line, key)
            fault = self._fault(frame, seq, epoch, line) if frame is None or seq == 0 else ""
            if frame is None or fault or frame.seq != seq or frame.epoch < epoch:
                self.trouble = fault or f"record {frame.seq if frame else seq} stands where {seq} was expected"
                return
            seq, epoch = seq + 1, frame.epoch
            durable = max(durable, frame.durable)
            if not frame.commits:
                pending.append((offset, line))
                continue
            self.good_bytes, self.next_seq, self.epoch, self.durable = offset + len(line), seq, epoch, durable
            self.last = line[-FRAME_BYTES:]
            if pending:
                yield from pending
                pending.clear()
            yield offset, line
        if size and not self.next_seq and not self.trouble:
            self.trouble = "no record"
        if durable > self.next_seq:
            self.trouble = f"records {self.next_seq} to {durable - 1} were acknowledged and are missing"

    def records(self, fs: Fs, fd: int, size: int) -> Iterator[Record]:
        """The entries among them; the header is in `header` by then. A line that checks itself and is no entry is passed over."""
        for offset, line in self.lines(fs, fd, size):
            if offset and (record := quick_record(body(line))) is not None:
                yield record

    def _fault(self, frame: Frame | None, seq: int, epoch: int, line: bytes) -> str:
        if frame is None:
            return f"bytes that are no record, where record {seq} was expected"
        try:
            self.header = _header.decode(body(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "no session header in record 0"
        if self.header.version > VERSION or self.header.framing != FRAMING:
            return f"a session of version {self.header.version}"
        return ""

    def _split(self, fs: Fs, fd: int, size: int) -> Iterator[Line]:
        """Whole lines from `good_bytes` on; what is behind the last newline is left out."""
        at = self.good_bytes
        rest = b""
        wanted = _CHUNK_BYTES
        while at + len(rest) < size:
            chunk = fs.read_at(fd, min(wanted, size - at - len(rest)), at + len(rest))
            if not chunk:
                return
            self.read_bytes += len(chunk)
            data = rest + chunk
            start, end = 0, data.find(b"\n", len(rest)) + 1
            while end:
                yield at + start, data[start:end]
                start, end = end, data.find(b"\n", end) + 1
            at, rest = at + start, data[start:]
            if len(rest) > _LINE_LIMIT_BYTES:
                self.trouble = f"a line of more than {_LINE_LIMIT_BYTES} bytes"
                return
            wanted = max(_CHUNK_BYTES, len(rest))


def read_span(fs: Fs, fd: int, size: int, offset: int) -> bytes:
    """`size` bytes, fewer at the end of the file. Raises OSError."""
    data = fs.read_at(fd, size, offset)
    while len(data) < size:
        more = fs.read_at(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
