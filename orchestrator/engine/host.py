"""A host: one process that runs trees. What its trees share, and who they are."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from actors.clock import Clock
from actors.flusher import Flusher
from actors.sink import Outlet, Sink
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.opening import open_ground
from orchestrator.engine.planted import Planted, check_models
from store.disk.home import Home


@attrs.define(eq=False)
class Host:
    """The trees by the ids of their roots; one clock and one flusher for all."""

    home: Home
    clock: Clock = attrs.field(factory=Clock)
    flusher: Flusher = attrs.field(factory=Flusher)
    trees: dict[str, Planted] = attrs.field(factory=dict)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The tasks of the process. The flusher stands outside all trees and outlives them."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.flusher.run)
            try:
                yield
            finally:
                self.flusher.end()

    def plant(self, job: Job, models: Models, outlets: Sequence[Outlet] = ()) -> Planted:
        """Own the tree of a job, a new one or a stored one, and have it in memory. `outlets` see its stream from the first line.

        Raises WrongUsage, NotOurs before anything has started; StoreError and OSError where the store cannot be used.
        """
        if job.model is not None or (job.session is None and job.fork is None):
            # Before a lock file is made for a tree that then never is.
            check_models(job, models, None)
        ground = open_ground(job, self.home, self.clock.now)
        try:
            planted = Planted.on(ground, job, self.home, models, Sink(self.clock, [*outlets]), self.flusher, self.clock)
        except BaseException:
            ground.close()
            raise
        self.trees[planted.root_id] = planted
        return planted

    async def uproot(self, planted: Planted) -> None:
        """Let go of a tree that has come to rest."""
        self.trees.pop(planted.root_id, None)
        await planted.aclose()
