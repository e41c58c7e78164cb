"""The column Doing: what an agent does now, in one line that counts on."""

from orchestrator.views.money import duration
from orchestrator.views.pulse import Pulse
from orchestrator.views.rows import AgentRow, Retry
from orchestrator.views.text import one_line
from store.times import unix_s

AGED_FROM_S = 5
QUIET_FROM_S = 60
_AGED = frozenset({"tool", "thinking"})
_OPEN_CALL = frozenset({"tool", "thinking", "writing"})
_LABEL_CHARS = 400


def doing(row: AgentRow, now: float | None = None) -> str:
    """Queued mail first, then what it does, with its age. `now` in Unix seconds; without it nothing counts.

    Without events for a minute an open call is called quiet: a sign, not a state.
    """
    parts = [f"[{row.queued}q]" if row.queued and row.state.is_working else "", _label(row, now)]
    return " ".join(part for part in parts if part)


def _label(row: AgentRow, now: float | None) -> str:
    activity = row.activity
    if activity is None:
        return ""
    if row.retry is not None and activity.kind == "retry":
        return retry_text(row.retry, now)
    label = one_line(activity.label, _LABEL_CHARS)
    if now is None:
        return label
    parts = [label]
    age_s = seconds_since(activity.since, now)
    if activity.kind in _AGED and age_s is not None and age_s >= AGED_FROM_S:
        parts.append(duration(age_s * 1000))
    if activity.kind == "silent" and age_s is not None:
        parts.append(f"last event {duration(age_s * 1000)} ago")
    if is_quiet(row, now):
        parts.append(f"quiet {duration((seconds_since(row.last_event_at, now) or 0) * 1000)}")
    return " · ".join(part for part in parts if part)


def retry_text(retry: Retry, now: float | None) -> str:
    """`overloaded · try 3 of 5 in 8s`, `rate limited · 40s left`."""
    kind = one_line(retry.kind, 60)
    left_s = max(0, -(seconds_since(retry.until, now) or 0)) if now is not None else None
    if kind == "rate limited" and left_s is not None:
        return f"{kind} · {duration(left_s * 1000)} left"
    when = "" if left_s is None else f" in {duration(left_s * 1000)}"
    return f"{kind} · try {retry.attempt} of {retry.of}{when}"


def is_quiet(row: AgentRow, now: float) -> bool:
    """Whether a call is open of which nothing was heard for a minute."""
    if row.status != "running" or row.activity is None or row.activity.kind not in _OPEN_CALL:
        return False
    return (seconds_since(row.last_event_at, now) or 0) >= QUIET_FROM_S


def seconds_since(at: str | None, now: float) -> int | None:
    """Whole seconds since an ISO time; below zero before it."""
    then = unix_s(at) if at else None
    return None if then is None else int(now - then)


def open_calls(row: AgentRow) -> list[str]:
    """The tools that run, with their first arguments."""
    calls = row.pulse.calls if isinstance(row.pulse, Pulse) else ()
    return [one_line(f"{call.name} {call.argument}", _LABEL_CHARS) for call in calls]
