"""From versions 1 and 2 to 3, entry by entry; only the members that a version renamed are touched.

Ids and parents, which version 1 has not, are given where entries are linked (`links.py`).
Source: seeds/base-context-session-format.md, "Legacy JSONL and Payload Versions"; pi 1.6, `migrateSessionEntries`.
"""

import msgspec

from store.legacy.lines import Item
from store.legacy.members import UNREADABLE, members, with_members
from store.wire import encode

_INDEX = "firstKeptEntryIndex"


def migrated(item: Item, version: int) -> Item:
    """The entry in the shape of version 3."""
    if version >= 3 or item.head.type != "message" or b'"hookMessage"' not in item.raw:
        return item
    message = (members(item.raw) or {}).get("message", b"")
    if (members(message) or {}).get("role") != b'"hookMessage"':
        return item
    renamed = with_members(message, {"role": b'"custom"'})
    return msgspec.structs.replace(item, raw=with_members(item.raw, {"message": renamed}))


def kept_place(item: Item) -> int | None:
    """Version 1: the place in the file (the header is 0) of the first entry that a compaction keeps."""
    if item.head.type != "compaction" or _INDEX.encode() not in item.raw:
        return None
    try:
        return msgspec.json.decode((members(item.raw) or {}).get(_INDEX, b""), type=int)
    except UNREADABLE:
        return None


def with_kept_entry(raw: bytes, entry: str) -> bytes:
    """The compaction, naming the first entry that it keeps by its id."""
    return with_members(raw, {"firstKeptEntryId": encode(entry), _INDEX: None})
