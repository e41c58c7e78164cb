"""What a tick changes: due ones are taken once, missed ones together, and a clock that jumps holds nothing up."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadWhen
from store.schedules import CORRECTION_S, Schedule, claimed, ended, new_schedule, standing
from store.times import iso

NOW = 1_800_000_000.0
SESSION = "01a22ae0-7f3f-72c5-ae52-84dede0a7b95"


def made(when: str, at: float = NOW) -> Schedule:
    return new_schedule("0000000a", SESSION, when, "look again", "follow_up", at, ("UTC", UTC))


def ticks(schedule: Schedule, times: list[float]) -> tuple[Schedule, list[str]]:
    """The schedule after looking at it at these times, and the ids of its ticks."""
    found = []
    for now in times:
        schedule, tick = claimed(schedule, now, UTC)
        if tick is not None:
            found.append(tick.id)
    return schedule, found


def test_a_tick_is_taken_when_it_is_due_and_not_before() -> None:
    schedule, found = ticks(made("every 10m"), [NOW + 1, NOW + 599, NOW + 600, NOW + 601, NOW + 1_200])

    assert found == ["schedule:0000000a:1", "schedule:0000000a:2"]
    assert schedule.next_at == iso(NOW + 1_800)


def test_however_many_were_missed_they_are_one_and_the_beat_stays() -> None:
    schedule, tick = claimed(made("every 10m"), NOW + 600 * 25 + 7, UTC)

    assert tick is not None
    assert tick.late_s == pytest.approx(600 * 24 + 7, abs=0.01)
    assert schedule.next_at == iso(NOW + 600 * 26)


def test_what_is_to_be_once_is_once() -> None:
    schedule, found = ticks(made("in 30m"), [NOW + 1_799, NOW + 9_999, NOW + 99_999])

    assert found == ["schedule:0000000a:1"]
    assert schedule.next_at is None


@given(
    st.sampled_from(["every 10s", "every 1h", "in 5m", "*/7 * * * *", "0 9 * * mon"]),
    st.lists(st.floats(-40_000, 90_000), min_size=1, max_size=40),
)
def test_whatever_the_clock_does_no_tick_has_the_id_of_another_and_the_next_is_to_come(
    when: str, jumps: list[float]
) -> None:
    schedule, now, seen = made(when), NOW, set()
    for jump in jumps:
        now += jump
        before = schedule
        schedule, tick = claimed(schedule, now, UTC)
        if tick is None:
            assert schedule.claims == before.claims
        else:
            assert tick.id not in seen
            seen.add(tick.id)
            due = schedule.due_s
            assert due is None or due > now - 0.001
        assert claimed(schedule, now, UTC)[1] is None, "taken twice at one moment"


@pytest.mark.parametrize("when", ["every 10m", "*/10 * * * *"])
def test_a_clock_that_was_years_ahead_when_it_was_made_holds_nothing_up(when: str) -> None:
    schedule = made(when, NOW + 3e8)

    schedule, found = ticks(schedule, [NOW, NOW + 601, NOW + 1_202])

    assert len(found) == 2
    assert schedule.due_s is not None
    assert schedule.due_s <= NOW + 1_202 + 600


def test_a_clock_that_is_corrected_a_little_makes_no_minute_come_twice() -> None:
    schedule, first = ticks(made("*/10 * * * *"), [NOW + 601])

    schedule, found = ticks(schedule, [NOW + 601 - CORRECTION_S + 1, NOW + 599, NOW + 600, NOW + 602])

    assert (len(first), found) == (1, [])


def test_a_moment_stays_whatever_the_clock_does() -> None:
    schedule = made("at 2035-01-01T00:00", NOW + 1e7)

    assert claimed(schedule, NOW, UTC) == (schedule, None)


def test_a_time_of_day_goes_by_the_clock_of_its_place() -> None:
    schedule = new_schedule("0000000a", SESSION, "0 9 * * *", "p", "steer", NOW, ("Asia/Tokyo", ZoneInfo("Asia/Tokyo")))

    assert (schedule.next_at or "")[11:16] == "00:00"


def test_what_became_of_a_tick_is_noted_unless_there_was_another_since() -> None:
    first, tick = claimed(made("every 10m"), NOW + 600, UTC)
    assert tick is not None
    second, later = claimed(first, NOW + 1_200, UTC)
    assert later is not None

    assert standing(first) == "uncertain"
    assert (ended(first, tick, None).outcome, standing(ended(first, tick, None))) == ("delivered", "waiting")
    assert (ended(first, tick, "gone").error, standing(ended(first, tick, "gone"))) == ("gone", "failed")
    assert ended(second, tick, None) == second


def test_one_that_never_comes_is_not_made() -> None:
    with pytest.raises(BadWhen):
        made("0 0 31 2 *")
