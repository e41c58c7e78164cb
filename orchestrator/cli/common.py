"""What commands share: the home, sessions by name, the terminal. Imports neither trio nor httpx."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import msgspec

from orchestrator.cli.stdout import leave
from orchestrator.engine.errors import EngineError, NotOurs, WrongUsage
from orchestrator.views.rows import AgentRow
from orchestrator.views.stored import Stored, members
from orchestrator.views.text import escaped_json, safe_lines
from store.disk.catalog import Catalog
from store.disk.forest import NoSuchSession, StoredTree, headers, read_header, read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import Header
from store.errors import BadId, StoreError

P = ParamSpec("P")
R = TypeVar("R")


def told(function: Callable[P, R]) -> Callable[P, R]:
    """A command whose failures end it with their text on stderr and their status."""

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except EngineError as error:
            click.echo("sapwood: " + "\n".join(safe_lines(str(error))), err=True)
            sys.exit(error.status)

    return command


def home_from_env() -> Home:
    """The home that the environment names. Raises WrongUsage."""
    try:
        return Home.from_env(os.environ, RealFs())
    except StoreError as error:
        raise WrongUsage(str(error)) from error


def known_session(home: Home, name: str) -> Header:
    """The stored session of this id, prefix, suffix or name. A whole id is opened without a look at the others.

    Raises WrongUsage; NotOurs where the journal is there and its header cannot be read.
    """
    session_id = name if _is_there(home, name) else _id_named(home, name)
    try:
        header = read_header(home.fs, home, session_id)
    except OSError as error:
        raise NotOurs(f"session {session_id} cannot be read: {error}") from error
    if header is None:
        raise NotOurs(f"session {session_id} is damaged: its header cannot be read. Nothing was changed")
    return header


def _id_named(home: Home, name: str) -> str:
    """By the catalog: a header says what a session was named at first, not what it is named since."""
    try:
        with Catalog.open(home) as catalog:
            return catalog.named(name).session_id
    except NoSuchSession as error:
        raise WrongUsage(str(error)) from error
    except OSError as error:
        raise EngineError(f"{home.sessions}: {error.strerror}") from error


def all_headers(home: Home) -> list[Header]:
    """The headers of all sessions, the oldest first. Raises EngineError."""
    try:
        return list(headers(home.fs, home))
    except OSError as error:
        raise EngineError(f"{home.sessions}: {error.strerror}") from error


def newest_root(home: Home, cwd: str | None = None) -> Header:
    """The root that was written to last, in `cwd` if one is given; archived ones are left out.

    Raises WrongUsage where there is none, NotOurs where its header cannot be read.
    """
    with Catalog.open(home) as catalog:
        recent = [each for each in catalog.sessions(cwd, roots_only=True) if not each.is_archived]
    if not recent:
        where = f" in {cwd}" if cwd is not None else ""
        raise WrongUsage(f'there is no session{where} yet; begin one: sapwood "What does this project do?"')
    return known_session(home, recent[0].session_id)


def stored_tree(home: Home, root_id: str) -> Stored:
    """A tree as views take it. Raises NotOurs where its root cannot be read at all."""
    try:
        return as_stored(home, read_tree(home.fs, home, root_id))
    except (StoreError, OSError) as error:
        raise NotOurs(str(error)) from error


def tree_with(home: Home, header: Header) -> Stored:
    """The whole tree that a session is in; what is below it alone where the way from the root to it is broken.

    Raises NotOurs where not even that can be read.
    """
    if header.root_id != header.id:
        try:
            tree = stored_tree(home, header.root_id)
        except NotOurs:
            tree = None
        if tree is not None and any(member.session_id == header.id for member in members(tree)):
            return tree
    return stored_tree(home, header.id)


def as_stored(home: Home, tree: StoredTree) -> Stored:
    """A tree in plain values. A child whose journal is not there is no trouble: it may not have begun."""
    troubles = {
        session: trouble
        for session, trouble in tree.troubles.items()
        if session in tree.nodes or _is_there(home, session)
    }
    state = tree.liveness
    return Stored(tree.root_id, tree.nodes, state.state, state.pid, troubles, tree.unrepaired, str(home.sessions))


def _is_there(home: Home, session_id: str) -> bool:
    try:
        home.fs.lstat(home.journal_path(session_id))
    except (OSError, BadId):
        return False
    return True


def fail_if_damaged(trees: Iterable[Stored], needed: Iterable[str]) -> None:
    """Raises NotOurs if the journal of a session that was needed cannot be read whole. For after the printing."""
    sessions = set(needed)
    lines = [
        f"session {session} is damaged: {trouble}. Nothing was changed. Look: sapwood sessions check {session}"
        for tree in trees
        for session, trouble in tree.troubles.items()
        if session in sessions
    ]
    if lines:
        raise NotOurs("\n".join(lines))


def terminal_width(without: int = 80) -> int:
    """Columns of the terminal, or `without` one."""
    return shutil.get_terminal_size((without, 24)).columns


def is_ascii() -> bool:
    """Whether the output takes ASCII only."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding not in {"utf8", "utf16", "utf32"} or os.environ.get("TERM") == "dumb"


def has_colour() -> bool:
    """Source: https://no-color.org; a dumb terminal has none either."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(lines: Sequence[str], rows: Sequence[AgentRow]) -> list[str]:
    """The lines of a table, head first, with the state of each row in its colour, where there is colour."""
    if not has_colour():
        return list(lines)
    return [*lines[:1], *(_with_state(line, row) for line, row in zip(lines[1:], rows, strict=True))]


def _with_state(line: str, row: AgentRow) -> str:
    mark = row.state.mark(ascii=is_ascii())
    shown = f"{mark} {row.state.short}"
    *attributes, last = row.state.style.split()
    colour = None if last == "dim" else last
    text = shown if shown in line else mark
    styled = click.style(text, fg=colour, bold="bold" in attributes or None, dim=last == "dim" or None)
    return line.replace(text, styled, 1)


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines that are safe already. What the encoding of stdout lacks becomes `?`."""
    _fail_if_closed()
    text = "".join(f"{line}\n" for line in lines)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, color=has_colour())
    except BrokenPipeError:
        leave()


def echo_json(value: Any) -> None:
    """One JSON value on stdout, on one line. Nothing in it can harm a terminal."""
    echo_lines([escaped_json(msgspec.json.encode(value).decode())])


def write_bytes(data: bytes) -> None:
    """A line of JSON as it is: streams are for programs, and are the same on every terminal."""
    _fail_if_closed()
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        leave()


def _fail_if_closed() -> None:
    """Raises OSError where there was no stdout at the start (`>&-`)."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
