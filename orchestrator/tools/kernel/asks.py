"""What cells ask of the tree while they run: rlm, agent_message, compact."""

from typing import Any

import attrs
import msgspec
import trio

from actors.protocol.tools import (
    Aborted,
    FamilyAnswer,
    FamilyRequest,
    HostAnswer,
    HostRequest,
    Refused,
    Spawn,
    ToolContext,
    Waited,
    WaitFor,
)
from orchestrator.tools.kernel.clock import Clock
from orchestrator.tools.kernel.link import Link

MAX_WAIT_S = 600.0


@attrs.define
class Ask:
    """One question. `ends_at`: when a wait is over, by trio's clock."""

    number: int
    request: FamilyRequest | HostRequest
    ends_at: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def is_wait(self) -> bool:
        return isinstance(self.request, WaitFor)


@attrs.define
class Asks:
    """Each gets one answer. A wait that outlives its cell, in a task which goes on, is asked again with the next cell.

    `delivered` names the notices of children whose ends the running cell has been told.
    """

    link: Link
    delivered: list[str] = attrs.field(factory=list, init=False)
    _open: dict[int, Ask] = attrs.field(factory=dict, init=False)
    _settled: trio.Event = attrs.field(factory=trio.Event, init=False)

    def begin(self, nursery: trio.Nursery, clock: Clock, context: ToolContext) -> None:
        """A new cell runs: go on with the waits of earlier ones."""
        self.delivered.clear()
        for ask in self._open.values():
            ask.scope = trio.CancelScope()
            nursery.start_soon(self._answer, ask, clock, context)

    def take(self, message: dict[str, Any], nursery: trio.Nursery, clock: Clock, context: ToolContext) -> None:
        try:
            request = msgspec.convert(message["request"], FamilyRequest | HostRequest)
        except msgspec.ValidationError as error:
            self._post(message["id"], Refused(f"that is no request: {error}"))
            return
        if isinstance(request, Spawn):
            request = msgspec.structs.replace(request, tool_call_id=context.call_id)
        ask = self._open[message["id"]] = Ask(message["id"], request, self._end_of(request))
        nursery.start_soon(self._answer, ask, clock, context)

    def _end_of(self, request: FamilyRequest | HostRequest) -> float:
        wait_s = min(max(0.0, request.timeout_s), MAX_WAIT_S) if isinstance(request, WaitFor) else 0.0
        return trio.current_time() + wait_s

    def cancel(self, number: int) -> None:
        """Nobody waits for that answer any more."""
        ask = self._open.pop(number, None)
        if ask is not None:
            ask.scope.cancel()

    async def settled(self) -> None:
        """Until all but waits have their answers: a child that was admitted must be known by its handle."""
        while any(not ask.is_wait for ask in self._open.values()):
            self._settled = trio.Event()
            await self._settled.wait()

    def refuse_all(self, reason: str) -> None:
        for number in list(self._open):
            self.cancel(number)
            self._post(number, Refused(reason))

    async def _answer(self, ask: Ask, clock: Clock, context: ToolContext) -> None:
        """The time of the cell stands still meanwhile. If its cell ends first, the question stays open."""
        with clock.held(), ask.scope:
            request = ask.request
            if isinstance(request, WaitFor):
                left_s = max(0.0, ask.ends_at - trio.current_time())
                request = msgspec.structs.replace(request, timeout_s=left_s)
            value = await context.family.ask(request)
            if self._open.pop(ask.number, None) is not None:
                self._note(value)
                self._post(ask.number, value)
        self._settled.set()

    def _note(self, value: FamilyAnswer | HostAnswer) -> None:
        reports = value.reports if isinstance(value, Waited) else (value.report,) if isinstance(value, Aborted) else ()
        self.delivered += [report.notice_id for report in reports if report.outcome]

    def _post(self, number: int, value: FamilyAnswer | HostAnswer) -> None:
        self.link.post({"type": "answer", "id": number, "value": value})
