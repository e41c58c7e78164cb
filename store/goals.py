"""The goal of a session: kept in its journal, so that every later run is held to it, until it is reached or dropped."""

from collections.abc import Sequence
from typing import Literal

from store.entries import CustomEntry
from store.records import Record

GOAL_MARK = "sapwood.goal"


def goal_entry(goal: str, status: Literal["active", "complete", "dropped"]) -> CustomEntry:
    return CustomEntry(custom_type=GOAL_MARK, data={"text": goal, "status": status})


def goal_of(records: Sequence[Record]) -> str | None:
    """What the session is held to: the goal that was set last, unless it is reached or dropped."""
    for record in reversed(records):
        body = record.body() if record.type == "custom" and GOAL_MARK.encode() in record.raw else None
        if isinstance(body, CustomEntry) and body.custom_type == GOAL_MARK and isinstance(body.data, dict):
            text = body.data.get("text")
            return text if isinstance(text, str) and body.data.get("status") == "active" else None
    return None
