"""Why a session runs: for its task, for a message of another agent, or because a person asked it."""

from collections.abc import Iterable

import attrs

from store.attribution import Key, billed_usage
from store.entries import AGENT_MESSAGE, ChildSpawnedEntry, CustomMessageEntry, MessageEntry, Origin
from store.records import Record


def first_origin(tool_call_id: str | None) -> Origin:
    """Why a child has its first run: a tool asked for it, or a person."""
    return "spawn_task" if tool_call_id else "direct_user"


@attrs.define
class RunOrigin:
    """Why the open run, or the last one, was begun: a fold over the session's own records.

    The first run is for what the child was spawned for. A later one is for the message that it begins with; one that only the
    end of a child begins goes on with what was before.
    """

    why: Origin = "spawn_task"
    _is_beginning: bool = False

    def take(self, record: Record) -> None:
        if record.type == "run_settled":
            self._is_beginning = True
        elif self._is_beginning and record.type in {"message", "custom_message"}:
            match record.body():
                case CustomMessageEntry(custom_type=kind) if kind == AGENT_MESSAGE:
                    self.why, self._is_beginning = "agent_message", False
                case MessageEntry(message=raw) if bytes(raw).startswith(b'{"role":"user"'):
                    self.why, self._is_beginning = "direct_user", False
                case MessageEntry(message=raw) if bytes(raw).startswith(b'{"role":"assistant"'):
                    self._is_beginning = False


def origins(child: ChildSpawnedEntry, records: Iterable[Record]) -> tuple[dict[Key, Origin], Origin]:
    """Why the child ran when it, or one below it, was billed: by the keys that its journal holds; and why it runs now."""
    run = RunOrigin(first_origin(child.tool_call_id))
    found: dict[Key, Origin] = {}
    for record in records:
        run.take(record)
        key = (child.child_session_id, record.id) if billed_usage(record) is not None else record.key
        if key is not None:
            found.setdefault(key, run.why)
    return found, run.why
