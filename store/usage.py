"""What a model call used and what it cost. Sums are integers of 10⁻¹² dollar, so their order does not matter."""

import math
from collections.abc import Iterable

import msgspec

from store.errors import BadUsage
from store.wire import Wire

PICO_PER_USD = 10**12
_ABSURD_TOKENS = 10**12
_ABSURD_USD = 10**9


def pico_usd(dollars: float) -> int:
    """Dollars of the wire as 10⁻¹² dollar; exact up to 4,503 dollar. Raises BadUsage."""
    if not math.isfinite(dollars) or dollars < 0 or dollars > _ABSURD_USD:
        raise BadUsage(f"expected a cost in dollars from 0 to {_ABSURD_USD}, found {dollars!r}")
    numerator, denominator = float(dollars).as_integer_ratio()
    return (2 * numerator * PICO_PER_USD + denominator) // (2 * denominator)


def usd(pico: int) -> float:
    """10⁻¹² dollar as dollars of the wire, correctly rounded."""
    return pico / PICO_PER_USD


class Cost(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Dollars. `unpriced` names the models whose price is unknown; their part stands at zero."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0
    unpriced: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Usage(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens and dollars as they stand in messages and entries. `reasoning` is part of `output`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    reasoning: int | msgspec.UnsetType = msgspec.UNSET
    cost: Cost = Cost()


class Spend(msgspec.Struct, frozen=True):
    """The exact form of a Usage: tokens, and money in 10⁻¹² dollar. Adds up in any order."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    input_pico: int = 0
    output_pico: int = 0
    cache_read_pico: int = 0
    cache_write_pico: int = 0
    total_pico: int = 0
    unpriced: frozenset[str] = frozenset()

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.input_pico + other.input_pico,
            self.output_pico + other.output_pico,
            self.cache_read_pico + other.cache_read_pico,
            self.cache_write_pico + other.cache_write_pico,
            self.total_pico + other.total_pico,
            self.unpriced | other.unpriced,
        )


NOTHING = Spend()


def add_up(spends: Iterable[Spend]) -> Spend:
    """The sum; `NOTHING` of none."""
    result = NOTHING
    for spend in spends:
        result = result + spend
    return result


def spend_of(usage: Usage) -> Spend:
    """The exact form. Raises BadUsage for counts or money that no provider can mean."""
    for name in ("input", "output", "cache_read", "cache_write"):
        count = getattr(usage, name)
        if not 0 <= count <= _ABSURD_TOKENS:
            raise BadUsage(f"expected 0 to {_ABSURD_TOKENS} {name} tokens, found {count}")
    cost = usage.cost
    return Spend(
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        pico_usd(cost.input),
        pico_usd(cost.output),
        pico_usd(cost.cache_read),
        pico_usd(cost.cache_write),
        pico_usd(cost.total),
        frozenset(cost.unpriced or ()),
    )


def usage_of(spend: Spend, total_tokens: int | None = None) -> Usage:
    """The wire form; `total_tokens` where it must differ from the sum (an aggregate keeps its target's own)."""
    cost = Cost(
        input=usd(spend.input_pico),
        output=usd(spend.output_pico),
        cache_read=usd(spend.cache_read_pico),
        cache_write=usd(spend.cache_write_pico),
        total=usd(spend.total_pico),
        unpriced=tuple(sorted(spend.unpriced)) or msgspec.UNSET,
    )
    return Usage(
        input=spend.input,
        output=spend.output,
        cache_read=spend.cache_read,
        cache_write=spend.cache_write,
        total_tokens=spend.tokens if total_tokens is None else total_tokens,
        cost=cost,
    )


class Price(msgspec.Struct, frozen=True):
    """Micro-dollars per million tokens, so that price × tokens is 10⁻¹² dollar.

    `tiers`: (more input tokens than this, the price then), rising. A tier's price holds for the whole request.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    tiers: tuple[tuple[int, "Price"], ...] = ()

    def at(self, input_tokens: int) -> "Price":
        """The price of a request with so many tokens of input, cached ones included."""
        return next((price for above, price in reversed(self.tiers) if input_tokens > above), self)


def micro_usd(dollars: float) -> int:
    """A price in dollars per million tokens as micro-dollars. Raises BadUsage."""
    if not math.isfinite(dollars) or dollars < 0:
        raise BadUsage(f"expected a price of at least 0 dollars per million tokens, found {dollars!r}")
    return round(dollars * 1_000_000)


def priced(counts: Usage, price: Price | None, model: str) -> Usage:
    """`counts` with their cost at `price`; without a price they name `model` (`provider/id`) as unpriced."""
    rate = Price() if price is None else price.at(counts.input + counts.cache_read + counts.cache_write)
    parts = (
        counts.input * rate.input,
        counts.output * rate.output,
        counts.cache_read * rate.cache_read,
        counts.cache_write * rate.cache_write,
    )
    used = counts.input or counts.output or counts.cache_read or counts.cache_write
    cost = Cost(
        input=usd(parts[0]),
        output=usd(parts[1]),
        cache_read=usd(parts[2]),
        cache_write=usd(parts[3]),
        total=usd(sum(parts)),
        unpriced=(model,) if price is None and used else msgspec.UNSET,
    )
    return msgspec.structs.replace(counts, cost=cost)
