"""Budgets of a tree at work: reservations are waited for, spending ends a run, and what there is is handed back."""

from random import Random
from typing import Any

import attrs
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.protocol.budgets import Amount
from actors.protocol.compaction import CompactionPolicy
from actors.protocol.limits import Limits
from actors.protocol.mail import Abort, CompactNow, Prompt
from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Chunk,
    Hear,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    UsageReported,
)
from actors.testing import ROOT, Answer, Bench, FunctionModel
from store.messages import ToolResultMessage, decode_message, text_of
from store.usage import Usage, usd
from store.wire import encode
from tests.actors.stage import (
    Line,
    Script,
    assert_sound,
    bodies,
    for_ever,
    of_type,
    outcome,
    pausing,
    playing,
    requests,
    row,
    rows,
    run,
    saying,
    spawn,
    stage,
    told,
    tool,
    until,
    use,
    wait,
)
from tests.actors.test_chaos import random_part
from tests.actors.test_compaction import Sized, is_summary
from tests.actors.test_totals import Part, Player


def assert_quiet(tree: Bench) -> None:
    """Nothing is claimed, nobody stands by, and what is spent is what the totals say."""
    budgets = tree.tree.supervisor.state.budgets
    assert (budgets.claims, budgets.standing) == ({}, ())
    assert tree.tree.supervisor._standing_by == {}
    for account in budgets.accounts.values():
        total = next(one for one in rows(tree) if one.id == account.holder_id).total
        assert account.claimed == Amount()
        assert (account.spent.pico, account.spent.tokens) == (total.total_pico, total.tokens)
    assert_sound(tree)


@attrs.define
class Spending(FunctionModel):
    """Sees how many calls are under way at the same time."""

    now: int = 0
    most: int = 0

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await FunctionModel.call(self, request, hear)
        finally:
            self.now -= 1


def costing(parts: dict[str, list[Line]], usage: Usage) -> Spending:
    return Spending(Script(parts), usage)


async def test_sixteen_children_whose_worst_cases_do_not_fit_together_all_finish_as_they_really_spend_little(
    autojump_clock: MockClock,
) -> None:
    names = [f"c{number}" for number in range(16)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names), wait(), "all done"]}
    parts |= {name: [pausing(10.0, f"{name} is done")] for name in names}
    # 96,000 tokens of output are 0.96 dollars; 5,000 are 0.05.
    model = costing(parts, Usage(output=5_000))
    tree = stage(model, budgets={"max_cost": 5.0}, max_output=96_000)

    await run(tree)

    assert [outcome(tree, name) for name in names] == ["completed"] * 16
    assert outcome(tree) == "completed"
    assert model.most == 5
    assert of_type(tree, "limit_reached") == []
    assert usd(tree.root.total.total_pico) == pytest.approx(19 * 0.05)
    assert_quiet(tree)


