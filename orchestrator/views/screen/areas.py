"""Which lines of the screen belong to what."""

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from orchestrator.views.screen.state import Screen

HEAD_LINES = 2
COLUMN_HEAD = 1
FOOT_LINES = 1


@attrs.frozen
class Areas:
    """Lines of the list without its head, of the pane of events with its head, of the peek with its head."""

    list_lines: int
    pane_lines: int = 0
    peek_lines: int = 0
    banner_lines: int = 0


def list_room(screen: "Screen", rows: int) -> int:
    """Lines for so many rows: where they are too many, one less, which says so."""
    lines = areas(screen).list_lines
    return max(1, lines - (rows > lines))


def areas(screen: "Screen") -> Areas:
    """What is open below takes at most two fifths each; the list keeps three lines in any case."""
    banner = int(screen.known.lost is not None)
    room = screen.height - HEAD_LINES - COLUMN_HEAD - FOOT_LINES - banner
    pane = min(room * 2 // 5, 14) if screen.is_pane_open else 0
    peek = min(room * 2 // 5, 10) if screen.is_peeking else 0
    if room - pane - peek < 3:
        peek = 0
    if room - pane - peek < 3:
        pane = 0
    return Areas(max(1, room - pane - peek), pane, peek, banner)
