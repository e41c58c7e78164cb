"""Random trees on bad days: bugs, full disks, failed flushes, aborts and messages at once, and still every promise is kept."""

from random import Random
from typing import Any
from unittest.mock import patch

import attrs
import msgspec
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.performer import Performer
from actors.protocol.budgets import Amount
from actors.protocol.effects import Effect, PublishEvent
from actors.protocol.limits import Limits
from actors.protocol.mail import Abort, CompactNow, Mail, Prompt
from actors.protocol.restore import delivered
from actors.protocol.retry import RetryPolicy
from actors.testing import ROOT, MemoryJournal
from store.attribution import account
from store.entries import ChildUsageAttributedEntry, Header
from store.errors import JournalPoisoned
from store.repair import repair_plan, with_fixes
from store.stream import check_stream
from store.usage import Usage
from tests.actors.stage import Bench, bodies, nodes, rows, saying, stage, tool, truth
from tests.actors.test_totals import Part, Player, Say

WEEK_S = 7 * 86_400.0


@attrs.define
class BadDay:
    """What goes wrong, how often (each a chance per occasion), until the luck turns."""

    random: Random
    bug: float = 0.0
    full: float = 0.0
    flush: float = 0.0
    left: int = 12
    """So many times in all: a world in which everything breaks for ever has no promises to keep."""

    def strikes(self, chance: float) -> bool:
        if self.left > 0 and self.random.random() < chance:
            self.left -= 1
            return True
        return False


@attrs.define(eq=False)
class BadJournal(MemoryJournal):
    day: BadDay = attrs.field(factory=lambda: BadDay(Random(0)))

    def append(self, bodies: Any) -> None:
        if self.is_poisoned:
            raise JournalPoisoned("open it again")
        if self.day.strikes(self.day.full):
            raise self.fail
        super().append(bodies)

    def sync(self) -> None:
        if self.is_poisoned or self.day.strikes(self.day.flush):
            self.is_poisoned = True
            raise JournalPoisoned("a flush failed; open it again")
        super().sync()


def on_a_bad_day(tree: Bench, day: BadDay) -> Bench:
    def create(header: Header) -> MemoryJournal:
        tree.store.create(header)
        journal = tree.store.journals[header.id] = BadJournal(day=day)
        return journal

    supervisor = tree.tree.supervisor
    supervisor.workshop = attrs.evolve(supervisor.workshop, create_journal=create)
    return tree


async def play(
    part: Part, day: BadDay, limits: Limits, budgets: dict[str, float], mails: list[tuple[float, int, Mail]]
) -> Bench:
    tree = on_a_bad_day(
        stage(
            Player({"root": part}),
            tool("quick", saying("quick")),
            limits=limits,
            retry=RetryPolicy(max_retries=2),
            budgets=budgets,
            max_output=1_000,
        ),
        day,
    )
    carry_out = Performer._carry_out

    def with_bugs(self: Performer, effect: Effect, written: Any) -> None:
        # Not between two events that belong together: there is nothing there that could break.
        if not isinstance(effect, PublishEvent) and day.strikes(day.bug):
            raise RuntimeError(f"a bug in {type(effect).__name__}")
        carry_out(self, effect, written)

    with patch.object(Performer, "_carry_out", with_bugs), trio.fail_after(WEEK_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.run)
            began = trio.current_time()
            for number, (at_s, target, mail) in enumerate(sorted(mails, key=lambda each: each[0])):
                await trio.sleep_until(began + at_s)
                if tree.root.outcome and not tree.root.has_task:
                    break
                if isinstance(mail, Prompt):
                    mail = msgspec.structs.replace(mail, message_id=f"extra-{number}")
                known = rows(tree)
                tree.tree.supervisor.directory.deliver(known[target % len(known)], mail)
    return tree


