"""`sapwood sessions list`: the stored trees."""

import time

import click

from orchestrator.cli.common import coloured, echo_json, echo_lines, home_from_env, is_ascii, terminal_width, told
from orchestrator.cli.forest import Forest, newest_first
from orchestrator.views.session_text import session_list
from orchestrator.views.signs import plain

HELP = """The stored trees, the newest first.

\b
  sapwood sessions list
  sapwood sessions list --all --json"""

USUAL = 50


@click.command("list", help=HELP)
@click.option("--all", "is_all", is_flag=True, help="Also archived trees, and every child below its parent.")
@click.option(
    "-n", "--limit", "count", type=click.IntRange(0), help=f"So many trees; 0: all. Usually {USUAL}, as JSON all."
)
@click.option("--json", "as_json", is_flag=True, help="An array of rows.")
@told
def command(is_all: bool, count: int | None, as_json: bool) -> None:
    """Read, order, print."""
    now = time.time()
    home = home_from_env()
    count = (0 if as_json else USUAL) if count is None else count
    forest = Forest.newest(home, count, with_archived=is_all) if count else Forest.of(home)
    trees = [rows for rows in newest_first(forest.rows(now)) if is_all or rows[0].status != "archived"]
    shown = trees[: count or None]
    older = forest.left_out + len(trees) - len(shown)
    rows = [row for tree in shown for row in (tree if is_all else tree[:1])]
    if as_json:
        echo_json(rows)
    elif rows:
        ascii = is_ascii()
        note = plain(f"Older trees: {older} · sapwood sessions list --limit 0", ascii=ascii)
        table = coloured(session_list(rows, now, terminal_width(160), ascii), rows)
        echo_lines([*table, note] if older else table)
    elif is_all or not Forest.of(home).families:
        echo_lines(["No sessions are stored yet. Begin with: sapwood demo"])
    else:
        echo_lines(["All stored trees are archived: sapwood sessions list --all"])
