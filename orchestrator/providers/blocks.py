"""The blocks of one reply, where the provider says to which of them a piece belongs."""

from collections.abc import Hashable, Iterator
from typing import Literal

import attrs

from actors.protocol.model import BlockEnded, CallArguments, CallStarted, Chunk, TextChunk, ThinkingChunk
from orchestrator.providers.text import Halves, is_object

Kind = Literal["text", "thinking", "call"]


@attrs.define
class _Block:
    """`index` is its place in the content, from its first piece on: one that stays empty takes none."""

    kind: Kind
    pieces: list[str] = attrs.field(factory=list)
    index: int | None = None
    is_ended: bool = False
    halves: Halves = attrs.field(factory=Halves)

    @property
    def said(self) -> str:
        return "".join(self.pieces)


@attrs.define
class Blocks:
    """Blocks by the provider's key. A key that opens again is another block; what belongs to none is left out."""

    call_id_prefix: str
    has_calls: bool = attrs.field(default=False, init=False)
    _by_key: dict[Hashable, _Block] = attrs.field(factory=dict, init=False)
    _told: list[_Block] = attrs.field(factory=list, init=False)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def said(self, key: Hashable) -> str:
        """What has come of the block, as it came: text, or JSON."""
        return self._by_key[key].said if key in self._by_key else ""

    def open(self, key: Hashable, kind: Kind) -> Iterator[Chunk]:
        """A block of text or thinking begins."""
        yield from self.end(key)
        self._by_key[key] = _Block(kind)

    def open_call(self, key: Hashable, id: str, name: str) -> Iterator[Chunk]:
        yield from self.end(key)
        block = self._by_key[key] = _Block("call")
        self.has_calls = True
        index = self._place(block)
        yield CallStarted(index, id or f"{self.call_id_prefix}_{index + 1}", name)

    def grow(self, key: Hashable, piece: str, kind: Kind | None = None) -> Iterator[Chunk]:
        """A piece more. With a `kind` it also opens a block that never began, or that is another one."""
        if kind is not None and (key not in self._by_key or self._by_key[key].kind != kind):
            yield from self.open(key, kind)
        block = self._by_key.get(key)
        if block is not None and not block.is_ended:
            yield from self._piece(block, piece, block.halves.joined(piece))

    def sign(self, key: Hashable, signature: str) -> Iterator[Chunk]:
        """What the provider wants back with a block of thinking, which may be all that there is of it."""
        block = self._by_key.get(key)
        if block is not None and block.kind == "thinking" and not block.is_ended:
            yield ThinkingChunk(self._place(block), "", signature)

    def end(self, key: Hashable) -> Iterator[Chunk]:
        """The provider says that the block is whole. A call that is no JSON object may still have been cut: that is
        known at the end of the reply."""
        block = self._by_key.get(key)
        if block is not None and (block.kind != "call" or is_object(block.said)):
            yield from self._ended(block)

    def end_all(self, *, is_cut: bool) -> Iterator[Chunk]:
        """The reply is over. `is_cut`: by the token limit, so that a call may be half a call; it is left as it is."""
        for block in self._told:
            if block.kind != "call" or not is_cut or is_object(block.said):
                yield from self._ended(block)

    def _ended(self, block: _Block) -> Iterator[Chunk]:
        if block.is_ended or block.index is None:
            return
        yield from self._piece(block, "", block.halves.rest())
        if block.kind == "call" and not block.said.strip():
            yield CallArguments(block.index, "{}")
        block.is_ended = True
        yield BlockEnded(block.index)

    def _piece(self, block: _Block, raw: str, text: str) -> Iterator[Chunk]:
        block.pieces.append(raw)
        if not text:
            return
        index = self._place(block)
        match block.kind:
            case "text":
                yield TextChunk(index, text)
            case "thinking":
                yield ThinkingChunk(index, text)
            case "call":
                yield CallArguments(index, text)

    def _place(self, block: _Block) -> int:
        if block.index is None:
            block.index = len(self._told)
            self._told.append(block)
        return block.index
