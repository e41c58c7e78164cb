"""Whatever becomes of its nodes, a declared tree comes to its end: each is started once, after those that it comes after."""

from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.tools import TOOL_ABORTED
from orchestrator.engine.declared.moves import Conclude, Rest, Start, next_move, standings
from orchestrator.engine.declared.plan import TreePlan, plan_of
from store.context import INTERRUPTED
from store.entries import ChildSettledEntry, ChildSpawnedEntry, Known, MessageEntry
from store.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, user_text
from store.records import Draft
from store.tree import EntryTree
from store.wire import encode

OUTCOMES = ("completed", "completed", "completed", "failed", "aborted", "lost")


def some_plan(random: Random) -> TreePlan:
    names = [f"n{number}" for number in range(random.randint(1, 8))]
    children: list[dict[str, Any]] = [
        {"name": name, "prompt": "go", "after": random.sample(names[:place], random.randint(0, min(place, 3)))}
        for place, name in enumerate(names)
    ]
    random.shuffle(children)
    return plan_of({"children": children}, "tree.toml")


class Journal:
    """The root's, as a tree at work would write it; `running`: who has not ended."""

    def __init__(self, random: Random) -> None:
        self.random, self.tree = random, EntryTree()
        self.running: list[str] = []
        self.calls = 0
        self.message(user_text("Carry out the declared tree.", 0))

    def add(self, body: Known) -> None:
        entry = self.tree.next_ids(1)[0]
        self.tree.add(Draft.of(body).record(entry, self.tree.leaf_id, "2026-01-01T00:00:00.000Z"))

    def message(self, message: Any) -> None:
        self.add(MessageEntry(message=msgspec.Raw(encode(message))))

    def start(self, name: str) -> str:
        """Ask for a child: it is there, it is refused, or a crash came before anybody knew."""
        self.calls += 1
        call = ToolCall(id=f"c{self.calls}", name="spawn_agent", arguments={"name": name, "prompt": "go"})
        self.message(AssistantMessage(content=(call,), stop_reason="toolUse"))
        what = self.random.choice(["started", "started", "started", "started and cut", "cut", "refused"])
        if what.startswith("started"):
            self.running.append(name)
            self.add(ChildSpawnedEntry(child_session_id=f"id-{name}", name=name, child_depth=1, prompt="go", model="m"))
        text = {"started": "a handle", "refused": "spawn_agent was refused: no more"}.get(what)
        is_error = what != "started"
        content = (TextContent(text=text or self.random.choice([INTERRUPTED, TOOL_ABORTED])),)
        self.message(
            ToolResultMessage(tool_call_id=call.id, tool_name="spawn_agent", content=content, is_error=is_error)
        )
        return what

    def end_one(self) -> None:
        name = self.running.pop(self.random.randrange(len(self.running)))
        outcome = self.random.choice(OUTCOMES)
        self.add(ChildSettledEntry(child_session_id=f"id-{name}", run=1, outcome=outcome, text=f"{name} {outcome}"))


@given(st.integers(0, 2**32))
def test_each_node_is_started_once_when_its_turn_has_come_and_all_come_to_an_end(seed: int) -> None:
    random = Random(seed)
    plan = some_plan(random)
    journal = Journal(random)
    settled: dict[str, str] = {}

    for _ in range(1_000):
        move = next_move(plan, journal.tree.own_records)
        before = standings(plan.children, journal.tree.own_records)
        match move:
            case Start(nodes):
                for node, _ in nodes:
                    assert node.name not in settled
                    assert all(before[name].outcome == "completed" for name in node.after)
                    what = journal.start(node.name)
                    if what != "cut":
                        settled[node.name] = what
            case Rest():
                journal.end_one()
            case Conclude() | None:
                break
    assert isinstance(move, Conclude)
    assert not journal.running
    stand = standings(plan.children, journal.tree.own_records)
    for node in plan.children:
        assert stand[node.name].is_over
        is_blocked = any(stand[name].outcome != "completed" for name in node.after)
        assert (stand[node.name].status == "skipped") is is_blocked
    assert (move.failure is None) is all(one.outcome == "completed" for one in stand.values())
