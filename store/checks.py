"""What is wrong with a session's file, and what is left of it: the same reading for `check` and for `repair`."""

from collections.abc import Iterator, Sequence

import attrs
import msgspec

from store.frame import body
from store.legacy.lines import Item, head_of
from store.legacy.links import Links
from store.legacy.report import Salvaged, Skipped
from store.records import Record
from store.recovery import Recovery, examine, pieces


class Gap(msgspec.Struct, frozen=True):
    """Bytes `offset` to `end` (not included) that hold no record; empty where records are missing between two others."""

    line: int
    offset: int
    end: int
    reason: str


class Check(msgspec.Struct, frozen=True):
    """A journal, looked at whole.

    header      the JSON object of record 0 as it is written; None where it is gone
    records     the entries that are intact and committed, linked as `salvaged` tells
    places      line and offset of each
    gaps        what is damaged
    torn        what a crash, or a writer who is at work, left behind the last commit; None for nothing
    """

    header: bytes | None
    records: tuple[Record, ...]
    places: tuple[tuple[int, int], ...]
    gaps: tuple[Gap, ...]
    salvaged: tuple[Salvaged | Skipped, ...]
    torn: Gap | None
    recovery: Recovery


def check_journal(data: bytes, session_id: str) -> Check:
    """Look at all of a journal of ours. Never raises for what the bytes hold."""
    recovery = examine(data, session_id)
    lines = _Lines(data)
    header, items = _placed(data, session_id, recovery, lines)
    links = Links(items, recovery.header.version if recovery.header else 3)
    records = tuple(links.records())
    torn = None
    if recovery.torn is not None:
        start, end = recovery.torn
        torn = Gap(lines.at(start), start, end, f"{end - start} bytes of a write that was cut off")
    return Check(
        header=header,
        records=records,
        places=tuple((item.line, item.offset) for item in links.items),
        gaps=tuple(Gap(lines.at(each.start), each.start, each.end, each.reason) for each in recovery.damage),
        salvaged=tuple(links.notes),
        torn=torn,
        recovery=recovery,
    )


def _placed(data: bytes, session_id: str, recovery: Recovery, lines: "_Lines") -> tuple[bytes | None, Sequence[Item]]:
    """The header and the entries that recovery took, with their places."""
    wanted = iter(recovery.records)
    header: bytes | None = None
    found: list[Item] = []
    record = next(wanted, None)
    for start, seq, content in _framed(data, session_id):
        if seq == 0:
            header = header or content
        elif content == record:
            head = head_of(content)
            if head is not None:
                found.append(Item(lines.at(start), start, content, head))
            record = next(wanted, None)
    return (header if recovery.header is not None else None), found


def _framed(data: bytes, session_id: str) -> Iterator[tuple[int, int, bytes]]:
    for piece in pieces(data, session_id):
        if piece.frame is not None and not piece.fault:
            line = data[piece.start : piece.end]
            yield piece.start, piece.frame.seq, body(line if line[-1:] == b"\n" else line + b"\n")


@attrs.define
class _Lines:
    """Line numbers of bytes; cheap where they are asked for in order."""

    data: bytes
    _offset: int = 0
    _line: int = 1

    def at(self, offset: int) -> int:
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self.data.count(b"\n", self._offset, offset)
        self._offset = offset
        return self._line
