"""The keys: a line of the ones that matter most, and all of them on a page."""

from orchestrator.views.screen.state import Screen
from orchestrator.views.spans import Line, line_cells

_LIST = (
    ("↑↓", "move"),
    ("←→", "fold"),
    ("⏎", "open"),
    ("space", "peek"),
    ("m", "message"),
    ("s", "steer"),
    ("x", "abort"),
    ("/", "filter"),
    ("n", "next issue"),
    ("o", "order"),
    ("e", "events"),
    ("?", "keys"),
    ("q", "quit"),
)
_PANE = (
    ("p", "hold"),
    ("1-6", "types"),
    ("⏎", "go to agent"),
    ("w", "whole or selected"),
    ("↑↓", "move"),
    ("esc", "back"),
)
_DETAIL = (("←→", "tabs"), ("↑↓", "scroll"), ("m", "message"), ("s", "steer"), ("x", "abort"), ("esc", "back"))
_ALL = (
    ("↑↓ j k, pages, g G", "move, to the ends"),
    ("← →", "fold and unfold, to the parent, to the first child"),
    ("0–9", "fold to a depth; 0 opens all"),
    ("⏎, space, esc", "open, peek, back"),
    ("m, s", "message (or answer), steer: goes in before the next model call"),
    ("x, X", "abort the run, stop the session: both ask first"),
    ("r, A, u", "rename, archive, undo"),
    ("/, f", "filter: words, status:failed model:haiku depth:2 cost>0.5 tokens>100k ctx>80 quiet>2m; next chip"),
    ("n N", "next and previous issue, opening folds on the way"),
    ("o", "order: spawned, total, own, time, context, name"),
    ("e", "events; there: p holds, 1–6 types, w scope, ⏎ to the agent"),
    ("a", "ended trees, shown or not"),
    ("t", "try now to reach a host that does not answer"),
    ("y", "copy the id"),
    ("?, q", "this page, quit: that never ends an agent"),
)
_IN_ASCII = (("↑↓", "up/down"), ("←→", "left/right"), ("← →", "left/right"), ("⏎", "enter"), ("–", "-"))


def footer(screen: Screen) -> Line:
    """As many keys as there is room for."""
    keys = _DETAIL if screen.mode == "detail" else _PANE if screen.is_pane_open else _LIST
    line: list[tuple[str, str]] = [(" ", "")]
    for key, what in keys:
        more = [*([("  ", "")] if len(line) > 1 else []), (_shown(key, screen), "bold yellow"), (f" {what}", "dim")]
        if line_cells((*line, *more)) > screen.width - 1:
            break
        line += more
    return tuple(line)


def help_lines(screen: Screen) -> list[Line]:
    lines: list[Line] = [((" Keys", "bold"),), ()]
    for key, what in _ALL:
        shown = _shown(key, screen)
        lines.append(((f" {shown:<22}", "bold yellow"), (screen.look.text(what), "")))
    return [*lines, (), ((" Any key goes back.", "dim"),)]


def _shown(key: str, screen: Screen) -> str:
    if screen.is_ascii:
        for sign, instead in _IN_ASCII:
            key = key.replace(sign, instead)
    return key
