"""`sapwood agents`: the trees of sessions, one row each."""

import time

import click

from orchestrator.cli.common import coloured, echo_json, echo_lines, home_from_env, is_ascii, terminal_width, told
from orchestrator.cli.forest import Forest
from orchestrator.views.rows import AgentRow
from orchestrator.views.tree_text import plain, summary_line, tree_text
from store.times import unix_s

HELP = """The trees of agents: who works on what, how it ended, and what it has cost.

Shown are trees that somebody works on, and those that ended in the last ten minutes.

\b
  sapwood agents
  sapwood agents --all --json"""

SHOWN_AFTER_END_S = 600


@click.command(help=HELP)
@click.option("--all", "is_all", is_flag=True, help="Also the trees that ended earlier.")
@click.option("--json", "as_json", is_flag=True, help="An array of rows: oldest tree first, parents before children.")
@told
def command(is_all: bool, as_json: bool) -> None:
    """Read, select, print."""
    now = time.time()
    forest = Forest.of(home_from_env())
    shown = forest if is_all else forest.touched_since(now - SHOWN_AFTER_END_S)
    ended = shown.left_out
    rows: list[AgentRow] = []
    for found in shown.rows(now):
        if is_all or is_current(found, now):
            rows += found
        else:
            ended += 1
    if as_json:
        echo_json(rows)
        return
    ascii = is_ascii()
    lines = ["No agents are running.", 'sapwood run "…"    or    sapwood demo']
    if rows:
        lines = [*coloured(tree_text(rows, terminal_width(120), ascii), rows), summary_line(rows)]
    if ended:
        lines.append(f"Ended trees: {ended} · sapwood agents --all")
    echo_lines(plain(line, ascii=ascii) for line in lines)


def is_current(rows: list[AgentRow], now: float) -> bool:
    """Whether a tree belongs into the default view: it has an owner, or ended a moment ago."""
    if any(row.host_pid is not None or row.state.is_working or row.status == "unknown" for row in rows):
        return True
    ends = [unix_s(row.last_event_at) for row in rows if row.last_event_at]
    return any(end is not None and end >= now - SHOWN_AFTER_END_S for end in ends)
