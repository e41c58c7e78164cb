"""`sapwood usage`: who spent what."""

import csv
import io
import sys
import time
from collections.abc import Iterable
from typing import get_args

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
from orchestrator.views.bills import bills
from orchestrator.views.rows import tree_rows
from orchestrator.views.stored import Stored
from orchestrator.views.text import sanitize_terminal
from orchestrator.views.usage_report import UsageReport, usage_report
from orchestrator.views.usage_table import HEADS, By, Row, part_lines, part_rows, parted, session_rows
from orchestrator.views.usage_text import usage_lines

NOTHING_STORED = "No sessions are stored yet. Begin with: sapwood demo"

HELP = """Own and total tokens and cost, per session of a tree and summed; or by model, or by day.

SESSION is an id, its unique beginning or end, or a name; by default the newest tree. A model without a known price
makes a total a lower bound (≥) and is named; it is never counted as free.

\b
  sapwood usage
  sapwood usage port-billing --by model
  sapwood usage --all --by day --json
  sapwood usage --all --csv > usage.csv"""


@click.command(help=HELP)
@click.argument("session", required=False, shell_complete=known_names)
@click.option("--all", "is_all", is_flag=True, help="All trees.")
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    default="session",
    show_default=True,
    help="What is summed up; days are those of this machine's clock.",
)
@click.option("--json", "as_json", is_flag=True, help="A report as JSON; by session with --all an array of them.")
@click.option("--csv", "as_csv", is_flag=True, help="Rows; by session one per session and model.")
@told
def command(session: str | None, is_all: bool, by: By, as_json: bool, as_csv: bool) -> None:
    """Read, add up, print."""
    if session is not None and is_all:
        raise WrongUsage("expected a SESSION or --all, found both")
    if as_json and as_csv:
        raise WrongUsage("expected --json or --csv, found both")
    home = home_from_env()
    if is_all:
        trees = [(tree, tree.root_id) for tree in Forest.of(home).trees()]
    else:
        header = newest_root(home) if session is None else session_named(home, session)
        trees = [(tree_with(home, header), header.id)]
    spent = [(tree, usage_report(tree, top)) for tree, top in trees]
    if by == "session":
        _echo_sessions(spent, is_all=is_all, as_json=as_json, as_csv=as_csv)
    else:
        _echo_parts(spent, by, as_json=as_json, as_csv=as_csv)
    shown = {node.session_id for _, report in spent for node in report.nodes}
    fail_if_damaged([tree for tree, _ in trees], shown)


def _echo_sessions(spent: list[tuple[Stored, UsageReport]], *, is_all: bool, as_json: bool, as_csv: bool) -> None:
    reports = [report for _, report in spent]
    if as_json:
        echo_json(reports if is_all else reports[0])
    elif as_csv:
        _echo_csv(HEADS["session"], session_rows(bill for tree, report in spent for bill in bills(tree, report)))
    elif not reports:
        echo_lines([NOTHING_STORED])
    else:
        now = time.time()
        for place, (tree, report) in enumerate(spent):
            states = {row.session_id: row.state for row in tree_rows(tree, now)}
            echo_spans([((" ", ""),)] * (place > 0) + usage_lines(report, look(), states))


def _echo_parts(spent: list[tuple[Stored, UsageReport]], by: By, *, as_json: bool, as_csv: bool) -> None:
    reports = [report for _, report in spent]
    found = parted((bill for tree, report in spent for bill in bills(tree, report)), reports, by)
    if as_json:
        echo_json(found)
    elif as_csv:
        _echo_csv(HEADS[by], part_rows(found))
    elif not reports:
        echo_lines([NOTHING_STORED])
    else:
        echo_spans(part_lines(found, reports, look()))


def _echo_csv(head: Row, rows: Iterable[Row]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    is_terminal = sys.stdout.isatty()
    for row in rows:
        writer.writerow([sanitize_terminal(cell) for cell in row] if is_terminal else row)
    echo_lines([text.getvalue().removesuffix("\n")])
