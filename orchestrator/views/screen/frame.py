"""The live view as lines: as many as the terminal has, none wider than it."""

import textwrap

import attrs

from orchestrator.views.current import NOTHING_RUNS
from orchestrator.views.grid import grid
from orchestrator.views.money import duration
from orchestrator.views.outline import Item
from orchestrator.views.screen.areas import Areas, areas, list_room
from orchestrator.views.screen.detail_lines import detail_lines, head_line, peek_lines, tab_line
from orchestrator.views.screen.details import TABS
from orchestrator.views.screen.dialogs import Confirm, Entry
from orchestrator.views.screen.head import head, with_pending
from orchestrator.views.screen.help import footer, help_lines
from orchestrator.views.screen.pane_lines import pane_lines
from orchestrator.views.screen.state import Screen, place_of
from orchestrator.views.spans import Line, Span, cut_line, line_cells
from orchestrator.views.text import count, one_line

LOADING_S = 2.0
_BOX_CELLS = 76


def frame(screen: Screen) -> list[Line]:
    """All lines of the screen."""
    if screen.too_small:
        lines: list[Line] = [((part, ""),) for part in textwrap.wrap(screen.too_small, max(1, screen.width))]
    elif screen.mode == "help":
        lines = help_lines(screen)
    elif screen.mode == "detail" and screen.selected_row is not None:
        lines = _detail(screen)
    else:
        lines = _list(screen)
    lines = [cut_line(line, screen.width, screen.look.signs.cut) for line in lines[: screen.height]]
    return lines + [()] * (screen.height - len(lines))


def _list(screen: Screen) -> list[Line]:
    area = areas(screen)
    lines = [*head(screen), *_banner(screen), *_rows(screen, area)]
    row = screen.selected_row
    if area.peek_lines and row is not None:
        lines.append(_rule(screen, head_line(row, attrs.evolve(screen.look, width=screen.width - 6))))
        peek = peek_lines(screen.detail, row, screen.look, area.peek_lines - 1)
        lines += [*peek, *[()] * (area.peek_lines - 1 - len(peek))]
    elif area.peek_lines:
        lines += [
            _said(screen, "Select an agent to see its conversation, timeline and cost."),
            *[()] * (area.peek_lines - 1),
        ]
    if area.pane_lines:
        lines += pane_lines(screen, area.pane_lines)
    return _closed(screen, lines)


def _detail(screen: Screen) -> list[Line]:
    row = screen.selected_row
    assert row is not None
    body = detail_lines(screen.detail, row, screen.tab, screen.look)
    room = max(1, screen.height - 4)
    below = max(0, len(body) - room)
    from_end = TABS[screen.tab] == "Conversation"
    scroll = min(screen.scroll, below)
    start = below - scroll if from_end else scroll
    shown = body[start : start + room]
    left = len(body) - start - len(shown)
    mark = "v" if screen.is_ascii else "↓"
    more: Line = ((f"{mark} {left} more", "dim"),) if left else ()
    lines = [head_line(row, screen.look), tab_line(screen.tab, screen.look), *shown, *[()] * (room - len(shown)), more]
    return _closed(screen, lines)


def _closed(screen: Screen, lines: list[Line]) -> list[Line]:
    """With the last line, and above it the dialog that is open."""
    lines = [*lines[: screen.height - 1], *[()] * (screen.height - 1 - len(lines))]
    if screen.confirm is not None:
        box = _box(screen, screen.confirm)
        lines = [*lines[: max(0, len(lines) - len(box))], *box][: screen.height - 1]
    return [*lines, _last_line(screen)]


def _last_line(screen: Screen) -> Line:
    look = screen.look
    if screen.entry is not None:
        return _entry_line(screen, screen.entry)
    if screen.notice is not None:
        return ((look.text(f" {one_line(screen.notice.text, 1_000)}"), screen.notice.style or "bold"),)
    return footer(screen)


def _entry_line(screen: Screen, entry: Entry) -> Line:
    """What is typed, its end always in sight; for the filter what is wrong with it, or how many meet it."""
    look = screen.look
    note = ""
    if entry.ask == "filter":
        hits = screen.hits
        note = screen.query.problem or (f"{len(hits)} of {len(screen.rows)}" if hits is not None else "")
    label = look.text(entry.label)
    room = max(4, screen.width - len(label) - len(note) - 4)
    text = look.text(one_line(entry.text.replace("\n", " "), 4_000) + (" " if entry.text.endswith(" ") else ""))
    while text and line_cells(((text, ""),)) > room:
        text = text[1:]
    return ((f" {label}", "bold"), (text, ""), (" ", "reverse"), (f"  {look.text(note)}" if note else "", "dim"))


