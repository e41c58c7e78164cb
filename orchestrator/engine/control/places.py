"""Where hosts can be reached: names in `$SAPWOOD_HOME/run/`, one per process.

A socket's address holds about 100 bytes only. Where the path is longer the socket lies in a short folder, and a file in its
place says where.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir

import attrs

from store.disk.fs import open_own, read_whole
from store.disk.home import Home
from store.errors import StoreError

ADDRESS_BYTES = 100
_SOCKET, _POINTER = ".sock", ".path"


@attrs.frozen
class Place:
    """A host's socket. `pointer`: the file that leads to it, where it lies elsewhere."""

    socket: Path
    pointer: Path | None = None

    def remove(self) -> None:
        """Nobody is there any more."""
        for path in (self.pointer, self.socket):
            if path is not None:
                path.unlink(missing_ok=True)


def run_folder(home: Home) -> Path:
    return home.root / "run"


def new_place(home: Home, host_id: str, environ: Mapping[str, str]) -> Place:
    """Where the endpoint of this process will be; its folder is there and ours. Raises StoreError, OSError."""
    home.make_folder(home.root)
    folder = run_folder(home)
    home.make_folder(folder)
    name = f"{os.getpid()}-{host_id}"
    path = folder / (name + _SOCKET)
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        return Place(path)
    short = _short_folder(home, environ) / path.name
    if len(os.fsencode(short)) > ADDRESS_BYTES:
        raise StoreError(
            f"{short}: expected a path of at most {ADDRESS_BYTES} bytes; set XDG_RUNTIME_DIR to a short one"
        )
    return Place(short, folder / (name + _POINTER))


def _short_folder(home: Home, environ: Mapping[str, str]) -> Path:
    """A folder of ours that only we can look into, where the system has such folders."""
    given = environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(given) / "sapwood" if given.startswith("/") else Path(gettempdir()) / f"sapwood-{os.geteuid()}"
    home.make_folder(folder)
    return folder


def places(home: Home) -> list[Place]:
    """All that there are, answered or not. None where the folder is not there."""
    folder = run_folder(home)
    try:
        # With a dot: not listening yet.
        names = sorted(name for name in home.fs.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [Place(folder / name) for name in names if name.endswith(_SOCKET)]
    for name in names:
        if name.endswith(_POINTER) and (socket := _pointed_to(home, folder / name)) is not None:
            found.append(Place(socket, folder / name))
    return found


def _pointed_to(home: Home, pointer: Path) -> Path | None:
    try:
        fd, found = open_own(home.fs, pointer, os.O_RDONLY)
    except (OSError, StoreError):
        return None
    try:
        text = os.fsdecode(read_whole(home.fs, fd, min(found.size, 4096))).strip()
    finally:
        home.fs.close(fd)
    return Path(text) if text.startswith("/") else None
