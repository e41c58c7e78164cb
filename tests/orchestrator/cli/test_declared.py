"""`sapwood run --tree FILE`: what the command takes, and the statuses it ends with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.engine.processes import Desk, desk_at

SCRIPT = """
[[reply]]
session = "bad"
fail = { kind = "auth", message = "the key was refused" }
[[reply]]
session = "wise"
text = "wise has read {{child.a}}"
[[reply]]
text = "heard: {{last}}"
"""
TREE = """
model = "scripted/script.toml"
[[children]]
name = "a"
prompt = "@go"
"""

BELOW = """
[[children.children]]
name = "b"
prompt = "go"
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        desk.script(SCRIPT)
        yield desk


def tree(desk: Desk, text: str) -> str:
    (desk.folder / "tree.toml").write_text(text, "utf-8")
    return "tree.toml"


def test_the_file_says_model_name_and_limits_and_options_win(desk: Desk) -> None:
    file = tree(desk, 'name = "wise"\nlimits = { max_children = 0 }\n' + TREE)
    none = desk.run("run", "--tree", file)
    done = desk.run("run", "--tree", file, "--max-children", "1", "ask")
    more = desk.run("run", "--tree", "tree.toml", "--max-children", "1", "--name", "other")

    assert (none.status, none.out) == (2, b"")
    assert "has 1 children in all, and the limit (max_children) is 0" in none.err
    assert (done.status, done.out) == (0, b"wise has read heard: @go\n")
    assert (more.status, more.out, more.err) == (0, b"## a: completed\nheard: @go\n", "")


def test_words_and_what_is_piped_in_are_asked_of_the_root(desk: Desk) -> None:
    (desk.folder / "asked.txt").write_text("piped", "utf-8")
    with (desk.folder / "asked.txt").open("rb") as stdin:
        done = desk.run("run", "--tree", tree(desk, 'prompt = "@once"\n' + TREE), stdin=stdin)
    words = desk.run("run", "--name", "wise", "--tree", tree(desk, TREE), "what", "now?")

    assert (done.status, done.err) == (0, "")
    assert (words.status, words.out) == (0, b"wise has read heard: @go\n")


def test_the_stream_of_a_declared_tree_keeps_the_rules_whether_it_ends_well_or_not(desk: Desk) -> None:
    good = desk.run("run", "--json", "--tree", tree(desk, TREE))
    bad = desk.run("run", "--json", "--tree", tree(desk, TREE + '[[children]]\nname = "bad"\nprompt = "go"\n'))

    assert (good.status, good.faults()) == (0, [])
    assert (bad.status, bad.faults()) == (1, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TREE + 'afer = ["b"]', "tree.toml: children[0] (a): there is no key 'afer'; did you mean after?"),
        (TREE + 'after = ["b"]', "tree.toml: node a: after names 'b', which is none of its siblings"),
        (TREE + 'after = ["a"]', "tree.toml: these wait for each other, so none can start: a after a"),
        (TREE + 'model = "scripted/none.toml"', "none.toml"),
        (
            "limits = { max_depth = 1 }\n" + TREE + BELOW,
            "2 levels of children, and the limit (max_depth) is 1; raise it",
        ),
    ],
)
def test_a_mistake_in_the_file_is_status_2_and_starts_nothing(desk: Desk, text: str, told: str) -> None:
    done = desk.run("run", "--tree", tree(desk, text))

    assert (done.status, done.out) == (2, b"")
    assert told in done.err
    assert desk.journals() == {}


def test_a_stored_session_takes_no_other_tree(desk: Desk) -> None:
    done = desk.run("run", "-c", "--tree", tree(desk, TREE))

    assert done.status == 2
    assert "expected --tree alone" in done.err


def test_a_tree_that_is_not_kept_runs_too(desk: Desk) -> None:
    done = desk.run("run", "--no-session", "--tree", tree(desk, TREE))

    assert (done.status, done.out) == (0, b"## a: completed\nheard: @go\n")
    assert desk.journals() == {}
