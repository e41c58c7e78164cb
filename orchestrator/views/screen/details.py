"""What is read of one session for its detail: out of its journal and those below it."""

from typing import Literal

import attrs

from orchestrator.views.called import Called, called
from orchestrator.views.conversation import conversation, spoken
from orchestrator.views.costs import Costs, costs
from orchestrator.views.facts import Facts, facts
from orchestrator.views.lanes import Timeline, timeline
from orchestrator.views.rows import tree_rows
from orchestrator.views.stored import Stored
from orchestrator.views.trouble import Issue, issues

Tab = Literal["Overview", "Conversation", "Tools", "Issues", "Info", "Cost", "Timeline"]
TABS: tuple[Tab, ...] = ("Overview", "Conversation", "Tools", "Issues", "Info", "Cost", "Timeline")
_RECORDS = 200
"""So many of the last messages are shown."""


@attrs.frozen
class Detail:
    """`said`: the conversation in lines that are safe for a terminal.

    `trouble`: why the journal cannot be read whole; so many `entries` of it can.
    """

    session_id: str
    said: tuple[str, ...] = ()
    calls: tuple[Called, ...] = ()
    issues: tuple[Issue, ...] = ()
    facts: Facts | None = None
    costs: Costs | None = None
    timeline: Timeline | None = None
    trouble: str = ""
    entries: int = 0


def detail_of(stored: Stored, session_id: str, now: float) -> Detail:
    """The detail of a session of the tree. `now` in Unix seconds. Raises KeyError."""
    rows = tree_rows(stored, now)
    row = next((row for row in rows if row.session_id == session_id), None)
    if row is None:
        raise KeyError(session_id)
    node = stored.nodes.get(session_id)
    path = node.tree.path() if node else []
    return Detail(
        session_id,
        tuple(conversation(spoken(path)[-_RECORDS:])),
        tuple(called(path)),
        tuple(issues(stored, session_id, rows)),
        facts(stored, session_id, row),
        costs(stored, session_id),
        timeline(stored, session_id, rows, round(now * 1000)),
        stored.troubles.get(session_id, ""),
        len(node.records) if node else 0,
    )
