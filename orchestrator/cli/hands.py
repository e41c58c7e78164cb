"""What a person does from a view: a command to the host that runs the session, or a change of what is stored."""

from typing import Any

import attrs
import trio

from orchestrator.cli.sessions_edit import opened
from orchestrator.engine.client import Client, CommandFailed, HostGone
from orchestrator.engine.errors import EngineError
from orchestrator.engine.resident import resident_of
from orchestrator.engine.watch import NobodyRunsIt, Watch
from orchestrator.web.ports import Order, Refused
from store.disk.home import Home
from store.ids import short

_SAID = frozenset({"message", "answer", "steer"})
_KEPT = frozenset({"rename", "archive", "unarchive"})


@attrs.frozen
class WatchedHands:
    """Gives the command to the host that runs the session; names and archives are kept in the store where none does."""

    home: Home
    watch: Watch

    async def do(self, order: Order) -> None:
        try:
            await self._by_a_host(order)
        except NobodyRunsIt:
            await self._in_store(order)
        except (CommandFailed, HostGone) as error:
            raise Refused(str(error)) from error
        self.watch.read_again()

    async def _by_a_host(self, order: Order) -> None:
        """By the one that has the session; what is said to a stored one, by the resident host if there is one."""
        command = command_of(order)
        try:
            await self.watch.call(order.session_id, command)
        except NobodyRunsIt:
            resident = await resident_of(self.home) if order.verb in _SAID else None
            if resident is None:
                raise
            async with await Client.connect(resident.path) as client:
                await client.call({**command, "sessionId": order.session_id})

    async def _in_store(self, order: Order) -> None:
        if order.verb not in _KEPT:
            name = short(order.session_id)
            raise Refused(f"no host runs it: sapwood run -r {name} goes on with it, and so does sapwood serve")
        try:
            await trio.to_thread.run_sync(self._append, order)
        except EngineError as error:
            raise Refused(str(error)) from error

    def _append(self, order: Order) -> None:
        with opened(self.home, order.session_id) as manager:
            if order.verb == "rename":
                manager.append_session_info(order.text)
            else:
                manager.append_session_state({"status": "archived" if order.verb == "archive" else "active"})


def command_of(order: Order) -> dict[str, Any]:
    """The command of the control protocol."""
    match order.verb:
        case "message" | "answer":
            return {"type": "prompt", "message": order.text, "streamingBehavior": "followUp"}
        case "steer":
            return {"type": "prompt", "message": order.text, "streamingBehavior": "steer"}
        case "rename":
            return {"type": "set_session_name", "name": order.text}
        case "archive" | "unarchive":
            return {"type": "archive", "undo": order.verb == "unarchive"}
    return {"type": order.verb}
