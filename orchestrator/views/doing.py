"""What a session is doing now, or how it ended: one line, with the time since when."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from orchestrator.views.states import State
from orchestrator.views.stored import Member, Stored
from store.context import dangling_calls
from store.records import Record
from store.summary import LINE_CHARS, Summary
from store.times import iso

Kind = Literal[
    "question",
    "error",
    "retry",
    "compaction",
    "tool",
    "thinking",
    "writing",
    "children",
    "slot",
    "silent",
    "answer",
]
_UNHAPPY = frozenset({"failed", "aborted", "timed_out", "limit_reached"})
_YEAR_10000_MS = 253_402_300_800_000


class Activity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`label`: text of the model, a tool or a provider, as it is. `since`: an ISO time."""

    kind: Kind
    label: str
    since: str | None = None


def activity(
    stored: Stored, member: Member, read: Summary, shown: State, children_work: Sequence[bool]
) -> Activity | None:
    """What the column Doing is made from. `children_work`: for each child, whether it works."""
    match shown.word:
        case "running":
            return _open_work(member.node.tree.path() if member.node else [], read)
        case "waiting" if not read.is_open:
            return Activity(kind="slot", label="for a free slot")
        case "waiting":
            working = sum(children_work)
            label = f"for {working} of {len(children_work)} children"
            return Activity(kind="children", label=label, since=read.modified)
        case "unknown" if read.is_open or member.node is None:
            return Activity(kind="silent", label="host does not answer", since=read.modified)
        case "damaged":
            return _error(stored.troubles.get(member.session_id, "it cannot be read"), None)
        case "lost":
            return _error(_why_lost(stored, member, read), read.modified)
    return at_rest(read, shown)


def at_rest(read: Summary, shown: State) -> Activity | None:
    """Of a session that nobody works on: its question, the error of a run that went wrong, else its answer."""
    if shown.word == "idle":
        return None
    if shown.word == "needs input":
        return Activity(kind="question", label=read.summary or read.answer or "", since=read.modified)
    if read.outcome not in {None, "completed"}:
        error = read.run_error or read.answer_error
        if error or read.outcome in _UNHAPPY:
            return _error(error or str(read.outcome).replace("_", " "), read.modified)
    return Activity(kind="answer", label=read.answer, since=read.modified) if read.answer else None


def _why_lost(stored: Stored, member: Member, read: Summary) -> str:
    if member.node is None:
        return "it was admitted and never began"
    if read.run_error:
        return read.run_error
    # Where the loss was written down, the process that is known is the one that did so: a later owner.
    is_its_host = stored.pid is not None and (read.outcome is None or stored.unrepaired)
    return f"its host (pid {stored.pid}) ended" if is_its_host else "its host ended"


def _error(text: str, since: str | None) -> Activity:
    return Activity(kind="error", label=text.strip()[:LINE_CHARS], since=since)


def _open_work(path: list[Record], read: Summary) -> Activity:
    open_calls = dangling_calls(path)
    if not open_calls:
        return Activity(kind="thinking", label="thinking", since=read.modified)
    call, timestamp = open_calls[0]
    label = f"{call.name} {first_argument(call.checked_arguments)}".strip()
    if len(open_calls) > 1:
        label += f" · +{len(open_calls) - 1}"
    since = iso(timestamp / 1000) if 0 < timestamp < _YEAR_10000_MS else read.modified
    return Activity(kind="tool", label=label, since=since)


def first_argument(arguments: dict[str, Any]) -> str:
    """The first argument of a call as one short text."""
    for value in arguments.values():
        if isinstance(value, str):
            return value[:LINE_CHARS]
        if isinstance(value, int | float):
            return str(value)
    return ""