def assert_promises(tree: Bench) -> None:
    claimed = tree.tree.supervisor.state.budgets
    assert (claimed.claims, claimed.standing) == ({}, ()), "somebody still claims"
    assert all(account.claimed == Amount() for account in claimed.accounts.values())
    found = check_stream(tree.outlet.lines)
    assert not found, found
    plan = repair_plan(nodes(tree.store), ROOT)
    if tree.tree.supervisor.failure is None:
        assert {type(fix.body) for fix in plan} <= {ChildUsageAttributedEntry}, plan
    repaired = with_fixes(nodes(tree.store), plan)
    for one in rows(tree):
        assert not one.has_task, one.name
        assert not one.is_running, one.name
        assert one.outcome, one.name
        if one.id not in repaired:
            continue  # its journal could not be made, so it has done nothing
        written = account(repaired[one.id].header, repaired[one.id].records)
        assert one.own == written.own, one.name
        assert one.total == written.total == truth(tree, one), one.name
        ended = [(body.run, body.outcome) for body in bodies(tree.store, one.id, "run_settled")]
        # One that the disk did not take is missing, and the host ends with that failure.
        kept = [run for run, _ in ended]
        assert kept == list(range(1, len(ended) + 1)) or (tree.tree.supervisor.failure and kept == sorted({*kept})), (
            kept
        )
        assert len(ended) == one.runs or tree.tree.supervisor.failure, one.name
        heard = {(b.child_session_id, b.run): b.outcome for b in bodies(tree.store, one.id, "child_settled")}
        assert len(heard) == len(bodies(tree.store, one.id, "child_settled")), "an end was told twice"
        for child in one.children:
            for run, outcome in [(b.run, b.outcome) for b in bodies(repaired_store(tree), child.id, "run_settled")]:
                assert heard.get((child.id, run)) == outcome or tree.tree.supervisor.failure, child.name
        assert_delivered_once(tree, one.id)


def repaired_store(tree: Bench) -> Any:
    """The journals, with empty ones for those that could not be made."""
    for one in rows(tree):
        tree.store.journals.setdefault(one.id, MemoryJournal())
    return tree.store


def assert_delivered_once(tree: Bench, session: str) -> None:
    """No mail and no notice is handed to the model a second time."""
    names = [name for record in tree.store.read(session).records for name in delivered([record])]
    assert len(names) == len(set(names)), names


mails = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.0, 1.001, 5.0, 12.0]),
        st.integers(0, 6),
        st.one_of(
            st.just(Abort("enough")),
            st.just(CompactNow()),
            st.just(Prompt("extra", "more", "steer")),
            st.just(Prompt("extra", "more", "follow_up")),
        ),
    ),
    max_size=3,
)
seeds = st.integers(0, 2**32)
chances = st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.3])


def random_part(random: Random, depth: int, size: list[int]) -> Part:
    """By a random number, not by strategies: a smaller tree is another life, so that shrinking one says little."""
    says: list[Say] = []
    for _ in range(random.randint(1, 3)):
        size[0] -= 1
        what = random.choice(["text", "tool", "fail", *(["spawn"] if depth < 3 and size[0] > 0 else [])])
        below = range(random.randint(1, 2)) if what == "spawn" else ()
        says.append(
            Say(
                random.choice([0.0, 0.0, 0.001, 1.0, 7.0]),
                Usage(input=random.randint(0, 50), output=random.randint(0, 50)),
                what,
                tuple(random_part(random, depth + 1, size) for _ in below),
                random.random() < 0.5,
                random.choice(["overloaded", "network", "auth"]),
                random.random() < 0.5,
            )
        )
    return Part(tuple(says))


limits = st.builds(
    Limits, st.sampled_from([1, 3]), st.sampled_from([1, 3]), st.sampled_from([2, 200]), st.sampled_from([None, 6, 25])
)


budgets = st.sampled_from([{}, {}, {"max_tokens": 2_500}, {"max_tokens": 9_000}, {"max_cost": 0.03}])


@given(st.integers(0, 8), seeds, limits, budgets, chances, chances, chances, mails)
@settings(max_examples=200, deadline=None)
def test_on_a_bad_day_every_promise_is_kept(
    size: int,
    seed: int,
    limit: Limits,
    budget: dict[str, float],
    bug: float,
    full: float,
    flush: float,
    sent: list[tuple[float, int, Mail]],
) -> None:
    random = Random(seed)
    part = random_part(random, 0, [size])

    day = BadDay(random, bug, full, flush)

    tree = trio.run(play, part, day, limit, budget, sent, clock=MockClock(autojump_threshold=0))

    assert_promises(tree)
