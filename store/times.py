"""Times of the wire: ISO in UTC with milliseconds, and Unix milliseconds. The time itself is always handed in."""

from datetime import UTC, datetime


def iso(unix_s: float) -> str:
    """`2026-11-30T01:02:03.456Z`."""
    moment = datetime.fromtimestamp(unix_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def unix_s(text: str) -> float | None:
    """Seconds of an ISO time, None for what is none."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def unix_ms(at_s: float) -> int:
    return int(at_s * 1000)
