"""`sapwood agents`: the trees of sessions, one row each; with `--watch` as they go."""

import os
import sys
import time
from functools import partial

import click

from orchestrator.cli.common import echo_json, echo_lines, echo_spans, home_from_env, look, told, translated
from orchestrator.cli.stored_trees import StoredTrees
from orchestrator.engine.control.places import places
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.views.current import NOTHING_RUNS, merged
from orchestrator.views.grid import list_lines
from orchestrator.views.rows import AgentRow
from orchestrator.views.summary_line import summary_line
from store.disk.home import Home

HELP = """The trees of agents: who works on what, how it ended, and what it has cost.

Shown are trees that somebody works on, and those that ended in the last ten minutes. With --watch they are shown as they
go, and keys fold, filter, message, steer and abort; ? lists them. Leaving the view ends no agent.

\b
  sapwood agents
  sapwood agents --watch
  sapwood agents --all --json"""


@click.command(help=HELP)
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Live, on a terminal.")
@click.option("--all", "is_all", is_flag=True, help="Also the trees that ended earlier.")
@click.option("--json", "as_json", is_flag=True, help="An array of rows: oldest tree first, parents before children.")
@told
def command(is_watching: bool, is_all: bool, as_json: bool) -> None:
    """Read, select, print; or watch."""
    home = home_from_env()
    stored = StoredTrees(home, shows_all=is_all)
    if is_watching:
        _watch(stored, as_json=as_json)
    now = time.time()
    trees = merged(stored.read(now), _live(home))
    rows = [row for tree in trees for row in tree]
    if as_json:
        echo_json(rows)
        return
    drawn = look(120, now)
    echo_spans(list_lines(rows, drawn) if rows else [])
    notes = [summary_line(rows)] if rows else list(NOTHING_RUNS)
    if stored.left_out:
        notes.append(f"Ended trees: {stored.left_out} · sapwood agents --all")
    echo_lines(drawn.text(note) for note in notes)


def _live(home: Home) -> list[AgentRow]:
    """What hosts say of their trees; without hosts nothing is imported for it."""
    with translated():
        if not places(home):
            return []
        import trio

        from orchestrator.engine.watch import rows_now

        return trio.run(partial(rows_now, home))


def _watch(stored: StoredTrees, *, as_json: bool) -> None:
    """Exits when the view is left. Raises WrongUsage where it cannot be shown."""
    if as_json:
        raise WrongUsage("expected --watch or --json, found both; for programs: sapwood events --follow")
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        raise WrongUsage("--watch needs a terminal; without one: sapwood agents, or sapwood agents --json")
    from orchestrator.cli.watching import watch_agents

    try:
        sys.exit(watch_agents(stored))
    except OSError as error:
        raise EngineError(f"the terminal cannot be used: {error}") from error
