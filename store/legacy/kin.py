"""What a parent's journal has to say of children that were imported with it: their birth, and whose spend it holds."""

from collections import deque
from collections.abc import Mapping, Sequence

import attrs
import msgspec

from store.attribution import billed, own_records
from store.entries import ChildSpawnedEntry, ChildUsageAttributedEntry, Header, MessageEntry
from store.errors import BadRecord, BadUsage
from store.ids import short
from store.legacy.family import task_of
from store.legacy.members import members, with_members
from store.messages import AssistantMessage, UserMessage, decode_message, text_of
from store.plain import hung
from store.records import Record, read_record
from store.repair import bounded, children_of
from store.tree import EntryTree
from store.usage import Spend, Usage, spend_of
from store.wire import encode

_PROMPT_BYTES = 4 * 1024
# Members by which entries name sessions.
_SESSION_MEMBERS = {
    "child_spawned": ("childSessionId",),
    "child_settled": ("childSessionId",),
    "child_usage_attributed": ("childSessionId", "originSessionId"),
    "mail": ("from",),
}


@attrs.frozen
class Child:
    """A session that was imported with its parent, under the id that it has now."""

    header: Header
    records: Sequence[Record]


def with_sessions_renamed(record: Record, names: Mapping[str, str]) -> Record:
    """The entry with the ids that sessions have here."""
    wanted = _SESSION_MEMBERS.get(record.type)
    if wanted is None or not names:
        return record
    found = members(record.raw) or {}
    changes: dict[str, bytes | None] = {}
    for member in wanted:
        try:
            old = msgspec.json.decode(found.get(member, b"null"), type=str)
        except msgspec.DecodeError:
            continue
        if names.get(old, old) != old:
            changes[member] = encode(names[old])
    return read_record(with_members(record.raw, changes)) if changes else record


def with_keys(records: Sequence[Record], parent: Header, children: Sequence[Child]) -> list[Record]:
    """The parent's records, each own attribution with the key of the child's entry that it is about.

    Attributions of Prime Agent have none. Beside children that are here, what is billed below would count twice, so each
    gets one: of the first entry that cost the same and has none yet, else of its own.
    """
    if not children:
        return list(records)
    billed_below = _billed(children)
    own = own_records(parent, records)
    inherited = records[: len(records) - len(own)]
    return [*inherited, *(_with_key(record, parent.id, billed_below) for record in own)]


def _billed(children: Sequence[Child]) -> dict[Spend, deque[tuple[str, str]]]:
    found: dict[Spend, deque[tuple[str, str]]] = {}
    for child in children:
        for entry, usage in billed(child.header, child.records):
            spend = _spend(usage)
            if spend is not None:
                found.setdefault(spend, deque()).append((child.header.id, entry))
    return found


def _with_key(record: Record, parent: str, billed_below: dict[Spend, deque[tuple[str, str]]]) -> Record:
    if record.type != "child_usage_attributed" or record.key is not None:
        return record
    body = record.body()
    spend = _spend(body.child_usage) if isinstance(body, ChildUsageAttributedEntry) else None
    if spend is None:
        return record
    same = billed_below.get(spend)
    session, entry = same.popleft() if same else (parent, record.id)
    changes = {"originSessionId": encode(session), "originEntryId": encode(entry)}
    if session != parent:
        changes["childSessionId"] = encode(session)
    return read_record(with_members(record.raw, changes))


def _spend(usage: Usage) -> Spend | None:
    try:
        return spend_of(usage)
    except BadUsage:
        return None


def bear(header: Header, tree: EntryTree, children: Sequence[Child]) -> None:
    """Write the birth of each child that the parent's journal does not name."""
    named = {child.child_session_id for child in children_of(tree.records)}
    for child in children:
        if child.header.id not in named:
            hung(_spawned(child, tree), header, tree)


def _spawned(child: Child, tree: EntryTree) -> ChildSpawnedEntry:
    return ChildSpawnedEntry(
        child_session_id=child.header.id,
        name=_name(child) or short(child.header.id),
        child_depth=child.header.depth,
        prompt=bounded(_prompt(child.records), _PROMPT_BYTES),
        model=_model(child.records),
        tool_call_id=_call(child.header.id, tree),
    )


def _name(child: Child) -> str | None:
    names = [members(record.raw) or {} for record in child.records if record.type == "session_info"]
    try:
        return msgspec.json.decode(names[-1].get("name", b"null"), type=str | None) if names else child.header.name
    except msgspec.DecodeError:
        return child.header.name


def _prompt(records: Sequence[Record]) -> str:
    task = task_of(records)
    if task is not None and isinstance(task.get("message"), str):
        return str(task["message"])
    for message in (_message(record) for record in records):
        if isinstance(message, UserMessage):
            return text_of(message.content)
    return ""


def _model(records: Sequence[Record]) -> str:
    for message in (_message(record) for record in records):
        if isinstance(message, AssistantMessage) and message.model:
            return f"{message.provider}/{message.model}"
    return ""


def _call(child: str, tree: EntryTree) -> str | None:
    """The tool call that admitted the child: the only one of the message that its spend was attributed to."""
    for record in tree.records:
        if record.key is not None and record.key[0] == child:
            body = record.body()
            target = tree.get(body.target_id or "") if isinstance(body, ChildUsageAttributedEntry) else None
            message = _message(target) if target is not None else None
            if isinstance(message, AssistantMessage) and len(message.calls) == 1:
                return message.calls[0].id
    return None


def _message(record: Record) -> object:
    body = record.body() if record.type == "message" else None
    try:
        return decode_message(body.message) if isinstance(body, MessageEntry) else None
    except BadRecord:
        return None
