"""A5 and A6: ten thousand children that have nothing to do, and a hundred thousand."""

import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from time import process_time
from typing import Any

import trio
import trio.testing

from actors.clock import Clock
from actors.directory import Row as Session
from actors.flusher import InlineFlusher
from actors.mailbox import Mailbox
from actors.protocol.questions import Admit
from actors.protocol.tools import Spawn
from actors.sink import Sink
from actors.tree import Tree
from store.entries import Header
from store.events import Place
from store.ids import session_id
from store.tree import EntryTree
from tests.bench.child import planted, workshop
from tests.bench.harness import Row, at_most, beside, settle_heap

CHILDREN = 10_000
MANY = 100_000
RUN = 1_000
ROOT = session_id(1_800_000_000_000, 1)


class _Nowhere:
    """A journal whose lines are gone at once: on disk they take no memory either."""

    def __init__(self) -> None:
        self.seq, self.durable, self.is_poisoned = 1, 0, False

    def append(self, bodies: Sequence[bytes]) -> None:
        self.seq += len(bodies)

    def sync(self) -> None:
        self.durable = self.seq

    def close(self) -> None:
        """Nothing to give back."""


def _create(header: Header) -> _Nowhere:
    return _Nowhere()


class Measured:
    """What one round gave: CPU seconds per child of creation and teardown, bytes per child if they were asked for."""

    def __init__(self, created: float, ended: float, size: float) -> None:
        self.created, self.ended, self.size = created, ended, size


async def bare(count: int, *, is_traced: bool) -> Measured:
    """A task each that waits on a channel of its own."""
    return await _waiting(count, _actor, is_traced=is_traced)


async def nursing(count: int, *, is_traced: bool) -> Measured:
    """The same for actors that could have children of their own."""

    async def actor(receive: trio.MemoryReceiveChannel[str]) -> None:
        async with trio.open_nursery():
            await _actor(receive)

    return await _waiting(count, actor, is_traced=is_traced)


async def _actor(receive: trio.MemoryReceiveChannel[str]) -> None:
    async for _ in receive:
        pass


async def _waiting(count: int, actor: Callable[..., Awaitable[None]], *, is_traced: bool) -> Measured:
    senders: list[trio.MemorySendChannel[str]] = []
    before = _traced(is_traced)
    async with trio.open_nursery() as nursery:
        started = process_time()
        for _ in range(count):
            send, receive = trio.open_memory_channel[str](64)
            senders.append(send)
            nursery.start_soon(actor, receive)
        await trio.testing.wait_all_tasks_blocked()
        created = process_time()
        size = (_traced(is_traced) - before) / count
        ending = process_time()
        nursery.cancel_scope.cancel()
    return Measured((created - started) / count, (process_time() - ending) / count, size)


async def ours(count: int, *, is_traced: bool) -> Measured:
    """Sessions at rest inside of their parent's task: holder, incarnation, mailbox, outbox with two entries."""
    tree = _tree(lambda request: "done")
    supervisor, sink = tree.supervisor, tree.supervisor.sink
    places = [Place(session_id(1_800_000_000_001, number), ROOT, ROOT, 1) for number in range(count)]
    tree.root.outbox = supervisor.outbox(tree.root, _Nowhere(), _empty())
    before = _traced(is_traced)
    async with trio.open_nursery() as nursery:
        tree._nursery = tree.root.nursery = nursery
        tree.root.has_task = True
        started = process_time()
        for number, place in enumerate(places):
            row = Session(place, f"child-{number}", "test/model", tree.root, Mailbox(supervisor.clock))
            supervisor.directory.add(row)
            supervisor.directory.revive(row)
        await trio.testing.wait_all_tasks_blocked()
        created = process_time()
        assert sink.seq == 2 * count
        size = (_traced(is_traced) - before) / count
        ending = process_time()
        nursery.cancel_scope.cancel()
    return Measured((created - started) / count, (process_time() - ending) / count, size)


