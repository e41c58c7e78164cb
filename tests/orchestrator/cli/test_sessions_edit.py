"""Lists on the catalog, and the commands that change what is stored."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.cli.forest import Forest as Trees
from orchestrator.cli.listed import all_trees
from orchestrator.views.rows import AgentRow, tree_rows
from store.disk.catalog import Catalog
from store.entries import AgentStatusEntry, CustomEntry, SessionInfoEntry, SessionStateEntry
from store.messages import ToolCall
from tests.stored import BEGIN_S, Forest, StoredSession, sample

ROOT = Path(__file__).resolve().parents[3]
NOW = BEGIN_S + 10_000
Run = Callable[..., Result]


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


# --- lists ------------------------------------------------------------------------------------------------------------


def by_journals(forest: Forest) -> list[list[AgentRow]]:
    trees = [tree_rows(tree, NOW) for tree in Trees(forest.home).trees()]
    trees.sort(key=lambda rows: rows[0].modified or "", reverse=True)
    return trees


def by_catalog(forest: Forest) -> list[list[AgentRow]]:
    with Catalog.open(forest.home) as catalog:
        return all_trees(catalog, NOW)


def as_known(row: AgentRow, other: AgentRow) -> AgentRow:
    """`row` without what the catalog may not know: where a branch was left, its new end."""
    changes = {name: None for name in ("activity", "context_tokens") if getattr(other, name) is None}
    return msgspec.structs.replace(row, **changes)


def assert_same(forest: Forest) -> None:
    listed, read = by_catalog(forest), by_journals(forest)
    assert [[row.session_id for row in rows] for rows in listed] == [[row.session_id for row in rows] for rows in read]
    for rows, others in zip(listed, read, strict=True):
        for row, other in zip(rows, others, strict=True):
            assert row == as_known(other, row)


def test_a_tree_at_rest_is_listed_without_opening_its_journals(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(forest)
    archived = forest.root("archived")
    archived.add(SessionStateEntry(state={"status": "archived"}))
    asks = forest.root("asks")
    asks.prompt()
    asks.answer("Which one?")
    asks.settle()
    asks.add(AgentStatusEntry(status={"summary": "Which one?", "taskState": "needs_input"}))
    read = by_journals(forest)
    by_catalog(forest)

    def refuse(*_: object) -> None:
        raise AssertionError("expected no look into a journal")

    monkeypatch.setattr("orchestrator.cli.listed.read_tree", refuse)
    monkeypatch.setattr("store.disk.catalog.summarize", refuse)
    assert by_catalog(forest) == read


@pytest.mark.parametrize(
    "kind", ["alive", "elsewhere", "crashed", "damaged", "headless", "no child", "no root", "forgotten", "empty"]
)
def test_what_the_catalog_cannot_tell_is_read(forest: Forest, kind: str) -> None:
    sample(forest)
    root = sample(forest, ends="open" if kind in {"alive", "elsewhere", "crashed"} else "settled")
    invoices, tax, _ = [session for session in forest.sessions.values() if session.parent][-3:]
    if kind == "alive":
        forest.own(root)
    elif kind == "elsewhere":
        forest.owned_elsewhere(root)
    elif kind == "damaged":
        invoices.damage()
    elif kind == "headless":
        invoices.path.write_bytes(b"\0" * 100 + invoices.path.read_bytes()[100:])
    elif kind == "no child":
        invoices.path.unlink()
    elif kind == "no root":
        root.path.unlink()
    elif kind == "forgotten":
        tax.parent = root
        tax.forest._session("stray", "/work", root, None).prompt()
    elif kind == "empty":
        (forest.home.sessions / "empty-one.jsonl").write_bytes(b"")

    assert_same(forest)


STEPS = (
    *("root", "child", "prompt", "answer", "error", "tool", "settle", "fail", "name", "status", "archive", "branch"),
    *("announce", "alone"),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(STEPS),
        st.integers(0, 9),
    ),
    max_size=22,
)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_after_any_history_a_list_is_what_the_journals_say(tmp_path_factory: Any, drawn: list[tuple[str, int]]) -> None:
    forest = Forest.at(tmp_path_factory.mktemp("home") / "home")
    forest.root("first")
    for act, number in drawn:
        session = list(forest.sessions.values())[number % len(forest.sessions)]
        _step(forest, session, act, number)
    assert_same(forest)
    forest.close()


def _step(forest: Forest, session: StoredSession, act: str, number: int) -> None:
    match act:
        case "root":
            forest.root(f"r{number}" if number else None)
        case "child":
            session.child(f"c{number}").prompt("look")
        case "prompt":
            session.prompt(f"prompt {number}")
        case "answer":
            session.answer(f"answer {number}" if number else "", tokens=(number * 10, number, 0, 0))
        case "error":
            session.answer("", (9, 0, 0, 0), stop_reason="error", error="overloaded")
        case "tool":
            session.answer("", calls=(ToolCall(id="c", name="bash", arguments={"command": "ls"}),))
            if number % 2:
                session.result("c")
        case "settle":
            session.settle()
        case "fail":
            session.settle("failed" if number % 2 else "lost", "it broke" if number % 3 else None)
        case "name":
            session.add(SessionInfoEntry(name=f"n{number}"))
        case "status":
            session.add(AgentStatusEntry(status={"summary": f"s{number}", "taskState": "needs_input"}))
        case "archive":
            session.add(SessionStateEntry(state={"status": "archived" if number % 2 else "active"}))
        case "branch" if session.tree.records:
            session.add(CustomEntry(custom_type="sapwood.leaf"))
        case "announce":
            session.announce(f"a{number}")
        case "alone":
            session.is_billed_alone = True
