"""One gate: a call of the tool `bash` that the host makes, not the model; one signal at the end."""

from typing import TYPE_CHECKING

import attrs
import trio

from actors.protocol.mail import GateEnded
from actors.protocol.tools import ToolContext, ToolResult, text_result
from store.errors import StoreError

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.protocol.tools import Family
    from actors.supervisor import Supervisor

SHELL = "bash"


@attrs.frozen
class GateRun:
    """Runs one command. A cancelled one ends with its process group, and its signal is sent all the same."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    family: "Family"
    work: int
    command: str
    timeout_s: float

    async def run(self, scope: trio.CancelScope) -> GateEnded:
        clock = self.supervisor.clock
        started_s = clock.steady_s()
        result = text_result("The gate was cancelled.", is_error=True)
        with scope:
            result = await self._result()
        return GateEnded(self.work, result, max(0, round((clock.steady_s() - started_s) * 1000)))

    async def _result(self) -> ToolResult:
        shell = self.supervisor.workshop.tools.get(SHELL)
        if shell is None:
            return text_result(f"Not run: there is no tool named {SHELL} to run it with.", is_error=True)
        try:
            # What the gate looks at was done before it: the journal says so before there are consequences.
            await self.outbox.durable()
            return await shell.run({"command": self.command, "timeout_s": self.timeout_s}, self._context())
        except StoreError as error:
            return text_result(f"Not run: what came before it could not be made durable: {error}", is_error=True)
        except Exception as error:
            return text_result(f"The gate broke: {type(error).__name__}: {error}", is_error=True)

    def _context(self) -> ToolContext:
        workshop = self.supervisor.workshop
        return ToolContext(
            call_id=f"gate-{self.work}",
            cwd=workshop.cwd,
            artifact_dir=workshop.artifact_dir(self.row.id),
            env=workshop.env,
            family=self.family,
            update=lambda partial: None,
            wait_for_room=self.supervisor.sink.wait_for_room,
        )
