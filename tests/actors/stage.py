"""Trees for tests: a script of who answers what, the agent tools, and what must hold of every tree that has come to rest."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.directory import Row
from actors.protocol.limits import Limits
from actors.protocol.model import Model, ModelRequest
from actors.protocol.retry import RetryPolicy
from actors.protocol.tools import Tool, ToolContext, ToolResult, text_result
from actors.testing import ROOT, Answer, Bench, FunctionModel, FunctionTool, MemoryStore, bench
from orchestrator.tools.agents import ListAgentsTool, SpawnAgentTool, WaitAgentsTool
from store.attribution import account
from store.repair import Node, repair_plan
from store.stream import check_stream
from store.usage import Spend, add_up

Line = Answer | Callable[[ModelRequest], "Answer | Awaitable[Answer]"]
A_DAY_S = 86_400.0
NO_PAUSE = RetryPolicy(max_retries=4, base_s=1.0)
AGENT_TOOLS: tuple[Tool, ...] = (SpawnAgentTool(), WaitAgentsTool(), ListAgentsTool())


@attrs.define
class Script:
    """What each session says, by name: one line per model call. Who has no line left says `done`."""

    parts: Mapping[str, Sequence[Line]]
    said: dict[str, int] = attrs.field(factory=dict)

    def __call__(self, request: ModelRequest) -> Answer | Awaitable[Answer]:
        name = request.session_name
        place = self.said[name] = self.said.get(name, 0) + 1
        lines = self.parts.get(name, ())
        line: Line = lines[place - 1] if place <= len(lines) else "done"
        return line(request) if callable(line) else line


def spawn(*names: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    """An answer that starts these children side by side."""
    return [("spawn_agent", {"prompt": f"task of {name}", "name": name} | more) for name in names]


def wait(*names: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("wait_agents", ({"names": list(names)} if names else {}) | more)]


def use(*names: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(name, arguments) for name in names]


async def for_ever(_: object = None, __: object = None) -> Any:
    await trio.sleep_forever()


def pausing(seconds: float, answer: Answer) -> Line:
    """This answer, after a while."""

    async def speak(request: ModelRequest) -> Answer:
        await trio.sleep(seconds)
        return answer

    return speak


def saying(text: str) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return text_result(text)

    return run


def stage(
    parts: Mapping[str, Sequence[Line]] | Model,
    *tools: Tool,
    limits: Limits | None = None,
    retry: RetryPolicy | None = None,
    **more: Any,
) -> Bench:
    """A tree whose sessions follow the script, with the agent tools and these."""
    model = FunctionModel(Script(parts)) if isinstance(parts, Mapping) else parts
    named = {tool.spec.name: tool for tool in (*AGENT_TOOLS, *tools)}
    return bench(model, named, limits, retry or NO_PAUSE, **more)


def tool(name: str, function: Callable[..., Awaitable[ToolResult]], *, is_waiting: bool = False) -> FunctionTool:
    return FunctionTool(name, function, is_waiting)


def row(tree: Bench, name: str) -> Row:
    return next(row for row in tree.tree.supervisor.directory.rows.values() if row.name == name)


def rows(tree: Bench) -> list[Row]:
    return list(tree.tree.supervisor.directory.rows.values())


def types(tree: Bench, name: str) -> list[str]:
    """The types of the events of a session, deltas and bookkeeping left out."""
    dull = {"message_update", "child_usage_attributed", "model_change", "session", "session_action_update"}
    return [event["type"] for event in tree.events(row(tree, name).id) if event["type"] not in dull]


def of_type(tree: Bench, kind: str, name: str | None = None) -> list[dict[str, Any]]:
    session = row(tree, name).id if name else None
    return [event for event in tree.events(session) if event["type"] == kind]


def outcome(tree: Bench, name: str = "root") -> str:
    """What the last `agent_settled` of a session says."""
    return str(of_type(tree, "agent_settled", name)[-1]["outcome"])


def bodies(store: MemoryStore, session: str, kind: str) -> list[Any]:
    return [record.body() for record in store.read(session).records if record.type == kind]


def told(request: ModelRequest) -> str:
    """All that a model was given to read, as one text."""
    return "\n".join(
        message.content
        if isinstance(message.content, str)
        else "\n".join(getattr(block, "text", "") for block in message.content)
        for message in request.messages
    )


def nodes(store: MemoryStore) -> dict[str, Node]:
    return {session: Node(header, store.read(session)) for session, header in store.headers.items()}


def truth(tree: Bench, top: Row) -> Spend:
    """What the journals of a subtree say was billed there, each session for itself."""
    below = [top]
    for one in below:
        below += one.children
    owns = [
        account(tree.store.headers[one.id], tree.store.read(one.id).records).own
        for one in below
        if one.id in tree.store.headers
    ]
    return add_up(owns)


def assert_totals(tree: Bench) -> None:
    """Invariant 1 of `attribution.md`: total = Σ own, in memory and in every journal."""
    for one in rows(tree):
        expected = truth(tree, one)
        assert one.total == expected, f"{one.name} in memory"
        if one.id in tree.store.headers:
            written = account(tree.store.headers[one.id], tree.store.read(one.id).records)
            assert written.total == expected, f"{one.name} in its journal"


def assert_sound(tree: Bench) -> None:
    """Nothing is wrong with the stream, nothing is missing in the journals, nobody is left at work."""
    assert check_stream(tree.outlet.lines) == []
    assert_totals(tree)
    plan = repair_plan(nodes(tree.store), ROOT)
    assert not plan, plan
    for one in rows(tree):
        assert not one.has_task, one.name
        assert not one.is_running, one.name


async def run(tree: Bench, prompt: str = "go") -> None:
    """Run it to its end. A tree that never ends fails at once, as the clock of these tests jumps."""
    with trio.fail_after(A_DAY_S):
        await tree.run(prompt)


@asynccontextmanager
async def playing(tree: Bench, prompt: str = "go") -> AsyncIterator[None]:
    """The tree at work while inside; left when it has come to its end."""
    with trio.fail_after(A_DAY_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tree.run, prompt)
            yield


async def until(is_so: Callable[[], object], every_s: float = 0.0) -> None:
    """Return at the first moment at which it is so. Time passes only if `every_s` is more than nothing."""
    while not is_so():  # noqa: ASYNC110
        await trio.sleep(every_s)


def requests(tree: Bench) -> list[ModelRequest]:
    """What the model was asked, in order."""
    model, _ = tree.tree.supervisor.workshop.model("test/model")
    assert isinstance(model, FunctionModel)
    return model.requests
