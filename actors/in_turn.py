"""Spawns of one answer reach the tree in the order of their calls, though the tools run side by side."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from actors.protocol.tools import FamilyAnswer, FamilyRequest, HostAnswer, HostRequest, Spawn


@attrs.define
class InTurn:
    """The port `Family` for one call of a batch. `before`: the call in front of it has asked, or has ended without asking.

    Trio runs tasks in no order: without this a limit would refuse any call, not the last, and no two runs would list alike.
    """

    asked: Callable[[FamilyRequest | HostRequest, Callable[[], None]], Awaitable[FamilyAnswer | HostAnswer]]
    before: trio.Event | None = None
    after: trio.Event = attrs.field(factory=trio.Event)

    async def ask(self, request: FamilyRequest | HostRequest) -> FamilyAnswer | HostAnswer:
        if isinstance(request, Spawn) and self.before is not None:
            await self.before.wait()
        return await self.asked(request, self.after.set)

    def end(self) -> None:
        """The call has ended: whoever waits for its turn waits no longer."""
        self.after.set()


def in_turns(
    asked: Callable[[FamilyRequest | HostRequest, Callable[[], None]], Awaitable[FamilyAnswer | HostAnswer]],
    are_spawns: list[bool],
) -> list[InTurn]:
    """One port per call, in call order; only calls that spawn wait for those in front of them that do."""
    ports: list[InTurn] = []
    last: trio.Event | None = None
    for is_spawn in are_spawns:
        port = InTurn(asked, last if is_spawn else None)
        ports.append(port)
        last = port.after if is_spawn else last
    return ports
