"""A command that needs a session which no host runs becomes its host, for as long as there is work."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from actors.flusher import Flusher
from orchestrator.engine.config import load_config
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.errors import EngineError
from orchestrator.engine.host import Host
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.signals import Signals
from store.disk.home import Home


class Interrupted(EngineError):
    """A signal ended it; trees are stopped and written down."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.status = 128 + number


@asynccontextmanager
async def own_host(home: Home, environ: Mapping[str, str]) -> AsyncIterator[Path]:
    """The socket of a host in this process. Behind it all trees have come to rest, whatever they were given meanwhile.

    Raises EngineError; Interrupted where a signal came.
    """
    host = Host(home, flusher=Flusher(level=load_config(home.config_path, home.root).durability))
    signals = Signals(host.leave)
    async with host.working(), trio.open_nursery() as outer:
        endpoint = Endpoint(Desk(host, keeper=Keeper(host, Jobs(home, environ), outer)), environ)
        async with endpoint.open():
            if endpoint.socket is None:
                raise EngineError(f"this process cannot be the host: {endpoint.trouble}")
            await outer.start(signals.hear, outer.cancel_scope)
            with trio.CancelScope() as use:
                outer.start_soon(_end, host, use)
                yield endpoint.socket
            for planted in list(host.trees.values()):
                await planted.tree.quiet()
            host.leave("its work is done")
            await host.rested()
        outer.cancel_scope.cancel()
    if signals.number is not None:
        raise Interrupted(signals.number, signals.reason or "stopped")
    if use.cancelled_caught:
        raise EngineError("this host was told to end by another process")


async def _end(host: Host, use: trio.CancelScope) -> None:
    """Whoever uses the host stops when it is told to end and its trees are at rest."""
    await host.leaving.wait()
    await host.rested()
    use.cancel()
