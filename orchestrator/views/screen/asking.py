"""Keys while something is asked or typed."""

import attrs

from orchestrator.views.screen.actions import confirmed, entered
from orchestrator.views.screen.effects import Effect
from orchestrator.views.screen.state import Screen, settled_on

Step = tuple[Screen, list[Effect]]
_OTHER_BUTTON = frozenset({"tab", "backtab", "left", "right"})


def asked(screen: Screen, key: str) -> Step:
    return _confirming(screen, key) if screen.confirm is not None else _typing(screen, key)


def _confirming(screen: Screen, key: str) -> Step:
    """Enter does what the focus is on, which begins on keeping; escape keeps."""
    confirm = screen.confirm
    if confirm is None or key in {"esc", "n", "q"}:
        return attrs.evolve(screen, confirm=None), []
    if confirm.must_type:
        if key == "enter":
            return confirmed(screen, confirm) if confirm.is_confirmed else (attrs.evolve(screen, confirm=None), [])
        typed = confirm.typed[:-1] if key == "backspace" else confirm.typed + (key if key.isdecimal() else "")
        return attrs.evolve(screen, confirm=attrs.evolve(confirm, typed=typed[:6])), []
    if key == "y":
        return confirmed(screen, confirm)
    if key in _OTHER_BUTTON:
        return attrs.evolve(screen, confirm=attrs.evolve(confirm, is_on_doing=not confirm.is_on_doing)), []
    if key == "enter":
        return confirmed(screen, confirm) if confirm.is_confirmed else (attrs.evolve(screen, confirm=None), [])
    return screen, []


def _typing(screen: Screen, key: str) -> Step:
    entry = screen.entry
    if entry is None or key == "esc":
        before = screen.items
        screen = attrs.evolve(screen, entry=None, filter="" if entry and entry.ask == "filter" else screen.filter)
        return settled_on(screen, screen.items, before), []
    if key == "enter":
        return entered(screen, entry)
    before = screen.items
    screen = attrs.evolve(screen, entry=entry.typed(key))
    return (settled_on(screen, screen.items, before) if entry.ask == "filter" else screen), []
