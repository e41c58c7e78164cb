"""`sapwood agents`: the trees of sessions, one row each."""

import time

import click

from orchestrator.cli.common import echo_json, echo_lines, echo_spans, home_from_env, look, told
from orchestrator.cli.forest import Forest
from orchestrator.engine.windows import windows
from orchestrator.views.context import with_windows
from orchestrator.views.grid import list_lines
from orchestrator.views.rows import AgentRow
from orchestrator.views.summary_line import summary_line
from store.times import unix_s

HELP = """The trees of agents: who works on what, how it ended, and what it has cost.

Shown are trees that somebody works on, and those that ended in the last ten minutes.

\b
  sapwood agents
  sapwood agents --all --json"""

SHOWN_AFTER_END_S = 600
NOTHING_RUNS = (
    "No agents are running.",
    "Start one here or in a terminal; it appears by itself.",
    'sapwood run "…"    or    sapwood demo',
)


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
    rows = with_windows(rows, windows(forest.home))
    if as_json:
        echo_json(rows)
        return
    drawn = look(120, now)
    echo_spans(list_lines(rows, drawn) if rows else [])
    notes = [summary_line(rows)] if rows else list(NOTHING_RUNS)
    if ended:
        notes.append(f"Ended trees: {ended} · sapwood agents --all")
    echo_lines(drawn.text(note) for note in notes)


def is_current(rows: list[AgentRow], now: float) -> bool:
    """Whether a tree belongs into the default view: it has an owner, or ended a moment ago."""
    if any(row.host_pid is not None or row.state.is_working or row.status == "unknown" for row in rows):
        return True
    ends = [unix_s(row.last_event_at) for row in rows if row.last_event_at]
    return any(end is not None and end >= now - SHOWN_AFTER_END_S for end in ends)