async def test_a_call_that_stands_by_holds_no_slot_and_is_shown_as_waiting(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", "b"), wait(), "done"]}
    parts |= {name: [pausing(10.0, "done")] for name in "ab"}
    tree = stage(parts, budgets={"max_tokens": 12_000}, max_output=9_000)

    async with playing(tree):
        await trio.sleep(5.0)
        supervisor = tree.tree.supervisor
        assert sorted(supervisor.status(row(tree, name)) for name in "ab") == ["running", "waiting"]
        standing = {one.question.session_id for one in supervisor.state.budgets.standing}
        assert standing
        assert not standing.intersection(supervisor.slots._held)

    assert [outcome(tree, name) for name in ("a", "b", "root")] == ["completed"] * 3
    assert_quiet(tree)


# --- the last turn ----------------------------------------------------------------------------------------------------


def busy(request: ModelRequest) -> Answer:
    """Works as long as it has tools, and then says how far it came."""
    return use("quick") if request.tools else f"{request.session_name} came so far"


def at_work(**more: Any) -> Bench:
    """A tree in which everybody is busy; a turn uses 110 tokens, 0.0002 dollars, and may take up to 8,300 more."""
    model = more.pop("model", None) or FunctionModel(more.pop("answer", busy))
    return stage(model, tool("quick", saying("x" * 400)), **{"max_output": 8_300} | more)


LIMITED: dict[str, dict[str, Any]] = {
    "tokens": {"budgets": {"max_tokens": 10_000}},
    "cost": {"budgets": {"max_cost": 0.086}},
    "turns": {"limits": Limits(max_turns=3)},
}


@pytest.mark.parametrize("limit", LIMITED)
async def test_a_run_whose_limit_is_reached_hands_back_what_it_has_in_a_last_turn_without_tools(
    autojump_clock: MockClock, limit: str
) -> None:
    tree = at_work(**LIMITED[limit])

    await run(tree)

    last = requests(tree)[-1]
    assert last.tools == ()
    assert all(request.tools for request in requests(tree)[:-1])
    assert len(requests(tree)) > 3
    assert "This is your last turn" in told(last)
    (event,) = of_type(tree, "limit_reached")
    assert event["limit"].endswith(limit)
    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert (settled.outcome, settled.stop_reason) == ("limit_reached", "stop")
    assert f"--max-{limit}" in str(settled.error_message)
    assert tree.root.outbox is not None
    assert tree.root.outbox.answer(1) == "root came so far"
    assert_quiet(tree)


async def test_a_child_hands_back_too_its_parent_reads_that_and_its_siblings_are_unharmed(
    autojump_clock: MockClock,
) -> None:
    parts: dict[str, list[Line]] = {
        "root": [[*spawn("eager", max_tokens=10_000), *spawn("calm")], wait(), "done"],
        "eager": [busy] * 200,
        "calm": [pausing(500.0, "calm and done")],
    }
    tree = at_work(model=FunctionModel(Script(parts)))

    await run(tree)

    eager = row(tree, "eager")
    (settled,) = [one for one in bodies(tree.store, ROOT, "child_settled") if one.child_session_id == eager.id]
    assert (settled.outcome, settled.text) == ("limit_reached", "eager came so far")
    (event,) = of_type(tree, "limit_reached")
    assert (event["sessionId"], event["holderSessionId"]) == (eager.id, eager.id)
    assert "eager: limit_reached" in told(requests(tree)[-1])
    assert "eager came so far" in told(requests(tree)[-1])
    assert (outcome(tree, "calm"), outcome(tree)) == ("completed", "completed")
    assert eager.total.tokens <= 10_000
    assert_quiet(tree)


async def test_a_run_that_has_said_nothing_and_cannot_pay_ends_at_once(autojump_clock: MockClock) -> None:
    tree = at_work(budgets={"max_tokens": 300})

    await run(tree)

    assert requests(tree) == []
    assert outcome(tree) == "limit_reached"
    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert "--max-tokens" in str(settled.error_message)
    assert_quiet(tree)


async def test_where_no_last_turn_fits_the_run_ends_and_what_was_said_is_not_lost(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {
        "root": [spawn("eager", wait=True, max_tokens=9_000), "done"],
    }

    class Talking(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if request.session_name != "eager":
                return await FunctionModel.call(self, request, hear)
            self.requests.append(request)
            for chunk in (TextChunk(0, "I have found the door."), CallStarted(1, "c", "quick"), CallArguments(1, "{}")):
                await hear(chunk)
            await hear(UsageReported(Usage(input=8_000, output=900)))
            return ReplyEnd("toolUse")

    model = Talking(Script(parts))
    tree = at_work(model=model)

    await run(tree)

    (settled,) = bodies(tree.store, ROOT, "child_settled")
    assert (settled.outcome, settled.text) == ("limit_reached", "I have found the door.")
    assert outcome(tree) == "completed"
    assert [request.session_name for request in requests(tree)] == ["root", "eager", "root"]
    assert_quiet(tree)


async def test_a_tool_that_is_called_in_the_last_turn_is_not_run(autojump_clock: MockClock) -> None:
    ran: list[int] = []

    async def quick(arguments: dict[str, Any], context: Any) -> Any:
        ran.append(1)
        return await saying("fine")(arguments, context)

    tree = stage(FunctionModel(lambda request: use("quick")), tool("quick", quick), limits=Limits(max_turns=2))

    await run(tree)

    assert (len(requests(tree)), len(ran)) == (3, 2)
    messages = [decode_message(body.message) for body in bodies(tree.store, ROOT, "message")]
    results = [text_of(message.content) for message in messages if isinstance(message, ToolResultMessage)]
    assert "its last turn has no tools" in results[-1]
    assert outcome(tree) == "limit_reached"
    assert_quiet(tree)


async def test_a_last_turn_that_fails_is_tried_again_and_told_of_once(autojump_clock: MockClock) -> None:
    failures = [ModelFailure("overloaded", "busy"), ModelFailure("overloaded", "busy")]

    def answer(request: ModelRequest) -> Answer:
        return failures.pop() if failures and not request.tools else busy(request)

    tree = at_work(answer=answer, limits=Limits(max_turns=2))

    await run(tree)

    assert [request.tools == () for request in requests(tree)] == [False, False, True, True, True]
    assert len(of_type(tree, "limit_reached")) == 1
    assert told(requests(tree)[-1]).count("This is your last turn") == 1
    assert tree.root.outbox is not None
    assert tree.root.outbox.answer(1) == "root came so far"
    assert outcome(tree) == "limit_reached"
    assert_quiet(tree)


async def test_a_last_turn_that_fails_for_good_says_why_nothing_was_handed_back(autojump_clock: MockClock) -> None:
    def answer(request: ModelRequest) -> Answer:
        return busy(request) if request.tools else ModelFailure("auth", "no such key")

    tree = at_work(answer=answer, limits=Limits(max_turns=2))

    await run(tree)

    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert settled.outcome == "limit_reached"
    assert all(word in str(settled.error_message) for word in ("2 turns", "no such key"))
    assert_quiet(tree)


async def test_an_answer_that_is_cut_by_what_the_budget_left_is_no_completed_one(autojump_clock: MockClock) -> None:
    bounds: list[int] = []

    @attrs.define
    class Cut(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            bounds.append(request.model.max_output)
            await hear(TextChunk(0, "half of what"))
            await hear(UsageReported(Usage(output=request.model.max_output)))
            return ReplyEnd("length")

    tree = at_work(model=Cut(busy), budgets={"max_tokens": 3_000})

    await run(tree)

    (bound,) = bounds
    assert 2_000 < bound < 3_000
    (settled,) = bodies(tree.store, ROOT, "run_settled")
    assert (settled.outcome, settled.stop_reason) == ("limit_reached", "length")
    assert len(of_type(tree, "limit_reached")) == 1
    assert_quiet(tree)


# --- what is cut, tried again, summarised -----------------------------------------------------------------------------


async def test_an_abort_lets_go_of_what_was_claimed_and_of_who_stood_by(autojump_clock: MockClock) -> None:
    names = [f"c{number}" for number in range(6)]
    parts: dict[str, list[Line]] = {"root": [spawn(*names), wait(), "done"]}
    parts |= {name: [for_ever] for name in names}
    tree = stage(parts, budgets={"max_tokens": 22_000}, max_output=9_000)
    supervisor = tree.tree.supervisor

    async with playing(tree):
        await until(lambda: len(supervisor.state.budgets.standing) > 3, 0.1)
        tree.tree.tell(Abort("enough"))

    budgets = supervisor.state.budgets
    assert (budgets.claims, budgets.standing, supervisor._standing_by) == ({}, (), {})
    assert budgets.accounts[ROOT].claimed == Amount()
    assert {one.outcome for one in rows(tree)} == {"aborted"}
    assert_sound(tree)


async def test_one_that_stands_by_hears_its_abort_and_makes_way(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", "b"), wait(), "done"]}
    parts |= {name: [pausing(100.0, "done")] for name in "ab"}
    tree = stage(parts, budgets={"max_tokens": 12_000}, max_output=9_000)
    supervisor = tree.tree.supervisor

    async with playing(tree):
        await trio.sleep(5.0)
        (waiting,) = [name for name in "ab" if supervisor.status(row(tree, name)) == "waiting"]
        supervisor.directory.deliver(row(tree, waiting), Abort("not needed"))
        await until(lambda: row(tree, waiting).outcome, 0.1)
        assert trio.current_time() < 20.0

    assert outcome(tree, waiting) == "aborted"
    assert sorted(outcome(tree, name) for name in "ab") == ["aborted", "completed"]
    assert_quiet(tree)


async def test_the_worst_case_of_a_call_that_was_cut_stays_charged_and_no_total_shows_it(
    autojump_clock: MockClock,
) -> None:
    async def half(request: ModelRequest) -> Answer:
        return await for_ever()

    parts: dict[str, list[Line]] = {"root": [spawn("a"), wait(timeout_s=5), "done"], "a": [half]}
    tree = stage(FunctionModel(Script(parts), Usage()), budgets={"max_tokens": 100_000}, max_output=9_000)

    async with playing(tree):
        await until(lambda: row(tree, "root").children and row(tree, "a").turns, 0.1)
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Abort("not needed"))

    account = tree.tree.supervisor.state.budgets.accounts[ROOT]
    assert account.unreported.tokens > 9_000
    assert tree.root.total.tokens == 0
    assert account.claimed == Amount()
    assert_sound(tree)


async def test_a_call_that_does_not_let_go_when_it_is_aborted_keeps_its_claim_as_it_may_be_billed_for_more(
    autojump_clock: MockClock,
) -> None:
    async def deaf(request: ModelRequest) -> Answer:
        with trio.CancelScope(shield=True):
            await trio.sleep(60.0)
        return "too late"

    parts: dict[str, list[Line]] = {"root": [spawn("a"), wait(), pausing(100.0, "done")], "a": [deaf]}
    tree = stage(parts, budgets={"max_tokens": 40_000}, max_output=9_000)
    supervisor = tree.tree.supervisor

    async with playing(tree):
        await trio.sleep(5.0)
        supervisor.directory.deliver(row(tree, "a"), Abort("not needed"))
        await until(lambda: row(tree, "a").outcome, 0.5)
        assert trio.current_time() < 20.0
        claimed = [claim.session_id for claim in supervisor.state.budgets.claims.values()]
        assert row(tree, "a").id in claimed

    budgets = supervisor.state.budgets
    assert (budgets.claims, budgets.accounts[ROOT].claimed) == ({}, Amount())


async def test_a_call_that_is_aborted_before_it_was_sent_is_charged_nothing(autojump_clock: MockClock) -> None:
    parts: dict[str, list[Line]] = {"root": [spawn("a", "b"), wait(), "done"]}
    parts |= {name: [pausing(100.0, "done")] for name in "ab"}
    limits = Limits(max_live_children=1, max_turns=5)
    tree = stage(parts, limits=limits, budgets={"max_tokens": 100_000}, max_output=9_000)
    supervisor = tree.tree.supervisor

    async with playing(tree):
        await trio.sleep(5.0)
        (waiting,) = [name for name in "ab" if supervisor.slots.is_waiting(row(tree, name).id)]
        supervisor.directory.deliver(row(tree, waiting), Abort("not needed"))

    account = supervisor.state.budgets.accounts[ROOT]
    assert account.unreported == Amount()
    assert account.spent.turns == len(requests(tree)) == 4
    assert_quiet(tree)


async def test_a_prompt_counts_before_it_is_sent(autojump_clock: MockClock) -> None:
    tree = stage({"root": ["done"]}, budgets={"max_tokens": 9_000}, max_output=500)

    await run(tree, "word " * 8_000)

    assert requests(tree) == []
    assert outcome(tree) == "limit_reached"
    assert_quiet(tree)


async def test_an_aborted_summary_that_stood_by_makes_way(autojump_clock: MockClock) -> None:
    says: list[Line] = [[*use("look"), *spawn("a")], use("look"), wait(), "first"]
    parts: dict[str, list[Line]] = {"root": says, "a": ["ready", pausing(100.0, "again")]}
    tree = stage(parts, tool("look", saying("word " * 300)), budgets={"max_tokens": 12_000}, max_output=8_000)
    await run(tree)
    supervisor = tree.tree.supervisor

    async with tree.tree.alive():
        supervisor.directory.deliver(row(tree, "a"), Prompt("m1", "go on"))
        await until(lambda: supervisor.state.budgets.claims, 0.1)
        tree.tree.tell(CompactNow())
        await until(lambda: supervisor.state.budgets.standing, 0.1)
        tree.tree.tell(Abort("enough"))
        await until(lambda: not supervisor.state.budgets.standing, 0.1)
        await tree.tree.quiet()

    assert supervisor.state.budgets.claims == {}
    assert supervisor._standing_by == {}


async def test_during_a_back_off_nothing_is_claimed_so_others_go_on(autojump_clock: MockClock) -> None:
    @attrs.define
    class Once(FunctionModel):
        async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
            if request.session_name == "a" and request.call == 1:
                return ModelFailure("server", "down")
            return await FunctionModel.call(self, request, hear)

    parts: dict[str, list[Line]] = {"root": [spawn("a", "b"), wait(), "done"], "b": [pausing(1.0, "done")]}
    tree = stage(Once(Script(parts)), budgets={"max_tokens": 12_000}, max_output=9_000)

    await run(tree)

    assert [outcome(tree, name) for name in ("a", "b", "root")] == ["completed"] * 3
    assert_quiet(tree)


@pytest.mark.parametrize(
    ("more", "outcome_then"),
    [
        ({}, "completed"),
        ({"budgets": {"max_tokens": 3_000}}, "limit_reached"),
        ({"limits": Limits(max_turns=2)}, "limit_reached"),
    ],
    ids=["no limit", "tokens", "turns"],
)
async def test_a_summary_is_paid_like_any_call(
    autojump_clock: MockClock, more: dict[str, Any], outcome_then: str
) -> None:
    def answer(request: ModelRequest) -> Answer:
        if is_summary(request):
            return "what happened"
        return use("look") if request.call < 3 and request.tools else "done"

    policy = CompactionPolicy(reserve_tokens=500, keep_recent_tokens=300)
    look = tool("look", saying("word " * 700))
    tree = stage(Sized(answer), look, window=2_000, max_output=600, compaction=policy, **more)

    await run(tree)

    summaries = [request for request in requests(tree) if is_summary(request)]
    assert bool(summaries) is (outcome_then == "completed")
    assert outcome(tree) == outcome_then
    assert_quiet(tree)


async def test_a_summary_that_nobody_can_pay_for_is_not_made_and_says_why(autojump_clock: MockClock) -> None:
    def answer(request: ModelRequest) -> Answer:
        return use("look") if request.call < 3 else "done"

    policy = CompactionPolicy(reserve_tokens=500, keep_recent_tokens=300)
    look = tool("look", saying("word " * 300))
    tree = stage(Sized(answer), look, window=20_000, compaction=policy, limits=Limits(max_turns=3))
    await run(tree)

    await tree.tree.run(CompactNow())

    (end,) = of_type(tree, "compaction_end")
    assert "--max-turns" in end["errorMessage"]
    assert len(requests(tree)) == 3
    assert_quiet(tree)


# --- random trees -----------------------------------------------------------------------------------------------------


@attrs.define
class Frugal(Player):
    """A player that puts out no more than it is allowed to, and whose input is free: so no estimate is too low."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        bound = request.model.max_output

        async def bounded(chunk: Chunk) -> None:
            if isinstance(chunk, UsageReported):
                chunk = UsageReported(Usage(output=min(bound, 40 * chunk.usage.output)))
            if isinstance(chunk, CallArguments) and '"spawn' not in chunk.json and '"prompt"' in chunk.json:
                own = {"max_tokens": 2_000 * (self.calls % 9)} if self.calls % 3 == 0 else {}
                chunk = CallArguments(chunk.index, encode(msgspec.json.decode(chunk.json) | own).decode())
            await hear(chunk)

        return await Player.call(self, request, bounded)


async def play(part: Part, budgets: dict[str, float], aborted: list[tuple[float, int]]) -> Bench:
    tree = stage(
        Frugal({"root": part}),
        tool("quick", saying("quick")),
        limits=Limits(max_depth=3, max_children=200, max_live_children=3),
        budgets=budgets,
        max_output=9_000,
    )
    async with playing(tree):
        for at_s, target in sorted(aborted):
            await trio.sleep_until(at_s)
            if tree.root.outcome and not tree.root.has_task:
                break
            known = rows(tree)
            tree.tree.supervisor.directory.deliver(known[target % len(known)], Abort("enough"))
    return tree


budgets = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.sampled_from([2_000, 12_000, 30_000, 100_000]),
        "max_cost": st.sampled_from([0.02, 0.1, 0.3, 1.0]),
    },
)
aborts = st.lists(st.tuples(st.sampled_from([0.5, 1.0, 5.0]), st.integers(0, 6)), max_size=2)


@given(st.integers(0, 10), st.integers(0, 2**32), budgets, aborts)
@settings(max_examples=150, deadline=None)
def test_whatever_runs_in_parallel_no_session_spends_more_than_a_budget_above_it_allows(
    size: int, seed: int, budgets: dict[str, float], aborted: list[tuple[float, int]]
) -> None:
    tree = trio.run(play, random_part(Random(seed), 0, [size]), budgets, aborted, clock=MockClock(autojump_threshold=0))

    found = tree.tree.supervisor.state.budgets
    assert (found.claims, found.standing) == ({}, ())
    for account in found.accounts.values():
        total = tree.tree.supervisor.directory.rows[account.holder_id].total
        assert account.claimed == Amount()
        assert total.tokens <= account.allowed.get("max_tokens", total.tokens)
        assert total.total_pico <= account.allowed.get("max_cost", total.total_pico)
    assert_sound(tree)
