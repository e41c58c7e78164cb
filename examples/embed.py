"""Sapwood as a library: a tree of sessions with a model and a tool of one's own, in memory. No disk, no network, no key.

    python examples/embed.py

`actors.testing` is what our own tests are made of, and meant for yours: `bench` builds a tree whose journals are lists,
`FunctionModel` answers with what a function returns (text, tool calls, a ModelFailure, or a coroutine for one of these),
`FunctionTool` runs an async function. The agent tools are those of the command.
"""

from typing import Any

import trio

from actors.protocol.limits import Limits
from actors.protocol.model import ModelRequest
from actors.protocol.tools import Tool, ToolContext, ToolResult, text_result
from actors.testing import Answer, Bench, FunctionModel, FunctionTool, bench
from orchestrator.providers.scripted import child_answer
from orchestrator.tools.agents import SpawnAgentTool, WaitAgentsTool
from store.context import last_assistant
from store.usage import usd

POEMS = {
    "sea": "The sea is calm tonight.\nThe tide is full, the moon lies fair",
    "hill": "Loveliest of trees, the cherry now\nIs hung with bloom along the bough",
}


async def count_words(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """The tool. What is wrong with the arguments is a result for the model, not an exception."""
    await trio.lowlevel.checkpoint()
    poem = POEMS.get(arguments["poem"])
    if poem is None:
        return text_result(f"there is no poem {arguments['poem']!r}; poems: {', '.join(POEMS)}", is_error=True)
    return text_result(str(len(poem.split())))


def answer(request: ModelRequest) -> Answer:
    """The model: a root that gives each poem to a child, children that count with the tool."""
    if request.depth == 0:
        match request.call:
            case 1:
                return [("spawn_agent", {"name": poem, "prompt": f"How many words has {poem}?"}) for poem in POEMS]
            case 2:
                return [("wait_agents", {})]
            case _:
                return "; ".join(f"{poem}: {child_answer(poem, request.messages)}" for poem in POEMS)
    if request.call == 1:
        return [("count_words", {"poem": request.session_name})]
    return f"{request.messages[-1].content[0].text} words"  # type: ignore[union-attr]


def tree() -> Bench:
    """A tree that is ready to run."""
    tools: dict[str, Tool] = {
        "count_words": FunctionTool("count_words", count_words),
        "spawn_agent": SpawnAgentTool(),
        "wait_agents": WaitAgentsTool(),
    }
    return bench(FunctionModel(answer), tools, limits=Limits(max_depth=1, max_children=8))


def main() -> None:
    ready = tree()
    trio.run(ready.run, "Count the words of all poems.")

    outbox = ready.root.outbox
    message = None if outbox is None else last_assistant(outbox.tree.path())
    print(message.text if message else "no answer")
    for row in ready.tree.supervisor.directory.rows.values():
        own, total = usd(row.own.total_pico), usd(row.total.total_pico)
        print(f"{row.name}: {row.outcome}, {row.turns} turns, own ${own:.6f}, with children ${total:.6f}")
    print(f"{len(ready.outlet.lines)} events")


if __name__ == "__main__":
    main()
