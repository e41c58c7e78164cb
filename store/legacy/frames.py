"""A journal of sapwood that is read as a plain file: its frames are checked and left out."""

from collections.abc import Sequence

import msgspec

from store.frame import FRAME_BYTES, Frame, body, check, seed
from store.legacy.lines import Item, Lost
from store.legacy.report import Salvaged

_START = b',"~":"'


def unframed(pieces: Sequence[Item | Lost], session_id: str) -> tuple[list[Item | Lost], list[Salvaged]]:
    """`pieces` without frames, and what is wrong with those. A batch at the end that was not finished is lost."""
    key = seed(session_id)
    found: list[Item | Lost] = []
    notes: list[Salvaged] = []
    committed = 0
    for piece in pieces:
        frame: Frame | None = None
        if isinstance(piece, Item):
            line = piece.raw + b"\n"
            if line[-FRAME_BYTES:].startswith(_START):
                frame = check(line, key)
                piece = msgspec.structs.replace(piece, raw=body(line))
                if frame is None:
                    notes.append(Salvaged(piece.line, piece.offset, "its checksum does not match: it was changed"))
            else:
                notes.append(Salvaged(piece.line, piece.offset, "it has no frame: another program wrote it"))
        found.append(piece)
        if frame is None or frame.commits:
            committed = len(found)
    return found[:committed] + [_unfinished(piece) for piece in found[committed:]], notes


def _unfinished(piece: Item | Lost) -> Lost:
    if isinstance(piece, Lost):
        return piece
    return Lost(piece.line, piece.offset, "it belongs to a batch that was not finished", piece.raw[:512])
