"""When something is due: what is read, what is refused, and the next time, held against a search minute by minute."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.errors import BadWhen
from store.when import At, Cron, Every, next_due, parse_when, read_when, written

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: tzinfo = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


NOW = at("2026-11-30T10:00:30")  # a Monday


@pytest.mark.parametrize(
    ("text", "period_s"),
    [("every 10m", 600.0), ("every 90s", 90.0), ("every 1h30m", 5400.0), (" every  2d 1h ", 176_400.0)],
)
def test_an_interval(text: str, period_s: float) -> None:
    assert parse_when(text, NOW, UTC) == Every(period_s)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in 30m", "2026-11-30T10:30:30"),
        ("at 10:01", "2026-11-30T10:01"),
        ("at 10:00", "2026-12-01T10:00"),
        ("at 9:05", "2026-12-01T09:05"),
        ("at 2026-12-01T09:00", "2026-12-01T09:00"),
        ("at 2026-12-01T09:00+02:00", "2026-12-01T07:00"),
        ("at 2026-12-01T09:00Z", "2026-12-01T09:00"),
        ("at 2026-12-01 09:00", "2026-12-01T09:00"),
        ("at 2026-12-01", "2026-12-01T00:00"),
    ],
)
def test_one_moment(text: str, expected: str) -> None:
    assert parse_when(text, NOW, UTC) == At(at(expected))


def test_a_time_of_day_is_one_of_the_place() -> None:
    assert parse_when("at 09:00", NOW, BERLIN) == At(at("2026-12-01T09:00", BERLIN))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-11-30T10:01"),
        ("0 9 * * 1-5", "2026-12-01T09:00"),
        ("0 9 * * mon-fri", "2026-12-01T09:00"),
        ("0 9 * * sat,sun", "2026-12-05T09:00"),
        ("0 9 * * fri-sun", "2026-12-04T09:00"),
        ("0 0 * * 7", "2026-12-06T00:00"),
        ("*/15 * * * *", "2026-11-30T10:15"),
        ("5/20 8-18/2 * * *", "2026-11-30T10:05"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 12 1 jan,JUL *", "2027-01-01T12:00"),
        ("0 0 13 * fri", "2026-12-04T00:00"),  # either will do
        ("0 0 */13 * tue", "2026-12-01T00:00"),  # with a star both must
        ("@hourly", "2026-11-30T11:00"),
        ("@daily", "2026-12-01T00:00"),
        ("@weekly", "2026-12-06T00:00"),
        ("@monthly", "2026-12-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
    ],
)
def test_the_fields_of_cron(text: str, expected: str) -> None:
    when = parse_when(text, NOW, UTC)

    assert isinstance(when, Cron)
    assert next_due(when, None, NOW, UTC) == at(expected)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "every 10m"),
        ("soon", "every 10m"),
        ("every", "span"),
        ("every day", "span"),
        ("every 0m", "from 1s"),
        ("every 400d", "366d"),
        ("every 10 m", "span"),
        ("every -5m", "span"),
        ("in", "span"),
        ("in 99999999999d", "span"),
        ("at", "time"),
        ("at noon", "time"),
        ("at 24:00", "time"),
        ("at 2026-11-30T10:00", "has passed"),
        ("0 9 * *", "five fields"),
        ("0 9 * * * *", "five fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "weekday"),
        ("* * * * mon-", "weekday"),
        ("5-1 * * * *", "goes up"),
        ("*/0 * * * *", "minute"),
        ("1, * * * *", "minute"),
        ("١ * * * *", "minute"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6 *", "never comes"),
    ],
)
def test_what_is_refused_says_what_was_expected(text: str, named: str) -> None:
    with pytest.raises(BadWhen, match=named):
        parse_when(text, NOW, UTC)


@given(st.text(max_size=40))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    try:
        when = parse_when(text, NOW, UTC)
    except BadWhen:
        return
    assert next_due(when, None, NOW, UTC) is not None


@pytest.mark.parametrize("text", ["every 1h 30m", "in 30m", "at 10:05", "at 2027-01-01T00:00+05:00", "0  9 * * mon"])
def test_what_is_written_means_the_same_later_and_elsewhere(text: str) -> None:
    when = parse_when(text, NOW, BERLIN)
    kept = written(when, text)

    assert read_when(kept) == when
    assert parse_when(kept, NOW, UTC) == when


# --- the next time ---------------------------------------------------------------------------------------------------


@given(st.floats(1.0, 1e6), st.floats(0, 1e9), st.floats(0, 1e7))
def test_an_interval_keeps_its_beat_and_passes_over_what_was_missed(period_s: float, due: float, late_s: float) -> None:
    now = due + late_s
    later = next_due(Every(period_s), due, now, UTC)

    assert later is not None
    assert now < later + 1e-6
    assert later <= now + period_s * (1 + 1e-9)
    beats = (later - due) / period_s
    assert beats == pytest.approx(round(beats), abs=1e-3)


def test_a_moment_comes_once() -> None:
    assert next_due(At(NOW), None, NOW - 5, UTC) == NOW
    assert next_due(At(NOW), NOW, NOW, UTC) is None


def fields(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    spans = st.tuples(number, number).map(sorted).map(lambda pair: f"{pair[0]}-{pair[1]}")
    plain = number.map(str)
    steps = st.tuples(st.one_of(st.just("*"), spans, plain), st.integers(1, 7)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(
        st.just("*"), st.just("*"), st.lists(st.one_of(plain, spans, steps), min_size=1, max_size=3).map(",".join)
    )


crons = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), st.just("*"), fields(0, 7)).map(" ".join)
moments = st.integers(int(at("2026-01-01T00:00")), int(at("2027-12-31T00:00"))).map(float)


@given(crons, moments)
@settings(max_examples=30, deadline=None)
def test_the_next_time_of_cron_is_the_first_minute_that_fits(text: str, now: float) -> None:
    when = read_when(text)
    assert isinstance(when, Cron)

    due = next_due(when, None, now, UTC)

    assert due is not None
    minute = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(60 * 24 * 40):
        if minute.minute in when.minutes and minute.hour in when.hours and when.has_day(minute.date()):
            assert due == minute.timestamp()
            return
        minute += timedelta(minutes=1)
    assert due >= minute.timestamp()


@pytest.mark.parametrize(
    ("text", "now", "due"),
    [
        # 02:00 to 03:00 is passed over on 29 March 2026: what was to be then is right after it.
        ("30 2 * * *", "2026-03-28T12:00+01:00", "2026-03-29T03:30+02:00"),
        ("0 3 * * *", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("*/30 * * * *", "2026-03-29T01:45+01:00", "2026-03-29T03:00+02:00"),
        # 02:00 to 03:00 comes twice on 25 October 2026: what was to be then is the first time.
        ("30 2 * * *", "2026-10-25T01:00+02:00", "2026-10-25T02:30+02:00"),
        ("30 2 * * *", "2026-10-25T02:40+02:00", "2026-10-26T02:30+01:00"),
        ("30 2 * * *", "2026-10-25T02:10+01:00", "2026-10-26T02:30+01:00"),
    ],
)
def test_a_clock_that_is_changed_for_summer_or_winter_loses_and_doubles_nothing(text: str, now: str, due: str) -> None:
    found = next_due(read_when(text), None, datetime.fromisoformat(now).timestamp(), BERLIN)

    assert found == datetime.fromisoformat(due).timestamp()


@given(crons, moments, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]))
@settings(max_examples=20, deadline=None)
def test_times_of_cron_only_go_up_whatever_the_clock_of_the_place_does(text: str, now: float, name: str) -> None:
    when, zone = read_when(text), ZoneInfo(name)
    for _ in range(12):
        due = next_due(when, None, now, zone)
        assert due is not None
        assert due > now
        now = due
