"""What a session is doing now, or how it ended: one line, with the time since when."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from orchestrator.views.digest import Digest, answer_line
from orchestrator.views.states import State
from orchestrator.views.stored import Member, Stored
from store.context import dangling_calls, last_assistant
from store.records import Record
from store.times import iso

Kind = Literal["question", "error", "tool", "thinking", "children", "slot", "silent", "answer"]
_LABEL_CHARS = 200
_YEAR_10000_MS = 253_402_300_800_000


class Activity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`label`: text of the model, a tool or a provider, as it is. `since`: an ISO time."""

    kind: Kind
    label: str
    since: str | None = None


def activity(
    stored: Stored, member: Member, read: Digest, shown: State, children_work: Sequence[bool]
) -> Activity | None:
    """What the column Doing is made from. `children_work`: for each child, whether it works."""
    path = member.node.tree.path() if member.node else []
    match shown.word:
        case "running":
            return _open_work(path, read)
        case "waiting" if not read.is_open:
            return Activity(kind="slot", label="for a free slot")
        case "waiting":
            working = sum(children_work)
            label = f"for {working} of {len(children_work)} children"
            return Activity(kind="children", label=label, since=read.last_at)
        case "needs input":
            return Activity(kind="question", label=read.summary or answer_line(path) or "", since=read.last_at)
        case "unknown" if read.is_open or member.node is None:
            return Activity(kind="silent", label="host does not answer", since=read.last_at)
        case "damaged":
            return _error(stored.troubles.get(member.session_id, "it cannot be read"), None)
        case "lost":
            return _error(_why_lost(stored, member, read), read.last_at)
        case "idle":
            return None
    return _ending(member, read, path)


def _ending(member: Member, read: Digest, path: list[Record]) -> Activity | None:
    """The error of a run that went wrong, else the first line of its answer."""
    last = read.last_run or member.settled
    outcome = last.outcome if last else None
    if last is not None and outcome != "completed":
        said = last_assistant(path)
        error = last.error_message or (said.error_message if said else None)
        if error or outcome in {"failed", "aborted", "timed_out", "limit_reached"}:
            return _error(error or str(outcome).replace("_", " "), read.last_at)
    if path:
        line = answer_line(path)
    else:
        line = member.settled.text.strip().partition("\n")[0] if member.settled else None
    return Activity(kind="answer", label=line[:_LABEL_CHARS], since=read.last_at) if line else None


def _why_lost(stored: Stored, member: Member, read: Digest) -> str:
    if read.last_run is not None and read.last_run.error_message:
        return read.last_run.error_message
    if member.node is None:
        return "it was admitted and never began"
    # Where the loss was written down, the process that is known is the one that did so: a later owner.
    is_its_host = stored.pid is not None and (read.last_run is None or stored.unrepaired)
    return f"its host (pid {stored.pid}) ended" if is_its_host else "its host ended"


def _error(text: str, since: str | None) -> Activity:
    return Activity(kind="error", label=text.strip()[:_LABEL_CHARS], since=since)


def _open_work(path: list[Record], read: Digest) -> Activity:
    open_calls = dangling_calls(path)
    if not open_calls:
        return Activity(kind="thinking", label="thinking", since=read.last_at)
    call, timestamp = open_calls[0]
    label = f"{call.name} {first_argument(call.checked_arguments)}".strip()
    if len(open_calls) > 1:
        label += f" · +{len(open_calls) - 1}"
    since = iso(timestamp / 1000) if 0 < timestamp < _YEAR_10000_MS else read.last_at
    return Activity(kind="tool", label=label, since=since)


def first_argument(arguments: dict[str, Any]) -> str:
    """The first argument of a call as one short text."""
    for value in arguments.values():
        if isinstance(value, str):
            return value[:_LABEL_CHARS]
        if isinstance(value, int | float):
            return str(value)
    return ""
