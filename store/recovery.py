"""What the bytes of a journal hold: a pure function, the same for the owner, for readers and for the repair."""

from collections.abc import Iterator

import attrs
import msgspec

from store.entries import FRAMING, VERSION, Header
from store.frame import Frame, body, check, records_inside, seed

_HEADER_START = b'{"type":"session"'
_IMPORT = "`sapwood sessions import FILE` makes a session of what it holds"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Damage(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` (not included) of the file; empty where records are missing between two good ones."""

    start: int
    end: int
    reason: str


class Recovery(msgspec.Struct, frozen=True):
    """What a journal's bytes hold.

    header     record 0, if it is committed
    records    bodies of the intact, committed records behind the header, in order
    next_seq   number of the record that comes next
    epoch      the highest of the intact records
    durable    D: how many leading records were known to be durable
    good_bytes length up to the last commit; what an owner keeps
    torn       bytes behind it that a crash left; an owner saves and cuts them
    damage     acknowledged bytes that are gone, or bytes that stand before intact records: nobody may write
    refusal    why the file is not a journal that we may write; what was expected and found, and what to do
    """

    header: Header | None
    records: tuple[bytes, ...]
    next_seq: int
    epoch: int
    durable: int
    good_bytes: int
    torn: tuple[int, int] | None
    damage: tuple[Damage, ...]
    refusal: str | None

    @property
    def trouble(self) -> str | None:
        """What a reader is told that is wrong, in a line."""
        if self.damage:
            first = self.damage[0]
            more = f" ({len(self.damage)} damaged places in all)" if len(self.damage) > 1 else ""
            return f"damage at bytes {first.start} to {first.end}: {first.reason}{more}"
        return self.refusal or (None if self.header is not None else "it has no header")


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A stretch of the file: an intact record (no `fault`) or bytes that are none.

    A record whose end was cut has both a frame and a fault.
    """

    start: int
    end: int
    frame: Frame | None
    fault: str = ""
    is_foreign: bool = False


def pieces(data: bytes, session_id: str) -> Iterator[Piece]:
    """The whole of `data` in order, without gaps: cut at byte 0A, and inside a bad line at what it still holds."""
    key = seed(session_id)
    view = memoryview(data)
    start, size = 0, len(data)
    while start < size:
        end = data.find(b"\n", start) + 1 or size
        frame = check(view[start:end], key)
        if frame is not None:
            yield Piece(start, end, frame)
        else:
            yield from _bad_line(data, start, end, key)
        start = end


def examine(data: bytes, session_id: str) -> Recovery:
    """Apply the rules of recovery to the whole of a journal. Never raises for what the bytes hold."""
    found = list(pieces(data, session_id))
    durable = max((piece.frame.durable for piece in found if piece.frame), default=0)
    last_intact = _last_whole_line(found, data)
    fold = _Fold(data)
    fold.run(found, durable, last_intact)
    refusal = fold.refusal
    if data and last_intact < 0:
        refusal = _not_ours(data, session_id)
    return fold.result(durable, refusal)


def _last_whole_line(found: list[Piece], data: bytes) -> int:
    """Where the last intact record begins, -1 if there is none.

    A record without its newline counts only where another is intact behind it; else a write was cut short, and keeping
    the record would glue the next append to its line. Such records are marked in `found`.
    """
    for index in range(len(found) - 1, -1, -1):
        piece = found[index]
        if piece.frame is None:
            continue
        if data[piece.end - 1 : piece.end] == b"\n":
            return piece.start
        found[index] = Piece(piece.start, piece.end, piece.frame, "an unfinished record")
    return -1


@attrs.define
class _Fold:
    """Walks the pieces. `pending`: the records of a batch that has not seen its commit."""

    data: bytes
    next_seq: int = 0
    epoch: int = 0
    good_bytes: int = 0
    committed_seq: int = 0
    header: Header | None = None
    records: list[bytes] = attrs.field(factory=list)
    pending: list[bytes] = attrs.field(factory=list)
    damage: list[Damage] = attrs.field(factory=list)
    refusal: str | None = None

    def run(self, found: list[Piece], durable: int, last_intact: int) -> None:
        """`last_intact`: where the last intact record begins; a fault before it is never a torn tail."""
        for piece in found:
            frame = piece.frame
            fault = piece.fault or self._out_of_place(frame)
            if frame is not None and not fault:
                self._take(piece, frame)
                continue
            seq = frame.seq if frame is not None and not piece.fault else self.next_seq
            if seq < durable or piece.start < last_intact:
                self._damaged(piece.start, piece.end, fault)
            elif piece.is_foreign:
                found_line = (
                    f"found a whole JSON line without one at byte {piece.start}: another program wrote to this file"
                )
                self.refusal = f"expected a frame on every line, {found_line}. {_IMPORT}"
        if self.committed_seq < durable and not self.damage:
            missing = f"records {self.committed_seq} to {durable - 1} were acknowledged and are missing"
            self._damaged(self.good_bytes, len(self.data), missing)

    def _out_of_place(self, frame: Frame | None) -> str:
        if frame is None:
            return "no record"
        if frame.seq < self.next_seq:
            return f"record {frame.seq} again, where {self.next_seq} was expected"
        if frame.epoch < self.epoch:
            return f"record {frame.seq} of epoch {frame.epoch}, after one of epoch {self.epoch}"
        return ""

    def _take(self, piece: Piece, frame: Frame) -> None:
        if frame.seq > self.next_seq and not (self.damage and self.damage[-1].end == piece.start):
            self._damaged(piece.start, piece.start, f"records {self.next_seq} to {frame.seq - 1} are missing")
        line = self.data[piece.start : piece.end]
        content = body(line if line[-1:] == b"\n" else line + b"\n")
        if frame.seq == 0:
            self._take_header(content)
        else:
            self.pending.append(content)
        self.next_seq, self.epoch = frame.seq + 1, frame.epoch
        if frame.commits:
            self.records += self.pending
            self.pending.clear()
            self.good_bytes, self.committed_seq = piece.end, self.next_seq

    def _take_header(self, content: bytes) -> None:
        try:
            self.header = msgspec.json.decode(content, type=Header)
        except _UNREADABLE as error:
            self.refusal = f"expected a session header as record 0, found {content[:80]!r}: {error}"
            return
        self.refusal = _refused_header(self.header.version, self.header.framing)

    def _damaged(self, start: int, end: int, reason: str) -> None:
        if self.damage and self.damage[-1].end == start and start < end:
            last = self.damage.pop()
            start, reason = last.start, last.reason
        self.damage.append(Damage(start, end, reason))

    def result(self, durable: int, refusal: str | None) -> Recovery:
        size = len(self.data)
        is_torn = (
            self.good_bytes < size and refusal is None and not (self.damage and self.damage[-1].end > self.good_bytes)
        )
        return Recovery(
            header=self.header if self.committed_seq else None,
            records=tuple(self.records),
            next_seq=self.committed_seq,
            epoch=self.epoch,
            durable=durable,
            good_bytes=self.good_bytes,
            torn=(self.good_bytes, size) if is_torn else None,
            damage=tuple(self.damage),
            refusal=refusal,
        )


def _bad_line(data: bytes, start: int, end: int, key: int) -> Iterator[Piece]:
    """The pieces of a line that does not check."""
    done = start
    for found in records_inside(data, start, end, key):
        if found.start > done:
            yield Piece(done, found.start, None, "bytes that are no record")
        done = found.end + (data[found.end : found.end + 1] == b"\n")
        yield Piece(found.start, done, found.frame)
    if done == start and _is_foreign(data, start, end):
        yield Piece(start, end, None, "a whole JSON line without a frame, written by another program", True)
    elif done < end:
        yield Piece(done, end, None, "bytes that are no record")


def _is_foreign(data: bytes, start: int, end: int) -> bool:
    """Is this a whole JSON object that never had a frame? A crash of ours cannot leave one."""
    if data[end - 1 : end] != b"\n":
        return False
    members = _members(data[start:end])
    return members is not None and "~" not in members


def _members(line: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except _UNREADABLE:
        return None


def _refused_header(version: int, framing: int | None) -> str | None:
    """Why a header of this version and framing is not for us to write behind."""
    if version > VERSION:
        return (
            f"expected a session of version {VERSION} or older, found version {version}: a newer program wrote it. "
            "Open it with that program, or with a newer sapwood"
        )
    if framing != FRAMING:
        return f"expected framing {FRAMING}, found {framing}: open it with the program that wrote it"
    return None


def _not_ours(data: bytes, session_id: str) -> str | None:
    """Why a file without any intact record is refused.

    None for one torn line that begins as our header does: that is what a crash during `create` leaves.
    """
    line, newline, _ = data.partition(b"\n")
    start = line[: len(_HEADER_START)]
    if not newline and start == _HEADER_START[: len(start)]:
        return None
    found = f"found {data[:80]!r}"
    try:
        header = msgspec.json.decode(line, type=Header)
    except _UNREADABLE:
        return f"expected a journal of session {session_id}, {found}. {_IMPORT}"
    if header.version > VERSION or header.framing not in (None, FRAMING):
        return _refused_header(header.version, header.framing)
    if header.framing is None:
        found = "found a session file without frames, as other programs write them"
    elif header.id != session_id:
        found = f"found the header of session {header.id}"
    return f"expected a journal of session {session_id}, {found}. {_IMPORT}"
