"""The pane of events as lines: its head, then what happened, newest last."""

from datetime import datetime

from orchestrator.views.feed import FEED_TYPES
from orchestrator.views.screen.pane import Fed
from orchestrator.views.screen.state import Screen
from orchestrator.views.spans import Line, Span, filled
from orchestrator.views.states import STATES
from orchestrator.views.text import one_line

_NAME_CELLS, _KIND_CELLS = 16, 14


def pane_lines(screen: Screen, height: int) -> list[Line]:
    """Exactly `height` lines."""
    pane = screen.pane
    shown = pane.shown
    end = len(shown) - pane.back
    lines = [_line(screen, one, is_at=place == end - 1 and pane.back > 0) for place, one in enumerate(shown[:end])][
        -(height - 1) :
    ]
    if not lines:
        lines = [((" No events of these types yet.", "dim"),)]
    return [_head(screen), *lines, *[()] * (height - 1 - len(lines))]


def _head(screen: Screen) -> Line:
    pane, look = screen.pane, screen.look
    rule = look.signs.rule
    scope = "selected" if pane.scope is not None else "whole tree"
    left: list[Span] = [(f"{rule * 2} ", "dim"), ("events ", "bold"), (look.text(f"{scope} · "), "dim")]
    for number, kind in enumerate(FEED_TYPES, start=1):
        left.append((f"[{number} {kind}] ", "") if kind in pane.types else (f" {number} {kind}  ", "dim"))
    right: Line = ()
    if pane.held is not None:
        right = ((look.text(f" paused · {pane.new} new "), "bold yellow"),)
    return filled(tuple(left), right, screen.width, look.signs.cut)


def _line(screen: Screen, one: Fed, *, is_at: bool) -> Line:
    if not one.session_id:  # about the view itself
        return ((screen.look.text(f" {one.line.kind}: {one.line.text}"), "yellow"),)
    look, shown = screen.look, STATES.get(one.line.word, STATES["idle"])
    time = datetime.fromtimestamp(one.at).strftime("%H:%M:%S")
    mark = look.signs.mark if is_at else " "
    return (
        (mark, "bold yellow"),
        (f"{time} {one.seq:>6} ", "dim"),
        (f"{look.fit(one_line(one.name, 200), _NAME_CELLS)} ", ""),
        (f"{shown.mark(ascii=look.is_ascii)} {look.fit(one.line.kind, _KIND_CELLS)} ", shown.style),
        (look.text(one.line.text), ""),
    )