async def settled(count: int) -> float:
    """Bytes that are left per child which ran once and settled."""
    tree = _tree(lambda request: "done")
    supervisor = tree.supervisor
    before = _traced(True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.ledger.run)
        tree._nursery = tree.root.nursery = nursery
        tree.root.has_task = True
        tree.root.outbox = supervisor.outbox(tree.root, _Nowhere(), _empty())
        for number in range(count):
            admitted = _admitted(number)
            supervisor.start_child(tree.root, admitted, Spawn("task"), None)
        await trio.testing.wait_all_tasks_blocked()
        await supervisor.drained()
        tree.root.mailbox = Mailbox(supervisor.clock)
        tree.root.outbox.tree.shed()
        size = (_traced(True) - before) / count
        nursery.cancel_scope.cancel()
    assert all(child.outcome == "completed" for child in tree.root.children)
    return size


def _admitted(number: int) -> Admit:
    return Admit(session_id(1_800_000_000_001, number), f"child-{number}", 1, "test/model")


def _empty() -> EntryTree:
    return EntryTree()


def _tree(answer: Any) -> Tree:
    clock = Clock()

    def no_file(session: str) -> Any:
        raise KeyError(session)

    tree = planted(workshop(_create, no_file, no_file, answer), ROOT, Sink(clock), InlineFlusher(), clock)
    tree.supervisor.slots.limit = 1 << 30
    return tree


def _traced(is_traced: bool) -> int:
    if not is_traced:
        return 0
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _bytes_of(function: Any, count: int) -> float:
    tracemalloc.start()
    try:
        result = trio.run(function, count)
    finally:
        tracemalloc.stop()
    return float(getattr(result, "size", result))


def a5(rounds: int) -> list[Row]:
    """10,000 idle children: memory, creation, teardown"""
    best: dict[str, float] = {}
    settle_heap()
    for _ in range(rounds):
        for name, function in (("ours", ours), ("bare", bare), ("nursing", nursing)):
            gc.collect()
            measured = trio.run(_timed(function), CHILDREN)
            for part in ("created", "ended"):
                took = getattr(measured, part)
                best[f"{name} {part}"] = min(took, best.get(f"{name} {part}", took))
    kib = {
        "ours": _bytes_of(_sized(ours), CHILDREN) / 1024,
        "bare": _bytes_of(_sized(bare), CHILDREN) / 1024,
        "settled": _bytes_of(settled, RUN) / 1024,
    }
    return [
        _kib("A5 idle child with its task", 8, kib["ours"], kib["bare"]),
        _kib("A5 settled child, no task", 8, kib["settled"], kib["bare"]),
        at_most("A5 creation", 2, best["ours created"], best["bare created"], "trio actor"),
        at_most("A5 teardown", 1.5, best["ours ended"], best["bare ended"], "trio actor"),
        beside("A5 creation", best["ours created"], best["nursing created"], "trio actor with a nursery"),
        beside("A5 teardown", best["ours ended"], best["nursing ended"], "trio actor with a nursery"),
    ]


def a6(rounds: int) -> list[Row]:
    """100,000 idle children alive at once: memory of each, beside that of 10,000"""
    many, few = (_bytes_of(_sized(ours), count) / 1024 for count in (MANY, CHILDREN))
    ratio = many / few
    sizes = (f"{many:.2f} KiB", f"{few:.2f} KiB")
    return [
        _kib("A6 idle child of 100,000", 10, many, few),
        Row("A6 idle child of 100,000", "<= 1.2x of 10,000", f"{ratio:.2f}x", *sizes, ratio <= 1.2),
    ]


def _kib(case: str, most: int, ours: float, other: float) -> Row:
    return Row(case, f"<= {most} KiB", f"{ours:.2f} KiB", f"{ours:.2f} KiB", f"{other:.2f} KiB", ours <= most)


def _timed(function: Any) -> Any:
    async def run(count: int) -> Measured:
        measured: Measured = await function(count, is_traced=False)
        return measured

    return run


def _sized(function: Any) -> Any:
    async def run(count: int) -> Measured:
        measured: Measured = await function(count, is_traced=True)
        return measured

    return run
