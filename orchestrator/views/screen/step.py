"""The fold of the live view: what happens, and what that changes and asks for. Nothing here waits or reads a clock."""

from collections.abc import Callable, Sequence

import attrs
import msgspec

from orchestrator.views.outline import next_issue, opened_to
from orchestrator.views.screen.actions import act, answered, undo
from orchestrator.views.screen.asking import asked
from orchestrator.views.screen.details import Detail
from orchestrator.views.screen.effects import Copy, Effect, Quit, ShowEnded, Suspend, TryNow
from orchestrator.views.screen.moving import looked_at, move, ordered, pressed_in_pane, to_depth, to_key
from orchestrator.views.screen.pane import Fed
from orchestrator.views.screen.reading import pressed_in_detail
from orchestrator.views.screen.state import NOTICE_S, Known, Notice, Screen, next_chip, settled_on


class Key(msgspec.Struct, frozen=True):
    name: str


class Tick(msgspec.Struct, frozen=True):
    """`now` in Unix seconds."""

    now: float


@attrs.frozen
class Seen:
    """The world as it is now."""

    known: Known


@attrs.frozen
class Told:
    """Lines for the pane of events."""

    lines: Sequence[Fed]


class Resized(msgspec.Struct, frozen=True):
    width: int
    height: int


class Answered(msgspec.Struct, frozen=True):
    """What was asked of a host or the store was done, or why not."""

    session_id: str
    verb: str
    error: str | None = None


class Said(msgspec.Struct, frozen=True):
    """Something to tell: a host has ended, lines were missed."""

    text: str


Happening = Key | Tick | Seen | Told | Resized | Answered | Said | Detail
Step = tuple[Screen, list[Effect]]


def step(screen: Screen, happening: Happening) -> Step:
    """The next state of the view, and what it asks for."""
    match happening:
        case Key(name):
            return _pressed(screen, name)
        case Tick(now):
            return _ticked(attrs.evolve(screen, now=now)), []
        case Seen(known):
            return _seen(screen, known)
        case Told(lines):
            return attrs.evolve(screen, pane=screen.pane.with_lines(lines)), []
        case Resized(width, height):
            return attrs.evolve(screen, width=width, height=height), []
        case Answered():
            return answered(screen, happening.session_id, happening.verb, happening.error), []
        case Said(text):
            return attrs.evolve(screen, notice=Notice(text, "yellow", screen.now + NOTICE_S)), []
        case Detail():
            return attrs.evolve(screen, detail=happening), []


def _ticked(screen: Screen) -> Screen:
    if screen.notice is not None and screen.now >= screen.notice.until:
        return attrs.evolve(screen, notice=None)
    return screen


def _seen(screen: Screen, known: Known) -> Step:
    before = screen.items
    screen = attrs.evolve(screen, known=known)
    return looked_at(settled_on(screen, screen.items, before))


def _pressed(screen: Screen, key: str) -> Step:
    if key == "ctrl-z":
        return screen, [Suspend()]
    if key == "ctrl-c":
        return screen, [Quit()]
    if screen.confirm is not None or screen.entry is not None:
        return asked(screen, key)
    if screen.mode == "help":
        return attrs.evolve(screen, mode="list"), []
    if key == "q":
        return screen, [Quit()]
    if screen.mode == "detail":
        found = pressed_in_detail(screen, key)
        if found is not None:
            return found
    elif screen.is_pane_open:
        pane = pressed_in_pane(screen, key)
        if pane is not None:
            return pane, []
    return _command(screen, key)


def _command(screen: Screen, key: str) -> Step:
    if key in _MOVES:
        return move(screen, _MOVES[key])
    if key in _SIMPLE_KEYS:
        return _SIMPLE_KEYS[key](screen), []
    if key.isdecimal() and len(key) == 1:
        return to_depth(screen, int(key)), []
    match key:
        case "n" | "N":
            return _jump(screen, 1 if key == "n" else -1)
        case "u":
            return undo(screen)
        case "a":
            wanted = not screen.is_showing_ended
            return attrs.evolve(screen, is_showing_ended=wanted), [ShowEnded(wanted)]
        case "t" if screen.known.lost is not None:
            return screen, [TryNow()]
        case "y" if screen.selected_row is not None:
            session_id = screen.selected_row.session_id
            notice = Notice(f"Copied {session_id}", "", screen.now + NOTICE_S)
            return attrs.evolve(screen, notice=notice), [Copy(session_id)]
    return act(screen, key)


def _jump(screen: Screen, by: int) -> Step:
    """To the next session that needs somebody, opening folds on the way."""
    found = next_issue(screen.rows, screen.ranks, screen.selected, by)
    if found is None:
        return attrs.evolve(screen, notice=Notice("Nothing needs you.", "", screen.now + NOTICE_S)), []
    folding = opened_to(screen.rows, screen.folding, found)
    chip, text = (None, "") if found not in {item.key for item in screen.items} else (screen.chip, screen.filter)
    return to_key(attrs.evolve(screen, folding=folding, chip=chip, filter=text), found)


def _chip(screen: Screen) -> Screen:
    screen = attrs.evolve(screen, chip=next_chip(screen.chip))
    return settled_on(screen, screen.items)


def _escape(screen: Screen) -> Screen:
    """One thing less: the peek, the pane, the filter."""
    if screen.is_peeking:
        return attrs.evolve(screen, is_peeking=False)
    screen = attrs.evolve(screen, chip=None, filter="")
    return settled_on(screen, screen.items)


_MOVES = {
    "up": "up",
    "k": "up",
    "down": "down",
    "j": "down",
    "left": "left",
    "right": "right",
    "g": "first",
    "G": "last",
    "home": "first",
    "end": "last",
    "pageup": "pageup",
    "pagedown": "pagedown",
}
_SIMPLE_KEYS: dict[str, Callable[[Screen], Screen]] = {
    "f": _chip,
    "esc": _escape,
    "o": ordered,
    "?": lambda screen: attrs.evolve(screen, mode="help"),
    "e": lambda screen: attrs.evolve(screen, is_pane_open=True),
}
