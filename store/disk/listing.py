"""Which sessions there are: what a session manager lists."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from store.disk.catalog import Catalog, Progress
from store.disk.fs import RealFs
from store.disk.home import Home
from store.errors import BadId, JournalRefused
from store.ids import checked_session_id
from store.summary import Summary

OnSession = Callable[[Summary], None]


class Listing:
    """The roots, the one first that was written to last. Children are found below them, or with `with_children`."""

    @classmethod
    def list(
        cls,
        cwd: str | Path,
        session_dir: Path | None = None,
        *,
        with_children: bool = False,
        on_progress: Progress | None = None,
        on_session: OnSession | None = None,
        home: Home | None = None,
    ) -> Sequence[Summary]:
        """Those of a folder. `on_progress`: how many of how many are read; `on_session`: each as it is listed. Raises OSError."""
        return _listed(place_of(home, session_dir), str(cwd), with_children, on_progress, on_session)

    @classmethod
    def list_all(
        cls,
        session_dir: Path | None = None,
        *,
        with_children: bool = False,
        on_progress: Progress | None = None,
        on_session: OnSession | None = None,
        home: Home | None = None,
    ) -> Sequence[Summary]:
        """Those of all folders. As `list`."""
        return _listed(place_of(home, session_dir), None, with_children, on_progress, on_session)


def place_of(home: Home | None, session_dir: str | Path | None) -> Home:
    """`home`, or the one that the environment names, with another folder of sessions if one is given. Raises StoreError."""
    home = home or Home.from_env(os.environ, RealFs())
    return home if session_dir is None else attrs.evolve(home, sessions=Path(session_dir).absolute())


def journal_place(home: Home | None, path: str | Path) -> tuple[Home, str]:
    """The folder that a journal lies in, and the id that its name is. Raises JournalRefused."""
    path = Path(path).absolute()
    try:
        session = checked_session_id(path.stem)
    except BadId as error:
        raise JournalRefused(
            f"{path}: {error}. `sapwood sessions import FILE` makes a session of other files"
        ) from error
    if path.suffix != ".jsonl":
        raise JournalRefused(f"{path}: expected a name that ends in .jsonl")
    return place_of(home, path.parent), session


def _listed(
    home: Home, cwd: str | None, with_children: bool, on_progress: Progress | None, on_session: OnSession | None
) -> Sequence[Summary]:
    with Catalog.open(home) as catalog:
        found = catalog.sessions(cwd, not with_children, on_progress)
    if on_session is not None:
        for summary in found:
            on_session(summary)
    return found
