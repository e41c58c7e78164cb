"""What every Struct that is written down has in common: camelCase on the wire, absent instead of null."""

from typing import Any

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the nouns. A member without a default is always written, also when it is null."""


_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Compact JSON of a noun; `msgspec.Raw` members are spliced in as they are."""
    return _encoder.encode(value)
