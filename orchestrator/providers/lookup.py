"""Which row of a table of compatible servers holds for one of them."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

Row = TypeVar("Row")


def row_of(table: Mapping[str, Row], base_url: str, provider: str, usual: Row) -> Row:
    """The row of the host in `base_url` or of a host above it, else that of the provider's name, else `usual`.

    A key with a dot is a host and covers those below it; the others are names of providers, for servers behind a proxy.
    """
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        host = ""
    while "." in host:
        if host in table:
            return table[host]
        host = host.partition(".")[2]
    return table.get(provider, usual) if "." not in provider else usual
