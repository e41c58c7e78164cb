"""One tool call of a batch: durable first, a slot, the tool, one signal at the end."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import trio

from actors.protocol.mail import ToolEnded
from actors.protocol.tools import TOOL_ABORTED, Family, Tool, ToolContext, ToolResult, shown, text_result
from store.errors import StoreError
from store.events import Diagnostic
from store.messages import ToolCall, ToolResultMessage
from store.times import unix_ms
from store.wire import encode

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.open_tools import OpenTool
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor


@attrs.frozen
class ToolRun:
    """Runs one call. `scope` cancels it; the signal is sent all the same."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    family: Family
    work: int
    call: ToolCall
    bracket: "OpenTool"
    scope: trio.CancelScope

    async def run(self) -> ToolEnded:
        result = text_result(TOOL_ABORTED, is_error=True)
        with self.scope:
            result = await self._result()
        try:
            message = self._message(result)
        except Exception as error:
            result = self._broken(error)
            message = self._message(result)
        self.outbox.tools.end(self.bracket, shown(result), is_error=result.is_error)
        return ToolEnded(self.work, self.call.id, message, result.delivers)

    async def _result(self) -> ToolResult:
        tool = self._tool()
        if tool is None:
            names = ", ".join(self._names())
            return text_result(f"There is no tool named {self.call.name!r}. Tools: {names}", is_error=True)
        if self.call.arguments_error:
            return text_result(
                f"Invalid arguments for {self.call.name}: {self.call.arguments_error}. The tool was not run.",
                is_error=True,
            )
        try:
            # A tool with side effects starts only after its call is durable.
            await self.outbox.durable()
            async with AsyncExitStack() as stack:
                if self.row.place.depth and not tool.is_waiting:
                    await stack.enter_async_context(self.supervisor.slots.hold(self.row.id))
                return await tool.run(self.call.checked_arguments, self._context())
        except StoreError as error:
            return text_result(f"Not run: its call could not be made durable: {error}", is_error=True)
        except Exception as error:
            return self._broken(error)

    def _broken(self, error: Exception) -> ToolResult:
        """A bug in one tool is an error for the model and a word to people, never the end of the session."""
        text = f"{self.call.name} broke: {type(error).__name__}: {error}"
        self.outbox.publish(Diagnostic(level="error", code="tool", text=text))
        return text_result(text, is_error=True)

    def _names(self) -> tuple[str, ...]:
        return self.row.tools if self.row.tools is not None else tuple(self.supervisor.workshop.tools)

    def _tool(self) -> Tool | None:
        return self.supervisor.workshop.tools.get(self.call.name) if self.call.name in self._names() else None

    def _context(self) -> ToolContext:
        workshop = self.supervisor.workshop
        return ToolContext(
            call_id=self.call.id,
            cwd=workshop.cwd,
            artifact_dir=workshop.artifact_dir(self.row.id),
            env=workshop.env,
            family=self.family,
            update=lambda partial: self.outbox.tools.update(self.bracket, shown(partial)),
            wait_for_room=self.supervisor.sink.wait_for_room,
        )

    def _message(self, result: ToolResult) -> msgspec.Raw:
        details: dict[str, Any] = dict(result.details or {})
        if result.delivers:
            details["delivers"] = list(result.delivers)
        message = ToolResultMessage(
            tool_call_id=self.call.id,
            tool_name=self.call.name,
            content=result.content,
            details=details or msgspec.UNSET,
            is_error=result.is_error,
            timestamp=unix_ms(self.supervisor.clock.now()),
        )
        return msgspec.Raw(encode(message))
