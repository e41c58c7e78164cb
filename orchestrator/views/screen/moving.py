"""Moving about: the selection, folds, orders, and the pane of events."""

import attrs

from orchestrator.views.outline import ORDERS, Folding, Item, opened_to, ranks
from orchestrator.views.screen.areas import areas, list_room
from orchestrator.views.screen.effects import Effect, Examine
from orchestrator.views.screen.state import Screen, place_of, settled_on

Step = tuple[Screen, list[Effect]]


def move(screen: Screen, where: str) -> Step:
    """One line, one page, to an end; or sideways: fold, open, to the parent, to the first child."""
    items = screen.items
    here = place_of(items, screen.selected)
    if here is None:
        return settled_on(screen, items), []
    if where in {"left", "right"}:
        return _sideways(screen, items[here], where == "right")
    page = max(1, areas(screen).list_lines - 1)
    steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "first": -len(items), "last": len(items)}
    target = max(0, min(len(items) - 1, here + steps[where]))
    return _to_place(screen, items, target, screen.line + target - here)


def to_key(screen: Screen, key: str) -> Step:
    """The selection on this row, which is there."""
    items = screen.items
    here, target = place_of(items, screen.selected), place_of(items, key)
    if target is None:
        return screen, []
    return _to_place(screen, items, target, screen.line + target - (here or 0))


def _to_place(screen: Screen, items: list[Item], target: int, line: int) -> Step:
    """Nothing is left empty below the last row, which happens while rows come in above the selection."""
    room = list_room(screen, len(items))
    least = target - max(0, len(items) - room)
    line = max(0, least, min(line, room - 1, target))
    return looked_at(attrs.evolve(screen, selected=items[target].key, line=line))


def looked_at(screen: Screen) -> Step:
    """What is looked at more closely is read, when it is another one or has changed."""
    row = screen.selected_row
    if row is None or not (screen.is_peeking or screen.mode == "detail"):
        return screen, []
    read = (row.session_id, row.last_event_at)
    if read == screen.examined:
        return screen, []
    return attrs.evolve(screen, examined=read), [Examine(row.session_id)]


def _sideways(screen: Screen, item: Item, is_right: bool) -> Step:
    if is_right and item.is_open is False:
        return _folded(screen, item, is_open=True), []
    if is_right:
        return move(screen, "down") if item.is_open else (screen, [])
    if item.is_open:
        return _folded(screen, item, is_open=False), []
    parent = item.row.parent_session_id if item.row is not None else item.key.partition("/")[0]
    return to_key(screen, parent) if parent is not None else (screen, [])


def _folded(screen: Screen, item: Item, *, is_open: bool) -> Screen:
    return attrs.evolve(screen, folding=screen.folding.set(item.key, is_open=is_open))


def to_depth(screen: Screen, number: int) -> Screen:
    """Folded to a depth; 0 opens all."""
    before = screen.items
    folding = Folding(depth=None, many=None) if number == 0 else Folding(depth=number)
    screen = attrs.evolve(screen, folding=folding)
    return settled_on(screen, screen.items, before)


def ordered(screen: Screen) -> Screen:
    """The order applied again if it does not hold any more, else the next one."""
    order = screen.order
    if screen.is_in_order:
        order = ORDERS[(ORDERS.index(order) + 1) % len(ORDERS)]
    return attrs.evolve(screen, order=order, ranks=ranks(screen.rows, order))


def pressed_in_pane(screen: Screen, key: str) -> Screen | None:
    """A key while the pane of events is open; None if it is not for the pane."""
    pane = screen.pane
    page = max(1, areas(screen).pane_lines - 2)
    moves = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": page, "pagedown": -page, "g": 10**6, "G": -(10**6)}
    if key in moves:
        return attrs.evolve(screen, pane=pane.moved(moves[key]))
    if key in {"1", "2", "3", "4", "5", "6"}:
        return attrs.evolve(screen, pane=pane.switched(int(key)))
    match key:
        case "esc" | "e":
            return attrs.evolve(screen, is_pane_open=False)
        case "p":
            return attrs.evolve(screen, pane=pane.paused())
        case "w":
            return attrs.evolve(screen, pane=attrs.evolve(pane, scope=_scope(screen), back=0))
        case "enter":
            return _to_agent(screen)
    return None


def _scope(screen: Screen) -> frozenset[str] | None:
    """The selected session and what is below it; everything, if that is the scope already."""
    row = screen.selected_row
    if screen.pane.scope is not None or row is None:
        return None
    below = {row.session_id}
    for each in screen.rows:
        if each.parent_session_id in below:
            below.add(each.session_id)
    return frozenset(below)


def _to_agent(screen: Screen) -> Screen:
    """To the agent of the line at the bottom of the pane."""
    shown = screen.pane.shown
    if not shown:
        return screen
    session_id = shown[-1 - min(screen.pane.back, len(shown) - 1)].session_id
    opened = attrs.evolve(
        screen, folding=opened_to(screen.rows, screen.folding, session_id), chip=None, filter="", is_pane_open=False
    )
    return to_key(opened, session_id)[0]
