"""The options of a run that was interrupted, for the one that goes on with it."""

from pathlib import Path
from typing import Any

from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.terms import is_given, terms_of
from store.disk.forest import decoded
from store.disk.home import Home
from store.disk.journal import read_journal
from store.errors import StoreError


def as_before(home: Home, session_id: str, options: dict[str, Any]) -> dict[str, Any]:
    """`options`, with the terms and the folder of the session's last run where none was given. Raises WrongUsage."""
    try:
        recovery = read_journal(home.fs, home.journal_path(session_id), session_id)
    except (OSError, StoreError):
        return options  # whoever opens it says what is wrong
    kept = terms_of(list(decoded(recovery.records)))
    if recovery.header is not None:
        kept["cwd"] = recovery.header.cwd
    if "gates" in kept:
        kept["gates"] = tuple(kept["gates"])
    before = {name: value for name, value in kept.items() if not is_given(options[name])}
    if "cwd" in before and not Path(before["cwd"]).is_dir():
        raise WrongUsage(
            f"the folder of session {session_id}, {before['cwd']}, is not there any more; name one with -C"
        )
    return {**options, **before}
