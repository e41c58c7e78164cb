"""When something is due: `every 10m`, `in 30m`, `at 2026-12-01T09:00`, or the five fields of cron. Times are Unix seconds."""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Annotated

import msgspec

from store.errors import BadWhen
from store.times import iso, unix_s

GRAMMAR = "every 10m, in 1h30m, at 09:00, at 2026-12-01T09:00, or five fields of cron such as '0 9 * * mon-fri'"
LONGEST_S = 366 * 86400.0
# 29 February comes after eight years at the latest, where a century is no leap year.
SEARCHED_DAYS = 8 * 366 + 2

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(?:\d{1,9}[smhd]\s*)+")
_PART = re.compile(r"(\d+)([smhd])")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_MONTHS = dict(
    zip(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], range(1, 13), strict=True)
)
_WEEKDAYS = dict(zip(["sun", "mon", "tue", "wed", "thu", "fri", "sat"], range(7), strict=True))
# Name, least, most, names. A week begins and ends on Sunday: 0 and 7.
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _WEEKDAYS),
)


class Every(msgspec.Struct, frozen=True):
    """Again and again, so many seconds apart."""

    period_s: Annotated[float, msgspec.Meta(gt=0)]


class At(msgspec.Struct, frozen=True):
    """Once."""

    at_s: float


class Cron(msgspec.Struct, frozen=True):
    """At the minutes that fit, by the clock of a place.

    With both `days` and `weekdays` restricted either will do. Source: crontab(5).
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_any_day: bool
    is_any_weekday: bool

    def has_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        fits, fits_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (fits and fits_week) if self.is_any_day or self.is_any_weekday else (fits or fits_week)


When = Every | At | Cron


def parse_when(text: str, now: float, zone: tzinfo) -> When:
    """What a person means by it now. Raises BadWhen for what is none of the forms, has passed, or never comes."""
    first, _, rest = " ".join(text.split()).partition(" ")
    if first == "in":
        return At(now + _span(rest, text))
    if first == "at":
        return At(_moment(rest, now, zone, text))
    when = read_when(text)
    if next_due(when, None, now, zone) is None:
        raise BadWhen(f"{text!r} never comes: no month has that day")
    return when


def written(when: When, text: str) -> str:
    """The form that means the same whenever it is read."""
    return f"at {iso(when.at_s)}" if isinstance(when, At) else " ".join(text.split())


def read_when(text: str) -> When:
    """What was `written`. Raises BadWhen."""
    first, _, rest = " ".join(text.split()).partition(" ")
    if first == "every":
        return Every(_span(rest, text))
    if first == "at":
        at_s = unix_s(rest)
        if at_s is None:
            raise BadWhen(f"expected a time in ISO form, found {rest!r} in {text!r}")
        return At(at_s)
    return _cron(_ALIASES.get(text.strip(), text).split(), text)


def next_due(when: When, due: float | None, now: float, zone: tzinfo) -> float | None:
    """When it is due after `now`. `due`: when it was last; None: it never was. Missed times are passed over. None: never again."""
    match when:
        case Every(period_s):
            if due is None:
                return now + period_s
            return due + period_s * (max(0.0, now - due) // period_s + 1)
        case At(at_s):
            return at_s if due is None else None
        case Cron():
            return _next_fit(when, now, zone)


def _span(text: str, whole: str) -> float:
    if not _SPAN.fullmatch(text):
        raise BadWhen(f"expected a span of time such as 10m or 1h30m, found {text!r} in {whole!r}")
    seconds = sum(int(count) * _UNITS_S[unit] for count, unit in _PART.findall(text))
    if not 0 < seconds <= LONGEST_S:
        raise BadWhen(f"expected a span of time from 1s to 366d, found {text!r}")
    return seconds


def _moment(text: str, now: float, zone: tzinfo, whole: str) -> float:
    """A time of day is the next one that comes."""
    clock = _CLOCK.fullmatch(text)
    if clock:
        hour, minute = int(clock[1]), int(clock[2])
        return min(at for at in _around(now, zone, frozenset([hour]), frozenset([minute])) if at > now)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadWhen(f"expected a time such as 09:00 or 2026-12-01T09:00, found {text!r} in {whole!r}") from error
    at = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    if at <= now:
        raise BadWhen(f"expected a time to come, found {text!r}, which has passed")
    return at


def _around(now: float, zone: tzinfo, hours: frozenset[int], minutes: frozenset[int]) -> Iterator[float]:
    today = datetime.fromtimestamp(now, zone).date()
    for days in (-1, 0, 1, 2):
        yield from _times(today + timedelta(days=days), hours, minutes, zone)


def _times(day: date, hours: frozenset[int], minutes: frozenset[int], zone: tzinfo) -> Iterator[float]:
    """The moments of a day. A time that the clock passes over counts after the gap, one that comes twice the first time."""
    for hour in hours:
        for minute in minutes:
            yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()


def _next_fit(cron: Cron, now: float, zone: tzinfo) -> float | None:
    day = datetime.fromtimestamp(now, zone).date() - timedelta(days=1)
    for _ in range(SEARCHED_DAYS):
        if cron.has_day(day):
            later = [at for at in _times(day, cron.hours, cron.minutes, zone) if at > now]
            if later:
                return min(later)
        day += timedelta(days=1)
    return None


def _cron(words: list[str], whole: str) -> Cron:
    if len(words) != len(_FIELDS):
        raise BadWhen(f"expected {GRAMMAR}; found {whole!r}")
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    sundays = frozenset(number % 7 for number in weekdays)
    return Cron(minutes, hours, days, months, sundays, words[2].startswith("*"), words[4].startswith("*"))


def _field(word: str, name: str, least: int, most: int, names: dict[str, int]) -> frozenset[int]:
    """The numbers of `*`, `5`, `1-5`, `*/10`, `8-18/2`, and of lists of those."""
    found: set[int] = set()
    for part in word.lower().split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = least if span == "*" else _number(first, name, least, most, names)
        # A range may end with the Sunday that a week ends with.
        end = _number(last, name, least, most, {**names, "sun": 7} if "sun" in names else names) if dash else begin
        if span == "*" or (slash and not dash):
            end = most
        every = _number(step, name, 1, most, {}) if slash else 1
        if end < begin:
            raise BadWhen(f"expected a range that goes up in the field {name} of cron, found {part!r}")
        found.update(range(begin, end + 1, every))
    return frozenset(found)


def _number(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text)
    if number is None and text.isascii() and text.isdigit() and len(text) <= 3:
        number = int(text)
    if number is None or not least <= number <= most:
        also = f" or {', '.join(names)}" if names else ""
        raise BadWhen(f"expected a number from {least} to {most}{also} in the field {name} of cron, found {text!r}")
    return number
