"""What is asked before something ends, and what is typed for an agent."""

from typing import Literal

import attrs

from orchestrator.views.doing_text import open_calls
from orchestrator.views.money import money
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from orchestrator.views.text import count

TYPED_FROM = 10
"""With more working agents than this their number has to be typed."""
_CALLS = 4

Verb = Literal["abort", "stop"]


@attrs.frozen
class Confirm:
    """Ends something, if it is confirmed. Begins on keeping. `typed`: the number, as far as it is there."""

    verb: Verb
    row: AgentRow
    is_on_doing: bool = False
    typed: str = ""

    @property
    def agents(self) -> int:
        """How many are ended."""
        return self.row.working + (self.row.state.is_working or self.row.working == 0)

    @property
    def must_type(self) -> bool:
        return self.agents > TYPED_FROM

    @property
    def is_confirmed(self) -> bool:
        return self.typed == str(self.agents) if self.must_type else self.is_on_doing

    @property
    def question(self) -> str:
        below = f" and {count(self.row.working, 'agent')} below it" if self.row.working else ""
        return f"{self.verb.capitalize()} {title(self.row)}{below}?"

    @property
    def consequence(self) -> str:
        spent = money(self.row.total)
        kept = (
            f"What they wrote and spent ({spent}) is kept."
            if self.row.working
            else f"What it wrote and spent ({spent}) is kept."
        )
        if self.verb == "stop":
            ends = "They end now, including running tools, and take" if self.row.working else "It ends now and takes"
            return f"{ends} no more messages. {kept}"
        if self.row.working:
            return f"Their current turns end now, including running tools. {kept} Each can be continued later."
        return f"Its current turn ends now, including running tools. {kept} It can be continued later."

    @property
    def notes(self) -> list[str]:
        """Which tools run, and what is queued."""
        calls = open_calls(self.row)
        lines = [f"runs now: {call}" for call in calls[:_CALLS]]
        if len(calls) > _CALLS:
            lines.append(f"and {count(len(calls) - _CALLS, 'more tool')}")
        if self.row.queued:
            lines.append(f"{count(self.row.queued, 'message')} queued")
        return lines

    @property
    def keep(self) -> str:
        return "Keep running"

    @property
    def do(self) -> str:
        return f"{self.verb.capitalize()} {count(self.agents, 'agent')}"


Ask = Literal["filter", "message", "answer", "steer", "rename"]


@attrs.frozen
class Entry:
    """A line that is being typed. `row`: whom it is for; None for the filter."""

    ask: Ask
    row: AgentRow | None = None
    text: str = ""

    @property
    def label(self) -> str:
        if self.row is None:
            return "/"
        name = title(self.row)
        return {
            "message": f"Message to {name}: ",
            "answer": f"Answer to {name}: ",
            "steer": f"Steer {name}: ",
            "rename": f"New name of {name}: ",
        }[self.ask]

    def typed(self, key: str) -> "Entry":
        """With this key: a character, or one that takes away."""
        text = self.text
        if key == "backspace":
            text = text[:-1]
        elif key == "ctrl-u":
            text = ""
        elif key == "ctrl-w":
            text = text.rstrip().rpartition(" ")[0]
        elif key == "space":
            text += " "
        elif key.startswith("paste:"):
            text += key.removeprefix("paste:")
        elif len(key) == 1:
            text += key
        return attrs.evolve(self, text=text)
