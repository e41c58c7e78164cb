"""What the events of one session add up to, and its row. Times in Unix milliseconds."""

from collections.abc import Callable

import attrs
import msgspec

from orchestrator.views.doing import Activity
from orchestrator.views.live_spend import less
from orchestrator.views.pulse import Call, Phase, Pulse
from orchestrator.views.rows import AgentRow, Retry
from orchestrator.views.states import Status, state
from orchestrator.views.text import count
from store.events import Place
from store.times import iso, unix_s
from store.usage import NOTHING, Spend, Usage, add_up, spend_of, usage_of

CHARS_PER_TOKEN = 4
WAITING_TOOL = "wait_agents"


@attrs.frozen
class HostFacts:
    """What events do not say: the process that runs the trees, where journals lie, the windows of models in tokens.

    `max_cost_usd`: what the whole tree may spend.
    """

    pid: int | None = None
    path: Callable[[str], str | None] = lambda session_id: None
    window: Callable[[str], int | None] = lambda model: None
    max_cost_usd: float | None = None


@attrs.define(eq=False)
class LiveSession:
    """`rest`: what it is while no run is open. `foreign`: spent below it by sessions that are not in the fold.

    `own` None: not known. `is_begun`: its first run has started; before that a child waits for a slot. `resting`: what its
    journal says of it, until it begins again. `row` is kept until something of it changes.
    """

    place: Place
    name: str | None = None
    cwd: str | None = None
    model: str | None = None
    created: str | None = None
    summary: str | None = None
    task_state: str | None = None
    last_ms: int = 0
    own: Spend | None = NOTHING
    foreign: Spend = NOTHING
    keys: set[tuple[str | None, str | None]] = attrs.field(factory=set)
    messages: int | None = 0
    turns: int | None = 0
    queued: int | None = 0
    context_tokens: int | None = None
    context_window: int | None = None
    open_ms: int | None = None
    worked_ms: int | None = None
    is_running: bool = False
    is_begun: bool = False
    rest: Status = "idle"
    outcome: str | None = None
    error: str | None = None
    answer: str | None = None
    resting: Activity | None = None
    calls: dict[str, Call] = attrs.field(factory=dict)
    phase: Phase = "between"
    phase_ms: int = 0
    written_chars: int = 0
    retry: Retry | None = None
    is_compacting: bool = False
    host_pid: int | None = None
    path: str | None = None
    max_cost_usd: float | None = None
    children: list["LiveSession"] = attrs.field(factory=list)
    total: Spend = NOTHING
    row: AgentRow | None = None

    @property
    def elapsed_ms(self) -> int | None:
        """Time at work as of the last event."""
        return self.elapsed_at(self.last_ms)

    def elapsed_at(self, now_ms: int) -> int | None:
        if self.open_ms is None:
            return self.worked_ms
        return (self.worked_ms or 0) + max(0, now_ms - self.open_ms)

    def begins(self, at_ms: int) -> None:
        """A run starts, or goes on: what was said of the session's state before no longer holds."""
        if not self.is_running or self.open_ms is None:
            self.open_ms = at_ms
            self.answer = self.resting = None
        self.is_running = self.is_begun = True
        self.retry, self.outcome, self.error, self.task_state = None, None, None, None
        self.phase, self.phase_ms = "thinking", at_ms

    def ends(self, outcome: str, at_ms: int) -> None:
        self.worked_ms = self.elapsed_at(at_ms)
        self.is_running, self.is_begun, self.open_ms = False, True, None
        self.outcome, self.retry, self.is_compacting, self.rest = outcome, None, False, "idle"
        self.phase, self.resting = "between", None
        self.calls.clear()


def row_of(session: LiveSession, host: HostFacts) -> AgentRow:
    """Its row as of its last event. The rows of its children are there."""
    below = [child.row for child in session.children if child.row is not None]
    status = _status(session, below)
    outcome = None if session.is_running else session.outcome
    shown = state(status, outcome, session.task_state)
    is_known = session.own is not None
    own = session.own or NOTHING
    total = session.total = add_up([own, session.foreign, *(child.total for child in session.children)])
    is_total_known = is_known or bool(session.children) or total != NOTHING
    return AgentRow(
        session_id=session.place.session_id,
        parent_session_id=session.place.parent_id,
        root_session_id=session.place.root_id,
        name=session.name,
        depth=session.place.depth,
        status=status,
        outcome=outcome,
        model=session.model,
        cwd=session.cwd,
        created=session.created,
        modified=iso(session.last_ms / 1000) if session.last_ms else None,
        elapsed_ms=session.elapsed_ms,
        last_event_at=iso(session.last_ms / 1000) if session.last_ms else None,
        message_count=session.messages,
        context_tokens=session.context_tokens,
        context_window=session.context_window or (host.window(session.model) if session.model else None),
        own=usage_of(own) if is_known else None,
        total=usage_of(total) if is_total_known else None,
        unpriced_models=tuple(sorted(total.unpriced)),
        summary=session.summary,
        task_state=session.task_state,
        activity=_activity(session, shown.word, below),
        retry=session.retry,
        queued=session.queued,
        turns=session.turns,
        working=sum(row.working + row.state.is_working for row in below),
        descendants=sum(row.descendants + 1 for row in below),
        issues=sum(row.issues for row in below) + shown.is_issue,
        host_pid=host.pid if session.host_pid is None else session.host_pid,
        path=session.path or host.path(session.place.session_id),
        pulse=Pulse(
            as_of_ms=session.last_ms,
            calls=tuple(session.calls.values()),
            phase=session.phase,
            phase_ms=session.phase_ms,
            written_chars=session.written_chars,
            max_cost_usd=session.max_cost_usd if session.place.parent_id else host.max_cost_usd or session.max_cost_usd,
            is_begun=session.is_begun,
            is_running=session.is_running,
            rest=session.rest,
            answer=session.answer,
            error=session.error,
        ),
    )


