"""A host with a real socket and a tree whose model does what a test says. All waits are bounded."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from actors.protocol.model import ModelInfo, ModelRequest
from actors.testing import FunctionModel
from orchestrator.engine.client import Client
from orchestrator.engine.config import Config
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.control.places import places
from orchestrator.engine.host import Host
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.planted import Planted
from store.disk.fs import RealFs
from store.disk.home import Home

PATIENCE_S = 30.0
MODEL = "test/model"


def home_at(root: Path) -> Home:
    return Home(root, root / "sessions", RealFs())


@attrs.define(eq=False)
class Live:
    """`answer`: what the model says; a test may change it at any time."""

    host: Host
    cwd: Path
    answer: Callable[[ModelRequest], Any] = lambda request: "done"

    @property
    def path(self) -> Path:
        (place,) = places(self.host.home)
        return place.socket

    @property
    def planted(self) -> Planted:
        return next(iter(self.host.trees.values()))

    @property
    def root_id(self) -> str:
        return self.planted.root_id

    def plant(self, **members: Any) -> Planted:
        models = Models(Config(), {}, self.cwd)
        models._made[MODEL] = FunctionModel(lambda request: self.answer(request)), ModelInfo("test", "model", "test")
        return self.host.plant(Job("", MODEL, self.cwd, {"PATH": "/usr/bin:/bin"}, **members), models)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        async with await Client.connect(self.path) as client:
            yield client

    async def prompt(self, client: Client, text: str, **members: Any) -> dict[str, Any]:
        return await client.call({"type": "prompt", "sessionId": self.root_id, "message": text, **members})


@asynccontextmanager
async def live_host(root: Path, environ: dict[str, str] | None = None) -> AsyncIterator[Live]:
    """A host with one tree that takes work."""
    root.mkdir(parents=True, exist_ok=True)
    host = Host(home_at(root / "home"))
    live = Live(host, root)
    endpoint = Endpoint(Desk(host), environ or {})
    with trio.fail_after(PATIENCE_S):
        async with host.working(), endpoint.open():
            planted = live.plant()
            try:
                async with planted.alive():
                    yield live
                    host.leave("the test is over")
                    await planted.tree.quiet()
            finally:
                await host.uproot(planted)


async def lines_until(client: Client, kind: str, times: int = 1) -> list[dict[str, Any]]:
    """The next lines, decoded, to the one with which this type has come so many times."""
    found: list[dict[str, Any]] = []
    async for line in client.lines():
        found.append(msgspec.json.decode(line))
        times -= found[-1]["type"] == kind
        if not times:
            return found
    raise AssertionError(f"the connection ended without {kind}: {[one['type'] for one in found]}")
