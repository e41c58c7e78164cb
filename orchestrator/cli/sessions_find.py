"""`sapwood sessions search|tree`: finding sessions, and entries in them."""

import time

import click

from orchestrator.cli.common import (
    AS_JSON,
    SESSION,
    catalog_of,
    damaged,
    echo_json,
    echo_lines,
    home_from_env,
    is_ascii,
    session_named,
    terminal_width,
    told,
    translated,
)
from orchestrator.engine.errors import WrongUsage
from orchestrator.views.entry_tree import entry_lines, entry_tree
from orchestrator.views.found import found_lines, found_row
from store.disk.history import Capture, ReadLimits
from store.disk.manager import SessionManager

SEARCH_HELP = """Find sessions by their name, and by what was said in them: prompts, not answers.

All WORDS must be there; each may be the beginning of one.

\b
  sapwood sessions search billing module
  sapwood sessions search rounding --json"""

TREE_HELP = """The entries of a session as a tree: what `branch` and `fork --at` can go back to.

The current branch is marked with *. ENTRY of other commands is an id as shown here (leading zeros may be left out), or a
label.

\b
  sapwood sessions tree port-billing
  sapwood sessions tree port-billing --all --json"""

TREE_LIMITS = ReadLimits(entries=1 << 18, source_bytes=1 << 29)


def entry_named(capture: Capture, name: str) -> str:
    """The id of an entry. Raises WrongUsage."""
    labelled = [entry for entry, label in capture.labels().items() if label == name]
    for entry in (name, *labelled, name.zfill(8)):
        if capture.index.find(entry) is not None:
            return entry
    raise WrongUsage(f"no entry has the id or label {name!r}; `sapwood sessions tree` shows those there are")


@click.command("search", help=SEARCH_HELP)
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--limit", "count", type=click.IntRange(1), default=20, show_default=True, help="So many sessions.")
@AS_JSON
@told
def search_command(words: tuple[str, ...], count: int, as_json: bool) -> None:
    """Ask the catalog, print."""
    with catalog_of(home_from_env()) as catalog:
        found = [
            found_row(each.session, [(said.entry_id, said.text) for said in each.said], words)
            for each in catalog.search(" ".join(words), count)
        ]
    if as_json:
        echo_json(found)
    elif found:
        echo_lines(found_lines(found, time.time(), terminal_width(120), is_ascii()))
    else:
        echo_lines(["Nothing was found. Prompts and names are searched, answers are not."])


@click.command("tree", help=TREE_HELP)
@SESSION
@click.option("--all", "is_all", is_flag=True, help="Also entries that are no place to go back to.")
@AS_JSON
@told
def tree_command(session: str, is_all: bool, as_json: bool) -> None:
    """Read, print; damage is told behind what can be read."""
    home = home_from_env()
    session_id = session_named(home, session).id
    with translated():
        manager = SessionManager.open_read_only(home.journal_path(session_id), home=home)
        with manager.captured(TREE_LIMITS) as capture:
            path = [record.id for record in capture.branch()]
            placed = entry_tree(capture.tree(), path, is_all)
    if as_json:
        echo_json([each.row for each in placed])
    elif placed:
        echo_lines(entry_lines(placed, terminal_width(120), is_ascii()))
    else:
        echo_lines(["It has no entries yet."])
    if manager.trouble:
        raise damaged(session_id, manager.trouble)