def session_of(row: AgentRow) -> LiveSession:
    """A session that goes on from its row. Its total stands for itself until its children are known."""
    pulse = row.pulse if isinstance(row.pulse, Pulse) else _pulse_at_rest(row)
    is_running = pulse.is_running
    begin_ms = pulse.as_of_ms - (row.elapsed_ms or 0) if is_running else None
    return LiveSession(
        Place(row.session_id, row.root_session_id, row.parent_session_id, row.depth),
        name=row.name,
        cwd=row.cwd,
        model=row.model,
        created=row.created,
        summary=row.summary,
        task_state=row.task_state,
        last_ms=_ms(row.last_event_at) or 0,
        own=_spend(row.own),
        foreign=_spend(row.total) or NOTHING,
        messages=row.message_count,
        turns=row.turns,
        queued=row.queued,
        context_tokens=row.context_tokens,
        context_window=row.context_window,
        open_ms=begin_ms,
        worked_ms=None if is_running else row.elapsed_ms,
        is_running=is_running,
        is_begun=pulse.is_begun,
        rest=pulse.rest,
        outcome=row.outcome,
        error=pulse.error,
        answer=pulse.answer,
        resting=row.activity if row.pulse is msgspec.UNSET and not is_running else None,
        calls={call.id: call for call in pulse.calls},
        phase=pulse.phase,
        phase_ms=pulse.phase_ms,
        written_chars=pulse.written_chars,
        retry=row.retry,
        is_compacting=row.status == "compacting",
        host_pid=row.host_pid,
        path=row.path,
        max_cost_usd=pulse.max_cost_usd,
    )


def set_foreign(session: LiveSession) -> None:
    """Of the total that a row gave, what is neither its own nor its children's came through sessions that are gone."""
    whole = session.foreign
    known = add_up([session.own or NOTHING, *(child.total for child in session.children)])
    session.foreign = less(whole, known)
    session.total = add_up([known, session.foreign])


def _pulse_at_rest(row: AgentRow) -> Pulse:
    """Of a row out of journals: as of its last event, and what it says of calls is a label only."""
    at = _ms(row.last_event_at) or 0
    is_begun = row.status != "waiting" or bool(row.message_count)
    return Pulse(
        as_of_ms=at, phase_ms=at, is_begun=is_begun, phase="between" if row.status == "waiting" else "thinking"
    )


def _spend(usage: Usage | None) -> Spend | None:
    return None if usage is None else spend_of(usage)


def _ms(text: str | None) -> int | None:
    seconds = unix_s(text) if text else None
    return None if seconds is None else round(seconds * 1000)


def _status(session: LiveSession, below: list[AgentRow]) -> Status:
    if session.is_compacting:
        return "compacting"
    if not session.is_running:
        return session.rest if session.is_begun else "waiting"
    if session.retry is not None:
        return "retrying"
    is_idle_itself = session.phase == "between" and not session.calls
    return "waiting" if is_idle_itself and any(row.state.is_working for row in below) else "running"


def _activity(session: LiveSession, word: str, below: list[AgentRow]) -> Activity | None:
    at = iso(session.last_ms / 1000)
    if not session.is_begun and not session.is_compacting:
        return Activity(kind="slot", label="for a free slot", since=session.created)
    if session.is_running or session.is_compacting:
        return _work(session, word, below)
    if word == "needs input":
        return Activity(kind="question", label=session.summary or session.answer or "", since=at)
    if session.resting is not None:
        return session.resting
    if session.outcome not in {None, "completed"}:
        return Activity(kind="error", label=session.error or str(session.outcome).replace("_", " "), since=at)
    return Activity(kind="answer", label=session.answer, since=at) if session.answer else None


def _work(session: LiveSession, word: str, below: list[AgentRow]) -> Activity:
    since = iso(session.phase_ms / 1000)
    working = sum(row.state.is_working for row in below)
    if word == "compacting":
        return Activity(kind="compaction", label=f"summarising {count(session.messages or 0, 'message')}", since=since)
    if session.retry is not None:
        return Activity(kind="retry", label=session.retry.kind, since=since)
    if session.calls:
        call = next(iter(session.calls.values()))
        label = f"{call.name} {call.argument}".strip()
        if call.name == WAITING_TOOL:
            awaited = [row for row in below if not call.names or row.name in call.names]
            done = sum(not row.state.is_working for row in awaited)
            label = f"{call.name} · {done} of {len(awaited)} done"
        more = f" · +{len(session.calls) - 1}" if len(session.calls) > 1 else ""
        return Activity(kind="tool", label=label + more, since=iso(call.since_ms / 1000))
    if word == "waiting":
        return Activity(kind="children", label=f"for {working} of {len(below)} children", since=since)
    if session.phase == "writing":
        label = f"writing · {session.written_chars // CHARS_PER_TOKEN} tok"
        return Activity(kind="writing", label=label, since=since)
    return Activity(kind="thinking", label="thinking", since=since)


def counted_on(row: AgentRow, now_ms: int) -> AgentRow:
    """The row with its clock at `now_ms`. Clocks stop at the end."""
    pulse = row.pulse
    if not isinstance(pulse, Pulse) or row.elapsed_ms is None or not pulse.is_running:
        return row
    past_ms = max(0, now_ms - pulse.as_of_ms)
    later = msgspec.structs.replace(pulse, as_of_ms=pulse.as_of_ms + past_ms)
    return msgspec.structs.replace(row, elapsed_ms=row.elapsed_ms + past_ms, pulse=later)
