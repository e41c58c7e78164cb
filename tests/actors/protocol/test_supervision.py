"""The supervisor's decisions as tables: what is asked, what the tree is like, what is answered."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.budgets import Used
from actors.protocol.claims import Budgets
from actors.protocol.limits import Limits, Restarts, recent
from actors.protocol.model import RETRYABLE, FailureKind, ModelFailure
from actors.protocol.questions import (
    Admit,
    CallFailed,
    Crashed,
    Escalate,
    GiveUp,
    Go,
    MayCall,
    MaySpawn,
    Refuse,
    Restart,
    RetryAfter,
    StandBy,
)
from actors.protocol.retry import RetryPolicy, retry_delay
from actors.protocol.supervision import Draw, Member, TreeState, call_ended, decide, disowned
from actors.protocol.tools import Spawn
from store.usage import Usage

ROOT, CHILD = "root-1", "child-1"


def a_tree(limits: Limits | None = None, **more: object) -> TreeState:
    members = {ROOT: Member(0, "test/model"), CHILD: Member(1, "test/small")}
    state = TreeState(ROOT, limits or Limits(), RetryPolicy(), members)
    turns = state.limits.max_turns
    budgets = Budgets().opened(ROOT, "root", None, {} if turns is None else {"max_turns": turns})
    budgets = budgets.opened(CHILD, "child", ROOT, {})
    return msgspec.structs.replace(state, budgets=budgets, **more)


def draw(at: float = 1_000.0, jitter: float = 0.5, session_id: str = "new-1") -> Draw:
    return Draw(at, jitter, session_id)


def spawn(tree: TreeState, parent: str = ROOT, **request: object) -> tuple[TreeState, Admit | Refuse]:
    asked = MaySpawn(parent, Spawn("task", **request))  # type: ignore[arg-type]
    after, directive = decide(tree, asked, draw(session_id=f"new-{tree.children + 1}"))
    assert isinstance(directive, Admit | Refuse)
    return after, directive


# --- children ---------------------------------------------------------------------------------------------------------


def test_an_admitted_child_is_a_member_one_level_below_with_its_parents_model() -> None:
    tree, admitted = spawn(a_tree(), CHILD, name="scout")

    assert admitted == Admit("new-1", "scout", 2, "test/small")
    assert tree.members["new-1"] == Member(2, "test/small")
    assert tree.members[CHILD].children == {"scout"}
    assert tree.children == 1


@pytest.mark.parametrize(
    ("max_depth", "parent", "is_admitted"),
    [(0, ROOT, False), (1, ROOT, True), (1, CHILD, False), (2, CHILD, True), (9, CHILD, True)],
)
def test_depth_counts_from_the_root(max_depth: int, parent: str, is_admitted: bool) -> None:
    before = a_tree(Limits(max_depth=max_depth))

    after, directive = spawn(before, parent)

    assert isinstance(directive, Admit) is is_admitted
    if isinstance(directive, Refuse):
        depth = before.members[parent].depth + 1
        assert (directive.limit, directive.value, directive.allowed) == ("max_depth", depth, max_depth)
        assert (directive.holder_session_id, after) == (ROOT, before)
        assert all(word in directive.reason for word in ("max_depth", str(depth), str(max_depth), "--max-depth"))


@pytest.mark.parametrize(
    ("so_far", "allowed", "is_admitted"), [(0, 0, False), (0, 1, True), (4, 5, True), (5, 5, False)]
)
def test_all_descendants_of_the_root_are_counted_over_its_life(so_far: int, allowed: int, is_admitted: bool) -> None:
    _, directive = spawn(a_tree(Limits(max_children=allowed), children=so_far))

    assert isinstance(directive, Admit) is is_admitted
    if isinstance(directive, Refuse):
        assert (directive.limit, directive.value, directive.allowed) == ("max_children", so_far + 1, allowed)
        assert "--max-children" in directive.reason


@given(st.lists(st.floats(0, 300, allow_nan=False), max_size=40), st.integers(1, 6))
def test_who_only_spawns_is_held_up_and_time_lets_children_in_again(times: list[float], allowed: int) -> None:
    """C3: at no moment have more children begun within the minute before it than are allowed."""
    tree = a_tree(Limits(max_children=100, max_spawns_per_minute=allowed))
    admitted: list[float] = []
    for number, at in enumerate(sorted(times)):
        before = tree
        tree, directive = decide(tree, MaySpawn(ROOT, Spawn("task")), draw(at, session_id=f"new-{number}"))
        recently = [one for one in admitted if at - 60 < one <= at]
        assert isinstance(directive, Admit) is (len(recently) < allowed)
        if isinstance(directive, Refuse):
            assert (directive.limit, directive.value, tree) == ("max_spawns_per_minute", allowed + 1, before)
            assert "--max-spawns-per-minute" in directive.reason
        else:
            admitted.append(at)
    assert len(tree.spawned) <= allowed


def test_a_clock_that_went_back_does_not_keep_children_out() -> None:
    tree = a_tree(Limits(max_spawns_per_minute=1))
    tree, first = decide(tree, MaySpawn(ROOT, Spawn("task")), draw(5_000.0, session_id="new-1"))
    _, second = decide(tree, MaySpawn(ROOT, Spawn("task")), draw(1_400.0, session_id="new-2"))

    assert isinstance(first, Admit)
    assert isinstance(second, Admit)


def test_children_of_one_parent_have_names_of_their_own_and_those_of_others_may_be_the_same() -> None:
    tree, _ = spawn(a_tree(), name="a")

    same, refused = spawn(tree, name="a")
    _, admitted = spawn(tree, CHILD, name="a")

    assert isinstance(refused, Refuse)
    assert (refused.limit, same) == ("name", tree)
    assert "'a'" in refused.reason
    assert isinstance(admitted, Admit)


def test_a_child_without_a_name_gets_the_next_free_one() -> None:
    tree, _ = spawn(a_tree(), name="agent-2")
    names = []
    for _ in range(3):
        tree, directive = spawn(tree)
        assert isinstance(directive, Admit)
        names.append(directive.name)

    assert len({*names, "agent-2"}) == 4


def test_a_child_that_is_not_wanted_any_more_was_never_there() -> None:
    before = a_tree(Limits(max_children=1))
    tree, admitted = spawn(before, name="scout", limits={"max_tokens": 10})
    assert isinstance(admitted, Admit)
    assert "new-1" in tree.budgets.accounts

    assert disowned(tree, ROOT, admitted) == before


def test_a_child_is_refused_where_its_model_or_its_price_is_not_known_and_a_cost_is_limited() -> None:
    tree = a_tree()

    _, unknown = decide(tree, MaySpawn(ROOT, Spawn("task"), unknown_model="no such model"), draw())
    _, unpriced = decide(tree, MaySpawn(ROOT, Spawn("task", limits={"max_cost": 1.0}), is_priced=False), draw())
    _, free = decide(tree, MaySpawn(ROOT, Spawn("task"), is_priced=False), draw())

    assert isinstance(unknown, Refuse)
    assert (unknown.limit, unknown.reason) == ("model", "no such model")
    assert isinstance(unpriced, Refuse)
    assert unpriced.limit == "max_cost"
    assert isinstance(free, Admit)


@pytest.mark.parametrize(
    ("models", "wanted", "is_admitted"),
    [
        (frozenset(), "any/thing", True),
        (frozenset({"test/model", "test/large"}), "test/large", True),
        (frozenset({"test/model", "test/large"}), "test/larg", False),
        (frozenset({"test/model"}), None, True),
    ],
)
def test_a_model_that_is_not_on_the_list_is_refused_with_the_nearest(
    models: frozenset[str], wanted: str | None, is_admitted: bool
) -> None:
    _, directive = spawn(a_tree(models=models), model=wanted)

    assert isinstance(directive, Admit) is is_admitted
    if isinstance(directive, Refuse):
        assert directive.limit == "model"
        assert "test/large" in directive.reason


@given(
    st.lists(
        st.tuples(st.sampled_from([ROOT, CHILD, "new-1", "new-2"]), st.sampled_from([None, "a", "b"])), max_size=20
    )
)
def test_whatever_is_asked_for_no_limit_is_passed_and_no_name_comes_twice(asked: list[tuple[str, str | None]]) -> None:
    tree = a_tree(Limits(max_depth=2, max_children=5))
    names: dict[str, list[str]] = {}
    for parent, name in asked:
        if parent not in tree.members:
            continue
        tree, directive = spawn(tree, parent, name=name)
        if isinstance(directive, Admit):
            names.setdefault(parent, []).append(directive.name)
            assert directive.depth <= 2

    assert tree.children == sum(map(len, names.values())) <= 5
    assert all(len(set(given)) == len(given) for given in names.values())


# --- turns ------------------------------------------------------------------------------------------------------------


def test_the_turns_of_all_sessions_count_together() -> None:
    tree = a_tree(Limits(max_turns=3))
    answers = []
    for session in (ROOT, CHILD, ROOT, CHILD):
        tree, directive = decide(tree, MayCall(session), draw())
        answers.append(type(directive))

    assert answers == [Go, Go, Go, StandBy]
    for claim in list(tree.budgets.claims):
        tree, answered = call_ended(tree, ROOT, claim, Used(Usage(), "whole"))
    assert [type(one.directive) for one in answered] == [Refuse]
    assert tree.budgets.accounts[ROOT].spent.turns == 3


def test_a_refused_turn_names_the_limit_and_its_option() -> None:
    _, directive = decide(a_tree(Limits(max_turns=0)), MayCall(CHILD), draw())

    assert isinstance(directive, Refuse)
    assert (directive.limit, directive.value, directive.allowed, directive.holder_session_id) == (
        "max_turns",
        1,
        0,
        ROOT,
    )
    assert "--max-turns" in directive.reason


def test_without_a_limit_of_turns_there_is_none() -> None:
    tree = a_tree()
    for _ in range(1_000):
        tree, directive = decide(tree, MayCall(ROOT), draw())
        assert directive == Go()


# --- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry", "expected"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, None), (6, None), (10_000, None)]
)
def test_the_pause_doubles_and_ends(retry: int, expected: float | None) -> None:
    assert retry_delay(RetryPolicy(), retry, ModelFailure("overloaded", "busy"), 0.5) == expected


def test_the_pause_never_passes_the_ceiling_however_often_it_doubles() -> None:
    patient = RetryPolicy(max_retries=10**9)

    for retry in (7, 8, 100, 2_000, 10**9):
        assert retry_delay(patient, retry, ModelFailure("network", ""), 0.999) == pytest.approx(0.999 * 60.0)


def test_no_jitter_means_no_pause_and_no_error() -> None:
    assert retry_delay(RetryPolicy(), 1, ModelFailure("network", ""), 0.0) == 0.0


@pytest.mark.parametrize("retry", [0, -1])
def test_retries_count_from_one(retry: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        retry_delay(RetryPolicy(), retry, ModelFailure("network", ""), 0.5)


@pytest.mark.parametrize("kind", ["quota", "auth", "invalid_request", "overflow", "refusal"])
def test_what_a_second_try_cannot_mend_is_given_up(kind: FailureKind) -> None:
    assert kind not in RETRYABLE
    assert retry_delay(RetryPolicy(), 1, ModelFailure(kind, "no"), 0.5) is None


@pytest.mark.parametrize(
    ("told_s", "expected"),
    [(0.0, 0.0), (7.0, 7.0), (60.0, 60.0), (60.1, None), (86_400.0, None), (-3.0, 0.0), (float("inf"), None)],
)
def test_what_the_provider_asks_for_wins_up_to_the_ceiling(told_s: float, expected: float | None) -> None:
    assert retry_delay(RetryPolicy(), 1, ModelFailure("rate_limited", "", told_s), 0.5) == expected


def test_a_time_that_is_no_number_is_given_up_and_does_not_tighten_into_a_loop() -> None:
    assert retry_delay(RetryPolicy(), 1, ModelFailure("rate_limited", "", float("nan")), 0.5) is None


@given(
    st.integers(1, 50),
    st.sampled_from(sorted(RETRYABLE)),
    st.none() | st.floats(allow_nan=True),
    st.floats(0, 1, exclude_max=True),
    st.builds(RetryPolicy, st.integers(0, 50), st.floats(0, 10, allow_nan=False), st.floats(0, 600, allow_nan=False)),
)
def test_a_pause_is_never_negative_nor_longer_than_the_ceiling(
    retry: int, kind: FailureKind, told_s: float | None, jitter: float, policy: RetryPolicy
) -> None:
    delay = retry_delay(policy, retry, ModelFailure(kind, "", told_s), jitter)

    assert delay is None or 0.0 <= delay <= policy.ceiling_s


def test_the_directive_of_a_retry_says_which_one_it_is() -> None:
    failure = ModelFailure("overloaded", "busy")

    _, first = decide(a_tree(), CallFailed(ROOT, failure, 0), draw())
    _, last = decide(a_tree(), CallFailed(ROOT, failure, 3), draw())
    _, none = decide(a_tree(), CallFailed(ROOT, failure, 4), draw())

    assert first == RetryAfter(0.5, 1, 4)
    assert last == RetryAfter(4.0, 4, 4)
    assert none == GiveUp()


# --- crashes ----------------------------------------------------------------------------------------------------------


def crash_at(*times: float) -> list[type]:
    tree, answers = a_tree(), []
    for at in times:
        tree, directive = decide(tree, Crashed(CHILD), draw(at))
        answers.append(type(directive))
    return answers


@pytest.mark.parametrize(
    ("times", "last"),
    [
        ((0, 1, 2), Restart),
        ((0, 1, 2, 3), Escalate),
        ((0, 1, 2, 59.9), Escalate),
        ((0, 1, 2, 60.0), Restart),
        ((0, 20, 40, 60, 80, 100), Restart),
        ((0, 20, 40, 59), Escalate),
        ((100, 50, 60, 70), Escalate),
        ((100, 50, 0, -50), Escalate),
        ((0, 61, 122, 183, 244), Restart),
    ],
)
def test_more_than_three_crashes_in_a_minute_end_a_session_also_if_the_clock_goes_backwards(
    times: tuple[float, ...], last: type
) -> None:
    answers = crash_at(*times)

    assert answers[-1] is last
    assert set(answers[:3]) == {Restart}


def test_crashes_of_one_session_do_not_count_for_another() -> None:
    tree = a_tree()
    for session in (ROOT, CHILD) * 3:
        tree, directive = decide(tree, Crashed(session), draw())
        assert directive == Restart()


def test_what_ends_a_session_says_how_often_it_crashed() -> None:
    tree = a_tree()
    for _ in range(4):
        tree, directive = decide(tree, Crashed(ROOT), draw())

    assert isinstance(directive, Escalate)
    assert "4 times in 60 s" in directive.reason


@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.floats(0.1, 1e4))
def test_a_crash_counts_from_its_time_for_as_long_as_the_window(times: list[float], window_s: float) -> None:
    kept: tuple[float, ...] = ()
    for at in times:
        kept = recent(kept, at, Restarts(3, window_s))
        assert kept[-1] == at
        assert all(at - crash < window_s for crash in kept)
