"""Time zones by name, out of the system's own files."""

import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from store.errors import BadWhen

_LOCALTIME = Path("/etc/localtime")
_FOLDER = "zoneinfo/"


def zone_named(name: str) -> tzinfo:
    """Raises BadWhen for a name that the system does not know. UTC is known everywhere."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise BadWhen(f"expected the name of a time zone such as Europe/Berlin, found {name[:80]!r}") from error


def local_zone(environ: Mapping[str, str]) -> str:
    """The name of the zone that the clock of this machine goes by; UTC where it has none that can be named."""
    names = [environ.get("TZ", "").removeprefix(":")]
    try:
        names.append(os.path.realpath(_LOCALTIME).partition(_FOLDER)[2])
    except OSError:
        pass
    for name in filter(None, names):
        try:
            zone_named(name)
        except BadWhen:
            continue
        return name
    return "UTC"
