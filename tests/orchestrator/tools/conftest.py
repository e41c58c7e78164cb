"""A context for tools that works on a folder of its own, and keeps the progress that it was shown."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.protocol.tools import FamilyAnswer, FamilyRequest, Tool, ToolContext, ToolResult
from store.messages import TextContent


@attrs.define
class FakeFamily:
    """Answers in turn, and remembers what it was asked."""

    answers: list[FamilyAnswer] = attrs.field(factory=list)
    asked: list[FamilyRequest] = attrs.field(factory=list)

    async def ask(self, request: FamilyRequest) -> FamilyAnswer:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        return self.answers.pop(0)


@attrs.define
class Workplace:
    folder: Path
    family: FakeFamily = attrs.field(factory=FakeFamily)
    progress: list[str] = attrs.field(factory=list)
    wait_for_room: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    on_progress: Callable[[str], None] = lambda text: None

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def context(self) -> ToolContext:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}
        return ToolContext(
            "call/1", str(self.folder), str(self.artifacts), env, self.family, self._update, self.wait_for_room
        )

    def _update(self, result: ToolResult) -> None:
        self.progress.append(text_of(result))
        self.on_progress(self.progress[-1])

    async def run(self, tool: Tool, **arguments: Any) -> ToolResult:
        return await tool.run(arguments, self.context)

    def file(self, name: str, data: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


def text_of(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture(name="text_of")
def text_of_fixture() -> Callable[[ToolResult], str]:
    return text_of
