"""Members of a JSON object in bytes: changed by name, while the others stay as they were written."""

import re
from collections.abc import Mapping

import msgspec

from store.records import well_formed
from store.wire import encode

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_object: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
CONTROL = re.compile(rb"[\x00-\x1f]")
_SHORT = {0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0C: b"\\f", 0x0D: b"\\r"}


def members(raw: bytes) -> dict[str, bytes] | None:
    """Name → value in bytes; None for what is no whole JSON object. Half surrogates come out as U+FFFD."""
    try:
        found = _object.decode(raw)
    except UNREADABLE:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            return None
        try:
            found = _object.decode(well_formed(raw))
        except UNREADABLE:
            return None
    return {name: bytes(value) for name, value in found.items()}


def with_members(raw: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The object `raw` with these members set, or taken away where the value is None. New ones come last.

    Nothing is decoded and written anew but the names, and where only new members come in not even those.
    """
    found = members(raw)
    if found is None:
        raise ValueError(f"expected a JSON object, found {raw[:80]!r}")
    added = {name: value for name, value in changes.items() if value is not None and name not in found}
    if any(name in found for name in changes):
        kept = {name: changes.get(name, value) for name, value in found.items()}
        raw = encode({name: msgspec.Raw(value) for name, value in kept.items() if value is not None})
        found = {name: value for name, value in kept.items() if value is not None}
    if not added:
        return raw
    end = raw.rindex(b"}")
    tail = b",".join(encode(name) + b":" + value for name, value in added.items())
    return raw[:end].rstrip() + (b"," if found else b"") + tail + b"}"


def with_control_characters_escaped(text: bytes) -> bytes:
    """JSON whose strings held raw control characters, newlines for example; between the strings these become spaces."""
    if not CONTROL.search(text):
        return text
    parts: list[bytes] = []
    at = 0
    for string in _STRING.finditer(text):
        parts += [CONTROL.sub(b" ", text[at : string.start()]), CONTROL.sub(_escape, string[0])]
        at = string.end()
    return b"".join([*parts, CONTROL.sub(b" ", text[at:])])


def _escape(found: "re.Match[bytes]") -> bytes:
    code = found[0][0]
    return _SHORT.get(code) or b"\\u%04x" % code
