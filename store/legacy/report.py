"""What a reading of somebody else's file tells of it: what was left out, and what was kept and how."""

import msgspec


class Skipped(msgspec.Struct, frozen=True):
    """Bytes that hold no entry. `line` counts from 1; `offset`: their first byte in the file."""

    line: int
    offset: int
    reason: str


class Salvaged(msgspec.Struct, frozen=True):
    """An entry, or a link of one, that is kept otherwise than it stood there."""

    line: int
    offset: int
    what: str
