"""`sessions branch --summarize`: the session's model says what was left behind; the call is billed, also if it was in vain."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from store.attribution import account
from tests.orchestrator.engine.processes import Desk, desk_at

SCRIPT = """
[cost]
input = 1.0
output = 10.0

[[reply]]
last = "Write the memory now"
text = "{summary}"
usage = {{ input = 500, output = 50 }}

[[reply]]
last = "second"
text = "the second answer"
usage = {{ input = 100, output = 10 }}

[[reply]]
text = "an answer"
usage = {{ input = 100, output = 10 }}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def played(desk: Desk, summary: str) -> tuple[str, str]:
    """A session of two prompts: its id, and the entry that ended the first."""
    script = desk.script(SCRIPT.format(summary=summary))
    assert desk.run("-m", script, "first").status == 0
    root = desk.tree().root_id
    first = desk.tree().nodes[root].tree.leaf_id
    assert desk.run("-r", root, "second").status == 0
    assert first is not None
    return root, first


def test_what_was_left_is_summarised_billed_and_told_to_the_model(desk: Desk) -> None:
    root, first = played(desk, "the second way was tried")

    done = desk.run("sessions", "branch", root, first, "--summarize", "--json")

    assert (done.status, done.err) == (0, "")
    assert msgspec.json.decode(done.out)["entryId"] == first
    node = desk.tree().nodes[root]
    (summary,) = [msgspec.json.decode(record.raw) for record in node.records if record.type == "branch_summary"]
    assert summary["summary"] == "the second way was tried"
    assert summary["parentId"] == first
    assert summary["usage"]["totalTokens"] == 550
    assert account(node.header, node.records).own.tokens == 110 + 110 + 550
    assert desk.run("-r", root, "third").status == 0
    assert "second" not in str([r.raw for r in desk.tree().nodes[root].tree.path() if r.type == "message"])


def test_a_summary_that_is_none_moves_nothing_and_is_billed(desk: Desk) -> None:
    root, first = played(desk, " ")
    before = desk.tree().nodes[root].tree.leaf_id

    done = desk.run("sessions", "branch", root, first, "--summarize")

    assert done.status == 1
    assert "blank" in done.err
    node = desk.tree().nodes[root]
    assert node.tree.leaf_id == before
    assert [record.type for record in node.records if record.type in {"usage", "branch_summary"}] == ["usage"]
    assert account(node.header, node.records).own.tokens == 110 + 110 + 550


def test_with_nothing_said_on_the_branch_there_is_nothing_to_summarise(desk: Desk) -> None:
    root, _ = played(desk, "nothing")
    leaf = desk.tree().nodes[root].tree.leaf_id
    assert leaf is not None

    done = desk.run("sessions", "branch", root, leaf, "--summarize")

    assert done.status == 2
    assert "nothing was said" in done.err
