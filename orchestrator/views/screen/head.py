"""The two lines on top: which tree, how many of what, what it has cost, and whether all this is live."""

import msgspec

from orchestrator.views.chips import chip_counts
from orchestrator.views.context import bar
from orchestrator.views.grid import Look
from orchestrator.views.money import dollars, duration, money, spent_tokens, tokens
from orchestrator.views.outline import Forest
from orchestrator.views.pulse import Pulse
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.state import Lost, Screen
from orchestrator.views.signs import title
from orchestrator.views.spans import Line, Span, filled, joined
from orchestrator.views.states import STATES
from orchestrator.views.text import count, cut, one_line
from store.errors import BadUsage
from store.usage import pico_usd, spend_of

_WIDE = 100
_NAME_CELLS = 30
_CHIP_SIGNS = {"running": "running", "waiting": "waiting", "ended": "completed"}
_MINUTE_MS = 60_000
_BAR_CELLS = (13, 26)
_UNLIMITED = 2


def head(screen: Screen) -> list[Line]:
    look, tree = screen.look, screen.tree
    root = tree[0] if tree else None
    left: list[Span] = [(" sapwood ", "black on_yellow"), (" ", "")]
    if root is not None:
        left += [(cut(look.text(title(root)), _NAME_CELLS, look.signs.cut), "bold"), (_gap(look), "")]
        left += _chips(screen, tree)
    return [filled(tuple(left), _right(screen), look.width, look.signs.cut), _money_line(screen, root)]


def _chips(screen: Screen, tree: list[AgentRow]) -> list[Span]:
    """`● 9 running  ◌ 3 waiting  ! 6 issues  ✓ 29 ended`, the one that filters reversed."""
    look, spans = screen.look, []
    for chip, number in chip_counts(tree, screen.chip):
        is_chosen = chip == screen.chip
        if not is_chosen and number == 0:
            continue
        shown = STATES[_CHIP_SIGNS.get(chip, "failed")]
        mark = {"issues": "!", "costly": "$"}.get(chip, shown.mark(ascii=look.is_ascii))
        word = (
            ""
            if chip == "ended" and look.width < _WIDE
            else " issue"
            if chip == "issues" and number == 1
            else f" {chip}"
        )
        style = "reverse" if is_chosen else "bold red" if chip == "issues" else shown.style
        spans += [(f"{mark} {number}{word}", style), (_gap(look), "")]
    return spans[:-1]


def _gap(look: Look) -> str:
    return "  " if look.width >= _WIDE else " "


def _right(screen: Screen) -> Line:
    look = screen.look
    parts: list[Line] = []
    if look.width >= _WIDE:
        parts.append(((count(len(Forest.of(screen.rows).roots), "tree"), "dim"),))
        parts.append(((_order(screen), "dim"),))
    if screen.filter:
        parts.append(((f"/{one_line(look.text(screen.filter), 40)}", "yellow"),))
    parts.append(((_pill(screen.known.lost, look), "green" if screen.known.lost is None else "yellow"),))
    return joined(parts, (look.text(" · "), "dim"))


def _order(screen: Screen) -> str:
    if screen.order == "spawned":
        return "order: spawned"
    changed = "" if screen.is_in_order else " (changed, o to redo)"
    return screen.look.text(f"order: {screen.order} ▾{changed}")


def _pill(lost: Lost | None, look: Look) -> str:
    mark = STATES["running" if lost is None else "idle"].mark(ascii=look.is_ascii)
    return f"{mark} live" if lost is None else look.text(f"{mark} reconnecting · try {lost.tries}")


def _money_line(screen: Screen, root: AgentRow | None) -> Line:
    look = screen.look
    if root is None:
        return ()
    unpriced = ", ".join(one_line(model, 40) for model in root.unpriced_models)
    left: list[Span] = [(" ", ""), (look.text(money(root.total)), "bold"), *_of_limit(root, look)]
    facts = [
        _rate(root),
        f"{tokens(spent_tokens(root.total))} {'tokens' if look.width >= _WIDE else 'tok'}",
        f"no price: {unpriced}" if unpriced and look.width >= _WIDE else "",
    ]
    told = " · ".join(fact for fact in facts if fact)
    left.append((look.text(f" {told}" if len(left) > _UNLIMITED else f" · {told}"), "dim"))
    return filled(tuple(left), ((duration(root.elapsed_ms), "dim"),), look.width, look.signs.cut)


def _of_limit(root: AgentRow, look: Look) -> list[Span]:
    """` of $10.00 ━━━━╌╌╌`, where the tree may spend so much and no more."""
    limit_usd = root.pulse.max_cost_usd if isinstance(root.pulse, Pulse) else None
    if not limit_usd or root.total is None:
        return []
    spent_usd = root.total.cost.total
    style = "bold red" if spent_usd >= limit_usd else "yellow"
    cells = _BAR_CELLS[look.width >= _WIDE]
    drawn = bar(spent_usd / limit_usd, cells, look.signs)
    return [(f" of {dollars(pico_usd(limit_usd))} ", ""), (drawn, style)]


def _rate(root: AgentRow) -> str:
    """What a minute costs, while it works."""
    if not root.elapsed_ms or not root.state.is_working or root.total is None:
        return ""
    try:
        pico = spend_of(root.total).total_pico
    except BadUsage:
        return ""
    return f"{dollars(pico * _MINUTE_MS // root.elapsed_ms)}/min" if pico else ""


def with_pending(row: AgentRow, pending: str) -> AgentRow:
    """The row with what was asked for and is not confirmed in the column Doing."""
    activity = row.activity
    if activity is None:
        return row
    return msgspec.structs.replace(
        row, activity=msgspec.structs.replace(activity, kind="answer", label=pending), retry=None, queued=0
    )
