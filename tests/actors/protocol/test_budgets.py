"""What calls claim, what they are charged, who stands by: tables, and random trees in which no budget is ever passed."""

from collections.abc import Iterator
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.budgets import (
    HAND_BACK_OUTPUT,
    LEAST_OUTPUT,
    TURN_OUTPUT,
    UNKNOWN_OUTPUT,
    Account,
    Amount,
    Bid,
    Estimate,
    Shortage,
    Used,
    bid,
    estimated,
    in_units,
)
from actors.protocol.claims import Answered, Budgets
from actors.protocol.model import ModelInfo
from actors.protocol.questions import Go, HandBack, MayCall, Refuse, StandBy
from store.usage import Cost, Price, Usage

# A dollar per million tokens in, ten out: a token of input is 10⁶ of 10⁻¹² dollar.
PRICE = Price(1_000_000, 10_000_000)
USD = 10**12


def account(holder: str = "root", spent: Amount | None = None, **limits: float) -> Account:
    return Account(holder, holder, in_units(limits), spent=spent or Amount())


def used(input: int = 0, output: int = 0, **more: object) -> Used:
    prices = (input * PRICE.input / USD, output * PRICE.output / USD)
    cost = Cost(input=prices[0], output=prices[1], total=sum(prices))
    usage = Usage(input=input, output=output, total_tokens=input + output, cost=cost)
    return Used(usage, **{"ended": "whole"} | more)  # type: ignore[arg-type]


# --- what a call takes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "input_tokens", "most"),
    [
        (ModelInfo("p", "m", max_output=4_000), 1_000, 4_000),
        (ModelInfo("p", "m"), 1_000, UNKNOWN_OUTPUT),
        (ModelInfo("p", "m", context_window=10_000, max_output=4_000), 1_000, 4_000),
        (ModelInfo("p", "m", context_window=10_000, max_output=4_000), 9_000, 1_000),
        (ModelInfo("p", "m", context_window=10_000, max_output=4_000), 50_000, 1),
    ],
    ids=["as configured", "not known", "with room", "with less room", "without room"],
)
def test_a_call_puts_out_at_the_most_what_its_model_can_and_its_window_holds(
    info: ModelInfo, input_tokens: int, most: int
) -> None:
    assert estimated(info, input_tokens).max_output == most


def test_a_request_is_paid_at_the_price_of_its_tier_and_as_if_it_were_written_to_a_cache() -> None:
    dear = Price(3_000_000, 20_000_000, cache_write=4_000_000)
    price = Price(1_000_000, 10_000_000, cache_write=500_000, tiers=((1_000, dear),))

    assert Estimate(1_000, 500, price).amount(500) == Amount(1_000 * 1_000_000 + 500 * 10_000_000, 1_500, 1)
    assert Estimate(1_001, 500, price).amount(500) == Amount(1_001 * 4_000_000 + 500 * 20_000_000, 1_501, 1)


@pytest.mark.parametrize(
    ("call", "unreported"),
    [
        (used(100, 50), Amount()),
        (used(100, 50, ended="refused"), Amount()),
        (used(ended="refused"), Amount()),
        (used(ended="cut"), Amount(100_000_000 + 10_000_000_000, 1_100)),
        (used(90, 1, ended="cut"), Amount(9_990_000_000, 999)),
        (used(900, 1_100, ended="cut"), Amount()),
        (used(heard_chars=400), Amount(100_000_000 + 1_000_000_000, 200)),
    ],
    ids=[
        "whole",
        "refused",
        "refused unheard",
        "cut",
        "cut with its input reported",
        "cut above its claim",
        "without a report",
    ],
)
def test_what_may_be_billed_and_was_not_reported_stays_charged(call: Used, unreported: Amount) -> None:
    estimate = Estimate(100, 1_000, PRICE)

    assert call.unreported(estimate, estimate.amount(1_000)) == unreported


