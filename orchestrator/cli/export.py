"""Where an export goes: a file of its own, stdout, or folders as another program has them."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.cli.stdout import leave
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.views.stored import Stored, members, subtree
from orchestrator.views.text import escaped_json
from store.disk.home import Home
from store.disk.importing import header_line
from store.entries import Header
from store.legacy.members import with_members
from store.plain import pi_file, pi_folder, plain_lines
from store.repair import Node
from store.wire import encode


def session_lines(home: Home, node: Node, parent_session: str | None = None) -> Iterator[bytes]:
    """The plain file of one session. `parent_session`: where the file of its parent, or of its source, is now."""
    header = header_line(home.fs, home, node.header.id) or encode(node.header)
    if parent_session is not None:
        header = with_members(header, {"parentSession": encode(parent_session)})
    return plain_lines(header, node.records)


def write_stdout(parts: Iterable[bytes]) -> None:
    """All of it, byte for byte."""
    try:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        leave()


def shown_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of JSON for stdout: on a terminal what could harm it is escaped, as JSON that says the same."""
    for line in lines:
        yield escaped_json(line.decode(errors="replace").rstrip("\n")).encode() + b"\n" if sys.stdout.isatty() else line


def write_file(path: Path, parts: Iterable[bytes], *, force: bool) -> None:
    """A file for nobody but the user, whole or not at all. Raises WrongUsage if it is there, EngineError."""
    if not force and os.path.lexists(path):
        raise WrongUsage(f"{path} is there already; nothing was written. --force replaces it")
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from error


def pi_files(stored: Stored, session_id: str, folder: Path) -> dict[str, tuple[Node, Path]]:
    """Session → its journal and the path that pi would give it, for a session and all below it that can be read."""
    return {
        member.session_id: (member.node, _pi_path(member.node.header, folder))
        for member in subtree(members(stored), session_id)
        if member.node is not None
    }


def _pi_path(header: Header, folder: Path) -> Path:
    return folder / pi_folder(header.cwd) / pi_file(header)


def write_pi(home: Home, files: dict[str, tuple[Node, Path]], *, force: bool) -> None:
    """Write sessions where pi looks for them; each names the file of its parent there. Raises WrongUsage, EngineError."""
    there = [path for _, path in files.values() if os.path.lexists(path)]
    if there and not force:
        raise WrongUsage(f"{there[0]} is there already; nothing was written. --force replaces it")
    for node, path in files.values():
        header = node.header
        source = header.parent_session_id or (header.forked_from.session_id if header.forked_from else None)
        above = files.get(source) if source is not None else None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(f"{path.parent}: {error.strerror}") from error
        write_file(path, session_lines(home, node, str(above[1]) if above else None), force=force)
