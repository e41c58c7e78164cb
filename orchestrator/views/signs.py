"""What lines are drawn with, in Unicode and in ASCII, and what a session is called."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.rows import AgentRow
from orchestrator.views.text import one_line
from store.ids import short


class Signs(msgspec.Struct, frozen=True):
    """`cut` ends what was cut. `full` and `empty` make bars; `mark` stands before the selected row."""

    branch: str = "├ "
    last: str = "└ "
    through: str = "│ "
    cut: str = "…"
    absent: str = "–"
    is_open: str = "▾ "
    is_closed: str = "▸ "
    mark: str = "▌"
    full: str = "━"
    half: str = "╍"
    empty: str = "╌"
    rule: str = "─"


UNICODE = Signs()
ASCII = Signs("| ", "` ", "| ", ".", "-", "v ", "> ", ">", "#", "=", "-", "-")
_IN_ASCII = (("≥ ", ">="), ("≥", ">="), ("–", "-"), ("…", "..."), ("·", "|"), ("↯", "!"), ("▾", "v"))


def signs(*, ascii: bool) -> Signs:
    return ASCII if ascii else UNICODE


def plain(text: str, *, ascii: bool) -> str:
    """Text of ours with the signs of money and of cutting in ASCII, if so asked."""
    if not ascii:
        return text
    for sign, instead in _IN_ASCII:
        text = text.replace(sign, instead)
    return text


def guides(rows: Sequence[AgentRow], drawn: Signs = UNICODE) -> list[str]:
    """The lines that lead to each row from its parent; empty for roots."""
    found: list[str] = []
    top = min((row.depth for row in rows), default=0)
    # From below: which depths still have a row to come under the same parent.
    open_depths: set[int] = set()
    for row in reversed(rows):
        level = row.depth - top
        if level == 0:
            open_depths.clear()
            found.append("")
            continue
        through = "".join(drawn.through if depth in open_depths else "  " for depth in range(1, level))
        found.append(through + (drawn.branch if level in open_depths else drawn.last))
        open_depths = {depth for depth in open_depths if depth < level} | {level}
    found.reverse()
    return found


def title(row: AgentRow) -> str:
    """What a session is called: its name, else the first words of what it is about, else its short id."""
    return one_line(row.name or "", 200) or one_line(row.summary or "", 200) or short(row.session_id)
