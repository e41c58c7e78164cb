"""A row as the page gets it: flat, short, every text safe on one line, clocks as the moment they count from."""

from typing import Any

import msgspec

from orchestrator.views.doing import Activity
from orchestrator.views.money import spent_tokens
from orchestrator.views.pulse import Pulse
from orchestrator.views.rows import AgentRow, Retry
from orchestrator.views.signs import title
from orchestrator.views.text import one_line

_LABEL_CHARS = 300
_MODEL_CHARS = 120


class ShownRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`ownUsd`, `totalUsd`: None where nothing is known; `…IsPart`: some of it has no price.

    `openMs`: the moment, in Unix milliseconds, from which the time of a working row counts; others have `elapsedMs`.
    """

    id: str
    parent: str | None
    root: str
    name: str
    depth: int
    word: str
    outcome: str | None
    model: str | None
    own_usd: float | None
    own_is_part: bool
    own_tokens: int | None
    total_usd: float | None
    total_is_part: bool
    total_tokens: int | None
    unpriced: tuple[str, ...]
    context_tokens: int | None
    context_window: int | None
    elapsed_ms: int | None
    open_ms: int | None
    last_event_at: str | None
    activity: Activity | None
    retry: Retry | None
    queued: int
    turns: int | None
    messages: int | None
    working: int
    descendants: int
    issues: int
    host_pid: int | None


def shown(row: AgentRow) -> ShownRow:
    own, total = row.own, row.total
    pulse = row.pulse if isinstance(row.pulse, Pulse) else None
    is_counting = row.state.is_working and pulse is not None and row.elapsed_ms is not None
    return ShownRow(
        id=row.session_id,
        parent=row.parent_session_id,
        root=row.root_session_id,
        name=title(row),
        depth=row.depth,
        word=row.state.word,
        outcome=row.outcome,
        model=one_line(row.model, _MODEL_CHARS) if row.model else None,
        own_usd=own.cost.total if own else None,
        own_is_part=bool(own and own.cost.unpriced),
        own_tokens=spent_tokens(own),
        total_usd=total.cost.total if total else None,
        total_is_part=bool(total and total.cost.unpriced),
        total_tokens=spent_tokens(total),
        unpriced=tuple(one_line(name, _MODEL_CHARS) for name in row.unpriced_models),
        context_tokens=row.context_tokens,
        context_window=row.context_window,
        elapsed_ms=None if is_counting else row.elapsed_ms,
        open_ms=pulse.as_of_ms - (row.elapsed_ms or 0) if is_counting and pulse else None,
        last_event_at=row.last_event_at,
        activity=_safe_activity(row.activity),
        retry=_safe_retry(row.retry),
        queued=row.queued or 0,
        turns=row.turns,
        messages=row.message_count,
        working=row.working,
        descendants=row.descendants,
        issues=row.issues,
        host_pid=row.host_pid,
    )


def _safe_activity(activity: Activity | None) -> Activity | None:
    if activity is None:
        return None
    return msgspec.structs.replace(activity, label=one_line(activity.label, _LABEL_CHARS))


def _safe_retry(retry: Retry | None) -> Retry | None:
    return None if retry is None else msgspec.structs.replace(retry, kind=one_line(retry.kind, _LABEL_CHARS))


_NAMES = tuple(zip(ShownRow.__struct_fields__, ShownRow.__struct_encode_fields__, strict=True))


def changes(before: ShownRow | None, after: ShownRow) -> dict[str, Any]:
    """The members that differ, under their names of the wire; all of them where nothing was there."""
    if before is None:
        return {wire: getattr(after, name) for name, wire in _NAMES}
    return {wire: new for name, wire in _NAMES if (new := getattr(after, name)) != getattr(before, name)}
