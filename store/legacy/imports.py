"""From session files to the journals that they become: ids, links between them, and the end of all work."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from store.entries import VERSION, ForkedFrom, Header
from store.legacy.family import Source
from store.legacy.history import let_go_of_terms, settle, stand_where_others_stand
from store.legacy.kin import Child, bear, with_keys, with_sessions_renamed
from store.legacy.members import members, with_members
from store.plain import last_time
from store.records import Record
from store.repair import Node, repair_plan, with_fixes
from store.tree import EntryTree
from store.wire import Wire, encode

IMPORTED_FROM = "importedFrom"


class ImportedFrom(Wire, frozen=True, kw_only=True):
    """Member `importedFrom` of a header: the session as it was called there, its file, and a digest of the file's bytes.

    The last four: what its header said of its place in a tree, where that is another one here.
    """

    session_id: str
    path: str
    digest: str
    version: int = VERSION
    parent_session: str | None = None
    parent_session_id: str | None = None
    root_session_id: str | None = None
    rlm_depth: int | None = None


@attrs.frozen
class Arrival:
    """One session on its way in. `parent`: the id that its parent has here; `copied`: what it began as a copy of."""

    source: Source
    session_id: str
    parent: str | None = None
    copied: ForkedFrom | None = None


class Journal(msgspec.Struct, frozen=True):
    """What is to be written: the JSON object of the header, and the records."""

    header: bytes
    records: tuple[Record, ...]


def journals(
    arrivals: Sequence[Arrival], journal_path: Callable[[str], str], renamed: Mapping[str, str] | None = None
) -> dict[str, Journal]:
    """The journals of one tree, by session id. `arrivals`: the root first, parents before their children.

    `renamed`: further ids of sessions that entries name and that mean somebody else here.
    """
    names = {each.source.header.id: each.session_id for each in arrivals if each.source.header.id} | dict(renamed or {})
    root = arrivals[0].session_id
    headers: dict[str, bytes] = {}
    children: dict[str, list[Child]] = {}
    trees: dict[str, EntryTree] = {}
    depths: dict[str, int] = {}
    for each in arrivals:
        depths[each.session_id] = depths[each.parent] + 1 if each.parent is not None else 0
        headers[each.session_id] = _header(each, root, depths[each.session_id], names, journal_path)
    # From the last to the first: a parent's attributions get the keys of its children's entries.
    for each in reversed(arrivals):
        header = msgspec.json.decode(headers[each.session_id], type=Header)
        here = list(reversed(children.get(each.session_id, [])))
        records = [with_sessions_renamed(record, names) for record in each.source.records]
        tree = EntryTree.of(with_keys(records, header, here), header)
        stand_where_others_stand(header, tree)
        bear(header, tree, here)
        let_go_of_terms(header, tree)
        settle(header, tree)
        if tree.records:  # the repair writes at the time of the last entry
            tree.records[-1] = msgspec.structs.replace(tree.records[-1], timestamp=last_time(header, tree))
        trees[each.session_id] = tree
        if each.parent is not None:
            children.setdefault(each.parent, []).append(Child(header, tuple(tree.records)))
    nodes = {session: Node(msgspec.json.decode(headers[session], type=Header), trees[session]) for session in headers}
    whole = with_fixes(nodes, repair_plan(nodes, root))
    return {session: Journal(headers[session], tuple(whole[session].records)) for session in headers}


def _header(
    arrival: Arrival, root: str, depth: int, names: Mapping[str, str], journal_path: Callable[[str], str]
) -> bytes:
    """The header with its new place; what others wrote into it and we do not know stays."""
    header = arrival.source.header
    origin = ImportedFrom(
        session_id=header.id,
        path=arrival.source.path,
        digest=arrival.source.digest,
        version=arrival.source.whole.version,
        parent_session=header.parent_session if arrival.parent is not None else None,
        parent_session_id=header.parent_session_id if header.parent_session_id != arrival.parent else None,
        root_session_id=header.root_session_id if header.parent_session_id != arrival.parent else None,
        rlm_depth=header.rlm_depth if header.depth != depth else None,
    )
    changes: dict[str, Any] = {
        "id": arrival.session_id,
        "parentSessionId": arrival.parent,
        "rootSessionId": root if arrival.parent is not None else None,
        "forkedFrom": arrival.copied or _still_forked(arrival.source, names),
        IMPORTED_FROM: origin,
    }
    if arrival.parent is not None:
        changes["parentSession"] = journal_path(arrival.parent)
    if header.depth != depth or arrival.parent is not None:
        changes["rlmDepth"] = depth
    return with_members(
        arrival.source.whole.header_raw,
        {name: None if value is None else encode(value) for name, value in changes.items()},
    )


def _still_forked(source: Source, names: Mapping[str, str]) -> ForkedFrom | None:
    """What the header says of a fork, counted in the records that are left."""
    forked = source.header.forked_from
    if forked is None:
        return None
    count = max(0, min(forked.records, len(source.records)))
    for place, record in enumerate(source.records[:count]):
        if record.id == forked.entry_id:
            count = place + 1
    session = names.get(forked.session_id, forked.session_id)
    return msgspec.structs.replace(forked, session_id=session, records=count)


def imported_from(header: bytes) -> ImportedFrom | None:
    """Where a session came from, by the JSON object of its header."""
    if IMPORTED_FROM.encode() not in header:
        return None
    try:
        return msgspec.json.decode((members(header) or {}).get(IMPORTED_FROM, b""), type=ImportedFrom)
    except msgspec.DecodeError:
        return None
