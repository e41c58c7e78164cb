"""`--mode rpc`: the control protocol on stdin and stdout of a run. The end of its input ends it."""

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from actors.flusher import Flusher
from actors.protocol.mail import Prompt
from orchestrator.engine.control.audience import Subscription
from orchestrator.engine.control.connection import Connection
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.control.outgoing import ANSWERS_BYTES
from orchestrator.engine.host import Host, hosting
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.models import Models
from orchestrator.engine.planted import Planted
from orchestrator.engine.run_end import RunEnd
from orchestrator.engine.signals import Signals
from orchestrator.engine.stdin import read_input
from orchestrator.engine.stdout import LineWriter
from store.disk.home import Home
from store.lines import line_tags
from store.times import unix_ms


class Speech(Protocol):
    """In whose words a client talks."""

    def command(self, line: bytes) -> bytes:
        """A line of the client, without its newline, as a command of ours. What is none of its words stays as it is."""

    def told(self, line: bytes) -> bytes:
        """An answer or a line of the stream in the client's words, with newlines; empty: the client is not told of it."""


class Native:
    """Our own words."""

    def command(self, line: bytes) -> bytes:
        return line

    def told(self, line: bytes) -> bytes:
        return line


@attrs.define(eq=False)
class Stdout:
    """The client's end of the connection. It is the run's own stdout, so that models and tools wait for it."""

    writer: LineWriter
    told: Callable[[bytes], bytes]

    def say(self, line: bytes) -> None:
        if told := self.told(line):
            self.writer.offer(told)

    def offer(self, line: bytes, root_id: str) -> None:
        # No header first: a client knows whom it talks to. Those of children tell where they are in the tree.
        if line_tags(line)[:2] != ("session", root_id):
            self.say(line)

    def note(self, line: bytes, root_id: str) -> None:
        """It is told of the trees that it asks for, and knows when."""

    def forget_lines(self) -> None:
        """They are on their way."""

    @property
    def has_room(self) -> bool:
        return self.writer.has_room

    async def wait_for_room(self) -> None:
        await self.writer.wait_for_room()

    async def wait_for_answers(self) -> None:
        # An abort is heard also where the stream waits for its reader.
        if not self.writer.has_less_than(ANSWERS_BYTES):
            await self.writer.wait_for_room()


@attrs.define(eq=False)
class Rpc:
    """A host whose first tree is the job's; commands without a session are for its root."""

    job: Job
    host: Host
    models: Models
    speech: Speech = attrs.field(factory=Native)
    _signals: Signals = attrs.field(init=False)
    _end: RunEnd = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._signals = Signals(self.host.leave)
        self._end = RunEnd(self._signals)

    async def run(self) -> Ended:
        """Raises as `Host.plant`, and then nothing has started."""
        planted = self.host.plant(self.job, self.models)
        root = planted.tree.root
        planted.sink.watchers.append(self._end.take)
        # Without a run there is nothing that could have gone wrong.
        root.outcome = "completed"
        await self._serve(planted)
        return self._end.of(planted)

    async def _serve(self, planted: Planted) -> None:
        writer = LineWriter(1, self._end.reader_gone)
        target = Stdout(writer, self.speech.told)
        async with self.host.working(), trio.open_nursery() as outer:
            keeper = Keeper(self.host, Jobs(self.host.home, self.job.environ), outer)
            desk = Desk(self.host, planted.root_id, keeper)
            endpoint = Endpoint(desk, self.job.environ)
            async with endpoint.open():
                endpoint.tell_trouble(planted)
                await outer.start(self._signals.hear, outer.cancel_scope)
                outer.start_soon(writer.run)
                self.host.audience.subscriptions.append(Subscription(target))
                if self.job.prompt:
                    now = unix_ms(self.host.clock.now())
                    planted.deliver(planted.tree.root, Prompt(f"prompt:{now}", self.job.prompt))
                keeper.keep(planted)
                await self._hear(Connection(target, desk.take, self.speech.command))
            self._signals.is_over = True
            writer.finish()
            await writer.written()
            outer.cancel_scope.cancel()

    async def _hear(self, connection: Connection) -> None:
        """Until the host has been told to end, by the end of its input at the latest, and all trees are at rest."""

        async def receive() -> bytes:
            data = await read_input(0)
            if not data:
                self.host.leave("the input has ended")
            return data

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve, receive)
            await self.host.leaving.wait()
            await self.host.rested()
            nursery.cancel_scope.cancel()


def run_rpc(job: Job, home: Home, models: Models, speech: Speech | None = None) -> Ended:
    """Serve one client in this process, to its end. Raises EngineError."""
    host = Host(home, flusher=Flusher(level=job.durability))
    return hosting(home, Rpc(job, host, models, speech or Native()).run)
