"""The tool `ipython`: a cell in the session's persistent Python."""

import signal
from typing import Any

import attrs

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolContext, ToolResult, text_result
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.kernel.host import DEFAULT_TIMEOUT_S, CellEnd, KernelNotStarted
from orchestrator.tools.kernel.kernels import Kernels
from store.messages import TextContent

_SPEC = ToolSpec(
    "ipython",
    "Run Python in a persistent process of your own, in the project's environment: variables, imports and the working"
    " directory stay between calls. Returns the output and the value of the last expression. Takes top-level `await`,"
    " `!command`, `lines = !command`, `%cd DIR` and `%%bash`; stdin is empty. Output over 48 KiB or 2,000 lines is cut in"
    " the middle, and a file holds all of it; `$SAPWOOD_SCRATCH` is a folder of your own. No sandbox.\n"
    "Child agents: `h = await rlm('task, with all it needs', name=…, model=…, thinking=…, tools=…, max_cost=…,"
    " timeout=…)` returns at once; `r = await h.result(timeout=…)` gives `r.text`, `r.outcome`, `r.ok`; many at once by"
    " `asyncio.gather`. Also `await rlm.wait(handles, mode='all')`, `rlm.list_subagents()`, `rlm.delete_subagent(h)`,"
    " `rlm.find_models('name')`, `agent_message.send('text', to='parent')`, `agent_message.list_agents()`,"
    " `compact.run('instructions')`, `compact.status()`.",
    object_schema(
        ("code",),
        code={"type": "string", "minLength": 1, "description": "The cell"},
        timeout_s={
            "type": "number",
            "exclusiveMinimum": 0,
            "description": f"Seconds after which it is interrupted, waits for agents not counted (default"
            f" {DEFAULT_TIMEOUT_S:.0f})",
        },
    ),
)


@attrs.frozen
class IpythonTool:
    """`is_waiting`: cells wait for children, so they hold no slot that those may need."""

    kernels: Kernels
    spec: ToolSpec = _SPEC
    is_waiting: bool = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        timeout_s = float(given.get("timeout_s", DEFAULT_TIMEOUT_S))
        try:
            end = await self.kernels.execute(given["code"], timeout_s, context)
        except (KernelNotStarted, OSError) as error:
            return text_result(f"ipython: {error}", is_error=True, details={"status": "died"})
        return _result(end, timeout_s)


def _result(end: CellEnd, timeout_s: float) -> ToolResult:
    before = ""
    if end.restarted:
        before = "[the kernel was restarted: variables, imports, tasks and the working directory of earlier cells are gone]\n"
    text = end.output.text or ("(no output)" if end.status in {"ok", "error"} else "")
    note = _note(end, timeout_s)
    newline = "\n" if note and text and not text.endswith("\n") else ""
    details: dict[str, Any] = {
        "status": end.status,
        "durationMs": round(end.duration_s * 1000),
        "kernelRestarted": end.restarted,
        "executionCount": end.count,
        "truncated": end.output.is_truncated,
    }
    if end.output.path is not None:
        details["fullOutputPath"] = end.output.path
    content = (TextContent(text=f"{before}{text}{newline}{note}"),)
    return ToolResult(content, end.status != "ok", details, end.delivered)


def _note(end: CellEnd, timeout_s: float) -> str:
    gone = "its variables are gone, and the next cell gets a new one"
    if end.status == "timeout":
        limit = f"[timeout: after {timeout_s:g} s the cell was interrupted"
        return f"{limit}; variables are kept]" if end.is_kernel_alive else f"{limit}, and the kernel killed: {gone}]"
    if end.status == "interrupted":
        return "[the cell was interrupted; variables are kept]"
    if end.status == "died":
        return f"[the kernel died ({_cause(end)}): {gone}]"
    return ""


def _cause(end: CellEnd) -> str:
    if end.problem is not None:
        return end.problem
    if end.exit_code is None:
        return "it could not be killed"
    if end.exit_code >= 0:
        return f"exit status {end.exit_code}"
    try:
        return f"killed by {signal.Signals(-end.exit_code).name}"
    except ValueError:
        return f"killed by signal {-end.exit_code}"
