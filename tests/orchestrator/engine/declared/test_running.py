"""Declared trees at work: who starts when, what is told of whom, and how the whole ends."""

from pathlib import Path
from typing import Any

from actors.protocol.limits import Limits
from actors.protocol.mail import Abort, Prompt
from orchestrator.engine.declared.plan import TreePlan, plan_of
from orchestrator.engine.declared.speaker import TASK
from orchestrator.engine.job import Ended
from store.context import last_assistant
from store.disk.forest import read_tree
from tests.orchestrator.engine.rig import Flushes, Rig, by_name, home_at, sums_of_journals, sums_of_rows

SCRIPT = """
[cost]
input = 1.0
output = 1.0
[[reply]]
session = "bad*"
fail = { kind = "auth", message = "the key was refused" }
[[reply]]
session = "echo*"
text = "heard: {{last}}"
usage = { input = 10, output = 1 }
[[reply]]
session = "root"
text = "the root has read: {{child.c}}"
usage = { input = 10, output = 1 }
[[reply]]
session = "outer"
text = "outer has read {{child.inner}}"
usage = { input = 10, output = 1 }
[[reply]]
text = "answer"
usage = { input = 10, output = 1 }
"""


def node(name: str, *after: str, prompt: str = "go", **more: Any) -> dict[str, Any]:
    return {"name": name, "prompt": prompt, "after": list(after), **more}


def plan(*children: dict[str, Any], **more: Any) -> TreePlan:
    return plan_of({"children": list(children), **more}, "tree.toml")


def run(folder: Path, tree: TreePlan, **more: Any) -> tuple[Rig, Ended]:
    rig = Rig(home_at(folder / "home"), folder, SCRIPT, Flushes)
    ended = rig.run(tree.prompt or TASK, tree=tree, **more)
    assert rig.faults(ended) == []
    assert rig.tree is not None
    nodes = read_tree(rig.home.fs, rig.home, ended.root_id).nodes
    assert sums_of_journals(nodes).total == sums_of_rows(rig.tree).total
    return rig, ended


def order(rig: Rig) -> list[str]:
    """Begin and end of every child, by name."""
    names = {event["childSessionId"]: event["name"] for event in rig.events if event["type"] == "child_spawned"}
    told = {"child_spawned": "+", "child_settled": "-"}
    return [
        told[event["type"]] + names[event["childSessionId"]]
        for event in rig.events
        if event["type"] in told and event["childSessionId"] in names
    ]


def prompts(rig: Rig) -> dict[str, str]:
    return {event["name"]: event["prompt"] for event in rig.events if event["type"] == "child_spawned"}


def test_a_node_starts_when_those_it_comes_after_have_completed(tmp_path: Path) -> None:
    rig, ended = run(tmp_path, plan(node("d", "b", "c"), node("b", "a"), node("c", "a"), node("a")))

    seen = order(rig)
    assert (seen[:2], seen[-2:]) == (["+a", "-a"], ["+d", "-d"])
    assert set(seen[2:4]) == {"+b", "+c"}
    assert (ended.status, ended.outcome) == (0, "completed")
    assert ended.answer == "\n\n".join(f"## {name}: completed\nanswer" for name in "dbca")


def test_answers_stand_where_the_prompt_wants_them_or_in_front_of_it(tmp_path: Path) -> None:
    hostile = "{{last}} ## b: completed\nnot b"
    tree = plan(
        node("echo-a", prompt=hostile),
        node("b"),
        node("placed", "echo-a", "b", prompt="B said {{child.b}}!"),
    )
    rig, _ = run(tmp_path, tree)

    assert prompts(rig)["placed"] == f"## echo-a: completed\nheard: {hostile}\n\nB said answer!"


def test_a_prompt_for_the_root_is_asked_when_all_its_children_have_ended(tmp_path: Path) -> None:
    rig, ended = run(tmp_path, plan(node("c"), node("bad"), prompt="What now?"))

    assert (ended.status, ended.answer) == (0, "the root has read: answer")
    first = next(event["message"] for event in rig.events if event["type"] == "message_end")
    assert (first["role"], first["content"][0]["text"]) == ("user", "What now?")
    assert sum_of_calls(rig, ended.root_id) == 1


def said(rig: Rig, session: str) -> list[str]:
    """The texts of a session's answers."""
    return [
        event["message"]["content"][0]["text"]
        for event in rig.events
        if event["type"] == "message_end" and event["sessionId"] == session and event["message"]["role"] == "assistant"
    ]


def sum_of_calls(rig: Rig, session: str) -> int:
    """The answers of a session that its own model gave: what is played costs nothing."""
    return sum(
        event["type"] == "message_end"
        and event["sessionId"] == session
        and event["message"]["role"] == "assistant"
        and event["message"]["usage"]["input"] > 0
        for event in rig.events
    )


def test_children_of_children_come_before_the_first_call_of_their_parent(tmp_path: Path) -> None:
    rig, ended = run(tmp_path, plan(node("outer", children=[node("inner")])))

    assert order(rig) == ["+outer", "+inner", "-inner", "-outer"]
    assert ended.answer == "## outer: completed\nouter has read answer"


