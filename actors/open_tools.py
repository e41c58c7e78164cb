"""The tools of a session that have started and not ended, as the stream has them: one end per start, always."""

from collections.abc import Callable
from typing import Any

import attrs

from actors.clock import Clock
from store.events import Event, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate


@attrs.define
class OpenTool:
    """A tool that has started and not ended. Its call's id may come again in a later answer."""

    call_id: str
    name: str
    args: Any
    started_s: float


@attrs.define(eq=False)
class OpenTools:
    """By the id of their call."""

    publish: Callable[[Event], None]
    clock: Clock
    _open: dict[str, OpenTool] = attrs.field(factory=dict)

    def start(self, call_id: str, name: str, args: Any) -> OpenTool:
        tool = self._open[call_id] = OpenTool(call_id, name, args, self.clock.steady_s())
        self.publish(ToolExecutionStart(tool_call_id=call_id, tool_name=name, args=args))
        return tool

    def update(self, tool: OpenTool, partial_result: Any) -> None:
        """Nothing, if it has ended already."""
        if self._open.get(tool.call_id) is tool:
            self.publish(
                ToolExecutionUpdate(
                    tool_call_id=tool.call_id, tool_name=tool.name, args=tool.args, partial_result=partial_result
                )
            )

    def end(self, tool: OpenTool, result: Any, *, is_error: bool) -> None:
        """Nothing, if it has ended already."""
        if self._open.get(tool.call_id) is tool:
            del self._open[tool.call_id]
            took_ms = max(0, round((self.clock.steady_s() - tool.started_s) * 1000))
            self.publish(
                ToolExecutionEnd(
                    tool_call_id=tool.call_id,
                    tool_name=tool.name,
                    result=result,
                    is_error=is_error,
                    duration_ms=took_ms,
                )
            )

    def close(self, text: str) -> None:
        """End every tool that did not end of itself."""
        for tool in list(self._open.values()):
            self.end(tool, {"content": [{"type": "text", "text": text}]}, is_error=True)
