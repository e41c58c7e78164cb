"""Keys on the detail of a session."""

import attrs

from orchestrator.views.screen.details import TABS
from orchestrator.views.screen.effects import Effect
from orchestrator.views.screen.state import Screen

Step = tuple[Screen, list[Effect]]
_FAR = 1_000_000
_PASSED_ON = frozenset("msrxXAuy?")


def pressed_in_detail(screen: Screen, key: str) -> Step | None:
    """None for what acts on the session, whatever is shown of it."""
    if key in _PASSED_ON:
        return None
    page = max(1, screen.height - 6)
    steps = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "pageup": -page,
        "pagedown": page,
        "space": page,
        "g": -_FAR,
        "G": _FAR,
    }
    if key in steps:
        is_from_end = TABS[screen.tab] == "Conversation"
        lines = -steps[key] if is_from_end else steps[key]
        return attrs.evolve(screen, scroll=max(0, screen.scroll + lines)), []
    match key:
        case "esc" | "backspace":
            return attrs.evolve(screen, mode="list", examined=None), []
        case "tab" | "right":
            return _on(screen, screen.tab + 1), []
        case "backtab" | "left":
            return _on(screen, screen.tab - 1), []
    if key.isdecimal() and 1 <= int(key) <= len(TABS):
        return _on(screen, int(key) - 1), []
    return screen, []


def _on(screen: Screen, tab: int) -> Screen:
    return attrs.evolve(screen, tab=tab % len(TABS), scroll=0)
