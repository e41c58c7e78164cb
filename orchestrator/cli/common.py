"""What commands share: the home, sessions by name, the terminal. Imports neither trio nor httpx."""

import os
import shutil
import sys
from typing import Any

import click
import msgspec

from orchestrator.engine.errors import NotOurs, WrongUsage
from orchestrator.views.stored import Stored
from store.disk.forest import NoSuchSession, headers, read_tree, resolve
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import Header
from store.errors import StoreError


def home_from_env() -> Home:
    """The home that the environment names. Raises WrongUsage."""
    try:
        return Home.from_env(os.environ, RealFs())
    except StoreError as error:
        raise WrongUsage(str(error)) from error


def known_session(home: Home, name: str) -> Header:
    """The stored session of this id, prefix, suffix or name. Raises WrongUsage."""
    try:
        return resolve(list(headers(home.fs, home)), name)
    except NoSuchSession as error:
        raise WrongUsage(str(error)) from error


def newest_root(home: Home, cwd: str | None = None) -> Header:
    """The root that was begun last, in `cwd` if one is given. Raises WrongUsage where there is none."""
    roots = [header for header in headers(home.fs, home) if header.root_session_id is None]
    here = [header for header in roots if cwd is None or header.cwd == cwd]
    if not here:
        where = f" in {cwd}" if cwd is not None else ""
        raise WrongUsage(f'there is no session{where} yet; begin one: sapwood "What does this project do?"')
    return here[-1]


def stored_tree(home: Home, root_id: str) -> Stored:
    """A tree as views take it. Raises NotOurs where its root cannot be read at all."""
    try:
        found = read_tree(home.fs, home, root_id)
    except (StoreError, OSError) as error:
        raise NotOurs(str(error)) from error
    return Stored(
        root_id,
        found.nodes,
        found.liveness.state,
        found.liveness.pid,
        found.troubles,
        found.unrepaired,
        str(home.sessions),
    )


def terminal_width() -> int:
    """Columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def is_ascii() -> bool:
    """Whether the output takes ASCII only."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding not in {"utf8", "utf16", "utf32"} or os.environ.get("TERM") == "dumb"


def echo_json(value: Any) -> None:
    """One JSON value on stdout."""
    click.echo(msgspec.json.encode(value))
