"""`sapwood usage`: who spent what."""

import csv
import io
import sys

import click

from orchestrator.cli.common import (
    echo_json,
    echo_lines,
    echo_spans,
    fail_if_damaged,
    home_from_env,
    known_names,
    look,
    newest_root,
    session_named,
    told,
    tree_with,
)
from orchestrator.cli.forest import Forest
from orchestrator.engine.errors import WrongUsage
from orchestrator.views.stored import Stored
from orchestrator.views.text import sanitize_terminal
from orchestrator.views.usage_report import usage_report
from orchestrator.views.usage_table import HEAD, usage_table
from orchestrator.views.usage_text import usage_lines

HELP = """Own and total tokens and cost, per session of a tree and summed.

SESSION is an id, its unique beginning or end, or a name; by default the newest tree. A model without a known price
makes a total a lower bound (≥) and is named; it is never counted as free.

\b
  sapwood usage
  sapwood usage port-billing --json
  sapwood usage --all --csv > usage.csv"""


@click.command(help=HELP)
@click.argument("session", required=False, shell_complete=known_names)
@click.option("--all", "is_all", is_flag=True, help="All trees.")
@click.option("--json", "as_json", is_flag=True, help="A report as JSON; with --all an array of them.")
@click.option("--csv", "as_csv", is_flag=True, help="One row per session and model.")
@told
def command(session: str | None, is_all: bool, as_json: bool, as_csv: bool) -> None:
    """Read, add up, print."""
    if session is not None and is_all:
        raise WrongUsage("expected a SESSION or --all, found both")
    if as_json and as_csv:
        raise WrongUsage("expected --json or --csv, found both")
    home = home_from_env()
    if is_all:
        parts = [(tree, tree.root_id) for tree in Forest.of(home).trees()]
    else:
        header = newest_root(home) if session is None else session_named(home, session)
        parts = [(tree_with(home, header), header.id)]
    reports = [usage_report(tree, top) for tree, top in parts]
    if as_json:
        echo_json(reports if is_all else reports[0])
    elif as_csv:
        _echo_csv(parts)
    elif not reports:
        echo_lines(["No sessions are stored yet. Begin with: sapwood demo"])
    else:
        for place, report in enumerate(reports):
            echo_spans([((" ", ""),)] * (place > 0) + usage_lines(report, look()))
    shown = {node.session_id for report in reports for node in report.nodes}
    fail_if_damaged([tree for tree, _ in parts], shown)


def _echo_csv(parts: list[tuple[Stored, str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    is_terminal = sys.stdout.isatty()
    for tree, top in parts:
        for row in usage_table(tree, top):
            writer.writerow([sanitize_terminal(cell) for cell in row] if is_terminal else row)
    echo_lines([text.getvalue().removesuffix("\n")])
