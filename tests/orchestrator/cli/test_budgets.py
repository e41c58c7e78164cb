"""Limits on what a whole tree may spend, or take: status 3, and an outcome that says which."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.engine.processes import Desk, desk_at

# A call bills 1,100 tokens: 0.002 dollars.
SCRIPT = """
[cost]
input = 1.0
output = 10.0

[[reply]]
depth = 0
call = 1
usage = { input = 1000, output = 100 }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "below", prompt = "go", wait = true }

[[reply]]
usage = { input = 1000, output = 100 }
[[reply.tool]]
name = "bash"
arguments = { command = "sleep 0.05" }
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


@pytest.mark.parametrize(
    ("option", "outcome", "tokens"),
    [
        (("--max-cost", "0.005"), "limit_reached", 3300),
        (("--max-budget-usd", "0.005"), "limit_reached", 3300),
        (("--max-tokens", "3000"), "limit_reached", 3300),
        (("--max-turns", "3"), "limit_reached", 3300),
        (("--timeout", "0.5"), "timed_out", None),
    ],
)
def test_what_a_tree_may_spend_or_take_ends_it_with_status_3(
    desk: Desk, option: tuple[str, str], outcome: str, tokens: int | None
) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(SCRIPT), *option, "go")

    assert (done.status, done.faults()) == (3, [])
    settled = [event for event in done.events if event["type"] == "agent_settled" and event["depth"] == 0]
    assert [event["outcome"] for event in settled] == [outcome]
    billed = [event["message"]["usage"]["totalTokens"] for event in done.events if _is_answer(event)]
    assert tokens is None or sum(billed) == tokens


def _is_answer(event: dict[str, object]) -> bool:
    message = event.get("message")
    return event["type"] == "message_end" and isinstance(message, dict) and message["role"] == "assistant"


def test_a_limit_on_money_is_refused_where_no_price_is_known(desk: Desk) -> None:
    done = desk.run(
        "-m", desk.script(SCRIPT.replace("[cost]\ninput = 1.0\noutput = 10.0\n", "")), "--max-cost", "1", "go"
    )

    assert done.status == 2
    assert "price" in done.err