def _banner(screen: Screen) -> list[Line]:
    lost = screen.known.lost
    if lost is None:
        return []
    ago = duration(round(max(0.0, screen.now - lost.since) * 1000))
    again = duration(round(max(0.0, lost.next_try - screen.now) * 1000))
    text = f" ↯ Connection lost {ago} ago. Showing the last known state; times are frozen. " + (
        f"Trying again in {again}. [t: try now]" if lost.next_try > screen.now else "Trying again."
    )
    return [((screen.look.text(text), "bold yellow"),)]


def _rows(screen: Screen, area: Areas) -> list[Line]:
    items = screen.items
    if not items:
        return _padded([_said(screen, text) for text in _nothing(screen)], area.list_lines + 1)
    room = list_room(screen, len(items))
    place = place_of(items, screen.selected) or 0
    start = max(0, place - min(screen.line, room - 1))
    shown = [_pending(screen, item) for item in items[start : start + room]]
    lines = _padded(grid(shown, screen.look, screen.selected), room + 1)
    if room < area.list_lines:
        span = f" rows {start + 1}–{start + len(shown)} of {len(items)} "
        lines.append(_rule(screen, ((screen.look.text(span), "dim"),)))
    return lines


def _pending(screen: Screen, item: Item) -> Item:
    asked = screen.pending.get(item.key)
    return item if asked is None or item.row is None else attrs.evolve(item, row=with_pending(item.row, asked))


def _nothing(screen: Screen) -> list[str]:
    """Why there is no row."""
    if screen.is_filtered and screen.rows:
        asked = (screen.query.terms and (screen.entry.text if screen.entry else screen.filter)) or screen.chip or ""
        return [f'No agent matches "{one_line(asked, 60)}". {len(screen.rows)} are hidden. Esc clears the filter.']
    if not screen.known.is_read:
        if screen.now - screen.begun < LOADING_S:
            return [""]
        trees = screen.known.trees_found
        return [f"Reading {count(trees, 'tree')}…" if trees else "Reading…"]
    ended = screen.known.ended_trees
    return [*NOTHING_RUNS, *([f"Ended trees: {ended} · Show ended (a)"] if ended else [])]


def _said(screen: Screen, text: str) -> Line:
    return ((f" {screen.look.text(text)}", ""),)


def _padded(lines: list[Line], size: int) -> list[Line]:
    return [*lines[:size], *[()] * (size - len(lines))]


def _rule(screen: Screen, label: Line) -> Line:
    """A line across, with a label at its beginning."""
    rule = screen.look.signs.rule
    rest = max(0, screen.width - 4 - line_cells(label))
    return ((f"{rule * 2} ", "dim"), *label, (f" {rule * max(0, rest)}", "dim"))


def _box(screen: Screen, confirm: Confirm) -> list[Line]:
    """The question, what follows, what runs, and the two ways on; the one that is chosen reversed."""
    look = screen.look
    inner = min(_BOX_CELLS, screen.width - 6)
    body: list[tuple[str, str]] = [(confirm.question, "bold")]
    body += [(part, "") for part in textwrap.wrap(look.text(confirm.consequence), max(10, inner))]
    body += [(note, "dim") for note in confirm.notes]
    rule = look.signs.rule
    top = ((f"  {'+' if look.is_ascii else '╭'}{rule * (inner + 2)}{'+' if look.is_ascii else '╮'}", "red"),)
    low = ((f"  {'+' if look.is_ascii else '╰'}{rule * (inner + 2)}{'+' if look.is_ascii else '╯'}", "red"),)
    side = ("|" if look.is_ascii else "│", "red")
    lines: list[Line] = [(("  ", ""), side, (f" {look.fit(text, inner)} ", style), side) for text, style in body]
    buttons = _buttons(confirm)
    rest = max(0, inner + 1 - line_cells(buttons))
    return [top, *lines, (("  ", ""), side, (" ", ""), *cut_line(buttons, inner), (" " * rest, ""), side), low]


def _buttons(confirm: Confirm) -> Line:
    keep, do = f"[{confirm.keep}]", f"[{confirm.do}]"
    if confirm.must_type:
        typed: list[Span] = [(f"Type {confirm.agents} and Enter: ", ""), (confirm.typed or " ", "reverse")]
        return ((f"{keep} Esc   ", ""), *typed, (f"   {do}", "dim"))
    is_on = confirm.is_on_doing
    return ((keep, "" if is_on else "reverse"), ("  ", ""), (do, "bold red reverse" if is_on else "bold red"))
