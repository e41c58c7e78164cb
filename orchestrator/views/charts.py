"""Charts of a width, for a terminal: where the money went in one bar, and what happened when in lanes."""

from collections.abc import Iterator

from orchestrator.views.costs import CostNode, Costs
from orchestrator.views.grid import Look
from orchestrator.views.lanes import Bar, BarKind, Lane, Timeline
from orchestrator.views.money import duration, money
from orchestrator.views.spans import Line, Span, cut_line
from orchestrator.views.text import cells, fit, one_line
from store.errors import BadUsage
from store.usage import NOTHING, Spend, Usage, spend_of

_LABEL_CELLS = 18
_TENTHS_BELOW_MS = 20_000
_SHADES = ("black on_yellow", "black on_cyan", "black on_white", "black on_green", "black on_magenta")
_SIGNS: dict[BarKind, tuple[str, str, str]] = {
    "model": ("▇", "M", "blue"),
    "tool": ("▃", "t", "green"),
    "waiting": ("─", "-", "dim"),
    "retry": ("┊", ":", "yellow"),
    "compaction": ("≋", "%", "magenta"),
}
_STRENGTH: tuple[BarKind, ...] = ("waiting", "retry", "tool", "model", "compaction")
"""Where several fall into one cell the later one is drawn."""


def cost_bar(found: Costs, look: Look) -> list[Line]:
    """One stacked bar: the session's own part, then its children by cost, biggest first. Nothing without a known cost."""
    if not found.nodes:
        return []
    top = found.nodes[0]
    parts = [("own", _spend(top.own).total_pico)]
    children = sorted(_children(found, top), key=lambda node: -_spend(node.total).total_pico)
    parts += [(node.name, _spend(node.total).total_pico) for node in children]
    total = sum(pico for _, pico in parts)
    label = fit(f"cost {look.text(money(top.total))}", _LABEL_CELLS, look.signs.cut)
    room = look.width - cells(label) - 1
    if total <= 0 or room < 8:
        return [((label.rstrip(), ""),)]
    spans: list[Span] = [(label, ""), (" ", "")]
    done, drawn = 0, 0
    for place, (name, pico) in enumerate(parts):
        done += pico
        size = done * room // total - drawn
        if size <= 0:
            continue
        drawn += size
        text = look.fit(f" {one_line(name, 60)}", size) if not look.is_ascii else f"[{look.fit(name, size - 2)}]"[:size]
        spans.append((text, _SHADES[place % len(_SHADES)]))
    return [cut_line(tuple(spans), look.width, look.signs.cut)]


def _children(found: Costs, top: CostNode) -> Iterator[CostNode]:
    return (node for node in found.nodes if node.parent == top.session_id)


def _spend(usage: Usage | None) -> Spend:
    try:
        return NOTHING if usage is None else spend_of(usage)
    except BadUsage:
        return NOTHING


def lane_lines(found: Timeline, look: Look, most: int) -> list[Line]:
    """A lane per agent on one clock, and the clock below them."""
    lanes = found.lanes[:most]
    bars = [bar for lane in lanes for bar in lane.bars]
    room = look.width - _LABEL_CELLS - 1
    if not bars or room < 8:
        return []
    begin, end = min(lane.begin_ms for lane in lanes), max(bar.end_ms for bar in bars)
    scale = max(1, end - begin)
    lines = [_lane(lane, look, room, begin, scale) for lane in lanes]
    left = len(found.lanes) - len(lanes) + found.left_out
    more = f"+{left} more" if left else ""
    return [*lines, _clock(look, room, scale, more)]


def _lane(lane: Lane, look: Look, room: int, begin: int, scale: int) -> Line:
    drawn: list[BarKind | None] = [None] * room
    for bar in sorted(lane.bars, key=lambda bar: _STRENGTH.index(bar.kind)):
        first, last = _cells_of(bar, room, begin, scale)
        drawn[first:last] = [bar.kind] * (last - first)
    spans: list[Span] = [(look.fit(lane.name, _LABEL_CELLS), "dim"), (" ", "")]
    for kind in drawn:
        text, style = (" ", "") if kind is None else (_SIGNS[kind][look.is_ascii], _SIGNS[kind][2])
        if spans[-1][1] == style and len(spans) > 2:
            spans[-1] = (spans[-1][0] + text, style)
        else:
            spans.append((text, style))
    return tuple(spans)


def _cells_of(bar: Bar, room: int, begin: int, scale: int) -> tuple[int, int]:
    """From and up to which cell; what took time has at least one."""
    first = min(room - 1, max(0, (bar.start_ms - begin) * room // scale))
    return first, max(first + 1, min(room, (bar.end_ms - begin) * room // scale))


def _clock(look: Look, room: int, scale: int, more: str) -> Line:
    marks = [" "] * room
    step = max(1, room // 5)
    for place in range(0, room, step):
        ms = scale * place // room
        text = f"{ms / 1000:.1f}s" if scale < _TENTHS_BELOW_MS else duration(ms)
        if place + len(text) <= room:
            marks[place : place + len(text)] = text
    legend = " ".join(f"{_SIGNS[kind][look.is_ascii]} {kind}" for kind in ("model", "tool", "waiting", "retry"))
    clock = "".join(marks)
    line: list[Span] = [(look.fit(more, _LABEL_CELLS), "dim"), (" ", "")]
    if room > len(legend) + 30:
        return (*line, (clock[: room - len(legend) - 1] + " ", "dim"), (legend, "dim"))
    return (*line, (clock, "dim"))
