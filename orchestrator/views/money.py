"""Figures as people read them: money, tokens, time. Rounding is half up and in integers."""

from collections.abc import Iterable

from store.errors import BadUsage
from store.usage import PICO_PER_USD, Spend, Usage, spend_of

UNKNOWN = "?"
ABSENT = "–"
AT_LEAST = "≥ "


def money(usage: Usage | None) -> str:
    """`$1.24`, `<$0.01`, `$124`; `≥ $1.24` with unknown parts, `?` where nothing is known, `–` without a usage."""
    spend = _spend(usage)
    if spend is None:
        return ABSENT
    if spend.unpriced and not spend.total_pico:
        return UNKNOWN
    return (AT_LEAST if spend.unpriced else "") + dollars(spend.total_pico)


def exact_money(usage: Usage | None, digits: int = 4) -> str:
    """As `money`, with a fixed number of decimals."""
    spend = _spend(usage)
    if spend is None:
        return ABSENT
    if spend.unpriced and not spend.total_pico:
        return UNKNOWN
    return (AT_LEAST if spend.unpriced else "") + exact_dollars(spend.total_pico, digits)


def dollars(pico: int) -> str:
    """Money for a narrow column."""
    cents = _rounded(pico, PICO_PER_USD // 100)
    if 0 < pico < PICO_PER_USD // 100:
        return "<$0.01"
    if cents < 100_00:
        return f"${cents // 100}.{cents % 100:02d}"
    whole = _rounded(pico, PICO_PER_USD)
    return f"${whole}" if whole < 1_000_000 else f"${_scaled(whole, 1_000_000)}M"


def exact_dollars(pico: int, digits: int = 4) -> str:
    """`$0.0012`; what is too small for these decimals gets all twelve, as it is not zero."""
    unit = 10 ** (12 - digits)
    if 0 < pico < unit:
        digits, unit = 12, 1
    units = _rounded(pico, unit)
    return f"${units // 10**digits}.{units % 10**digits:0{digits}d}"


def decimal_dollars(pico: int) -> str:
    """All twelve decimals, for programs."""
    return f"{pico // PICO_PER_USD}.{pico % PICO_PER_USD:012d}"


def tokens(count: int | None) -> str:
    """`940`, `1.2k`, `12k`, `1.93M`."""
    if count is None:
        return ABSENT
    if count < 1_000:
        return str(count)
    if _rounded(count, 100) < 100:
        tenths = _rounded(count, 100)
        return f"{tenths // 10}.{tenths % 10}k"
    if _rounded(count, 1_000) < 1_000:
        return f"{_rounded(count, 1_000)}k"
    if _rounded(count, 1_000_000) < 1_000:
        return f"{_scaled(count, 1_000_000)}M"
    return f"{_scaled(count, 1_000_000_000)}G"


def duration(elapsed_ms: int | None) -> str:
    """`7s`, `4m12s`, `1h03m`, `2d04h`."""
    if elapsed_ms is None:
        return ABSENT
    seconds = max(0, elapsed_ms) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02d}m"
    return f"{seconds // 86400}d{seconds // 3600 % 24:02d}h"


def spent_tokens(usage: Usage | None) -> int | None:
    """All tokens of a usage, cached ones included."""
    return None if usage is None else usage.input + usage.output + usage.cache_read + usage.cache_write


def unpriced_tokens(model: str, owns: Iterable[Usage | None]) -> int | None:
    """Tokens of a model without a price; None where they stand together with those of other models."""
    users = [own for own in owns if own is not None and model in (own.cost.unpriced or ())]
    is_alone = all(own.cost.unpriced == (model,) and not own.cost.total for own in users)
    return sum(spent_tokens(own) or 0 for own in users) if is_alone and users else None


def _spend(usage: Usage | None) -> Spend | None:
    if usage is None:
        return None
    try:
        return spend_of(usage)
    except BadUsage:
        return None


def _rounded(value: int, unit: int) -> int:
    return (2 * value + unit) // (2 * unit)


def _scaled(value: int, unit: int) -> str:
    """Three digits that count: `1.93`, `19.3`, `193`."""
    hundredths = _rounded(value, unit // 100)
    if hundredths < 10_00:
        return f"{hundredths // 100}.{hundredths % 100:02d}"
    tenths = _rounded(value, unit // 10)
    if tenths < 100_0:
        return f"{tenths // 10}.{tenths % 10}"
    return str(_rounded(value, unit))
