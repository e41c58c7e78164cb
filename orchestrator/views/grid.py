"""The rows of a forest as lines for a width: one drawing for the list, the live view and pictures."""

from collections.abc import Callable, Sequence

import attrs

from orchestrator.views.columns import Column, columns
from orchestrator.views.context import bar, context_text, is_full, percent
from orchestrator.views.doing_text import doing, seconds_since
from orchestrator.views.money import duration, money, spent_tokens, tokens
from orchestrator.views.outline import Folding, Item, outline
from orchestrator.views.pulse import Pulse
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import Signs, plain, signs, title
from orchestrator.views.spans import Line, Span, restyled
from orchestrator.views.text import ascii_text, cells, cut, fit, fit_right, one_line
from store.usage import usage_of

_LEAST_NAME = 3


@attrs.frozen
class Look:
    """How lines are drawn. `now` in Unix seconds. `is_frozen`: a row counts no further than it is known, as its host is lost."""

    width: int
    now: float
    is_ascii: bool = False
    is_frozen: bool = False

    @property
    def signs(self) -> Signs:
        return signs(ascii=self.is_ascii)

    def now_of(self, row: AgentRow) -> float:
        """The time up to which things are known of a row."""
        pulse = row.pulse if self.is_frozen else None
        return min(self.now, pulse.as_of_ms / 1000) if isinstance(pulse, Pulse) else self.now

    def text(self, text: str) -> str:
        """Text of ours or of others in what the terminal can show."""
        return ascii_text(plain(text, ascii=True)) if self.is_ascii else text

    def fit(self, text: str, size: int, *, is_right: bool = False) -> str:
        return (fit_right if is_right else fit)(self.text(text), size, self.signs.cut)


def grid(items: Sequence[Item], look: Look, selected: str | None = None) -> list[Line]:
    """A head and one line per item, each as wide as the terminal."""
    shown = columns(look.width)
    head = " ".join(look.fit(column.head, column.cells, is_right=column.is_right) for column in shown)
    return [((f" {head}", "dim"),), *(item_line(item, shown, look, is_selected=item.key == selected) for item in items)]


def list_lines(rows: Sequence[AgentRow], look: Look) -> list[Line]:
    """All rows, nothing folded: for a list that is printed once."""
    return grid(outline(rows, Folding(depth=None, many=None)), look)


def item_line(item: Item, shown: Sequence[Column], look: Look, *, is_selected: bool = False) -> Line:
    line: list[Span] = [(look.signs.mark if is_selected else " ", "bold yellow" if is_selected else "")]
    for place, column in enumerate(shown):
        line += [(" ", "")] if place else []
        line += _name(item, column, look) if column.name == "name" else [_cell(item, column, look)]
    if is_selected:
        return (line[0], *((text, _lit(style)) for text, style in line[1:]))
    return restyled(tuple(line), "dim") if item.is_dim else tuple(line)


def _lit(style: str) -> str:
    """A selected row is bold and nowhere dim, so that it is read on every background."""
    return " ".join(["bold", *(word for word in style.split() if word not in {"dim", "bold"})])


def _name(item: Item, column: Column, look: Look) -> list[Span]:
    drawn = look.signs
    guide = guide_of(item, drawn)
    sign = {True: drawn.is_open, False: drawn.is_closed, None: "" if item.level else "  "}[item.is_open]
    issues = f" !{item.hidden_issues}" if item.hidden_issues else ""
    name = (
        title(item.row) if item.row is not None else f"{len(item.group.rows)} {item.state.word}" if item.group else ""
    )
    style = "dim" if item.group is not None else "bold" if item.level == 0 else ""
    room = column.cells - cells(guide) - cells(sign) - cells(issues)
    if room < _LEAST_NAME:  # so deep that nothing of the name would be left
        return [(look.fit(f"{drawn.cut}{name}", column.cells), style)]
    shown = cut(look.text(name), room, drawn.cut)
    rest = " " * (room - cells(shown))
    return [(guide, "dim"), (sign, "dim"), (shown, style), (issues, "bold red"), (rest, "")]


