"""Figures as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.views.money import decimal_dollars, dollars, duration, exact_dollars, exact_money, money, tokens
from store.usage import Spend, usage_of

USD = 10**12


@pytest.mark.parametrize(
    ("pico", "shown"),
    [
        (0, "$0.00"),
        (1, "<$0.01"),
        (USD // 100 - 1, "<$0.01"),
        (USD // 100, "$0.01"),
        (1_244_999_999_999, "$1.24"),
        (1_245_000_000_000, "$1.25"),
        (99_994_999_999_999, "$99.99"),
        (99_995_000_000_000, "$100"),
        (124 * USD, "$124"),
        (999_999 * USD, "$999999"),
        (1_930_000 * USD, "$1.93M"),
    ],
)
def test_money_for_a_narrow_column(pico: int, shown: str) -> None:
    assert dollars(pico) == shown


@pytest.mark.parametrize(
    ("spend", "shown", "exact"),
    [
        (None, "–", "–"),
        (Spend(), "$0.00", "$0.0000"),
        (Spend(total_pico=1_240_000_000_000), "$1.24", "$1.2400"),
        (Spend(input=10, unpriced=frozenset({"a/b"})), "?", "?"),
        (Spend(total_pico=5_350_000_000_000, unpriced=frozenset({"a/b"})), "≥ $5.35", "≥ $5.3500"),
        (Spend(total_pico=5, unpriced=frozenset({"a/b"})), "≥ <$0.01", "≥ $0.000000000005"),
    ],
)
def test_what_is_unknown_is_never_shown_as_nothing(spend: Spend | None, shown: str, exact: str) -> None:
    usage = None if spend is None else usage_of(spend)

    assert money(usage) == shown
    assert exact_money(usage) == exact


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (940, "940"),
        (999, "999"),
        (1_000, "1.0k"),
        (1_250, "1.3k"),
        (9_949, "9.9k"),
        (9_950, "10k"),
        (12_000, "12k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (1_930_000, "1.93M"),
        (9_995_000, "10.0M"),
        (19_300_000, "19.3M"),
        (193_000_000, "193M"),
        (1_930_000_000, "1.93G"),
    ],
)
def test_tokens(count: int | None, shown: str) -> None:
    assert tokens(count) == shown


@pytest.mark.parametrize(
    ("elapsed_ms", "shown"),
    [
        (None, "–"),
        (-5, "0s"),
        (7_999, "7s"),
        (252_000, "4m12s"),
        (3_599_999, "59m59s"),
        (3_780_000, "1h03m"),
        (187_200_000, "2d04h"),
    ],
)
def test_time(elapsed_ms: int | None, shown: str) -> None:
    assert duration(elapsed_ms) == shown


@given(st.integers(0, 10**17))
def test_decimals_say_exactly_what_was_spent(pico: int) -> None:
    assert int(decimal_dollars(pico).replace(".", "")) == pico
    assert int(exact_dollars(pico, 12)[1:].replace(".", "")) == pico


@given(st.integers(1, 10**17))
def test_money_that_was_spent_is_never_shown_as_zero(pico: int) -> None:
    assert dollars(pico).strip("$0.") or dollars(pico) == "<$0.01"
    assert exact_dollars(pico).strip("$0.")
