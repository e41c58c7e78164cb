"""One row per session: what lists, trees, the dashboard and `--json` show of it."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.doing import Activity, activity
from orchestrator.views.pulse import Pulse
from orchestrator.views.spent import Spent, spent
from orchestrator.views.states import State, Status, state
from orchestrator.views.stored import Member, Stored, members, summary_of
from store.context import dangling_calls, last_assistant
from store.summary import Summary
from store.times import unix_s
from store.usage import Spend, Usage, usage_of


class Retry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pause before try `attempt`; `until` is an ISO time."""

    attempt: int
    of: int
    until: str
    kind: str


class AgentRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """None: not known. `own` and `total` are exact; `working` and `descendants` count what is below.

    `issues`: sessions that need somebody, here and below. `turns`: model calls. `elapsedMs`: time at work. `pulse`: rows of
    a host that runs have one.
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
    pulse: Pulse | msgspec.UnsetType = msgspec.UNSET

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
    found = summary_of(member, stored.root_id)
    status = _status(stored, member, found, below)
    outcome = _outcome(found, status)
    shown = state(status, outcome, found.task_state)
    end_s = now if status in {"running", "waiting"} else unix_s(found.modified or "")
    return row_of(
        found,
        status,
        outcome,
        activity(stored, member, found, shown, [row.state.is_working for row in below]),
        spend,
        below,
        stored.folder,
        elapsed_ms=_elapsed_ms(found, end_s),
        host_pid=stored.pid if stored.owner != "dead" else None,
        is_read=member.node is not None,
    )


def row_of(
    found: Summary,
    status: Status,
    outcome: str | None,
    doing: Activity | None,
    spend: Spent,
    below: Sequence[AgentRow],
    folder: str,
    *,
    elapsed_ms: int | None,
    host_pid: int | None = None,
    is_read: bool = True,
) -> AgentRow:
    """The row of a session with the rows of its children in `below`. `is_read`: its journal says what is in `found`."""
    return AgentRow(
        session_id=found.session_id,
        parent_session_id=found.parent_id,
        root_session_id=found.root_id,
        name=found.name or None,
        depth=found.depth,
        status=status,
        outcome=outcome,
        model=found.model or None,
        cwd=found.cwd if is_read else None,
        created=found.created if is_read else None,
        modified=found.modified,
        elapsed_ms=elapsed_ms,
        last_event_at=found.modified,
        message_count=found.messages if is_read else None,
        context_tokens=found.context_tokens,
        context_window=None,
        own=_usage(spend.own),
        total=_usage(spend.total),
        unpriced_models=tuple(sorted(spend.total.unpriced)) if spend.total else (),
        summary=found.summary or found.first_prompt,
        task_state=found.task_state,
        activity=doing,
        retry=None,
        queued=found.queued if is_read else None,
        turns=found.turns if is_read else None,
        working=sum(row.working + row.state.is_working for row in below),
        descendants=sum(row.descendants + 1 for row in below),
        issues=sum(row.issues for row in below) + state(status, outcome, found.task_state).is_issue,
        host_pid=host_pid,
        path=f"{folder}/{found.session_id}.jsonl" if folder else None,
    )


def _usage(spend: Spend | None) -> Usage | None:
    return None if spend is None else usage_of(spend)


def _elapsed_ms(found: Summary, end_s: float | None) -> int | None:
    """Time at work, pauses between runs left out. `end_s`: when the open run ended, or the time now."""
    worked = found.worked_s
    if found.open_since is not None and end_s is not None:
        worked = (worked or 0.0) + max(0.0, end_s - found.open_since)
    return None if worked is None else int(worked * 1000)


def _status(stored: Stored, member: Member, found: Summary, below: list[AgentRow]) -> Status:
    if member.session_id in stored.troubles:
        return "damaged"
    if member.node is None:
        return _status_without_journal(stored, member)
    if found.is_open:
        if stored.owner != "alive":
            return "lost" if stored.owner == "dead" else "unknown"
        return "waiting" if _waits(member, below) else "running"
    if found.is_archived:
        return "archived"
    if stored.owner == "alive" and member.spawned is not None and found.outcome is None:
        return "waiting"
    return "lost" if found.outcome == "lost" and stored.owner != "alive" else "idle"


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


def _outcome(found: Summary, status: Status) -> str | None:
    """Of the last run; None while one is open or none has been."""
    if status == "lost":
        return "lost"
    return None if found.is_open or status == "waiting" else found.outcome