def guide_of(item: Item, drawn: Signs) -> str:
    """The lines that lead to a row from its parent; empty for roots."""
    if not item.is_last:
        return ""
    through = "".join("  " if is_last else drawn.through for is_last in item.is_last[:-1])
    return through + (drawn.last if item.is_last[-1] else drawn.branch)


def _cell(item: Item, column: Column, look: Look) -> Span:
    if item.row is None:
        text, style = _group_cell(item, column, look)
    else:
        text, style = _CELLS[column.name](item.row, column, look)
    return look.fit(text, column.cells, is_right=column.is_right), style


def _group_cell(item: Item, column: Column, look: Look) -> Span:
    group = item.group
    assert group is not None
    total = usage_of(group.total)
    match column.name:
        case "status" | "glyph":
            return _state_text(item.state.mark(ascii=look.is_ascii), item.state.word, column), item.state.style
        case "doing":
            return "folded together", "dim"
        case "model":
            return _last_part(group.model), "dim"
        case "total":
            return money(total), "dim"
        case "tokens":
            return tokens(spent_tokens(total)), "dim"
    return "", ""


def _state_text(mark: str, word: str, column: Column) -> str:
    return mark if column.name == "glyph" else f"{mark} {word}"


def _status(row: AgentRow, column: Column, look: Look) -> Span:
    shown = row.state
    word = shown.short if column.cells < cells(shown.word) + 2 else shown.word
    return _state_text(shown.mark(ascii=look.is_ascii), word, column), shown.style


def _doing(row: AgentRow, column: Column, look: Look) -> Span:
    shown = row.state
    style = shown.style if shown.is_issue else "" if shown.is_working else "dim"
    return doing(row, look.now_of(row)), style


def _model(row: AgentRow, column: Column, look: Look) -> Span:
    return _last_part(row.model) or look.signs.absent, "dim"


def _last_part(model: str | None) -> str:
    return one_line(model or "", 120).rpartition("/")[2]


def _context(row: AgentRow, column: Column, look: Look) -> Span:
    found = percent(row)
    text = context_text(row)
    style = "bold yellow" if is_full(row) else "dim"
    size = column.cells - 5
    if size <= 0 or found is None:
        return text, style
    return f"{bar(found / 100, size, look.signs)} {fit_right(text, 4)}", style


def _agents(row: AgentRow, column: Column, look: Look) -> Span:
    return f"{row.working}/{row.descendants}" if row.descendants else "", "dim"


def _last_event(row: AgentRow, column: Column, look: Look) -> Span:
    ago_s = seconds_since(row.last_event_at, look.now_of(row))
    return duration(None if ago_s is None else max(0, ago_s) * 1000), "dim"


def _total(row: AgentRow, column: Column, look: Look) -> Span:
    return money(row.total), "bold" if row.descendants else ""


_CELLS: dict[str, Callable[[AgentRow, Column, Look], Span]] = {
    "status": _status,
    "glyph": _status,
    "doing": _doing,
    "model": _model,
    "own": lambda row, column, look: (money(row.own), "dim"),
    "total": _total,
    "tokens": lambda row, column, look: (tokens(spent_tokens(row.total)), "dim"),
    "own_tokens": lambda row, column, look: (tokens(spent_tokens(row.own)), "dim"),
    "context": _context,
    "turns": lambda row, column, look: (look.signs.absent if row.turns is None else str(row.turns), "dim"),
    "retry": lambda row, column, look: (f"{row.retry.attempt}/{row.retry.of}" if row.retry else "", "yellow"),
    "queue": lambda row, column, look: (str(row.queued) if row.queued else "", ""),
    "last": _last_event,
    "time": lambda row, column, look: (duration(row.elapsed_ms), "dim"),
    "agents": _agents,
}