# --- which call can be paid for ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_tokens", "has_said", "expected"),
    [
        (50_000, False, (20_000, False)),
        (50_000, True, (20_000, False)),
        (1_000 + TURN_OUTPUT, True, (TURN_OUTPUT, False)),
        (1_000 + TURN_OUTPUT - 1, True, (HAND_BACK_OUTPUT, True)),
        (1_000 + TURN_OUTPUT - 1, False, (TURN_OUTPUT - 1, False)),
        (1_000 + 300, True, (300, True)),
        (1_000 + 300, False, (300, False)),
        (1_000 + LEAST_OUTPUT - 1, True, None),
        (1_000 + LEAST_OUTPUT - 1, False, None),
        (0, True, None),
    ],
)
def test_a_turn_then_a_last_one_then_none_as_less_and_less_is_left(
    left_tokens: int, has_said: bool, expected: tuple[int, bool] | None
) -> None:
    chain = [account(max_tokens=left_tokens), account("above", max_tokens=10**9)]

    offer = bid(chain, Estimate(1_000, 20_000, PRICE), has_said=has_said)

    if expected is None:
        assert isinstance(offer, Shortage)
        assert offer.account is chain[0]
    else:
        assert isinstance(offer, Bid)
        assert (offer.output_tokens, offer.is_last) == expected
        assert offer.amount == Estimate(1_000, 0, PRICE).amount(expected[0], 0 if expected[1] else 1)


def test_a_summary_is_made_whole_or_not_at_all() -> None:
    estimate = Estimate(1_000, 20_000, PRICE)

    assert isinstance(bid([account(max_tokens=4_000)], estimate, has_said=True, is_summary=True), Shortage)
    assert isinstance(bid([account(max_tokens=1_000 + TURN_OUTPUT)], estimate, is_summary=True), Bid)


@pytest.mark.parametrize("turns", [3, 5])
def test_a_turn_that_hands_back_counts_as_none(turns: int) -> None:
    spent = [account(max_turns=3, spent=Amount(turns=turns))]
    estimate = Estimate(1_000, 20_000, PRICE)

    assert isinstance(bid(spent, estimate), Shortage)
    assert bid(spent, estimate, has_said=True) == Bid(
        HAND_BACK_OUTPUT, estimate.amount(HAND_BACK_OUTPUT, 0), True, Shortage(spent[0], estimate.amount(TURN_OUTPUT))
    )


# --- who may spend what -----------------------------------------------------------------------------------------------


def asking(session: str, tokens: int = 100, most: int = 900, **more: object) -> MayCall:
    return MayCall(session, None, estimate=Estimate(tokens, most, PRICE), **more)  # type: ignore[arg-type]


def family(**limits: float) -> Budgets:
    """A root with these limits, children a and b, and a child aa of a. Only the root's bind."""
    budgets = Budgets().opened("root", "root", None, limits)
    for name, parent in (("a", "root"), ("b", "root"), ("aa", "a")):
        budgets = budgets.opened(name, name, parent, {})
    return budgets


def test_without_a_limit_nothing_is_claimed_and_nothing_is_said_of_the_output() -> None:
    budgets, directive = family().asked(asking("aa"))

    assert directive == Go()
    assert budgets == Budgets()


def test_a_call_claims_its_worst_case_at_each_account_above_and_is_charged_what_it_used() -> None:
    budgets = Budgets().opened("root", "root", None, {"max_tokens": 5_000})
    budgets = budgets.opened("a", "a", "root", {"max_cost": 1.0}).opened("aa", "aa", "a", {})

    budgets, directive = budgets.asked(asking("aa"))
    assert directive == Go(1, 900)
    assert {name: one.claimed.tokens for name, one in budgets.accounts.items()} == {"root": 1_000, "a": 1_000}

    budgets, answers = budgets.ended("aa", 1, used(100, 20))
    assert answers == ()
    assert [one.claimed for one in budgets.accounts.values()] == [Amount(), Amount()]
    assert {one.spent for one in budgets.accounts.values()} == {Amount(300_000_000, 120, 1)}


