"""Schedules as plain lines: when each comes next, how it stands, and what it says."""

from collections.abc import Sequence

from orchestrator.views.money import duration
from orchestrator.views.session_text import column_lines
from orchestrator.views.text import one_line
from store.ids import short
from store.schedules import Schedule, standing
from store.times import unix_s

_PROMPT_CHARS = 400


def schedule_list(schedules: Sequence[Schedule], now: float, width: int, *, ascii: bool = False) -> list[str]:
    """A head and one line per schedule, in the order given. `now` in Unix seconds."""
    table = [
        ["Id", *(each.id for each in schedules)],
        ["Session", *(one_line(short(each.session_id)) for each in schedules)],
        ["When", *(one_line(each.when) for each in schedules)],
        ["Next", *(_until(each.next_at, now) for each in schedules)],
        ["Ticks", *(str(each.claims) for each in schedules)],
        ["State", *(_state(each) for each in schedules)],
        ["Prompt", *(one_line(each.prompt, _PROMPT_CHARS) for each in schedules)],
    ]
    return column_lines(table, {4}, width, ascii=ascii)


def _until(at: str | None, now: float) -> str:
    then = unix_s(at) if at else None
    if then is None:
        return "–"
    return "due" if then <= now else f"in {duration(int((then - now) * 1000))}"


def _state(schedule: Schedule) -> str:
    word = standing(schedule)
    return f"{word}: {one_line(schedule.error, 80)}" if schedule.error else word
