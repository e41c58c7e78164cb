"""What is open inside of one session of a stream: content blocks, a message, calls of tools."""

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


@attrs.define
class OpenCall:
    place: int
    started: int = 0
    is_ended: bool = False
    is_answered: bool = False
