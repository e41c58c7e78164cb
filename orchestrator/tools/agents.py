"""The tools that talk to the tree: spawn a child, wait for children, see who is there."""

import json
from typing import Any

import attrs
import msgspec

from actors.protocol.budgets import CHILD_LIMITS
from actors.protocol.model import ToolSpec
from actors.protocol.tools import (
    ChildReport,
    Handle,
    ListFamily,
    Members,
    Refused,
    Relative,
    Spawn,
    ToolContext,
    ToolResult,
    Waited,
    WaitFor,
    text_result,
)
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.reports import reports_text
from store.messages import TextContent

MAX_WAIT_S = 600.0

_AMOUNT = {"type": "number", "minimum": 0}
_SPAWN = ToolSpec(
    "spawn_agent",
    "Start a child agent with its own context. Returns its handle at once, and you are told when it has settled; with"
    " `wait` it returns the child's outcome and final text. The child sees nothing but the prompt: say all there.",
    object_schema(
        ("prompt",),
        prompt={"type": "string", "minLength": 1, "description": "The child's task"},
        name={"type": "string", "minLength": 1, "description": "A name that no other agent of the family has"},
        model={"type": "string", "minLength": 1, "description": "provider/id (default: yours)"},
        thinking={"type": "string", "minLength": 1, "description": "Level of thinking (default: yours)"},
        tools={"type": "array", "items": {"type": "string"}, "description": "Names of its tools (default: yours)"},
        max_cost=_AMOUNT | {"description": "Dollars that it and its children may spend"},
        max_tokens=_AMOUNT | {"description": "Tokens that it and its children may use"},
        max_turns={"type": "integer", "minimum": 1, "description": "Model calls that it and its children may make"},
        timeout_s={"type": "number", "exclusiveMinimum": 0, "description": "Seconds that a run of it may take"},
        wait={"type": "boolean", "description": f"Wait for it, up to {MAX_WAIT_S:.0f} s (default false)"},
    ),
)
_WAIT = ToolSpec(
    "wait_agents",
    "Wait until children have settled. Returns how each stands, with its whole text or its progress. Ends early when a"
    " message for you arrives. The end of a wait stops no child.",
    object_schema(
        (),
        names={"type": "array", "items": {"type": "string"}, "description": "Children to wait for (default: all)"},
        mode={
            "type": "string",
            "enum": ["all", "any"],
            "description": "Wait for all of them (default) or for the first",
        },
        timeout_s=_AMOUNT | {"description": f"Seconds to wait at most (default and limit {MAX_WAIT_S:.0f})"},
    ),
)
_LIST = ToolSpec(
    "list_agents", "List your family: parent, siblings, children, with status and usage.", object_schema(())
)


@attrs.frozen
class SpawnAgentTool:
    spec: ToolSpec = _SPAWN
    is_waiting: bool = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        request = Spawn(
            prompt=given["prompt"],
            name=given.get("name"),
            model=given.get("model"),
            thinking=given.get("thinking"),
            tools=tuple(given["tools"]) if "tools" in given else None,
            limits={key: float(given[key]) for key in CHILD_LIMITS if key in given},
            tool_call_id=context.call_id,
        )
        match await context.family.ask(request):
            case Refused(reason=reason):
                return text_result(f"spawn_agent was refused: {reason}", is_error=True)
            case Handle() as handle if given.get("wait"):
                return await _wait_for_spawned(handle, context)
            case Handle() as handle:
                return text_result(_handle_line(handle), details=_handle_members(handle))
            case other:
                raise TypeError(f"expected a Handle or Refused for a Spawn, got {other!r}")


