"""The files of a folder of sessions, by what changes when they change."""

import os
from pathlib import Path
from typing import NamedTuple

from store.disk.fs import Fs, RealFs
from store.ids import is_session_id

JOURNAL = ".jsonl"
LOCK = ".lock"


class Stamp(NamedTuple):
    """A file that still has it was not written to since."""

    inode: int
    size: int
    mtime_ns: int


NO_STAMP = Stamp(0, 0, 0)


def stamps(fs: Fs, folder: Path, suffixes: tuple[str, ...] = (JOURNAL,)) -> dict[str, dict[str, Stamp]]:
    """For each suffix the files that have it: session id → stamp. None where the folder does not exist. Raises OSError."""
    found: dict[str, dict[str, Stamp]] = {suffix: {} for suffix in suffixes}
    for name, stamp in _files(fs, folder, suffixes):
        stem, _, suffix = name.rpartition(".")
        if is_session_id(stem):
            found[f".{suffix}"][stem] = stamp
    return found


def stamp_of(fs: Fs, path: Path) -> Stamp | None:
    """None for a file that is not there or cannot be looked at."""
    try:
        found = fs.lstat(path)
    except OSError:
        return None
    return Stamp(found.inode, found.size, found.mtime_ns)


def _files(fs: Fs, folder: Path, suffixes: tuple[str, ...]) -> list[tuple[str, Stamp]]:
    try:
        if not isinstance(fs, RealFs):
            names = [name for name in fs.listdir(folder) if name.endswith(suffixes)]
            pairs = [(name, stamp_of(fs, folder / name)) for name in names]
            return [(name, stamp) for name, stamp in pairs if stamp is not None]
        # Thousands of sessions: of a real folder a path and a Stat per file would take most of the time.
        files = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffixes):
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    files.append((entry.name, Stamp(found.st_ino, found.st_size, found.st_mtime_ns)))
    except FileNotFoundError:
        return []
    return files
