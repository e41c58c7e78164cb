"""What a session and all below it may spend: an account, what a call takes at the worst, and what it took in the end."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from actors.protocol.model import ModelInfo
from store.size import guessed
from store.usage import Price, Usage, pico_usd

# What is claimed for the answer of a model whose most is not known. It is not asked for: there are models that refuse to be
# asked for more than they have, and some that need more to think.
UNKNOWN_OUTPUT = 16_384
# With less room for its answer no turn is begun while there is something to hand back.
TURN_OUTPUT = 8_192
HAND_BACK_OUTPUT = 4_096
LEAST_OUTPUT = 256
LIMITS = ("max_cost", "max_tokens", "max_turns")
# What a child may be given.
CHILD_LIMITS = (*LIMITS, "timeout_s")


class Amount(msgspec.Struct, frozen=True):
    """Money in 10⁻¹² dollar, tokens, model calls."""

    pico: int = 0
    tokens: int = 0
    turns: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.pico + other.pico, self.tokens + other.tokens, self.turns + other.turns)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.pico - other.pico, self.tokens - other.tokens, self.turns - other.turns)

    def beyond(self, other: "Amount") -> "Amount":
        """What this is more than `other`, part by part."""
        rest = self - other
        return Amount(max(0, rest.pico), max(0, rest.tokens), max(0, rest.turns))

    def of(self, limit: str) -> int:
        """The part that this limit bounds."""
        return {"max_cost": self.pico, "max_tokens": self.tokens, "max_turns": self.turns}[limit]


class Estimate(msgspec.Struct, frozen=True):
    """A request before it is made: tokens in, about, and tokens out at the most. `price` None: not known.

    `is_assumed`: nobody knows how much its model puts out.
    """

    input_tokens: int
    max_output: int
    price: Price | None = None
    is_assumed: bool = False

    def amount(self, output_tokens: int, turns: int = 1) -> Amount:
        """What it takes with so much output. Input may be written to a cache, which is dearer with some."""
        rate = Price() if self.price is None else self.price.at(self.input_tokens)
        pico = self.input_tokens * max(rate.input, rate.cache_write) + output_tokens * rate.output
        return Amount(pico, self.input_tokens + output_tokens, turns)


def estimated(info: ModelInfo, input_tokens: int) -> Estimate:
    """The worst case of a call with so much input: the most that the model puts out, as far as its window leaves room."""
    most = info.max_output or UNKNOWN_OUTPUT
    if info.context_window:
        most = max(1, min(most, info.context_window - input_tokens))
    return Estimate(input_tokens, most, info.price, not info.max_output)


class Used(msgspec.Struct, frozen=True):
    """How a call ended, what its provider reported, and how much was heard of it.

    `cut`: by us, or in the middle of its answer; `refused`: before anything of an answer came.
    """

    usage: Usage
    ended: Literal["whole", "cut", "refused"]
    heard_chars: int = 0

    @property
    def amount(self) -> Amount:
        usage = self.usage
        tokens = usage.input + usage.output + usage.cache_read + usage.cache_write
        return Amount(pico_usd(usage.cost.total), tokens, 1)

    def unreported(self, estimate: Estimate, claimed: Amount) -> Amount:
        """What the call may have cost beyond the report.

        One that was cut may be billed up to its worst case, and nobody tells; its input is known if that was reported. A whole
        answer that came without a report is guessed by its length.
        """
        usage, reported = self.usage, self.amount
        if self.ended == "cut" and usage.input + usage.cache_read + usage.cache_write:
            answer = claimed - estimate.amount(0, claimed.turns)
            return answer.beyond(Amount(pico_usd(usage.cost.output), usage.output))
        if self.ended == "cut":
            return claimed.beyond(reported)
        is_silent = self.ended == "whole" and not reported.tokens
        return estimate.amount(guessed(self.heard_chars)).beyond(reported) if is_silent else Amount()


class Account(msgspec.Struct, frozen=True):
    """What `holder_id` and all below it may spend, by limit, in units of `Amount`.

    `claimed`: by calls under way. `unreported` stays charged, but in here only: totals hold what providers reported.
    """

    holder_id: str
    name: str
    allowed: dict[str, int]
    is_root: bool = False
    spent: Amount = Amount()
    claimed: Amount = Amount()
    unreported: Amount = Amount()

    def charged(self, limit: str) -> int:
        return (self.spent + self.unreported).of(limit)

    def left(self, limit: str) -> int:
        return self.allowed[limit] - self.charged(limit)

    def short_for(self, amount: Amount) -> str | None:
        """The first limit that `amount` would pass; None: it fits beside what is spent."""
        return next((limit for limit in self.allowed if amount.of(limit) > max(0, self.left(limit))), None)

    def most_output(self, estimate: Estimate, most: int, turns: int = 1) -> int:
        """The most tokens of output, up to `most`, with which a call fits beside what is spent; -1: not even without any."""
        nothing = estimate.amount(0, turns)
        if self.short_for(nothing) is not None:
            return -1
        token = estimate.amount(1, turns) - nothing
        rooms = [
            (self.left(limit) - nothing.of(limit)) // token.of(limit) for limit in self.allowed if token.of(limit) > 0
        ]
        return min([most, *rooms])


def in_units(limits: Mapping[str, float]) -> dict[str, int]:
    """The limits on spending among `limits`, as an account has them."""
    return {
        limit: pico_usd(limits[limit]) if limit == "max_cost" else int(limits[limit])
        for limit in LIMITS
        if limit in limits and math.isfinite(limits[limit])
    }


class Shortage(msgspec.Struct, frozen=True):
    """`amount` does not fit in `account`, beside what is spent."""

    account: Account
    amount: Amount


class Bid(msgspec.Struct, frozen=True):
    """A call that can be paid for. `is_last`: it only hands back. `short`: what is in the way of a turn, or of a longer answer."""

    output_tokens: int
    amount: Amount
    is_last: bool = False
    short: Shortage | None = None

    def bound(self, chain: Sequence[Account], estimate: Estimate) -> int:
        """How much output the model is to be told to keep to; 0: as much as it likes."""
        if all(limit == "max_turns" for account in chain for limit in account.allowed):
            return 0
        if not estimate.is_assumed:
            return self.output_tokens
        return 0 if self.short is None else min(self.output_tokens, TURN_OUTPUT)


def bid(
    chain: Sequence[Account],
    estimate: Estimate,
    *,
    has_said: bool = False,
    is_last: bool = False,
    is_summary: bool = False,
) -> Bid | Shortage:
    """The call for which `chain` has enough beside what is spent: a turn, else one that hands back, if there is something.

    An account that leaves less than the model's most output bounds the answer, down to what a turn is worth.
    """
    most = estimate.max_output
    tightest = min(chain, key=lambda account: account.most_output(estimate, most))
    output = tightest.most_output(estimate, most)
    worth = min(most, TURN_OUTPUT if has_said or is_summary else LEAST_OUTPUT)
    if output >= worth and not is_last:
        short = Shortage(tightest, estimate.amount(most)) if output < most else None
        return Bid(output, estimate.amount(output), short=short)
    shortage = Shortage(tightest, estimate.amount(worth))
    if has_said and not is_summary:
        last = min(account.most_output(estimate, min(most, HAND_BACK_OUTPUT), turns=0) for account in chain)
        if last >= min(most, LEAST_OUTPUT):
            return Bid(last, estimate.amount(last, turns=0), is_last=True, short=shortage)
    return shortage
