"""Ids of sessions, drawn: chance is no business of the pure files."""

import secrets

from store.ids import session_id
from store.times import unix_ms

_CHANCE_BITS = 74


def new_id(now: float) -> str:
    """The id of a session that begins now, in Unix seconds."""
    return session_id(unix_ms(now), secrets.randbits(_CHANCE_BITS))
