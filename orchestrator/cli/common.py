"""What commands share: the home, sessions by name, the terminal. Imports neither trio nor httpx."""

import errno
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from orchestrator.cli.stdout import leave
from orchestrator.engine.errors import EngineError, NotOurs, WrongUsage
from orchestrator.views.grid import Look
from orchestrator.views.rows import AgentRow
from orchestrator.views.spans import Line, line_text, sgr
from orchestrator.views.stored import Stored, members
from orchestrator.views.text import escaped_json, one_line, safe_lines
from store.disk.catalog import Catalog
from store.disk.forest import NoSuchSession, StoredTree, read_header, read_node, read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import Header
from store.errors import BadId, StoreError
from store.ids import short

P = ParamSpec("P")
R = TypeVar("R")
_OFFERED = 50
AS_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON.")


class Amount(click.FloatRange):
    """Dollars or seconds: above nothing and finite, since no limit is ever reached that is not a number."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__(0, most, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        amount = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(
                f"expected a finite number, found {value!r}; without the option there is no such limit", param, ctx
            )
        return amount


def options_of(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options that go together, as one decorator."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


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


@contextmanager
def translated() -> Iterator[None]:
    """What the store raises, as what a command ends with."""
    try:
        yield
    except NoSuchSession as error:
        raise WrongUsage(str(error)) from error
    except StoreError as error:
        raise NotOurs(str(error)) from error
    except FileNotFoundError as error:
        raise WrongUsage(f"{error.filename}: there is no such session (any more)") from error
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        raise EngineError(f"{where}{error.strerror or error}") from error


@contextmanager
def catalog_of(home: Home) -> Iterator[Catalog]:
    """The catalog of a home. Raises WrongUsage for a name that no session has, EngineError for a folder that cannot be read."""
    with Catalog.open(home) as catalog:
        try:
            yield catalog
        except NoSuchSession as error:
            raise WrongUsage(str(error)) from error
        except OSError as error:
            raise EngineError(f"{home.sessions}: {error.strerror}") from error


def session_named(home: Home, name: str) -> Header:
    """The stored session of this id, beginning or end of an id, or name. A whole id is opened without a look at the others.

    Raises WrongUsage; NotOurs where the journal is there and its header cannot be read.
    """
    session_id = id_named(home, name)
    try:
        header = read_header(home.fs, home, session_id)
    except OSError as error:
        raise NotOurs(f"session {session_id} cannot be read: {error}") from error
    if header is None:
        raise damaged(session_id, read_node(home.fs, home, session_id)[1] or "its header cannot be read")
    return header


def id_named(home: Home, name: str) -> str:
    """The id of a session, whatever its journal holds. By the catalog, which knows what it is called now. As above."""
    if _is_there(home, name):
        return name
    with catalog_of(home) as catalog:
        return catalog.named(name).session_id


def known_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For completion by the shell: the roots that were written to last, by name, else by the end of their ids."""
    try:
        with catalog_of(home_from_env()) as catalog:
            found = catalog.newest(_OFFERED)
    except EngineError:
        return []
    names = {one_line(each.name or short(each.session_id)): one_line(each.cwd) for each in found}
    return [CompletionItem(name, help=cwd) for name, cwd in names.items() if name.startswith(incomplete)]


SESSION = click.argument("session", shell_complete=known_names)


def newest_root(home: Home, cwd: str | None = None) -> Header:
    """The root that was written to last, in `cwd` if one is given; archived ones are left out.

    Raises WrongUsage where there is none; else as `session_named`.
    """
    with catalog_of(home) as catalog:
        newest = catalog.newest_root(cwd)
    if newest is None:
        where = f" in {cwd}" if cwd is not None else ""
        raise WrongUsage(f'there is no session{where} yet; begin one: sapwood "What does this project do?"')
    return session_named(home, newest.session_id)


def stored_tree(home: Home, root_id: str) -> Stored:
    """A tree as views take it; one session that is damaged where its root cannot be read at all."""
    return as_stored(home, read_tree(home.fs, home, root_id))


def tree_with(home: Home, header: Header) -> Stored:
    """The whole tree that a session is in; what is below it alone where the way from the root to it is broken."""
    if header.root_id != header.id:
        tree = stored_tree(home, header.root_id)
        if any(member.session_id == header.id for member in members(tree)):
            return tree
    return stored_tree(home, header.id)


def whole_tree(home: Home, session_id: str) -> Stored:
    """The tree that a session is in, as its owner has it. Raises KeyError, EngineError."""
    return tree_with(home, known_header(home, session_id))


def known_header(home: Home, session_id: str) -> Header:
    """Raises KeyError, also for what no session can be called."""
    try:
        header = read_header(home.fs, home, session_id)
    except (BadId, FileNotFoundError):
        header = None
    if header is None:
        raise KeyError(session_id)
    return header


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


def damaged(session_id: str, trouble: str) -> NotOurs:
    """That a journal cannot be read whole, and where to look."""
    return NotOurs(
        f"session {session_id} is damaged: {trouble}. Nothing was changed. Look: sapwood sessions check {session_id}"
    )


def fail_if_damaged(trees: Iterable[Stored], needed: Iterable[str]) -> None:
    """Raises NotOurs if the journal of a session that was needed cannot be read whole. For after the printing."""
    sessions = set(needed)
    found = [
        damaged(session, trouble) for tree in trees for session, trouble in tree.troubles.items() if session in sessions
    ]
    if found:
        raise NotOurs("\n".join(map(str, found)))


def terminal_width(without: int = 80) -> int:
    """Columns of the terminal, or `without` one."""
    return shutil.get_terminal_size((without, 24)).columns


def is_ascii() -> bool:
    """Whether the output takes ASCII only."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding not in {"utf8", "utf16", "utf32"} or os.environ.get("TERM") == "dumb"


def is_styled() -> bool:
    """Whether the output is a terminal that can show bold and dim."""
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_colour() -> bool:
    """Source: https://no-color.org; a dumb terminal has none either."""
    return is_styled() and not os.environ.get("NO_COLOR")


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
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, color=is_styled())
    except BrokenPipeError:
        leave()


def look(without: int = 80, now: float = 0.0) -> Look:
    """How lines are drawn on this output; `without` a terminal so many columns. `now` in Unix seconds."""
    return Look(terminal_width(without), now, is_ascii())


def echo_spans(lines: Iterable[Line]) -> None:
    """Print styled lines, in colour where there is colour."""
    if is_styled():
        echo_lines(sgr(line, has_colour=has_colour()) for line in lines)
    else:
        echo_lines(line_text(line).rstrip() for line in lines)


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
