"""The tool `write`: a whole file."""

from typing import Any

import attrs
import trio

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolContext, ToolResult, text_result
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.paths import BadPath, absolute_path, explained, shown_path
from orchestrator.tools.replace import CHANGES, replace_file

_SPEC = ToolSpec(
    "write",
    "Write a file: create it, with its folders, or replace all of it. To change a part of a file use edit.",
    object_schema(
        ("path", "content"),
        path={"type": "string", "minLength": 1, "description": "Absolute, or relative to the working directory"},
        content={"type": "string", "description": "All that the file will hold"},
    ),
)


@attrs.frozen
class WriteTool:
    spec: ToolSpec = _SPEC
    is_waiting: bool = False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        data = given["content"].encode()
        path = given["path"]
        try:
            path = absolute_path(path, context.cwd, context.env)
            was_there = await trio.to_thread.run_sync(replace_file, path, data, limiter=CHANGES)
        except BadPath as error:
            return text_result(f"write: {error}", is_error=True)
        except OSError as error:
            return text_result(f"write: {explained(error, path)}", is_error=True)
        done = "overwritten" if was_there else "created"
        return text_result(
            f"{shown_path(path)}: {done}, {len(data):,} bytes", details={"bytes": len(data), "created": not was_there}
        )
