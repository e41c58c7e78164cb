"""Whoever hears a host in another dialect: an outlet of the stream, a client with commands of its own."""

import attrs

from actors.sink import Outlet
from orchestrator.dialects.pi_rpc import PiClient, commanded, told
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


@attrs.define(eq=False)
class PiSpeech:
    """A client of pi, for `--mode rpc`."""

    _client: PiClient = attrs.field(factory=PiClient)

    def command(self, line: bytes) -> bytes:
        return commanded(self._client, line)

    def told(self, line: bytes) -> bytes:
        self._client, out = told(self._client, line)
        return out
