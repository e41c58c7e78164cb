"""Money and tokens: exact, in any order, and never what no provider can mean."""

import math
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadUsage
from store.usage import (
    NOTHING,
    PICO_PER_USD,
    Cost,
    Price,
    Spend,
    Usage,
    add_up,
    micro_usd,
    pico_usd,
    priced,
    spend_of,
    usage_of,
    usd,
)
from store.wire import encode

EXACT_PICO = 4_503 * PICO_PER_USD
TOKENS = 10**12
MONEY = ("input", "output", "cache_read", "cache_write", "total")
COUNTS = ("input", "output", "cache_read", "cache_write")

money = st.integers(0, EXACT_PICO)
tokens = st.integers(0, TOKENS)
names = st.frozensets(st.sampled_from(["openai/a", "openai/b", "x/ü"]))
spends = st.builds(Spend, *[tokens] * 4, *[money] * 5, names)


# --- dollars ---------------------------------------------------------------------------------------------------------


@given(money)
def test_money_is_exact_up_to_4503_dollars(pico: int) -> None:
    assert pico_usd(usd(pico)) == pico
    assert pico_usd(msgspec.json.decode(msgspec.json.encode(usd(pico)))) == pico


@given(st.floats(0, 10**9))
def test_any_dollars_are_read_as_the_nearest_integer(dollars: float) -> None:
    assert abs(Fraction(dollars) * PICO_PER_USD - pico_usd(dollars)) <= Fraction(1, 2)


@pytest.mark.parametrize("pico", [0, 1, 999_999_999_999, EXACT_PICO, EXACT_PICO - 1, 2**52])
def test_the_edges_of_exactness(pico: int) -> None:
    assert pico_usd(usd(pico)) == pico


def test_whole_dollars_read_as_integers_count_too() -> None:
    assert pico_usd(3) == 3 * PICO_PER_USD
    assert pico_usd(-0.0) == 0


@pytest.mark.parametrize("dollars", [math.nan, math.inf, -math.inf, -1e-12, -5, 1.0000001e9, 1e300])
def test_dollars_that_nobody_can_mean_are_refused(dollars: float) -> None:
    with pytest.raises(BadUsage):
        pico_usd(dollars)


# --- sums ------------------------------------------------------------------------------------------------------------


@given(spends, spends, spends)
def test_sums_do_not_depend_on_their_order(one: Spend, two: Spend, three: Spend) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + NOTHING == one


@given(st.lists(spends, max_size=6), st.randoms())
def test_a_sum_is_the_sum_of_each_member(parts: list[Spend], chance: Any) -> None:
    mixed = list(parts)
    chance.shuffle(mixed)
    total = add_up(mixed)

    assert total == add_up(parts)
    for name in Spend.__struct_fields__[:-1]:
        assert getattr(total, name) == sum(getattr(part, name) for part in parts)
    assert total.unpriced == frozenset().union(*(part.unpriced for part in parts))
    assert total.tokens == sum(part.tokens for part in parts)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_many_small_costs_that_went_over_the_wire_one_by_one_lose_nothing(parts: list[int]) -> None:
    read = add_up(spend_of(usage_of(Spend(total_pico=part))) for part in parts)

    assert read.total_pico == sum(parts)


# --- the wire --------------------------------------------------------------------------------------------------------


@given(spends)
def test_the_wire_form_means_the_same(spend: Spend) -> None:
    assert spend_of(usage_of(spend)) == spend
    assert spend_of(msgspec.json.decode(encode(usage_of(spend)), type=Usage)) == spend


@given(spends, st.none() | tokens)
def test_total_tokens_are_the_sum_unless_said(spend: Spend, total: int | None) -> None:
    assert usage_of(spend, total).total_tokens == (spend.tokens if total is None else total)


def test_an_unknown_price_is_named_and_a_real_zero_is_not() -> None:
    unknown = spend_of(priced(Usage(input=5), None, "openai/a"))
    free = spend_of(priced(Usage(input=5), Price(), "openai/b"))

    assert b"unpriced" not in encode(usage_of(free))
    assert msgspec.json.decode(encode(usage_of(unknown + free)))["cost"]["unpriced"] == ["openai/a"]


def test_a_call_that_used_nothing_costs_nothing_at_any_price() -> None:
    assert spend_of(priced(Usage(), None, "openai/a")) == NOTHING


@given(st.integers(0, 10**8), st.lists(st.integers(0, 10**6), max_size=20))
def test_prices_are_exact_however_the_tokens_are_split(price: int, counts: list[int]) -> None:
    whole = priced(Usage(input=sum(counts)), Price(input=price), "m")
    parts = add_up(spend_of(priced(Usage(input=count), Price(input=price), "m")) for count in counts)

    if sum(counts) * price <= EXACT_PICO:
        assert parts.input_pico == parts.total_pico == spend_of(whole).total_pico == sum(counts) * price


def test_each_count_has_its_own_price() -> None:
    counts = Usage(input=1, output=10, cache_read=100, cache_write=1000, reasoning=7, total_tokens=1111)
    cost = spend_of(priced(counts, Price(input=2, output=3, cache_read=5, cache_write=7), "m"))

    assert (cost.input_pico, cost.output_pico, cost.cache_read_pico, cost.cache_write_pico) == (2, 30, 500, 7000)
    assert cost.total_pico == 7532
    assert priced(counts, None, "m").reasoning == 7


@given(st.integers(0, 10**9))
def test_a_price_in_dollars_is_a_whole_number_of_micro_dollars(micro: int) -> None:
    assert micro_usd(micro / 10**6) == micro


@pytest.mark.parametrize("dollars", [math.nan, math.inf, -0.5])
def test_a_price_that_nobody_can_mean_is_refused(dollars: float) -> None:
    with pytest.raises(BadUsage):
        micro_usd(dollars)


@pytest.mark.parametrize("member", COUNTS)
@pytest.mark.parametrize("count", [-1, -(10**30), TOKENS + 1, 10**30])
def test_absurd_counts_are_refused(member: str, count: int) -> None:
    with pytest.raises(BadUsage, match=member):
        spend_of(msgspec.structs.replace(Usage(), **{member: count}))


@pytest.mark.parametrize("member", MONEY)
@pytest.mark.parametrize("dollars", [math.nan, math.inf, -1.0, 1e12])
def test_absurd_money_is_refused(member: str, dollars: float) -> None:
    with pytest.raises(BadUsage):
        spend_of(Usage(cost=msgspec.structs.replace(Cost(), **{member: dollars})))


@pytest.mark.parametrize("text", [b'{"input":-1}', b'{"cost":{"total":-0.1}}', b'{"output":99999999999999999999}'])
def test_absurd_counts_of_a_file_can_be_read_and_are_refused_in_sums(text: bytes) -> None:
    with pytest.raises(BadUsage):
        spend_of(msgspec.json.decode(text, type=Usage))


def test_members_of_other_programs_do_not_matter() -> None:
    text = b'{"input":1,"output":2,"reasoning":1,"totalTokens":3,"x":0,"cost":{"total":0.5,"totalFromProvider":false}}'

    assert spend_of(msgspec.json.decode(text, type=Usage)) == Spend(input=1, output=2, total_pico=PICO_PER_USD // 2)
