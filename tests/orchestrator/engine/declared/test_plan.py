"""A declared tree is read whole, or refused with the place of the mistake."""

from pathlib import Path

import pytest

from orchestrator.engine.declared.plan import PlannedNode, TreePlan, read_plan
from orchestrator.engine.errors import WrongUsage

WHOLE = """
prompt = "What now?"
name = "release"
model = "a/b"
thinking = "low"
tools = ["spawn_agent", "read"]
limits = { max_cost = 1.5, max_depth = 3, timeout_s = 60 }

[[children]]
name = "facts"
prompt = "Look."
limits = { max_tokens = 1000 }

[[children]]
name = "report"
prompt = "Write about {{child.facts}}"
after = ["facts"]
model = "c/d"

[[children.children]]
name = "proof"
prompt = "Check."
tools = ["read"]
"""


def plan_in(folder: Path, text: str) -> TreePlan:
    file = folder / "tree.toml"
    file.write_text(text, "utf-8")
    return read_plan(file)


def test_every_key_of_a_file_is_read(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, WHOLE)

    assert plan.options() == {
        "model": "a/b",
        "thinking": "low",
        "name": "release",
        "tools": "spawn_agent,read",
        "max_cost": 1.5,
        "max_depth": 3,
        "timeout": 60,
    }
    assert [node.name for node in plan.nodes()] == ["facts", "report", "proof"]
    report = plan.at(["report"])
    assert isinstance(report, PlannedNode)
    assert (report.after, report.model) == (("facts",), "c/d")
    assert plan.at(["report", "proof"]) == report.children[0]
    assert plan.at([]) is plan
    assert plan.at(["proof"]) is plan.at(["facts", "report"]) is None


def node(name: str, **more: str) -> str:
    lines = [f"{key} = {value}" for key, value in {"name": f'"{name}"', "prompt": '"go"', **more}.items()]
    return "\n".join(["[[children]]", *lines, ""])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "children"),
        ("children = []", "expected at least one [[children]], found none"),
        ("model = ", "expected a TOML file that can be read"),
        ('promt = "x"\n' + node("a"), "the root: there is no key 'promt'; did you mean prompt?"),
        ("limits = { max_dept = 1 }\n" + node("a"), "limits: there is no key 'max_dept'; did you mean max_depth?"),
        (node("a", afer="[]"), "children[0] (a): there is no key 'afer'; did you mean after?"),
        (node("a", limits="{ max_depth = 1 }"), "children[0] (a) limits: there is no key 'max_depth'"),
        (node("a") + "[[children.children]]\nprompt = 'x'\nzzz = 1", "children[0] (a) children[0] (without a name)"),
        (node("a") + "[[children.children]]\nprompt = 'x'", "Object missing required field name - at children[0].children[0]"),
        (node("a", prompt="3"), "Expected str, got int - at children[0].prompt"),
        (node("a", thinking='"much"'), "Invalid enum value 'much' - at children[0].thinking"),
        (node("a", prompt='" "'), "expected a name and a prompt"),
        (node("a") + node("a"), "two children of the root are named 'a'"),
        (node("parent"), "'parent' cannot be a name"),
        (node("a{b"), "'a{b' cannot be a name"),
        (node("facts") + node("b", after='["fact"]'), "after names 'fact', which is none of its siblings; did you mean facts?"),
        (node("a", after='["a"]'), "so none can start: a after a"),
        (node("a", after='["c"]') + node("b", after='["a"]') + node("c", after='["b"]'), "a after c after b after a"),
        (node("a") + node("b", prompt='"{{child.a}}"'), "its prompt wants the answer of 'a', which its `after` lacks"),
        (node("a", tools='["raed"]'), "no tool is named raed"),
        ('tools = ["read"]\n' + node("a"), "the root has children, so its tools must name spawn_agent; found read"),
        (node("a", limits="{ max_cost = -1.0 }"), "node a: expected limits.max_cost above 0, found -1.0"),
        (node("a", limits="{ timeout_s = inf }"), "node a: expected limits.timeout_s above 0, found inf"),
    ],
)  # fmt: skip
def test_a_mistake_is_wrong_usage_that_names_file_and_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        plan_in(tmp_path, text)

    assert str(caught.value).startswith(f"{tmp_path}/tree.toml: ")
    assert told in str(caught.value)


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="expected a TOML file"):
        read_plan(tmp_path / "none.toml")


def test_a_long_chain_is_no_circle(tmp_path: Path) -> None:
    chain = [node("n0"), *(node(f"n{n}", after=f'["n{n - 1}"]') for n in range(1, 2_000))]

    assert len(plan_in(tmp_path, "".join(reversed(chain))).children) == 2_000
