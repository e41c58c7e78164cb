"""What is open inside of one session of a stream: content blocks, a message, calls of tools."""

from collections.abc import Iterator
from typing import Any

import attrs
import msgspec


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@attrs.define
class Block:
    """A content block of the open message: its deltas, then the content of its end."""

    kind: str
    parts: list[str] = attrs.field(factory=list)
    is_open: bool = True

    def differs(self, content: Any, is_native: bool) -> bool:
        """Whether the deltas do not join to this content: a string, or a tool call."""
        joined = "".join(self.parts)
        if self.kind != "toolcall":
            return bool(joined != content) and (is_native or bool(self.parts))
        arguments = as_dict(content).get("arguments")
        if not joined.strip():
            return is_native and arguments != {}
        try:
            sent = msgspec.json.decode(joined)
        except (msgspec.DecodeError, RecursionError):
            sent = None
        if isinstance(sent, dict):
            return bool(sent != arguments)
        return is_native and (arguments != {} or "argumentsError" not in content)

    def content_of(self, block: dict[str, Any]) -> Any:
        """What of a message's block stands against this one; None where the kinds differ."""
        if block.get("type") != {"toolcall": "toolCall"}.get(self.kind, self.kind):
            return None
        return block if self.kind == "toolcall" else block.get(self.kind)


@attrs.define
class OpenMessage:
    line: int
    role: str
    id: int | None
    first: dict[str, Any]
    blocks: dict[int, Block] = attrs.field(factory=dict)

    def update(self, update: dict[str, Any], is_native: bool) -> str | None:
        """Take an update of a block; what is wrong with it, if anything."""
        kind, _, step = str(update.get("type")).partition("_")
        if kind not in {"text", "thinking", "toolcall"} or step not in {"start", "delta", "end"}:
            return None
        place, blocks = update.get("contentIndex"), self.blocks
        block = blocks.get(place) if isinstance(place, int) else None
        if step == "start":
            if not isinstance(place, int) or place <= max(blocks, default=-1):
                return f"{kind}_start at contentIndex {place!r}, where a block has been"
            blocks[place] = Block(kind)
        elif block is None or not block.is_open or block.kind != kind:
            return f"{kind}_{step} at contentIndex {place!r}, where no {kind} block is open"
        elif step == "delta":
            block.parts.append(str(update.get("delta")))
        else:
            block.is_open = False
            if block.differs(update.get("toolCall" if kind == "toolcall" else "content"), is_native):
                return f"the deltas at contentIndex {place} do not join to what {kind}_end says"
        return None

    def ended(self, content: list[Any], is_cut: bool, is_native: bool) -> Iterator[str]:
        """What is wrong with this as its content in the end, `is_cut`: where the answer was not finished."""
        for place, block in self.blocks.items():
            final = block.content_of(as_dict(content[place])) if place < len(content) else None
            if block.is_open and not is_cut:
                yield f"message_end while the {block.kind} block at contentIndex {place} is open"
            elif (final is None and is_cut) or (block.is_open and block.kind == "toolcall"):
                continue
            elif final is None or block.differs(final, is_native):
                yield f"message_end has another content at contentIndex {place} than the updates"
        if self.blocks and not is_cut and len(content) != len(self.blocks):
            yield f"message_end has {len(content)} content blocks, the updates had {len(self.blocks)}"


@attrs.define
class OpenCall:
    place: int
    started: int = 0
    is_ended: bool = False
    is_answered: bool = False
