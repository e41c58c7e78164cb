"""`sapwood events --follow`: what live hosts tell, on stdout as it comes."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from orchestrator.cli.common import session_named
from orchestrator.cli.live import named_live
from orchestrator.cli.stdout import drop_stdout, leave
from orchestrator.dialects.projection import Projection
from orchestrator.engine.client import CommandFailed, HostGone, HostInfo, hosts
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.following import Following, each_host
from orchestrator.engine.stdout import LineWriter
from store.disk.home import Home
from store.ids import short


def follow(home: Home, chosen: Sequence[str], projection: Projection, since: int | None) -> None:
    """Until the hosts of the `chosen` sessions have ended; without any, until somebody interrupts. Raises EngineError."""
    following = _Follow(home, chosen, projection, since)
    trio.run(following.run)
    if following.signal is not None:
        sys.exit(128 + following.signal)
    if isinstance(following.gone, BrokenPipeError):
        leave()
    if following.gone is not None:
        drop_stdout()
        raise EngineError(f"stdout could not be written: {following.gone.strerror}")
    if following.trouble is not None:
        raise EngineError(following.trouble)


@attrs.define(eq=False)
class _Follow:
    """`signal`: that ended it; `gone`: why nothing can be written any more; `trouble`: what a host would not do."""

    home: Home
    chosen: Sequence[str]
    projection: Projection
    since: int | None
    signal: int | None = None
    gone: OSError | None = None
    trouble: str | None = None
    _everything: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self) -> None:
        there = await hosts(self.home) if self.chosen else []
        running = [await self._found(there, name) for name in self.chosen]
        writer = LineWriter(1, self._reader_gone)

        async def say(line: bytes) -> None:
            writer.offer(line)
            await writer.wait_for_room()

        following = Following(say, self.projection, self.since)
        with self._everything:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writer.run)
                nursery.start_soon(self._hear_signals)
                if running:
                    await self._each(following, running)
                else:
                    await each_host(self.home, following.host)
                writer.finish()
                await writer.written()
                self._everything.cancel()

    async def _hear_signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for number in received:
                self.signal = number
                self._everything.cancel()

    async def _found(self, there: list[HostInfo], name: str) -> tuple[Path, str]:
        """The socket of the host that has the session at work, and its id. Raises WrongUsage, NotOurs."""
        found = await named_live(there, name)
        if found is None:
            stored = short(session_named(self.home, name).id)
            raise WrongUsage(f"no host runs session {stored} now; `sapwood events {stored}` replays what it left")
        return found[0].path, found[1]

    async def _each(self, following: Following, running: Sequence[tuple[Path, str]]) -> None:
        async with trio.open_nursery() as nursery:
            for path, session_id in running:
                nursery.start_soon(self._one, following, path, session_id)

    async def _one(self, following: Following, path: Path, session_id: str) -> None:
        try:
            await following.session(path, session_id)
        except HostGone:
            pass  # between being found and being asked
        except CommandFailed as error:
            self.trouble = f"session {short(session_id)}: {error}"

    def _reader_gone(self, error: OSError) -> None:
        self.gone = error
        self._everything.cancel()
