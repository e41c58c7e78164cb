"""The results of calls that a crash cut off: what happened is not known, but which children were started is."""

from collections.abc import Sequence

import msgspec

from store.context import dangling_calls, interrupted
from store.entries import ChildSpawnedEntry, MessageEntry
from store.records import Record
from store.tree import EntryTree
from store.wire import encode


def interrupted_results(tree: EntryTree) -> list[MessageEntry]:
    """An error result for each call on the path that has none, in call order."""
    return [
        MessageEntry(message=msgspec.Raw(encode(interrupted(call, timestamp, started_by(tree.own_records, call.id)))))
        for call, timestamp in dangling_calls(tree.path())
    ]


def started_by(records: Sequence[Record], call_id: str) -> list[str]:
    """The names of the children that this call has started, if it is one of the last answer: ids may repeat in others."""
    needle, names = encode(call_id), []
    for record in reversed(records):
        if record.type == "child_spawned":
            body = record.body()
            if isinstance(body, ChildSpawnedEntry) and body.tool_call_id == call_id:
                names.append(body.name)
        elif record.type == "message" and b'"role":"assistant"' in record.raw and needle in record.raw:
            break
    return names[::-1]
