"""`sapwood sessions`: what is stored."""

import time

import click
import msgspec

from orchestrator.cli.common import (
    coloured,
    echo_json,
    echo_lines,
    fail_if_damaged,
    home_from_env,
    is_ascii,
    session_named,
    terminal_width,
    told,
    tree_with,
)
from orchestrator.cli.forest import Forest, newest_first
from orchestrator.cli.sessions_edit import EDIT_COMMANDS
from orchestrator.cli.sessions_files import FILE_COMMANDS
from orchestrator.cli.sessions_find import FIND_COMMANDS
from orchestrator.views.conversation import conversation, spoken
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.session_text import entry_counts, session_head, session_list
from orchestrator.views.tree_text import plain
from store.entries import Header, MessageEntry
from store.records import Record

HELP = """Stored sessions.

\b
  sapwood sessions list
  sapwood sessions show port-billing"""

LIST_HELP = """The stored trees, the newest first.

\b
  sapwood sessions list
  sapwood sessions list --all --json"""

SHOW_HELP = """One session: what is known of it, and the end of its conversation.

SESSION is an id, its unique beginning or end, or a name.

\b
  sapwood sessions show port-billing
  sapwood sessions show 4f1c09aa --messages 200"""


class Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `sessions show --json` prints. `messages` are those at the end of the conversation, as they are stored."""

    session: AgentRow
    header: Header | None
    entries: dict[str, int]
    omitted_messages: int
    messages: list[msgspec.Raw]


@click.group(help=HELP)
def command() -> None:
    """The group."""


for each in (*FIND_COMMANDS, *EDIT_COMMANDS, *FILE_COMMANDS):
    command.add_command(each)


@command.command("list", help=LIST_HELP)
@click.option("--all", "is_all", is_flag=True, help="Also archived trees, and every child below its parent.")
@click.option("--json", "as_json", is_flag=True, help="An array of rows.")
@told
def list_sessions(is_all: bool, as_json: bool) -> None:
    """Read, order, print."""
    now = time.time()
    trees = newest_first(Forest.of(home_from_env()).rows(now))
    shown = [rows if is_all else rows[:1] for rows in trees if is_all or rows[0].status != "archived"]
    rows = [row for tree in shown for row in tree]
    ascii = is_ascii()
    if as_json:
        echo_json(rows)
    elif rows:
        echo_lines(coloured(session_list(rows, now, terminal_width(160), ascii), rows))
    else:
        echo_lines(["No sessions are stored yet. Begin with: sapwood demo"])


@command.command(help=SHOW_HELP)
@click.argument("session")
@click.option("--messages", "count", type=click.IntRange(0), default=40, show_default=True, help="So many at most.")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
@told
def show(session: str, count: int, as_json: bool) -> None:
    """Read one session in its tree, print."""
    home = home_from_env()
    header = session_named(home, session)
    tree = tree_with(home, header)
    row = next(row for row in tree_rows(tree, time.time()) if row.session_id == header.id)
    node = tree.nodes.get(header.id)
    records = spoken(node.tree.path()) if node else []
    kept = records[max(0, len(records) - count) :]
    omitted = len(records) - len(kept)
    if as_json:
        echo_json(
            Shown(
                session=row,
                header=node.header if node else None,
                entries=dict(entry_counts(node)) if node else {},
                omitted_messages=omitted,
                messages=[raw for record in kept if (raw := _raw_message(record)) is not None],
            )
        )
    else:
        ascii = is_ascii()
        note = f"[{omitted} earlier ones are not shown; --messages {len(records)} shows all]"
        lines = [
            *session_head(row, node, tree.unrepaired, ascii),
            "",
            *([note, ""] if omitted else []),
            *conversation(kept),
        ]
        echo_lines(plain(line, ascii=ascii) for line in lines)
    fail_if_damaged([tree], [header.id])


def _raw_message(record: Record) -> msgspec.Raw | None:
    if record.type != "message":
        return msgspec.Raw(record.raw)
    body = record.body()
    return body.message if isinstance(body, MessageEntry) else None
