"""The header of a plain session file: found, mended, or made where there is none."""

import re
from typing import Any

import msgspec

from store.entries import VERSION, Header
from store.legacy.lines import Item, Lost
from store.legacy.members import UNREADABLE, members, with_members
from store.wire import encode

_VERSION = re.compile(rb'"version":\s*(\d{1,9})\s*[,}]')
_HEADER_BYTES = 12 * 1024
# What we know of a header, and what it must be for us; other members are others' business.
_TYPES: dict[str, Any] = {
    field.encode_name: field.type for field in msgspec.structs.fields(Header) if field.encode_name != "version"
}
_NEEDED = ("id", "timestamp", "cwd")


class Found(msgspec.Struct, frozen=True):
    """A header: `raw` in the shape of version 3, with all members that others wrote; `notes` on what was mended."""

    header: Header
    raw: bytes
    version: int
    notes: tuple[str, ...] = ()
    is_made: bool = False


def read_header(item: Item) -> Found:
    """The header in a line of type `session`."""
    found = members(item.raw) or {}
    version, notes = _version(found.get("version"))
    changes: dict[str, bytes | None] = {} if found.get("version") == b"3" else {"version": b"3"}
    for name, kind in _TYPES.items():
        value = found.get(name)
        if value is None and name in _NEEDED:
            changes[name] = b'""'
            notes.append(f"the header has no {name}")
        elif value is not None and not _fits(value, kind):
            changes[name] = b'""' if name in _NEEDED else None
            notes.append(f"the header's {name} cannot be {value[:40].decode(errors='replace')}")
    changes["framing"] = None
    raw = with_members(item.raw, changes) if changes else item.raw
    raw, dropped = _bounded(raw)
    notes += [f"the header's {name} was left out: it is too long" for name in dropped]
    return Found(msgspec.json.decode(raw, type=Header), raw, version, tuple(notes))


def make_header(items: list[Item], lost: list[Lost]) -> Found:
    """A header for a file that has lost its own, out of what is left of it and of the first entry."""
    torn = next((piece.raw for piece in lost if piece.raw.startswith(b'{"type":"sess')), b"")
    timestamp = _text(torn, "timestamp") or next((each.head.timestamp for each in items if each.head.timestamp), "")
    header = Header(
        version=VERSION,
        id=_text(torn, "id"),
        timestamp=timestamp if isinstance(timestamp, str) else "",
        cwd=_text(torn, "cwd"),
    )
    told = _VERSION.search(torn)
    if told:
        version = int(told[1])
    else:  # version 2 differs from 3 by a name that 3 never uses
        version = 2 if any(item.head.id is not msgspec.UNSET for item in items) else 1
    return Found(header, encode(header), version, ("there is no header: one was made",), is_made=True)


def _version(value: bytes | None) -> tuple[int, list[str]]:
    """The version; absent or null is 1."""
    if value is None or value == b"null":
        return 1, []
    try:
        return int(msgspec.json.decode(value, type=float | str)), []
    except (*UNREADABLE, ValueError, OverflowError):
        return VERSION, [f"the header's version cannot be {value[:40].decode(errors='replace')}; taken for {VERSION}"]


def _fits(value: bytes, kind: Any) -> bool:
    try:
        msgspec.json.decode(value, type=kind)
    except UNREADABLE:
        return False
    return True


def _bounded(raw: bytes) -> tuple[bytes, list[str]]:
    """A header that fits into the first read of a journal, without its longest members that we do not need."""
    dropped: list[str] = []
    while len(raw) > _HEADER_BYTES:
        found = {name: value for name, value in (members(raw) or {}).items() if name not in (*_NEEDED, "type")}
        if not found:
            longest = max(_NEEDED, key=lambda name: len((members(raw) or {})[name]))
            raw = with_members(raw, {longest: b'""'})
        else:
            longest = max(found, key=lambda name: len(found[name]) + len(name))
            raw = with_members(raw, {longest: None})
        dropped.append(longest)
    return raw, dropped


def _text(torn: bytes, name: str) -> str:
    """A whole string member of a torn object; empty where there is none."""
    found = re.search(rb'"%b":("[^"\\]*(?:\\.[^"\\]*)*")' % name.encode(), torn)
    try:
        return msgspec.json.decode(found[1], type=str) if found else ""
    except UNREADABLE:
        return ""
