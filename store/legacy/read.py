"""Session files of other programs: plain JSONL of versions 1 to 3, whatever has happened to them.

Nothing is taken on trust and nothing raises: what cannot be kept is told with its line, and so is what had to be mended.
"""

from collections.abc import Iterator, Sequence

import msgspec

from store.entries import VERSION, Header
from store.legacy.frames import unframed
from store.legacy.header import Found, make_header, read_header
from store.legacy.lines import Item, Lost
from store.legacy.links import Links
from store.legacy.migrate import migrated
from store.legacy.report import Salvaged, Skipped
from store.legacy.salvage import KNOWN_TYPES, pieces
from store.records import Record

# So many places of a file are told one by one: a report has to fit into memory, whatever a file is.
_TOLD = 20_000
# Of every stream, and of no session file.
_EVENTS = frozenset({"agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_end"})


class Legacy(msgspec.Struct, frozen=True):
    """A session as a file of another program has it, in the shapes of version 3.

    header      None where the file is refused; `header_raw` has also the members that we do not know
    version     what the file said
    is_made     the file has no header: this one was made of what is left, and may lack id and folder
    records     in the order of the file; their bytes as they were where nothing had to change
    skipped     what is in the file and not in `records`
    salvaged    what is kept otherwise than it stood there
    refusal     why nothing is read: what was expected and found
    """

    header: Header | None
    header_raw: bytes
    version: int
    is_made: bool
    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]
    salvaged: tuple[Salvaged, ...]
    refusal: str | None = None


def read_legacy(data: bytes) -> Legacy:
    """What a session file holds. Never raises for what the bytes are; linear in their number."""
    found, notes = _told(data)
    framed = next((piece for piece in found if _is_framed_header(piece)), None)
    if isinstance(framed, Item):
        found, more = unframed(found, str(framed.head.id))
        notes += more
    items = [piece for piece in found if isinstance(piece, Item)]
    lost = [piece for piece in found if isinstance(piece, Lost)]
    headers = [item for item in items if item.is_header]
    refusal = _no_session(data, items, headers)
    if refusal is not None:
        return _refused(refusal)
    head = read_header(headers[0]) if headers else make_header(items, lost)
    if head.version > VERSION:
        return _refused(
            f"expected a session of version {VERSION} or older, found version {head.version}: a newer program wrote it. "
            "Open it with that program, or with a newer sapwood"
        )
    notes += _header_notes(head, headers, found)
    notes += [Skipped(piece.line, piece.offset, piece.reason) for piece in lost]
    links = Links(
        [migrated(piece, head.version) if isinstance(piece, Item) else piece for piece in found], head.version
    )
    records = tuple(links.records())
    notes = sorted([*notes, *links.notes], key=lambda note: (note.line, note.offset))
    return Legacy(
        header=head.header,
        header_raw=head.raw,
        version=head.version,
        is_made=head.is_made,
        records=records,
        skipped=tuple(note for note in notes if isinstance(note, Skipped)),
        salvaged=tuple(note for note in notes if isinstance(note, Salvaged)),
    )


def _told(data: bytes) -> tuple[list[Item | Lost], list[Skipped | Salvaged]]:
    """Entries and lost lines in the order of the file, and what was mended in them."""
    found: list[Item | Lost] = []
    notes: list[Skipped | Salvaged] = []
    told = 0
    for piece in pieces(data):
        if isinstance(piece, Item):
            found.append(piece)
            continue
        told += 1
        if told > _TOLD:
            continue
        if isinstance(piece, Lost):
            found.append(piece)
        else:
            notes.append(piece)
    if told > _TOLD:
        notes.append(Skipped(data.count(b"\n") + 1, len(data), f"{told - _TOLD} places more: see those before"))
    return found, notes


def _is_framed_header(piece: Item | Lost) -> bool:
    return isinstance(piece, Item) and piece.is_header and b'"framing"' in piece.raw


def _refused(refusal: str) -> Legacy:
    return Legacy(None, b"", 0, False, (), (), (), refusal)


def _no_session(data: bytes, items: Sequence[Item], headers: Sequence[Item]) -> str | None:
    """Why this is no session file."""
    types = {str(item.head.type) for item in items}
    if headers and not (types & _EVENTS and not types & {"message"}):
        return None
    if types & _EVENTS:
        return f"expected a session file, found a stream of events ({', '.join(sorted(types & _EVENTS))})"
    if any(item.head.type in KNOWN_TYPES and isinstance(item.head.timestamp, str) for item in items):
        return None
    expected = 'expected a session file: a line that begins with {"type":"session", and entries'
    if not data.strip():
        return f"{expected}; found nothing"
    return f"{expected}; found {data[:60]!r}"


def _header_notes(head: Found, headers: Sequence[Item], found: Sequence[Item | Lost]) -> Iterator[Skipped | Salvaged]:
    """What there is to say of the header and its place."""
    line, offset = (headers[0].line, headers[0].offset) if headers else (1, 0)
    for text in head.notes:
        yield Salvaged(line, offset, text)
    before = sum(1 for piece in found if isinstance(piece, Item) and headers and piece.offset < offset)
    if before:
        yield Salvaged(line, offset, f"the header stands behind {before} entries")
    for again in headers[1:]:
        yield Skipped(again.line, again.offset, "a second header")
