"""The tools that talk to one agent of the family: a message, an abort."""

from typing import Any

import attrs

from actors.protocol.model import ToolSpec
from actors.protocol.tools import (
    AbortChild,
    Aborted,
    Receipt,
    Receipts,
    Refused,
    Send,
    ToolContext,
    ToolResult,
    text_result,
)
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.reports import reports_text

_MESSAGE = ToolSpec(
    "message_agent",
    "Send a message to your parent, a child or a sibling. It is told before its next model call (`steer`, `auto`) or when it"
    " would end (`follow_up`); one that has ended goes on with it. Returns a receipt, not an answer.",
    object_schema(
        ("to", "message"),
        to={"type": "string", "minLength": 1, "description": "parent, the name of a child or sibling, or all"},
        message={"type": "string", "minLength": 1},
        mode={"type": "string", "enum": ["auto", "steer", "follow_up"], "description": "Default auto"},
    ),
)
_ABORT = ToolSpec(
    "abort_agent",
    "End the run of a child, and of all below it, now. What it wrote and spent is kept; it can be continued by a message.",
    object_schema(("name",), name={"type": "string", "minLength": 1, "description": "The child"}),
)


@attrs.frozen
class MessageAgentTool:
    spec: ToolSpec = _MESSAGE
    is_waiting: bool = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        match await context.family.ask(Send(given["to"], given["message"], given.get("mode", "auto"))):
            case Refused(reason=reason):
                return text_result(f"message_agent was refused: {reason}", is_error=True)
            case Receipt() as receipt:
                return text_result(_line(receipt))
            case Receipts(receipts=receipts):
                return text_result("\n".join(map(_line, receipts)) or "There was nobody to send to.")
            case other:
                raise TypeError(f"expected a receipt or Refused for a Send, got {other!r}")


def _line(receipt: Receipt) -> str:
    return f"{receipt.to}: {receipt.delivery} ({receipt.message_id})"


@attrs.frozen
class AbortAgentTool:
    spec: ToolSpec = _ABORT
    is_waiting: bool = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        match await context.family.ask(AbortChild(given["name"])):
            case Refused(reason=reason):
                return text_result(f"abort_agent was refused: {reason}", is_error=True)
            case Aborted(report=report):
                text = reports_text((report,), context.call_id, context.artifact_dir)
                delivers = (report.notice_id,) if report.outcome else ()
                result = text_result(text, details={"outcome": report.outcome})
                return ToolResult(result.content, False, result.details, delivers)
            case other:
                raise TypeError(f"expected Aborted or Refused for an AbortChild, got {other!r}")