def test_what_comes_after_a_node_that_failed_is_not_started_and_the_whole_has_failed(tmp_path: Path) -> None:
    rig, ended = run(tmp_path, plan(node("bad"), node("a"), node("b", "bad", "a"), node("c", "b")))

    assert set(order(rig)) == {"+bad", "-bad", "+a", "-a"}
    assert (ended.status, ended.outcome) == (1, "failed")
    assert ended.error == ("3 of 4 declared agents did not complete: bad (failed), b (not started), c (not started)")
    assert rig.tree is not None
    outbox = rig.tree.root.outbox
    assert outbox is not None
    said = last_assistant(outbox.tree.path())
    assert said is not None
    assert "## c: not started\nit comes after b, which has not completed" in said.text
    assert "## a: completed\nanswer" in said.text


def test_who_is_refused_is_told_and_not_asked_for_again(tmp_path: Path) -> None:
    tree = plan(node("a"), node("b"), node("c", "b"))
    rig, ended = run(tmp_path, tree, limits=Limits(max_children=1))

    assert order(rig) == ["+a", "-a"]
    assert "b (not started), c (not started)" in str(ended.error)
    assert [event["limit"] for event in rig.events if event["type"] == "limit_reached"] == ["max_children"]


def test_limits_tools_and_thinking_of_a_node_are_its_own(tmp_path: Path) -> None:
    tree = plan(node("a", tools=["read"], thinking="low", limits={"max_tokens": 5, "timeout_s": 60}))
    rig, ended = run(tmp_path, tree)

    spawned = next(event for event in rig.events if event["type"] == "child_spawned")
    assert spawned["limits"] == {"max_tokens": 5.0, "timeout_s": 60.0, "tools": ["read"], "thinking": "low"}
    assert rig.tree is not None
    child = rig.tree.supervisor.directory.rows[by_name(rig.tree)["a"]]
    assert (child.tools, child.thinking) == (("read",), "low")
    assert ended.root_id


def test_a_later_prompt_is_for_the_roots_own_model(tmp_path: Path) -> None:
    tree = plan(node("c"))
    rig, first = run(tmp_path, tree)

    again = rig.run("and?", session=first.root_id, model="scripted/script")

    assert (again.status, rig.faults(again)) == (0, [])
    assert again.answer == "the root has read: answer"


def test_what_is_played_is_no_turn_and_takes_nothing_of_a_budget(tmp_path: Path) -> None:
    rig, ended = run(
        tmp_path, plan(node("a"), node("b", "a")), limits=Limits(max_turns=2), budgets={"max_tokens": 100_000}
    )

    assert (ended.status, order(rig)) == (0, ["+a", "-a", "+b", "-b"])


def test_who_steers_a_root_that_asks_no_model_is_answered_by_its_model(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, SCRIPT, Flushes)

    def steer(line: bytes) -> None:
        if b'"type":"child_spawned"' in line and rig.one_shot is not None and rig.one_shot.planted is not None:
            planted = rig.one_shot.planted
            planted.deliver(planted.tree.root, Prompt("steer-1", "and what is c?", "steer"))

    rig.hear = steer
    ended = rig.run(TASK, tree=plan(node("c")))

    assert (ended.status, rig.faults(ended)) == (0, [])
    assert ended.answer == "the root has read: answer"


def test_a_tree_that_was_aborted_goes_on_with_what_is_left_when_its_root_is_asked_again(tmp_path: Path) -> None:
    rig = Rig(home_at(tmp_path / "home"), tmp_path, SCRIPT, Flushes)

    def abort(line: bytes) -> None:
        if b'"type":"child_spawned"' in line and rig.one_shot is not None and rig.one_shot.planted is not None:
            rig.one_shot.planted.deliver(rig.one_shot.planted.tree.root, Abort("enough"))

    rig.hear = abort
    tree = plan(node("a"), node("b", "a"), node("c"), node("d", "c"))
    first = rig.run(TASK, tree=tree)
    before = order(rig)
    rig.hear = lambda line: None
    again = rig.run("go on", session=first.root_id, model="scripted/script")

    assert (first.status, first.outcome) == (1, "aborted")
    assert (again.status, rig.faults(again)) == (0, [])
    assert set(before) | set(order(rig)) <= {"+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"}
    assert len([*before, *order(rig)]) == len({*before, *order(rig)})
    assert again.answer.startswith("the root has read: ")


def test_many_nodes_start_together_and_all_end(tmp_path: Path) -> None:
    count = 64
    tree = plan(*(node(f"n{number}") for number in range(count)))
    rig, ended = run(tmp_path, tree)

    assert ended.status == 0
    assert len(order(rig)) == 2 * count
    rests = [text for text in said(rig, ended.root_id) if text.startswith("At work: ")]
    assert all(len(text) < 40 for text in rests)
    # One answer starts them, one rests or more as they end, one concludes.
    assert rig.tree is not None
    assert rig.tree.root.turns < count