def test_a_call_that_was_never_made_is_charged_nothing_not_even_a_turn() -> None:
    budgets, _ = family(max_turns=1).asked(asking("a"))

    budgets, _ = budgets.ended("a", 1, None)

    assert budgets.accounts["root"].spent == Amount()
    assert budgets.asked(asking("b"))[1] == Go(2)


def test_where_only_claims_are_in_the_way_a_call_stands_by_and_goes_when_they_are_gone() -> None:
    budgets, _ = family(max_tokens=1_500).asked(asking("a"))
    budgets, directive = budgets.asked(asking("b"))
    assert directive == StandBy()

    budgets, answers = budgets.ended("a", 1, used(100, 20))

    assert answers == (Answered("b", Go(2, 900)),)
    assert budgets.standing == ()


def test_where_what_is_spent_is_in_the_way_a_call_is_refused_by_limit_value_and_option() -> None:
    budgets = Budgets().opened("root", "root", None, {"max_tokens": 1_500}, Amount(0, 1_000, 1))

    _, directive = budgets.asked(asking("root", 400))

    assert isinstance(directive, Refuse)
    assert (directive.limit, directive.allowed, directive.holder_session_id) == ("max_tokens", 1_500, "root")
    assert directive.value > 1_500
    assert all(word in directive.reason for word in ("1500 tokens", "1000 tokens", "--max-tokens"))


def test_a_limit_that_a_parent_set_names_no_option_of_the_command_line() -> None:
    budgets = family().opened("c", "scout", "root", {"max_tokens": 10})

    _, directive = budgets.asked(asking("c"))

    assert isinstance(directive, Refuse)
    assert "scout" in directive.reason
    assert "--" not in directive.reason


def test_the_estimate_for_a_call_that_was_cut_is_told_when_it_is_in_the_way() -> None:
    budgets, _ = family(max_tokens=1_100).asked(asking("a"))
    budgets, _ = budgets.ended("a", 1, Used(Usage(), "cut"))

    _, directive = budgets.asked(asking("b"))

    assert isinstance(directive, Refuse)
    assert "1000 tokens of it kept for calls that were cut" in directive.reason


def test_nobody_passes_an_earlier_one_at_an_account_that_has_no_room_for_it() -> None:
    budgets, _ = family(max_tokens=2_100).asked(asking("a"))
    budgets, large = budgets.asked(asking("b", 1_200))
    budgets, small = budgets.asked(asking("aa", 50, 50))
    assert (large, small) == (StandBy(), StandBy())

    budgets, answers = budgets.ended("a", 1, Used(Usage(), "refused"))

    assert [one.session_id for one in answers] == ["b"]
    budgets, answers = budgets.ended("b", 2, Used(Usage(), "refused"))
    assert [one.session_id for one in answers] == ["aa"]


def test_who_stands_by_for_an_account_of_its_own_holds_up_nobody_elsewhere() -> None:
    budgets = family(max_tokens=100_000).opened("c", "c", "root", {"max_tokens": 1_500}).opened("cc", "cc", "c", {})
    budgets, _ = budgets.asked(asking("c"))
    budgets, directive = budgets.asked(asking("cc"))
    assert directive == StandBy()

    assert isinstance(budgets.asked(asking("b"))[1], Go)


def test_who_wants_no_call_any_more_makes_way() -> None:
    budgets, _ = family(max_tokens=1_500).asked(asking("a"))
    budgets, _ = budgets.asked(asking("b"))
    budgets, _ = budgets.asked(asking("aa"))

    budgets, answers = budgets.withdrawn("b")
    assert answers == ()
    budgets, answers = budgets.withdrawn("a")

    assert [one.session_id for one in answers] == ["aa"]
    assert budgets.withdrawn("nobody") == (budgets, ())


