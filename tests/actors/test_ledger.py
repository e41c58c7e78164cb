"""The ledger: sums count at once, journals follow when the child's entry is durable, and who waits is told when all is folded."""

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.clock import Clock
from actors.directory import Row
from actors.flusher import JournalLike
from actors.ledger import Ledger
from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.sink import Sink
from actors.testing import RecordingOutlet
from store.entries import ChildUsageAttributedEntry
from store.errors import JournalPoisoned
from store.events import Place
from store.memory import MemoryJournal
from store.tree import EntryTree
from store.usage import NOTHING, Spend

FIVE = Spend(input=5, input_pico=500, total_pico=500)


@attrs.define
class GatedFlusher:
    """A journal is durable once it may be. Those that are `broken` never are."""

    held: set[int] = attrs.field(factory=set)
    broken: set[int] = attrs.field(factory=set)
    changed: trio.Event = attrs.field(factory=trio.Event)
    asked: list[int] = attrs.field(factory=list)

    def note(self, journal: JournalLike) -> None:
        pass

    async def durable(self, journal: JournalLike) -> None:
        await trio.lowlevel.checkpoint()
        self.asked.append(id(journal))
        if id(journal) in self.broken:
            raise JournalPoisoned("a flush failed")
        while id(journal) in self.held:
            await self.changed.wait()
        journal.sync()

    def let_go(self, journal: JournalLike) -> None:
        self.held.discard(id(journal))
        self.changed.set()
        self.changed = trio.Event()


@attrs.define
class Chain:
    """A root, its child and its grandchild."""

    flusher: GatedFlusher
    ledger: Ledger
    root: Row
    child: Row
    leaf: Row
    trouble: list[tuple[str, str]]

    @classmethod
    def of(cls) -> "Chain":
        flusher = GatedFlusher()
        trouble: list[tuple[str, str]] = []
        ledger = Ledger(flusher, lambda row, text: trouble.append((row.name, text)))
        sink = Sink(Clock(lambda: 1_700_000_000.0), [RecordingOutlet()])
        rows: list[Row] = []
        for depth, name in enumerate(("root", "child", "leaf")):
            parent = rows[-1] if rows else None
            place = Place(f"{name}-0000", "root-0000", parent.id if parent else None, depth)
            row = Row(place, name, "test/model", parent, Mailbox())
            row.has_task = True
            row.outbox = Outbox(
                place, MemoryJournal(), EntryTree(), sink, flusher, sink.clock, lambda record, usage: None
            )
            rows.append(row)
        return cls(flusher, ledger, *rows, trouble)

    def journal(self, row: Row) -> MemoryJournal:
        assert row.outbox is not None
        assert isinstance(row.outbox.journal, MemoryJournal)
        return row.outbox.journal

    def attributed(self, row: Row) -> list[tuple[str | None, str | None, str | None]]:
        """(origin, entry, direct child) of what a row's journal attributes."""
        assert row.outbox is not None
        bodies = [record.body() for record in row.outbox.tree.records]
        return [
            (body.origin_session_id, body.origin_entry_id, body.child_session_id)
            for body in bodies
            if isinstance(body, ChildUsageAttributedEntry)
        ]


async def test_a_bill_counts_in_every_ancestor_at_once(autojump_clock: MockClock) -> None:
    chain = Chain.of()

    chain.ledger.bill(chain.leaf, "00000001", FIVE)
    chain.ledger.bill(chain.child, "00000001", FIVE)
    chain.ledger.bill(chain.root, "00000001", FIVE)

    assert [row.own for row in (chain.root, chain.child, chain.leaf)] == [FIVE, FIVE, FIVE]
    assert [row.below for row in (chain.root, chain.child, chain.leaf)] == [FIVE + FIVE, FIVE, NOTHING]
    assert chain.attributed(chain.root) == []


