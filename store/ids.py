"""Names of sessions and entries."""

import re
import uuid

from store.errors import BadId

_SESSION_ID = re.compile(r"[0-9a-z][0-9a-z-]{7,63}")
_UNIX_MS_BITS = 48


def session_id(unix_ms: int, random: int) -> str:
    """A UUIDv7 of this time and these 74 random bits (more are cut off). Source: RFC 9562, 5.7."""
    value = (unix_ms & ((1 << _UNIX_MS_BITS) - 1)) << 80
    value |= 0x7 << 76 | ((random >> 62) & 0xFFF) << 64
    value |= 0b10 << 62 | (random & ((1 << 62) - 1))
    return str(uuid.UUID(int=value))


def is_session_id(text: str) -> bool:
    """Whether a path may be built from it."""
    return _SESSION_ID.fullmatch(text) is not None


def checked_session_id(text: str) -> str:
    """`text`, if a path may be built from it. Raises BadId."""
    if not is_session_id(text):
        raise BadId(f"expected a session id ([0-9a-z][0-9a-z-]{{7,63}}), found {text[:80]!r}")
    return text


def entry_id(number: int) -> str:
    """Entry number `number` of a journal as 8 hex digits."""
    return f"{number:08x}"


def short(session: str) -> str:
    """The last 8 characters: what people see and type."""
    return session[-8:]
