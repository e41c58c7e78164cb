"""A4: children as tools. A parent asks for 16 of them in one answer and gets their answers back; the figures are per child."""

import asyncio
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time
from typing import Any

import trio

from actors.clock import Clock
from actors.flusher import Flusher, Flushing, InlineFlusher
from actors.protocol.limits import Limits
from actors.protocol.mail import Prompt
from actors.protocol.model import ModelInfo, ModelRequest
from actors.protocol.retry import RetryPolicy
from actors.protocol.supervision import Member, TreeState
from actors.sink import Sink
from actors.supervisor import Workshop
from actors.testing import Answer, FunctionModel, MemoryStore
from actors.tree import Tree
from orchestrator.engine.opening import OwnedTree
from orchestrator.engine.stdout import LineWriter
from orchestrator.tools.agents import SpawnAgentTool
from store.disk.fs import RealFs
from store.disk.home import Home
from store.ids import session_id
from store.usage import Price
from tests.bench import peers
from tests.bench.harness import Row, Side, absent, at_least, at_most, beside, in_turns, on_trio

CHILDREN = 16
TREES = 4
BUFFER = 64
SPAWNS = [("spawn_agent", {"prompt": "task", "name": f"child-{place}", "wait": True}) for place in range(CHILDREN)]


async def bare_actors(count: int) -> None:
    """The baseline: a task with a channel in, one message, one answer, the end; 16 at a time."""
    await _actors(count, _actor)


async def nursing_actors(count: int) -> None:
    """The same for actors that could have children of their own."""

    async def actor(receive: trio.MemoryReceiveChannel[str], answers: trio.MemorySendChannel[str]) -> None:
        async with trio.open_nursery():
            await _actor(receive, answers)

    await _actors(count, actor)


async def _actor(receive: trio.MemoryReceiveChannel[str], answers: trio.MemorySendChannel[str]) -> None:
    async with receive, answers:
        await answers.send(await receive.receive())


async def _actors(count: int, actor: Callable[..., Awaitable[None]]) -> None:
    for _ in range(count // CHILDREN):
        async with trio.open_nursery() as nursery:
            ways = []
            for _ in range(CHILDREN):
                send, receive = trio.open_memory_channel[str](BUFFER)
                answer_send, answer = trio.open_memory_channel[str](1)
                nursery.start_soon(actor, receive, answer_send)
                ways.append((send, answer))
            for send, _ in ways:
                await send.send("task")
            for send, answer in ways:
                await answer.receive()
                send.close()
                answer.close()


def _answer(request: ModelRequest) -> Answer:
    return SPAWNS if request.depth == 0 and request.call == 1 else "done"


def workshop(
    create: Callable[..., Any], open_journal: Callable[..., Any], read: Callable[..., Any], answer: Callable[..., Any]
) -> Workshop:
    """A fake model and the one tool."""
    model, info = FunctionModel(answer), ModelInfo("test", "model", "test", Price(1_000_000, 10_000_000))
    return Workshop(
        model=lambda name: (model, info),
        tools={"spawn_agent": SpawnAgentTool()},
        env={},
        cwd="/",
        create_journal=create,
        open_journal=open_journal,
        read_tree=read,
        journal_path=lambda session: f"/{session}.jsonl",
        artifact_dir=lambda session: f"/artifacts/{session}",
        find_models=lambda words: (),
        system_prompt=lambda row: "",
    )


def planted(shop: Workshop, root_id: str, sink: Sink, flusher: Flushing, clock: Clock) -> Tree:
    state = TreeState(root_id, Limits(max_live_children=CHILDREN), RetryPolicy(), {root_id: Member(0, "test/model")})
    return Tree.of(shop, state, sink, flusher, clock)


class _Counting:
    """An outlet that takes every line, and keeps none."""

    has_room = True

    def offer(self, line: bytes) -> None:
        """Taken."""

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint()


async def in_memory(count: int) -> None:
    """Trees with journals in memory, events encoded and tagged."""
    for _ in range(count // CHILDREN):
        store, clock = MemoryStore(), Clock()
        sink = Sink(clock)
        sink.outlets.append(_Counting())
        shop = workshop(store.create, store.open, store.read, _answer)
        tree = planted(shop, _fresh_id(), sink, InlineFlusher(), clock)
        await tree.run(Prompt("prompt-1", "go"))
        assert tree.root.outcome == "completed"


def on_disk(folder: Path) -> Callable[[int], Awaitable[None]]:
    """The same with all that `sapwood --mode json` has: lock, journals, group flushes in threads, lines to a file."""

    async def run(count: int) -> None:
        home, clock = Home(folder, folder / "sessions", RealFs()), Clock()
        for _ in range(count // CHILDREN):
            owned = OwnedTree.acquire(home.fs, home, _fresh_id(), clock.now)
            sink, flusher = Sink(clock), Flusher()
            with open(folder / "stream.jsonl", "wb", buffering=0) as stream:
                writer = LineWriter(stream.fileno(), lambda error: None)
                sink.outlets.append(writer)
                shop = workshop(owned.create, owned.open, owned.read, _answer)
                tree = planted(shop, owned.root_id, sink, flusher, clock)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(flusher.run)
                    nursery.start_soon(writer.run)
                    await tree.run(Prompt("prompt-1", "go"))
                    writer.finish()
                    flusher.end()
            assert tree.root.outcome == "completed"
            owned.close()

    return run


def _fresh_id() -> str:
    return session_id(1_800_000_000_000, secrets.randbits(74))


def on_asyncio(run: Callable[[int], Awaitable[object]], units: int) -> Side:
    async def timed() -> float:
        started = process_time()
        await run(units)
        return (process_time() - started) / units

    return lambda: asyncio.run(timed())


def a4(rounds: int) -> list[Row]:
    """one child agent run, against a trio actor and against the peers' children"""
    count = CHILDREN * TREES
    others = {"openai-agents": peers.openai_agents(CHILDREN), "pydantic-ai": peers.pydantic_ai(CHILDREN)}
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "bare": on_trio(bare_actors, count * 8),
            "nursing": on_trio(nursing_actors, count * 8),
            "memory": on_trio(in_memory, count),
            "disk": on_trio(on_disk(Path(folder)), count),
        }
        sides |= {name: on_asyncio(run, CHILDREN) for name, run in others.items() if run is not None}
        best = in_turns(rounds, sides)
    rows = [
        at_most("A4 child run, journal in memory", 12, best["memory"], best["bare"], "trio child actor"),
        beside("A4 child run, journal in memory", best["memory"], best["nursing"], "trio actor with a nursery"),
        beside("A4 child run, journal on disk", best["disk"], best["bare"], "trio child actor"),
    ]
    for name, factor in (("openai-agents", 4), ("pydantic-ai", 5)):
        if name in best:
            rows.append(
                at_least("A4 child run, journal in memory", factor, best["memory"], best[name], f"{name} child")
            )
            rows.append(beside("A4 child run, journal on disk", best["disk"], best[name], f"{name} child"))
        else:
            rows.append(absent("A4 child run", f">= {factor}x {name} child", f"{name} not installed"))
    return rows
