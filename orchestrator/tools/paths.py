"""Paths that a model gave: made absolute, opened with care, and explained when they fail."""

import difflib
import itertools
import os
import stat
from collections.abc import Mapping

_FORBIDDEN = ("/proc", "/dev")
_LISTED = 5_000


class BadPath(Exception):
    """A path that a file tool cannot use. The text is for the model."""


def absolute_path(path: str, cwd: str, env: Mapping[str, str]) -> str:
    """`~` is HOME, and a relative path is below `cwd`. Raises BadPath for no name at all, /proc and /dev."""
    if not path or "\0" in path:
        raise BadPath(f"expected a path, found {path!r}")
    if path == "~" or path.startswith("~/"):
        path = env.get("HOME", "~") + path[1:]
    whole = "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")
    refuse_forbidden(whole, path)
    return os.path.join(cwd, path)


def open_regular(path: str) -> int:
    """A descriptor to read from. Raises BadPath unless what was *opened* is a regular file outside of /proc and /dev.

    O_NONBLOCK, so that a FIFO is refused and not waited for.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise BadPath(explained(error, path)) from error
    try:
        check_regular(os.fstat(fd), path)
        refuse_forbidden(os.readlink(f"/proc/self/fd/{fd}"), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_regular(status: os.stat_result, path: str) -> None:
    """Raises BadPath unless it is the status of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise BadPath(f"{shown_path(path)} is a directory; list it with bash: ls -la")
    if not stat.S_ISREG(status.st_mode):
        raise BadPath(f"{shown_path(path)} is {_kind(status.st_mode)}; expected a regular file")
    if status.st_dev == _proc_device():
        raise BadPath(f"{shown_path(path)} is in /proc, which file tools do not touch; use bash")


def explained(error: OSError, path: str) -> str:
    """Why a path failed; for one that is not there, with the names that are near."""
    if not isinstance(error, FileNotFoundError):
        return f"{shown_path(path)}: {error.strerror or error}"
    parent, missing = os.path.split(path.rstrip("/"))
    while parent != "/" and parent and not os.path.isdir(parent):
        parent, missing = os.path.split(parent)
    near = [shown_path(os.path.join(parent, name)) for name in near_names(missing, parent)]
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; {shown_path(parent)} has no such name"
    return f"{shown_path(path)} does not exist{hint}"


def near_names(name: str, folder: str) -> list[str]:
    """Up to three names of a folder that look like `name`; none where the folder cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in itertools.islice(entries, _LISTED)]
    except OSError:
        return []
    folded: dict[str, str] = {}
    for each in sorted(names, key=lambda each: each != name):
        folded.setdefault(each.casefold(), each)
    return [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3)]


def shown_path(path: str) -> str:
    """A path as valid text: what is no UTF-8 in a file's name becomes U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def refuse_forbidden(real: str, path: str) -> None:
    """Raises BadPath if `real` lies in /proc or /dev."""
    for folder in _FORBIDDEN:
        if real == folder or real.startswith(f"{folder}/"):
            raise BadPath(f"{shown_path(path)} is in {folder}, which file tools do not touch; use bash")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def _proc_device() -> int | None:
    try:
        return os.stat("/proc").st_dev
    except OSError:
        return None
