"""`sapwood sessions show`: one session."""

import time

import click
import msgspec

from orchestrator.cli.common import (
    SESSION,
    echo_json,
    echo_lines,
    fail_if_damaged,
    home_from_env,
    is_ascii,
    session_named,
    told,
    tree_with,
)
from orchestrator.views.conversation import conversation, spoken
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.session_text import entry_counts, session_head
from orchestrator.views.signs import plain
from store.entries import Header, MessageEntry
from store.records import Record

HELP = """One session: what is known of it, and the end of its conversation.

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


@click.command("show", help=HELP)
@SESSION
@click.option("--messages", "count", type=click.IntRange(0), default=40, show_default=True, help="So many at most.")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
@told
def command(session: str, count: int, as_json: bool) -> None:
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
