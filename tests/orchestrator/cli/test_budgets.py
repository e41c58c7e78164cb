"""Limits on what a whole tree may spend, or take: status 3, and an outcome that says which."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.engine.processes import Desk, desk_at

# A call bills 1,100 tokens: 0.002 dollars. It may bill 16,384 tokens of output more: 0.16384 dollars.
SCRIPT = """
[cost]
input = 1.0
output = 10.0

[[reply]]
last = "This is your last turn"
text = "as far as it came"
usage = { input = 1000, output = 100 }

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
CHILDREN = 16
# Up to 16,384 tokens of output at 58.55 dollars a million are 0.96 dollars; 854 are 0.05.
SPAWN = """
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "NAME", prompt = "go" }
"""
FAMILY = """
[cost]
output = 58.55

[[reply]]
depth = 0
call = 1
usage = { output = 854 }
SPAWNS
[[reply]]
depth = 0
call = 2
usage = { output = 854 }
[[reply.tool]]
name = "wait_agents"

[[reply]]
text = "done"
usage = { output = 854 }
delay_s = 0.02
""".replace("SPAWNS", "".join(SPAWN.replace("NAME", f"c{number}") for number in range(CHILDREN)))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


@pytest.mark.parametrize(
    ("option", "outcome", "allowed"),
    [
        (("--max-cost", "0.2"), "limit_reached", 0.2),
        (("--max-budget-usd", "0.2"), "limit_reached", 0.2),
        (("--max-tokens", "25000"), "limit_reached", None),
        (("--max-turns", "3"), "limit_reached", 0.01),
        (("--timeout", "0.5"), "timed_out", None),
    ],
)
def test_what_a_tree_may_spend_or_take_ends_it_with_status_3(
    desk: Desk, option: tuple[str, str], outcome: str, allowed: float | None
) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(SCRIPT), *option, "go")

    assert (done.status, done.faults()) == (3, [])
    settled = [event for event in done.events if event["type"] == "agent_settled" and event["depth"] == 0]
    assert [event["outcome"] for event in settled] == [outcome]
    billed = [event["message"]["usage"]["cost"]["total"] for event in done.events if _is_answer(event)]
    assert allowed is None or 0.004 < sum(billed) <= allowed


def test_what_was_handed_back_is_on_stdout_and_why_it_ended_on_stderr(desk: Desk, tmp_path: Path) -> None:
    done = desk.run("-m", desk.script(SCRIPT), "--max-turns", "3", "-o", str(tmp_path / "answer"), "go")

    assert (done.status, done.out) == (3, b"as far as it came\n")
    assert "limit_reached: the limit of 3 turns for the whole tree is reached" in done.err
    assert (tmp_path / "answer").read_text() == "as far as it came\n"


def test_sixteen_children_that_could_cost_more_than_there_is_all_finish_as_they_do_not(desk: Desk) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(FAMILY), "--max-cost", "5", "go")

    assert (done.status, done.faults()) == (0, [])
    outcomes = [event["outcome"] for event in done.events if event["type"] == "child_settled"]
    assert outcomes == ["completed"] * CHILDREN


def _is_answer(event: dict[str, object]) -> bool:
    message = event.get("message")
    return event["type"] == "message_end" and isinstance(message, dict) and message["role"] == "assistant"


def test_a_limit_on_money_is_refused_where_no_price_is_known(desk: Desk) -> None:
    done = desk.run(
        "-m", desk.script(SCRIPT.replace("[cost]\ninput = 1.0\noutput = 10.0\n", "")), "--max-cost", "1", "go"
    )

    assert done.status == 2
    assert "price" in done.err


def test_a_limit_on_money_is_refused_where_the_price_of_the_fallback_is_not_known(desk: Desk) -> None:
    free = desk.script(SCRIPT.replace("[cost]\ninput = 1.0\noutput = 10.0\n", ""), "free.toml")

    done = desk.run("-m", desk.script(SCRIPT), "--fallback-model", free, "--max-cost", "1", "go")

    assert (done.status, done.out) == (2, b"")
    assert "the price of scripted/free" in done.err
