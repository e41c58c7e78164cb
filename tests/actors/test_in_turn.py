"""Children are admitted in the order in which their parent called for them."""

from typing import Any

import pytest
from trio.testing import MockClock

from actors.protocol.limits import Limits
from actors.protocol.model import ModelRequest
from actors.testing import FunctionModel, bench
from orchestrator.tools.registry import builtin_tools

NAMES = [f"c{number:02d}" for number in range(20)]


def spawning(request: ModelRequest) -> Any:
    if request.depth:
        return "done"
    if request.call == 1:
        broken = [("spawn_agent", {"no": "prompt"})]
        return [*broken, *(("spawn_agent", {"prompt": "go", "name": name}) for name in NAMES), ("list_agents", {})]
    return [("wait_agents", {})] if request.call == 2 else "all done"


@pytest.mark.parametrize("again", range(5))
async def test_children_of_one_answer_are_spawned_in_call_order(again: int, autojump_clock: MockClock) -> None:
    tested = bench(FunctionModel(spawning), builtin_tools())

    await tested.run()

    assert [child.name for child in tested.root.children] == NAMES
    assert {child.outcome for child in tested.root.children} == {"completed"}


async def test_a_limit_refuses_the_last_calls_and_no_others(autojump_clock: MockClock) -> None:
    tested = bench(FunctionModel(spawning), builtin_tools(), Limits(max_children=12))

    await tested.run()

    assert [child.name for child in tested.root.children] == NAMES[:12]
