"""One row per session: what lists, trees, the dashboard and `--json` show of it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from orchestrator.views.digest import Digest, digest, prompt_words
from orchestrator.views.doing import Activity, activity
from orchestrator.views.spent import Spent, spent
from orchestrator.views.states import State, state
from orchestrator.views.stored import Member, Stored, members
from store.context import dangling_calls, last_assistant
from store.size import context_tokens
from store.times import unix_s
from store.usage import Spend, Usage, usage_of

Status = Literal["running", "waiting", "retrying", "compacting", "idle", "lost", "unknown", "damaged", "archived"]


class Retry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pause before try `attempt`; `until` is an ISO time."""

    attempt: int
    of: int
    until: str
    kind: str


class AgentRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """None: not known. `own` and `total` are exact; `working` and `descendants` count what is below.

    `issues`: sessions that need somebody, here and below. `turns`: model calls. `elapsedMs`: time at work.
    """

    session_id: str
    parent_session_id: str | None
    root_session_id: str
    name: str | None
    depth: int
    status: Status
    outcome: str | None
    model: str | None
    cwd: str | None
    created: str | None
    modified: str | None
    elapsed_ms: int | None
    last_event_at: str | None
    message_count: int | None
    context_tokens: int | None
    context_window: int | None
    own: Usage | None
    total: Usage | None
    unpriced_models: tuple[str, ...]
    summary: str | None
    task_state: str | None
    activity: Activity | None
    retry: Retry | None
    queued: int | None
    turns: int | None
    working: int
    descendants: int
    issues: int
    host_pid: int | None
    path: str | None

    @property
    def state(self) -> State:
        return state(self.status, self.outcome, self.task_state)


def tree_rows(stored: Stored, now: float) -> list[AgentRow]:
    """The rows of a stored tree in the order of spawning, parents first. `now` in Unix seconds."""
    all_members = members(stored)
    spends = spent(all_members)
    children: dict[str, list[AgentRow]] = {}
    rows: list[AgentRow] = []
    # From the last to the first, since a parent's row sums up its children's.
    for member in reversed(all_members):
        below = children.pop(member.session_id, [])
        below.reverse()
        row = _row(stored, member, below, spends[member.session_id], now)
        rows.append(row)
        if member.parent_id is not None:
            children.setdefault(member.parent_id, []).append(row)
    rows.reverse()
    return rows


def _row(stored: Stored, member: Member, below: list[AgentRow], spend: Spent, now: float) -> AgentRow:
    node = member.node
    read = None if node is None else digest(node)
    status = _status(stored, member, read, below)
    outcome = _outcome(member, read, status)
    known = read or Digest()
    is_working = status in {"running", "waiting"}
    shown = state(status, outcome, known.task_state)
    return AgentRow(
        session_id=member.session_id,
        parent_session_id=member.parent_id,
        root_session_id=stored.root_id,
        name=known.name or (member.spawned.name if member.spawned else None),
        depth=member.depth,
        status=status,
        outcome=outcome,
        model=known.model or (member.spawned.model if member.spawned else None),
        cwd=node.header.cwd if node else None,
        created=node.header.timestamp if node else None,
        modified=known.last_at,
        elapsed_ms=known.elapsed_ms(now if is_working else _end_of(known)),
        last_event_at=known.last_at,
        message_count=read.messages if read else None,
        context_tokens=context_tokens(node.tree.path()) if node else None,
        context_window=None,
        own=_usage(spend.own),
        total=_usage(spend.total),
        unpriced_models=tuple(sorted(spend.total.unpriced)) if spend.total else (),
        summary=known.summary or known.prompt or prompt_words(member.spawned),
        task_state=known.task_state,
        activity=activity(stored, member, known, shown, [row.state.is_working for row in below]),
        retry=None,
        queued=len(read.waiting_mail) if read else None,
        turns=read.turns if read else None,
        working=sum(row.working + row.state.is_working for row in below),
        descendants=sum(row.descendants + 1 for row in below),
        issues=sum(row.issues for row in below) + shown.is_issue,
        host_pid=stored.pid if stored.owner != "dead" else None,
        path=f"{stored.folder}/{member.session_id}.jsonl" if stored.folder else None,
    )


def _usage(spend: Spend | None) -> Usage | None:
    return None if spend is None else usage_of(spend)


def _end_of(read: Digest) -> float | None:
    return unix_s(read.last_at) if read.last_at else None


def _status(stored: Stored, member: Member, read: Digest | None, below: list[AgentRow]) -> Status:
    if member.session_id in stored.troubles:
        return "damaged"
    if read is None or member.node is None:
        return _status_without_journal(stored, member)
    if read.is_open:
        if stored.owner != "alive":
            return "lost" if stored.owner == "dead" else "unknown"
        return "waiting" if _waits(member, below) else "running"
    if read.is_archived:
        return "archived"
    if stored.owner == "alive" and member.spawned is not None and read.last_run is None:
        return "waiting"
    is_lost = read.last_run is not None and read.last_run.outcome == "lost"
    return "lost" if is_lost and stored.owner != "alive" else "idle"


def _status_without_journal(stored: Stored, member: Member) -> Status:
    """A child that its parent's journal names: not begun yet, ended and taken away, or lost."""
    if member.settled is not None and member.settled.outcome != "lost":
        return "idle"
    return {"alive": "waiting", "dead": "lost", "unknown": "unknown"}[stored.owner]  # type: ignore[return-value]


def _waits(member: Member, below: list[AgentRow]) -> bool:
    """Whether nothing is open here but children: the last word is an answer that asks for no tool."""
    if member.node is None or not any(row.state.is_working for row in below):
        return False
    path = member.node.tree.path()
    last = next((record for record in reversed(path) if record.type in {"message", "custom_message"}), None)
    answer = last_assistant([last]) if last is not None else None
    return answer is not None and answer.stop_reason != "error" and not dangling_calls(path)


def _outcome(member: Member, read: Digest | None, status: Status) -> str | None:
    """Of the last run; None while one is open or none has been."""
    if status == "lost":
        return "lost"
    if read is not None:
        return None if read.is_open or read.last_run is None else read.last_run.outcome
    return member.settled.outcome if member.settled and status != "waiting" else None


def by_id(rows: list[AgentRow]) -> Mapping[str, AgentRow]:
    return {row.session_id: row for row in rows}