def test_a_call_that_is_under_way_keeps_its_claim_until_it_has_ended_whatever_its_session_wants() -> None:
    budgets, _ = family(max_tokens=1_500).asked(asking("a"))
    budgets = budgets.made(1)

    assert budgets.withdrawn("a") == (budgets, ())
    assert budgets.asked(asking("b"))[1] == StandBy()
    budgets, _ = budgets.ended("a", 1, Used(Usage(), "cut"))
    assert budgets.accounts["root"].unreported.tokens == 1_000
    assert budgets.made(1) == budgets


def test_an_unknown_price_is_refused_where_somebody_has_limited_the_cost() -> None:
    question = MayCall("b", None, model="p/dear", estimate=Estimate(10, 10, None))

    _, directive = family(max_cost=1.0).asked(question)

    assert isinstance(directive, Refuse)
    assert "p/dear" in directive.reason
    assert family(max_tokens=1_000).asked(question)[1] == Go(1, 10)


def test_a_limit_of_turns_alone_leaves_the_output_to_the_model() -> None:
    assert family(max_turns=1).asked(asking("a"))[1] == Go(1)


@pytest.mark.parametrize(
    ("allowed", "is_assumed", "told"),
    [(100_000, False, 20_000), (100_000, True, 0), (15_000, False, 14_900), (15_000, True, TURN_OUTPUT)],
    ids=["known", "assumed", "known and short", "assumed and short"],
)
def test_a_model_whose_most_is_not_known_is_told_to_keep_to_less_only_where_the_budget_is_short(
    allowed: int, is_assumed: bool, told: int
) -> None:
    question = MayCall("a", None, estimate=Estimate(100, 20_000, PRICE, is_assumed))

    budgets, directive = family(max_tokens=allowed).asked(question)

    assert isinstance(directive, Go)
    assert directive.max_output == told
    assert budgets.claims[1].amount.tokens == min(20_100, allowed)


def test_a_child_is_given_at_most_what_is_left_and_nothing_where_nothing_is() -> None:
    budgets = Budgets().opened("root", "root", None, {"max_tokens": 1_000}, Amount(0, 400, 2))

    more = budgets.granted("root", "p/m", {"max_tokens": 5_000, "max_cost": 2.0, "timeout_s": 9}, is_priced=True)
    less = budgets.granted("root", "p/m", {"max_tokens": 10}, is_priced=True)

    assert more == {"max_tokens": 600, "max_cost": 2.0, "timeout_s": 9}
    assert less == {"max_tokens": 10}
    unpriced = family(max_cost=1.0).granted("a", "p/dear", {}, is_priced=False)
    assert isinstance(unpriced, Refuse)
    assert "p/dear" in unpriced.reason
    spent = Budgets().opened("root", "root", None, {"max_tokens": 1_000}, Amount(0, 1_000, 2))
    assert isinstance(spent.granted("root", "p/m", {}, is_priced=True), Refuse)


# --- random trees -----------------------------------------------------------------------------------------------------


