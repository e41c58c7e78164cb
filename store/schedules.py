"""Prompts that come again: what is kept of each, and what a tick changes. Pure; the time is handed in as Unix seconds."""

from datetime import tzinfo
from typing import Literal

import msgspec

from store.times import iso, unix_s
from store.when import At, When, next_due, parse_when, read_when, written
from store.wire import Wire

VERSION = 1
CORRECTION_S = 300.0
TickMode = Literal["steer", "follow_up"]


class Schedule(Wire, frozen=True, kw_only=True):
    """A prompt for a session, and when. Times are ISO; `zone` is the place whose clock `when` goes by.

    `next_at` None: it will not come again. `claims` counts its ticks. Of the last one: `claimed_at`, and `outcome`, which is
    absent while nobody knows whether it was delivered (then its host has died, and it is not tried again).
    """

    version: int = msgspec.field(default_factory=lambda: VERSION)
    id: str
    session_id: str
    when: str
    zone: str
    prompt: str
    mode: TickMode
    created: str
    next_at: str | None
    claims: int = msgspec.field(default_factory=lambda: 0)
    claimed_at: str | None = None
    outcome: Literal["delivered", "failed"] | None = None
    error: str | None = None

    @property
    def due_s(self) -> float | None:
        return None if self.next_at is None else unix_s(self.next_at)

    @property
    def last_tick(self) -> str:
        """The id of the message of its last tick: another one for every tick, so that each is delivered once."""
        return f"schedule:{self.id}:{self.claims}"


class Tick(msgspec.Struct, frozen=True):
    """One time that a schedule came due. `late_s`: by how much; ticks that were missed meanwhile are in it."""

    schedule: Schedule
    late_s: float

    @property
    def id(self) -> str:
        """Of its message."""
        return self.schedule.last_tick


def new_schedule(
    id: str, session_id: str, when: str, prompt: str, mode: TickMode, now: float, place: tuple[str, tzinfo]
) -> Schedule:
    """`place`: a zone with its name. Raises BadWhen."""
    zone, tz = place
    parsed = parse_when(when, now, tz)
    due = next_due(parsed, None, now, tz)
    return Schedule(
        id=id,
        session_id=session_id,
        when=written(parsed, when),
        zone=zone,
        prompt=prompt,
        mode=mode,
        created=iso(now),
        next_at=None if due is None else iso(due),
    )


def claimed(schedule: Schedule, now: float, tz: tzinfo) -> tuple[Schedule, Tick | None]:
    """The schedule with its due tick taken, and the tick; None: it is not due. However many were missed, it is one tick.

    Raises BadWhen.
    """
    due = schedule.due_s
    if due is None:
        return schedule, None
    when = read_when(schedule.when)
    if due > now:
        return _anew(schedule, when, now, tz) if _was_set_back(schedule, now) else schedule, None
    later = next_due(when, due, now, tz)
    schedule = msgspec.structs.replace(
        schedule,
        next_at=None if later is None else iso(later),
        claims=schedule.claims + 1,
        claimed_at=iso(now),
        outcome=None,
        error=None,
    )
    return schedule, Tick(schedule, now - due)


def _was_set_back(schedule: Schedule, now: float) -> bool:
    """The clock, since this was written, and by more than a correction.

    A clock that was years ahead must not hold it up so long, and hosts whose clocks differ a little do not undo each other.
    """
    written_s = unix_s(schedule.claimed_at or schedule.created)
    return written_s is not None and written_s - now > CORRECTION_S


def _anew(schedule: Schedule, when: When, now: float, tz: tzinfo) -> Schedule:
    """Due when it would be, were it made now. What is to be at one moment stays."""
    due = None if isinstance(when, At) else next_due(when, None, now, tz)
    return schedule if due is None else msgspec.structs.replace(schedule, next_at=iso(due))


def ended(schedule: Schedule, tick: Tick, error: str | None) -> Schedule:
    """What became of a tick. Nothing, if there was another one since."""
    if schedule.claims != tick.schedule.claims:
        return schedule
    return msgspec.structs.replace(schedule, outcome="failed" if error else "delivered", error=error)


def standing(schedule: Schedule) -> str:
    """How it stands, in a word or two."""
    if schedule.claims and schedule.outcome is None:
        return "uncertain"
    if schedule.outcome == "failed":
        return "failed"
    return "waiting" if schedule.next_at is not None else "done"
