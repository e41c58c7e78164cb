"""Deltas of one block that wait to be sent, joined into one: the same text in fewer lines."""

from collections.abc import Iterable

import attrs
import msgspec

from store.events import MessageUpdate, Place, TextDelta, ThinkingDelta, ToolcallDelta
from store.lines import Tags, event_tail, line_tags, read_line, tagged

_DELTAS = (TextDelta, ThinkingDelta, ToolcallDelta)


@attrs.frozen
class Waiting:
    """A line that waits. `root_id`: of its tree; None: a line of the connection, which is never touched."""

    line: bytes
    root_id: str | None


@attrs.define
class _Block:
    """Deltas of one block, nothing else of their session between them. `place`: of the last one among the lines."""

    key: tuple[int, str, int]
    place: int
    pieces: list[tuple[Tags, MessageUpdate]]


def joined(waiting: Iterable[Waiting]) -> list[Waiting]:
    """The joined line stands where the last of its pieces stood and has its number. Lines keep their order."""
    kept: list[Waiting | None] = []
    open_blocks: dict[str, _Block] = {}
    blocks: list[_Block] = []
    for one in waiting:
        kept.append(one)
        if one.root_id is None:
            continue
        kind, session, _ = line_tags(one.line)
        piece = read_line(one.line) if kind == "message_update" else None
        key = None if piece is None else _key(piece[1])
        block = open_blocks.get(session)
        if piece is None or key is None or not isinstance(piece[1], MessageUpdate):
            open_blocks.pop(session, None)
        elif block is not None and block.key == key:
            kept[block.place] = None
            block.place = len(kept) - 1
            block.pieces.append((piece[0], piece[1]))
        else:
            open_blocks[session] = _Block(key, len(kept) - 1, [(piece[0], piece[1])])
            blocks.append(open_blocks[session])
    for block in blocks:
        last = kept[block.place]
        if len(block.pieces) > 1 and last is not None:
            kept[block.place] = Waiting(_line(block.pieces), last.root_id)
    return [one for one in kept if one is not None]


def _key(event: object) -> tuple[int, str, int] | None:
    if not isinstance(event, MessageUpdate) or not isinstance(event.assistant_message_event, _DELTAS):
        return None
    inner = event.assistant_message_event
    return event.message_id, type(inner).__name__, inner.content_index


def _line(pieces: list[tuple[Tags, MessageUpdate]]) -> bytes:
    tags, last = pieces[-1]
    text = "".join(update.assistant_message_event.delta for _, update in pieces)  # type: ignore[union-attr]
    usage = next((update.usage for _, update in reversed(pieces) if update.usage is not None), None)
    inner = msgspec.structs.replace(last.assistant_message_event, delta=text)
    kind, tail = event_tail(msgspec.structs.replace(last, usage=usage, assistant_message_event=inner))
    return tagged(tail, kind, Place(tags.session_id, "", None, 0), tags.seq, tags.at)