@attrs.define
class Market:
    """Sessions of a random tree that ask, call, are cut and withdraw in random order. `errors`: input guessed too low."""

    random: Random
    budgets: Budgets = attrs.field(factory=Budgets)
    names: list[str] = attrs.field(factory=list)
    open: dict[str, int] = attrs.field(factory=dict)
    """Session → the claim of its call."""
    over_tokens: int = 0
    worst_error: float = 0.0

    def grow(self, sessions: int) -> None:
        for number in range(sessions):
            parent = self.random.choice(self.names) if self.names else None
            limits = {
                name: amount
                for name, amount in (
                    ("max_cost", self.random.uniform(0.0, 0.3)),
                    ("max_tokens", self.random.randint(0, 60_000)),
                    ("max_turns", self.random.randint(0, 12)),
                )
                if self.random.random() < 0.4
            }
            self.names.append(f"s{number}")
            self.budgets = self.budgets.opened(f"s{number}", f"s{number}", parent, limits)

    def moves(self) -> Iterator[None]:
        """One move each: somebody idle asks, or a call ends, or somebody withdraws."""
        while True:
            standing = {one.question.session_id for one in self.budgets.standing}
            idle = [name for name in self.names if name not in self.open and name not in standing]
            kind = self.random.random()
            if idle and kind < 0.5:
                self.ask(self.random.choice(idle))
            elif self.open and kind < 0.9:
                self.end(self.random.choice(list(self.open)))
            elif standing:
                self.hear(*self.budgets.withdrawn(self.random.choice(sorted(standing))))
            yield

    def ask(self, name: str) -> None:
        estimate = Estimate(self.random.randint(0, 3_000), self.random.randint(1, 20_000), PRICE)
        question = MayCall(name, None, has_said=self.random.random() < 0.5, estimate=estimate)
        self.budgets, directive = self.budgets.asked(question)
        self.granted(name, directive)

    def granted(self, name: str, directive: object) -> None:
        if isinstance(directive, Go | HandBack) and directive.claim:
            self.open[name] = directive.claim

    def end(self, name: str) -> None:
        claim = self.budgets.claims[self.open[name]]
        number = self.open.pop(name)
        most = claim.amount.tokens - claim.estimate.input_tokens
        wrong = round(claim.estimate.input_tokens * self.random.uniform(0.0, self.worst_error))
        self.over_tokens += wrong
        call = used(claim.estimate.input_tokens + wrong, self.random.randint(0, most))
        ended = self.random.choice([call, call, Used(call.usage, "cut"), Used(Usage(), "refused"), None])
        self.hear(*self.budgets.ended(name, number, ended))

    def hear(self, budgets: Budgets, answers: tuple[Answered, ...]) -> None:
        self.budgets = budgets
        for answer in answers:
            self.granted(answer.session_id, answer.directive)

    def check(self) -> None:
        for one in self.budgets.accounts.values():
            for limit, allowed in one.allowed.items():
                slack = self.over_tokens * {"max_cost": PRICE.input, "max_tokens": 1, "max_turns": 0}[limit]
                assert (one.spent + one.unreported + one.claimed).of(limit) <= allowed + slack, (one, limit)
        assert set(self.open.values()) == set(self.budgets.claims)
        for standing in self.budgets.standing:
            chain = set(self.budgets.chains[standing.question.session_id])
            assert any(chain.intersection(self.budgets.chains[name]) for name in self.open), "it waits for nobody"

    def come_to_rest(self) -> None:
        """Nobody asks any more, and every call ends."""
        while self.open:
            self.end(self.random.choice(list(self.open)))
            self.check()
        assert self.budgets.standing == (), "somebody stands by for ever"
        assert all(one.claimed == Amount() for one in self.budgets.accounts.values())


@given(st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 80), st.sampled_from([0.0, 0.5]))
def test_no_budget_of_a_random_tree_is_passed_by_more_than_input_was_guessed_too_low_and_nobody_waits_for_ever(
    random: Random, sessions: int, moves: int, worst_error: float
) -> None:
    market = Market(random, worst_error=worst_error)
    market.grow(sessions)

    for _, _ in zip(range(moves), market.moves(), strict=False):
        market.check()

    market.come_to_rest()


@given(st.randoms(use_true_random=False), st.integers(2, 8))
def test_who_came_first_goes_first_where_all_share_one_account(random: Random, sessions: int) -> None:
    budgets = Budgets().opened("root", "root", None, {"max_tokens": 20_000})
    names = [f"s{number}" for number in range(sessions)]
    for name in names:
        budgets = budgets.opened(name, name, "root", {})
    waiting: list[str] = []
    running: dict[str, int] = {}
    for name in names:
        budgets, directive = budgets.asked(asking(name, 0, random.randint(1, 20_000)))
        if isinstance(directive, Go):
            assert not waiting, "it has passed somebody"
            running[name] = directive.claim
        else:
            waiting.append(name)
    served: list[str] = []
    while running:
        name = random.choice(sorted(running))
        budgets, answers = budgets.ended(name, running.pop(name), Used(Usage(), "refused"))
        for answer in answers:
            assert isinstance(answer.directive, Go)
            served.append(answer.session_id)
            running[answer.session_id] = answer.directive.claim

    assert served == waiting