async def test_journals_of_ancestors_follow_with_the_key_and_the_direct_child(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000007", FIVE)
        await chain.ledger.drained()
        nursery.cancel_scope.cancel()

    assert chain.attributed(chain.root) == [("leaf-0000", "00000007", "child-0000")]
    assert chain.attributed(chain.child) == [("leaf-0000", "00000007", "leaf-0000")]
    assert chain.attributed(chain.leaf) == []
    for row in (chain.root, chain.child):
        assert chain.journal(row).durable == chain.journal(row).seq


async def test_nothing_is_attributed_before_the_childs_entry_is_durable(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    chain.flusher.held.add(id(chain.journal(chain.leaf)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000001", FIVE)
        await wait_all_tasks_blocked()
        assert chain.attributed(chain.root) == []
        with trio.move_on_after(60.0) as waited:
            await chain.ledger.drained()
        assert waited.cancelled_caught
        chain.flusher.let_go(chain.journal(chain.leaf))
        await chain.ledger.drained()
        assert len(chain.attributed(chain.root)) == 1
        nursery.cancel_scope.cancel()


async def test_whoever_waits_is_told_only_when_what_came_meanwhile_is_folded_too(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    chain.flusher.held.add(id(chain.journal(chain.root)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000001", FIVE)
        await wait_all_tasks_blocked()
        chain.ledger.bill(chain.leaf, "00000002", FIVE)
        chain.flusher.let_go(chain.journal(chain.root))
        await chain.ledger.drained()
        assert len(chain.attributed(chain.root)) == 2
        nursery.cancel_scope.cancel()


async def test_with_nothing_to_fold_nobody_waits(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        await wait_all_tasks_blocked()
        chain.ledger.bill(chain.root, "00000001", FIVE)  # nobody is above it
        with trio.fail_after(0.0):
            await chain.ledger.drained()
        nursery.cancel_scope.cancel()


async def test_bills_of_a_group_cost_one_flush_of_each_ancestor(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    for number in range(50):
        chain.ledger.bill(chain.leaf, f"{number:08x}", FIVE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        await chain.ledger.drained()
        nursery.cancel_scope.cancel()

    assert chain.flusher.asked.count(id(chain.journal(chain.root))) == 1
    assert len(chain.attributed(chain.root)) == 50
    assert chain.root.below.input == 250


async def test_a_child_whose_flush_failed_is_told_of_and_the_others_are_folded(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    chain.flusher.broken.add(id(chain.journal(chain.leaf)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000001", FIVE)
        chain.ledger.bill(chain.child, "00000001", FIVE)
        await chain.ledger.drained()
        nursery.cancel_scope.cancel()

    assert {name for name, _ in chain.trouble} == {"leaf"}
    assert chain.attributed(chain.root) == [("child-0000", "00000001", "child-0000")]
    assert chain.root.total == FIVE + FIVE


async def test_an_ancestor_that_takes_nothing_is_told_of_and_those_above_it_get_theirs(
    autojump_clock: MockClock,
) -> None:
    chain = Chain.of()
    chain.journal(chain.child).failures = 99
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000001", FIVE)
        await chain.ledger.drained()
        nursery.cancel_scope.cancel()

    assert {name for name, _ in chain.trouble} == {"child"}
    assert chain.attributed(chain.child) == []
    assert len(chain.attributed(chain.root)) == 1


async def test_an_ancestor_without_a_task_sheds_what_it_was_just_given(autojump_clock: MockClock) -> None:
    chain = Chain.of()
    chain.child.has_task = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chain.ledger.run)
        chain.ledger.bill(chain.leaf, "00000001", FIVE)
        await chain.ledger.drained()
        nursery.cancel_scope.cancel()

    assert len(chain.journal(chain.child).lines) == 1
    assert chain.child.outbox is not None
    assert (chain.child.outbox.tree.records, chain.child.outbox.tree.count) == ([], 1)
    assert len(chain.attributed(chain.root)) == 1
