"""D1: what a session is billed goes to every ancestor, in plain calls."""

from collections.abc import Awaitable, Callable

import trio

from actors.clock import Clock
from actors.directory import Row as Session
from actors.flusher import InlineFlusher
from actors.ledger import Ledger
from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.sink import Sink
from store.events import Place
from store.ids import session_id
from store.memory import MemoryJournal
from store.tree import EntryTree
from store.usage import Spend
from tests.bench.harness import Row, at_most, beside, in_turns, on_trio, plain, seconds
from tests.bench.mail import MESSAGES, channel

DEEP = 16
BILLS = 2_000
SPEND = Spend(1000, 100, 0, 0, 3_000_000, 1_500_000, 0, 0, 4_500_000)


def _family(depth: int) -> Session:
    """The lowest of a chain of sessions, `depth` below its root, each with its outbox."""
    clock = Clock()
    sink, flusher = Sink(clock), InlineFlusher()
    row: Session | None = None
    ids = [session_id(1_800_000_000_000, level) for level in range(depth + 1)]
    for level, name in enumerate(ids):
        place = Place(name, ids[0], ids[level - 1] if level else None, level)
        row = Session(place, f"level-{level}", "test/model", row, Mailbox(clock))
        row.outbox = Outbox(place, MemoryJournal(), EntryTree(), sink, flusher, clock, lambda record, usage: None)
    assert row is not None
    return row


def billing(depth: int) -> Callable[[int], None]:
    """The sums alone, which count at once."""

    def run(count: int) -> None:
        row, ledger = _family(depth), _ledger()
        for number in range(count):
            ledger.bill(row, f"{number:08x}", SPEND)

    return run


def folding(depth: int) -> Callable[[int], Awaitable[None]]:
    """All of it: sums, and an attribution in the journal of every ancestor."""

    async def run(count: int) -> None:
        row, ledger = _family(depth), _ledger()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.run)
            for number in range(count):
                ledger.bill(row, f"{number:08x}", SPEND)
            await ledger.drained()
            nursery.cancel_scope.cancel()

    return run


def _ledger() -> Ledger:
    def trouble(row: Session, text: str) -> None:
        raise AssertionError(text)

    return Ledger(InlineFlusher(), trouble)


def d1(rounds: int) -> list[Row]:
    """folding what was spent, one level deep and 16 levels deep"""
    sides = {
        "1": plain(billing(1), BILLS),
        "16": plain(billing(DEEP), BILLS),
        "all 1": on_trio(folding(1), BILLS // 4),
        "all 16": on_trio(folding(DEEP), BILLS // 4),
        "hop": on_trio(channel, MESSAGES),
    }
    best = in_turns(rounds, sides)
    level = (best["16"] - best["1"]) / (DEEP - 1)
    ratio = level / best["hop"]
    return [
        at_most("D1 sums, 16 levels deep", 20, best["16"], best["1"], "1 level deep"),
        Row(
            "D1 sums, each level",
            "<= 0.05x trio channel",
            f"{ratio:.3f}x",
            seconds(level),
            seconds(best["hop"]),
            ratio <= 0.05,
        ),
        beside("D1 with journals, 16 levels deep", best["all 16"], best["all 1"], "1 level deep"),
    ]
