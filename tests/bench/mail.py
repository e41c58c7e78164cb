"""A1 to A3: the mailbox against a bare trio channel."""

import asyncio
from collections.abc import Awaitable, Callable
from time import process_time
from typing import Any

import trio

from actors.mailbox import Mailbox
from actors.protocol.mail import Asked, Prompt
from actors.protocol.tools import ListFamily
from tests.bench.harness import Row, Side, absent, at_least, at_most, importable, in_turns, on_trio

MESSAGES = 6_400
BUFFER = 64


async def channel(count: int) -> None:
    """What a reader of trio's manual writes: one task sends, the other receives."""
    send, receive = trio.open_memory_channel[Prompt](BUFFER)
    message = Prompt("1", "hello")

    async def producer() -> None:
        async with send:
            for _ in range(count):
                await send.send(message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer)
        async for _ in receive:
            pass


def mailbox(burst: int) -> Callable[[int], Awaitable[None]]:
    """The same messages, so many of them between two checkpoints of the sender."""

    async def run(count: int) -> None:
        box = Mailbox()
        message = Prompt("1", "hello")

        async def producer() -> None:
            for _ in range(count // burst):
                for _ in range(burst):
                    box.put(message)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer)
            heard = 0
            while heard < count:
                heard += len((await box.drain()).letters)

    return run


async def channel_and_event(count: int) -> None:
    """A question with an event for its answer."""
    send, receive = trio.open_memory_channel[tuple[ListFamily, trio.Event]](BUFFER)

    async def server() -> None:
        async for _, answered in receive:
            answered.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server)
        async with send:
            for _ in range(count):
                answered = trio.Event()
                await send.send((ListFamily(), answered))
                await answered.wait()


async def mailbox_and_slot(count: int) -> None:
    """How a tool asks its own session: mail with an id, and a slot under that id."""
    box = Mailbox()
    slots: dict[int, trio.Event] = {}

    async def server() -> None:
        while True:
            for letter in (await box.drain()).letters:
                assert isinstance(letter.mail, Asked)
                slots[letter.mail.ask_id].set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server)
        for number in range(count):
            slot = slots[number] = trio.Event()
            box.put(Asked(number, ListFamily()))
            await slot.wait()
            del slots[number]
        nursery.cancel_scope.cancel()


def autogen(count: int) -> Side | None:
    """autogen-core's `send_message` between two of its agents."""
    found = importable("autogen_core")
    if found is None:
        return None
    core: Any = found[0]

    class Server(core.BaseAgent):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("answers")

        async def on_message_impl(self, message: str, ctx: object) -> str:
            return message

    async def run() -> float:
        runtime = core.SingleThreadedAgentRuntime()
        await Server.register(runtime, "server", Server)
        runtime.start()
        address = core.AgentId("server", "default")
        started = process_time()
        for _ in range(count):
            await runtime.send_message("hello", address)
        took = (process_time() - started) / count
        await runtime.stop()
        return took

    return lambda: asyncio.run(run())


def a1(rounds: int) -> list[Row]:
    """mailbox, one message at a time"""
    best = in_turns(rounds, {"ours": on_trio(mailbox(1), MESSAGES), "channel": on_trio(channel, MESSAGES)})
    return [at_least("A1 mailbox, one at a time", 0.8, best["ours"], best["channel"], "trio channel")]


def a2(rounds: int) -> list[Row]:
    """mailbox in bursts of 8 and 64"""
    sides = {"8": on_trio(mailbox(8), MESSAGES), "64": on_trio(mailbox(64), MESSAGES), "": on_trio(channel, MESSAGES)}
    best = in_turns(rounds, sides)
    return [
        at_least("A2 mailbox, bursts of 8", 4, best["8"], best[""], "trio channel"),
        at_least("A2 mailbox, bursts of 64", 10, best["64"], best[""], "trio channel"),
    ]


def a3(rounds: int) -> list[Row]:
    """request and reply between actors"""
    sides = {"ours": on_trio(mailbox_and_slot, 3_000), "channel": on_trio(channel_and_event, 3_000)}
    peer = autogen(300)
    if peer is not None:
        sides["autogen"] = peer
    best = in_turns(rounds, sides)
    rows = [at_most("A3 request and reply", 1.25, best["ours"], best["channel"], "trio channel + Event")]
    if peer is None:
        return [*rows, absent("A3 request and reply", ">= 8x autogen-core send_message", "autogen-core not installed")]
    return [*rows, at_least("A3 request and reply", 8, best["ours"], best["autogen"], "autogen-core send_message")]
