"""What can be done to an agent: asked for first where it ends something, and never shown as done before it is."""

import attrs

from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.dialogs import Confirm, Entry
from orchestrator.views.screen.effects import Do, Effect
from orchestrator.views.screen.moving import looked_at
from orchestrator.views.screen.state import NOTICE_S, Notice, Screen, settled_on
from orchestrator.views.signs import title
from orchestrator.views.text import one_line

Step = tuple[Screen, list[Effect]]
_PENDING = {"abort": "aborting…", "stop": "stopping…", "archive": "archiving…", "rename": "renaming…"}
_DONE = {"message": "Message queued.", "answer": "Answered.", "steer": "Steered.", "archive": "Archived. Undo (u)"}


def act(screen: Screen, key: str) -> Step:
    """A key that acts on the selected session; nothing where none is selected."""
    row = screen.selected_row
    if key == "/":
        return attrs.evolve(screen, entry=Entry("filter", text=screen.filter)), []
    if row is None:
        return screen, []
    match key:
        case "enter":
            return looked_at(attrs.evolve(screen, mode="detail", tab=0, scroll=0, examined=None))
        case "space":
            return looked_at(attrs.evolve(screen, is_peeking=not screen.is_peeking, examined=None))
        case "m":
            ask = "answer" if row.state.word == "needs input" else "message"
            return attrs.evolve(screen, entry=Entry(ask, row)), []  # type: ignore[arg-type]
        case "s":
            return attrs.evolve(screen, entry=Entry("steer", row)), []
        case "r":
            return attrs.evolve(screen, entry=Entry("rename", row, title(row) if row.name else "")), []
        case "x" | "X":
            return _ending(screen, row, is_stop=key == "X"), []
        case "A":
            return _asked(screen, row, "archive"), [Do(row.session_id, "archive")]
    return screen, []


def _ending(screen: Screen, row: AgentRow, *, is_stop: bool) -> Screen:
    if not is_stop and not row.state.is_working and not row.working:
        return told(screen, f"{title(row)} does not run.")
    return attrs.evolve(screen, confirm=Confirm("stop" if is_stop else "abort", row))


def confirmed(screen: Screen, confirm: Confirm) -> Step:
    """It was meant."""
    session_id = confirm.row.session_id
    screen = _asked(attrs.evolve(screen, confirm=None), confirm.row, confirm.verb)
    return screen, [Do(session_id, confirm.verb)]


def entered(screen: Screen, entry: Entry) -> Step:
    """What was typed is sent, or becomes the filter."""
    text, row = entry.text.strip(), entry.row
    screen = attrs.evolve(screen, entry=None)
    if entry.ask == "filter":
        before = screen.items
        screen = attrs.evolve(screen, filter=text)
        return settled_on(screen, screen.items, before), []
    if row is None or not text:
        return screen, []
    if entry.ask == "rename":
        return _asked(screen, row, "rename"), [Do(row.session_id, "rename", text)]
    return screen, [Do(row.session_id, entry.ask, text)]


def undo(screen: Screen) -> Step:
    """Bring back what was archived a moment ago."""
    notice = screen.notice
    if notice is None or notice.undo is None:
        return screen, []
    return attrs.evolve(screen, notice=None), [Do(notice.undo, "unarchive")]


def answered(screen: Screen, session_id: str, verb: str, error: str | None) -> Screen:
    """It was done; or it was not, and the text says why."""
    pending = {key: value for key, value in screen.pending.items() if key != session_id}
    screen = attrs.evolve(screen, pending=pending)
    if error is not None:
        return told(screen, f"Could not {verb}: {one_line(error, 400)}", style="bold red")
    if verb not in _DONE:
        return screen
    undo_id = session_id if verb == "archive" else None
    return attrs.evolve(screen, notice=Notice(_DONE[verb], "", screen.now + NOTICE_S, undo_id))


def told(screen: Screen, text: str, style: str = "") -> Screen:
    return attrs.evolve(screen, notice=Notice(text, style, screen.now + NOTICE_S))


def _asked(screen: Screen, row: AgentRow, verb: str) -> Screen:
    return attrs.evolve(screen, pending={**screen.pending, row.session_id: _PENDING[verb]})
