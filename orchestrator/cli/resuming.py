"""The options of a run that was interrupted, for the one that goes on with it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.terms import is_given, terms_kept
from store.disk.forest import read_header
from store.disk.home import Home
from store.errors import StoreError


def as_before(home: Home, session_id: str, options: dict[str, Any]) -> dict[str, Any]:
    """`options`, with the terms and the folder of the session's last run where none was given. Raises WrongUsage."""
    kept = terms_kept(home, session_id)
    with suppress(OSError, StoreError):  # whoever opens it says what is wrong
        header = read_header(home.fs, home, session_id)
        if header is not None:
            kept["cwd"] = header.cwd
    if is_given(options["tools"]):
        kept.pop("no_tools", None)
    if "gates" in kept:
        kept["gates"] = tuple(kept["gates"])
    before = {name: value for name, value in kept.items() if not is_given(options[name])}
    if "cwd" in before and not Path(before["cwd"]).is_dir():
        raise WrongUsage(
            f"the folder of session {session_id}, {before['cwd']}, is not there any more; name one with -C"
        )
    return {**options, **before}
