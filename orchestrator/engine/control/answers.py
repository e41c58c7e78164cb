"""The lines of a connection that are no events: answers, snapshots, gaps."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import msgspec

from orchestrator.views.rows import AgentRow
from store.wire import encode

Data = Mapping[str, Any] | None
"""The members of `data`."""


# How lines of the connection begin that are neither answers nor events.
SNAPSHOT, OPENED, LEFT, GAP = (f'{{"type":"{kind}"'.encode() for kind in ("snapshot", "opened", "left", "gap"))


@attrs.frozen
class Followed:
    """An answer, and what happens right behind it, before anything else can."""

    data: Data
    then: Callable[[], None]


# What a command comes to: data at once, or a wait that ends in them.
Answer = Data | Followed | Callable[[], Awaitable[Data]]


class Refused(Exception):
    """The command was understood and not done. `code` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def success(id: msgspec.Raw | None, command: str, data: Data) -> bytes:
    head = {} if id is None else {"id": id}
    body = {} if data is None else {"data": data}
    return encode({**head, "type": "response", "command": command, "success": True, **body}) + b"\n"


def failure(id: msgspec.Raw | None, command: str, code: str, message: str) -> bytes:
    head = {} if id is None else {"id": id}
    error = {"code": code, "message": message}
    return encode({**head, "type": "response", "command": command, "success": False, "error": error}) + b"\n"


def snapshot(generation: str, row: AgentRow) -> bytes:
    """How a session stands."""
    named = {"rootSessionId": row.root_session_id, "sessionId": row.session_id}
    return encode({"type": "snapshot", "generation": generation, **named, "row": row}) + b"\n"


def opened(generation: str, root_id: str, seq: int, rows: int) -> bytes:
    """A stored tree is at hand from now on: so many snapshot lines follow, and its lines behind number `seq` after them."""
    where = {"generation": generation, "rootSessionId": root_id, "seq": seq}
    return encode({"type": "opened", **where, "rows": rows}) + b"\n"


def left(root_id: str) -> bytes:
    """The host has let go of this tree."""
    return encode({"type": "left", "rootSessionId": root_id}) + b"\n"


def gap(root_id: str, missed: int) -> bytes:
    """So many lines of this tree are not sent: the reader was too slow."""
    return encode({"type": "gap", "rootSessionId": root_id, "missed": missed}) + b"\n"
