"""The issues of a tree: every session that needs somebody, with the whole of what went wrong."""

import msgspec

from orchestrator.views.called import shown_text
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from orchestrator.views.stored import Member, Stored, members, subtree
from store.entries import RunSettledEntry
from store.messages import AssistantMessage
from store.records import Record, message_in


class Issue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`tries`: failed calls of the model at the end of the session. `text`: the error as it was given."""

    session_id: str
    name: str
    word: str
    at: str | None
    text: str
    stop_reason: str | None
    tries: int


def issues(stored: Stored, session_id: str, rows: list[AgentRow]) -> list[Issue]:
    """Those at and below `session_id`, in spawn order. `rows` are the tree's. Raises KeyError."""
    part = subtree(members(stored), session_id)
    if not part:
        raise KeyError(session_id)
    by_id = {row.session_id: row for row in rows}
    return [
        _issue(stored, member, by_id[member.session_id])
        for member in part
        if member.session_id in by_id and by_id[member.session_id].state.is_issue
    ]


def _issue(stored: Stored, member: Member, row: AgentRow) -> Issue:
    records = member.node.records if member.node else []
    ended = _last_run(records)
    errors = _last_errors(records)
    label = row.activity.label if row.activity else ""
    texts = (
        stored.troubles.get(member.session_id),
        ended.error_message if ended else None,
        errors[-1].error_message if errors else None,
        member.settled.error_message if member.settled else None,
        label,
    )
    return Issue(
        session_id=member.session_id,
        name=title(row),
        word=row.state.word,
        at=row.last_event_at,
        text=shown_text(next(filter(None, texts), "no reason was given")),
        stop_reason=ended.stop_reason if ended else None,
        tries=len(errors),
    )


def _last_run(records: list[Record]) -> RunSettledEntry | None:
    for record in reversed(records):
        if record.type == "run_settled" and isinstance(body := record.body(), RunSettledEntry):
            return body
    return None


def _last_errors(records: list[Record]) -> list[AssistantMessage]:
    """The answers at the end that failed, one after the other."""
    found: list[AssistantMessage] = []
    for record in reversed(records):
        message = message_in(record)
        if isinstance(message, AssistantMessage):
            if message.stop_reason != "error":
                break
            found.append(message)
    return found[::-1]
