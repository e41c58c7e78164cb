"""An outlet of the stream that says it in another dialect."""

import attrs

from actors.sink import Outlet
from orchestrator.dialects.projection import Projection, project


def told_as(projection: Projection, outlet: Outlet) -> Outlet:
    """`outlet`, hearing the stream as `projection` has it; itself where that changes nothing."""
    return outlet if projection.changes_nothing else _Telling(projection, outlet)


@attrs.define(eq=False)
class _Telling:
    projection: Projection
    outlet: Outlet

    def offer(self, line: bytes) -> None:
        self.projection, told = project(self.projection, line)
        if told:
            self.outlet.offer(told)

    @property
    def has_room(self) -> bool:
        return self.outlet.has_room

    async def wait_for_room(self) -> None:
        await self.outlet.wait_for_room()