async def _wait_for_spawned(handle: Handle, context: ToolContext) -> ToolResult:
    """An error unless the child completed; its own outcome is named in any case."""
    line, members = _handle_line(handle), _handle_members(handle)
    match await context.family.ask(WaitFor((handle.name,), "all", MAX_WAIT_S)):
        case Refused(reason=reason):
            text = f"{line}\nThe child was started, but waiting for it was refused: {reason}"
            return text_result(text, is_error=True, details=members)
        case Waited() as waited:
            pass
        case other:
            raise TypeError(f"expected Waited or Refused for a WaitFor, got {other!r}")
    reports = tuple(report for report in waited.reports if report.session_id == handle.session_id)
    blocks = reports_text(reports, context.call_id, context.artifact_dir) or f"No report of {handle.name}."
    notes = [] if waited.ended == "settled" else [_early_end(waited.ended, MAX_WAIT_S)]
    is_completed = any(report.outcome == "completed" for report in reports)
    outcome = reports[0].outcome if reports else ""
    text = "\n\n".join([line, blocks, *notes])
    return _result(text, reports, is_error=not is_completed, details=members | {"outcome": outcome})


@attrs.frozen
class WaitAgentsTool:
    spec: ToolSpec = _WAIT
    is_waiting: bool = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        names = tuple(dict.fromkeys(given.get("names", ())))
        asked_s = float(given.get("timeout_s", MAX_WAIT_S))
        timeout_s = min(asked_s, MAX_WAIT_S)
        match await context.family.ask(WaitFor(names, given.get("mode", "all"), timeout_s)):
            case Refused(reason=reason):
                return text_result(f"wait_agents was refused: {reason}", is_error=True)
            case Waited() as waited:
                pass
            case other:
                raise TypeError(f"expected Waited or Refused for a WaitFor, got {other!r}")
        known = {key for report in waited.reports for key in (report.name, report.session_id)}
        unknown = [name for name in names if name not in known]
        notes = [f"There is no child named {name!r}." for name in unknown]
        notes += [] if waited.ended == "settled" else [_early_end(waited.ended, timeout_s)]
        notes += [f"timeout_s was {asked_s:g}; the limit is {MAX_WAIT_S:g}."] if asked_s > MAX_WAIT_S else []
        blocks = reports_text(waited.reports, context.call_id, context.artifact_dir)
        text = "\n\n".join([*([blocks] if blocks else []), *notes]) or "There are no children to wait for."
        return _result(text, waited.reports, is_error=bool(unknown), details={"ended": waited.ended})


@attrs.frozen
class ListAgentsTool:
    spec: ToolSpec = _LIST
    is_waiting: bool = False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        match await context.family.ask(ListFamily()):
            case Refused(reason=reason):
                return text_result(f"list_agents was refused: {reason}", is_error=True)
            case Members(relatives=relatives):
                text = "\n".join(map(_relative_line, relatives)) or "There is nobody else."
                return text_result(text, details={"agents": msgspec.to_builtins(relatives)})
            case other:
                raise TypeError(f"expected Members for a ListFamily, got {other!r}")


def _result(text: str, reports: tuple[ChildReport, ...], *, is_error: bool, details: dict[str, Any]) -> ToolResult:
    settled = tuple(dict.fromkeys(report.notice_id for report in reports if report.outcome))
    return ToolResult((TextContent(text=text),), is_error, details, settled)


def _early_end(ended: str, timeout_s: float) -> str:
    why = f"timed out after {timeout_s:g} s" if ended == "timeout" else "ended early: a message for you arrived"
    return f"The wait {why}. Who was running goes on; wait_agents waits again."


def _handle_members(handle: Handle) -> dict[str, Any]:
    return {"name": handle.name, "sessionId": handle.session_id, "model": handle.model}


def _handle_line(handle: Handle) -> str:
    return json.dumps(_handle_members(handle), ensure_ascii=False)


def _relative_line(relative: Relative) -> str:
    outcome = f", {relative.outcome}" if relative.outcome else ""
    unpriced = f" and the unknown price of {', '.join(relative.unpriced)}" if relative.unpriced else ""
    return (
        f"{relative.name} ({relative.role}, {relative.session_id}): {relative.status}{outcome};"
        f" own {relative.own_tokens:,} tokens, ${relative.own_usd:.4f};"
        f" with children {relative.total_tokens:,} tokens, ${relative.total_usd:.4f}{unpriced}"
    )
