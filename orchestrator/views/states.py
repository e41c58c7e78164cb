"""The fifteen states of a session: word, glyph, colour, and which of them need somebody."""

from typing import Literal

import msgspec

Status = Literal["running", "waiting", "retrying", "compacting", "idle", "lost", "unknown", "damaged", "archived"]


class State(msgspec.Struct, frozen=True):
    """The word alone is enough. `style`: colour on a terminal, `token`: on the web. `narrow`: the word in 13 cells."""

    word: str
    glyph: str
    ascii: str
    style: str
    token: str
    is_issue: bool = False
    is_working: bool = False
    narrow: str = ""

    def mark(self, *, ascii: bool) -> str:
        return self.ascii if ascii else self.glyph

    @property
    def short(self) -> str:
        return self.narrow or self.word


_ALL = (
    State("running", "●", "*", "blue", "--run", is_working=True),
    State("waiting", "◌", ".", "cyan", "--wait", is_working=True),
    State("retrying", "↻", "~", "yellow", "--retry", is_working=True),
    State("compacting", "≋", "%", "magenta", "--comp", is_working=True),
    State("needs input", "❯", ">", "bold bright_yellow", "--need", is_issue=True),
    State("idle", "○", "o", "dim", "--idle"),
    State("completed", "✓", "+", "green", "--done"),
    State("failed", "✗", "x", "bold red", "--fail", is_issue=True),
    State("aborted", "■", "#", "dim", "--abort"),
    State("timed out", "◷", "t", "yellow", "--retry", is_issue=True),
    State("limit reached", "⇥", "]", "magenta", "--limit", is_issue=True, narrow="limit"),
    State("lost", "∅", "0", "bold red", "--lost", is_issue=True),
    State("unknown", "?", "?", "dim", "--idle"),
    State("damaged", "!", "!", "bold red", "--fail", is_issue=True),
    State("archived", "·", "_", "dim", "--mute"),
)
STATES: dict[str, State] = {state.word: state for state in _ALL}

_OF_STATUS = {
    status: STATES[status]
    for status in ("running", "waiting", "retrying", "compacting", "lost", "unknown", "damaged", "archived")
}
_OF_OUTCOME = {
    "completed": STATES["completed"],
    "failed": STATES["failed"],
    "aborted": STATES["aborted"],
    "timed_out": STATES["timed out"],
    "limit_reached": STATES["limit reached"],
    "lost": STATES["lost"],
}


def state(status: str, outcome: str | None, task_state: str | None = None) -> State:
    """What a session is shown as. A settled one shows its outcome; a word that we do not know is never taken for work."""
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    if status != "idle":
        return STATES["unknown"]
    if task_state == "needs_input" and outcome in {None, "completed"}:
        return STATES["needs input"]
    return STATES["idle"] if outcome is None else _OF_OUTCOME.get(outcome, STATES["unknown"])
