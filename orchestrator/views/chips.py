"""The filters that are always at hand, each with its count."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from orchestrator.views.rows import AgentRow
from store.errors import BadUsage
from store.usage import spend_of

Chip = Literal["running", "waiting", "issues", "ended", "costly"]
CHIPS: tuple[Chip, ...] = get_args(Chip)
COSTLY_PART = 20
"""Costly is what spent at least this part of its tree's total itself: 5 %."""
_RUNNING = frozenset({"running", "retrying", "compacting"})
_NOT_ENDED = frozenset({"idle", "needs input", "unknown", "damaged"})


def chip_meets(chip: Chip, row: AgentRow, by_id: Mapping[str, AgentRow]) -> bool:
    """Whether a row is one of these. `by_id`: all rows, for the total of its tree."""
    match chip:
        case "running":
            return row.state.word in _RUNNING
        case "waiting":
            return row.state.word == "waiting"
        case "issues":
            return row.state.is_issue
        case "ended":
            return not row.state.is_working and row.state.word not in _NOT_ENDED
        case "costly":
            own, total = _pico(row), _pico(by_id.get(row.root_session_id), is_total=True)
            return own > 0 and own * COSTLY_PART >= total


def chip_counts(rows: Sequence[AgentRow], chosen: Chip | None) -> Iterator[tuple[Chip, int]]:
    """How many of these rows are in each; costly ones are counted only where that is `chosen`."""
    by_id = {row.session_id: row for row in rows}
    for chip in CHIPS:
        if chip != "costly" or chip == chosen:
            yield chip, sum(chip_meets(chip, row, by_id) for row in rows)


def _pico(row: AgentRow | None, *, is_total: bool = False) -> int:
    usage = None if row is None else row.total if is_total else row.own
    try:
        return 0 if usage is None else spend_of(usage).total_pico
    except BadUsage:
        return 0
