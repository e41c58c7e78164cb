"""What a row that is alive carries beside what it shows, so that another fold can go on from it."""

from typing import Literal

import msgspec

from orchestrator.views.states import Status

Phase = Literal["thinking", "writing", "between"]
"""`thinking`: a model call is open; `between`: none is."""


class Call(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An open tool call. `argument`: the first one, as it is; `since_ms`: Unix milliseconds.

    `names`: whom a wait is for; none: all children.
    """

    id: str
    name: str
    argument: str = ""
    names: tuple[str, ...] = ()
    since_ms: int


class Pulse(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`as_of_ms`: the moment that `elapsedMs` of the row is of, Unix milliseconds; it counts on while the session works.

    `written_chars` came of the answer that is being written. `answer`: first line of the last one. `is_begun`: its first run
    has started; `rest`: what it is while no run is open. `max_cost_usd`: what it and all below it may spend.
    """

    as_of_ms: int
    calls: tuple[Call, ...] = ()
    phase: Phase = "between"
    phase_ms: int = 0
    written_chars: int = 0
    is_begun: bool = True
    is_running: bool = False
    rest: Status = "idle"
    max_cost_usd: float | None = None
    answer: str | None = None
    error: str | None = None
