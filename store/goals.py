"""The goal of a session: kept in its journal, so that every later run is held to it, until it is reached or dropped."""

from collections.abc import Sequence
from typing import Literal

from store.entries import CustomEntry
from store.records import Record, last_marked

GOAL_MARK = "sapwood.goal"


def goal_entry(goal: str, status: Literal["active", "complete", "dropped"]) -> CustomEntry:
    return CustomEntry(custom_type=GOAL_MARK, data={"text": goal, "status": status})


def goal_of(records: Sequence[Record]) -> str | None:
    """What the session is held to: the goal that was set last, unless it is reached or dropped."""
    last = last_marked(records, GOAL_MARK) or {}
    text = last.get("text")
    return text if isinstance(text, str) and last.get("status") == "active" else None
