"""Which columns a width has, and how many cells each of them."""

from typing import Literal

import msgspec

Name = Literal[
    "name",
    "status",
    "glyph",
    "doing",
    "model",
    "own",
    "total",
    "tokens",
    "own_tokens",
    "context",
    "turns",
    "retry",
    "queue",
    "last",
    "time",
    "agents",
]
_MOST_DOING = 60
MIN_WIDTH, MIN_HEIGHT = 40, 8
_MARK = 1


class Column(msgspec.Struct, frozen=True):
    """`cells` wide, with one space between columns. `is_right`: figures stand at the right end."""

    name: Name
    head: str
    cells: int
    is_right: bool = False


_NARROW = (
    Column("name", "Name", 0),
    Column("glyph", "", 1),
    Column("total", "Total", 8, True),
    Column("time", "Time", 6, True),
)
_AT_80 = (
    Column("name", "Name", 21),
    Column("status", "Status", 13),
    Column("doing", "Doing", 16),
    Column("total", "Total", 8, True),
    Column("context", "Ctx", 4, True),
    Column("time", "Time", 6, True),
    Column("agents", "Below", 5, True),
)
_AT_120 = (
    Column("name", "Name", 22),
    Column("status", "Status", 15),
    Column("doing", "Doing", 23),
    Column("model", "Model", 8),
    Column("own", "Own", 6, True),
    Column("total", "Total", 8, True),
    Column("tokens", "Tokens", 6, True),
    Column("context", "Context", 9, True),
    Column("time", "Time", 7, True),
    Column("agents", "Agents", 6, True),
)
_AT_200 = (
    Column("name", "Name", 30),
    Column("status", "Status", 15),
    Column("doing", "Doing", 51),
    Column("model", "Model", 14),
    Column("own", "Own", 7, True),
    Column("total", "Total", 9, True),
    Column("tokens", "Tokens", 7, True),
    Column("own_tokens", "Own tok", 7, True),
    Column("context", "Context", 10, True),
    Column("turns", "Turns", 5, True),
    Column("retry", "Retry", 5, True),
    Column("queue", "Queue", 5, True),
    Column("last", "Last", 6, True),
    Column("time", "Time", 7, True),
    Column("agents", "Agents", 7, True),
)


def columns(width: int) -> tuple[Column, ...]:
    """The columns of a terminal `width` wide, which they fill: what is left goes to Doing, up to 60 cells, then to Name."""
    chosen = next(
        found for least, found in ((200, _AT_200), (120, _AT_120), (80, _AT_80), (0, _NARROW)) if width >= least
    )
    left = width - _MARK - sum(column.cells for column in chosen) - (len(chosen) - 1)
    doing = next((column.cells for column in chosen if column.name == "doing"), _MOST_DOING)
    for_doing = min(left, _MOST_DOING - doing)
    more = {"doing": for_doing, "name": left - for_doing}
    return tuple(
        msgspec.structs.replace(column, cells=max(1, column.cells + more.get(column.name, 0))) for column in chosen
    )


def too_small(width: int, height: int) -> str:
    """What to say instead of rows; empty where they fit."""
    if width >= MIN_WIDTH and height >= MIN_HEIGHT:
        return ""
    return f"sapwood agents needs {MIN_WIDTH} columns and {MIN_HEIGHT} lines; this terminal has {width} × {height}."
