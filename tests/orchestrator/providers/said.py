"""What a test lets a model say, whatever the wire format."""

from collections.abc import Sequence
from typing import Any, Literal

import attrs
import msgspec

Json = dict[str, Any]
Call = tuple[str, str, str]
"""Id, name, JSON of the arguments."""
Stop = Literal["stop", "toolUse", "length"]


@attrs.frozen
class Said:
    """What a model says. `tokens`: input, output, cache read, cache write, reasoning. `piece`: characters of a delta."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    stop: Stop = "stop"
    tokens: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    piece: int = 7

    def pieces(self, text: str) -> list[str]:
        return [text[start : start + self.piece] for start in range(0, len(text), self.piece)]


def framed(values: Sequence[Json], *, named: bool) -> bytes:
    """`values` as events; `named` by their type."""
    return b"".join(_event(value, named=named) for value in values)


def _event(value: Json, *, named: bool) -> bytes:
    name = f"event: {value['type']}\n" if named and "type" in value else ""
    return name.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"
