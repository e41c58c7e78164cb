"""Lists on the catalog, and the commands that change what is stored."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.cli.forest import Forest as Trees
from orchestrator.cli.forest import newest_first
from orchestrator.cli.main import with_command
from orchestrator.views.rows import AgentRow, tree_rows
from store.entries import (
    AgentStatusEntry,
    CustomEntry,
    LabelEntry,
    RunSettledEntry,
    SessionInfoEntry,
    SessionStateEntry,
)
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
    return newest_first(tree_rows(tree, NOW) for tree in Trees.of(forest.home).trees())


def by_catalog(forest: Forest) -> list[list[AgentRow]]:
    return newest_first(Trees.of(forest.home).rows(NOW))


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

    monkeypatch.setattr("orchestrator.cli.common.read_tree", refuse)
    monkeypatch.setattr("store.disk.catalog.summarize", refuse)
    assert by_catalog(forest) == read


@pytest.mark.parametrize(
    "kind",
    [
        *("alive", "elsewhere", "crashed", "damaged", "headless", "no child", "no root", "forgotten", "empty"),
        *("lost", "unbilled", "nameless"),
    ],
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
        stray = forest._session("stray", "/work", root, None)
        stray.uses("test/opus")
        stray.prompt()
        stray.settle()
    elif kind == "lost":
        root.prompt("again")
        root.settle("lost")
    elif kind == "unbilled":
        tax.is_billed_alone = True
        tax.prompt("again")
        tax.answer("More.")
        tax.settle()
    elif kind == "nameless":
        tax.child("never answered").prompt()
        list(forest.sessions.values())[-1].settle("failed", "no model")
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


@pytest.mark.parametrize("is_older", [True, False])
def test_a_session_that_another_root_names_is_listed_once(forest: Forest, is_older: bool) -> None:
    gone = forest.root("gone") if is_older else None
    root = forest.root("root")
    root.prompt()
    gone = gone or forest.root("gone")
    child = gone.child("child")
    child.prompt()
    gone.path.unlink()
    root.announce("child", session_id=child.id)

    for trees in (by_catalog(forest), by_journals(forest)):
        assert [[row.session_id for row in rows] for rows in trees] == [[root.id, child.id]]


def test_what_is_left_of_a_tree_without_its_root_hangs_together_whatever_the_ids(forest: Forest) -> None:
    gone = forest.root("gone")
    forest.count = 50
    parent = gone.child("parent")
    forest.count = 10
    child = parent.child("child")
    gone.path.unlink()

    for trees in (by_catalog(forest), by_journals(forest)):
        assert [[row.session_id for row in rows] for rows in trees] == [[parent.id, child.id]]


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


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, for a person without a trash."""
    for name in ("SAPWOOD_SESSION_DIR", "COLUMNS", "NO_COLOR", "TERM", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))

    def invoke(*arguments: str) -> Result:
        from orchestrator.cli.main import group

        return CliRunner().invoke(group, with_command(["sessions", *arguments]), prog_name="sapwood")

    return invoke


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def forked(forest: Forest) -> StoredSession:
    """A session with two branches and a label on the first."""
    session = forest.root("forked")
    first = session.prompt("Which way?")
    session.answer("The first way.")
    session.prompt("Go on\x1b[31m")
    session.answer("Done.", calls=(ToolCall(id="c", name="bash", arguments={"command": "ls -l"}),))
    session.settle()
    session.tree.leaf_id = first
    session.add(CustomEntry(custom_type="sapwood.leaf"))
    session.answer("The second way.")
    session.add(LabelEntry(target_id="00000003", label="left"))
    return session


def test_search_shows_sessions_and_what_was_said(forest: Forest, run: Run) -> None:
    sample(forest)
    forked(forest)

    rows = told(run("search", "which", "--json"))
    text = run("search", "billing").stdout.split("\n")

    assert [(row["name"], row["matches"]) for row in rows] == [
        ("forked", [{"entryId": "00000001", "text": "Which way?"}])
    ]
    assert text[0].split()[1] == "port-billing"
    assert text[1].split() == ["00000002", "Port", "the", "billing", "module"]
    assert "Nothing was found" in run("search", "nowhere").stdout
    assert told(run("search", "nowhere", "--json")) == []
    assert run("search").exit_code == 2
    assert len(told(run("search", "the", "-n", "1", "--json"))) == 1
    assert "\x1b" not in run("search", "go", "on").stdout


def test_the_tree_of_entries_shows_branches_labels_and_the_leaf(forest: Forest, run: Run) -> None:
    forked(forest)

    lines = run("tree", "forked").stdout.split("\n")
    rows = told(run("tree", "forked", "--json"))
    everything = told(run("tree", "forked", "--all", "--json"))

    assert lines == [
        "00000001 * user         Which way?",
        "00000002   ├ assistant    The first way.",
        "00000003   │ user         Go on·[31m  [left]",
        "00000004   │ assistant    Done. → bash ls -l",
        "00000007 * └ assistant    The second way.  ◀ leaf",
        "",
    ]
    assert [row["id"] for row in rows if row["isCurrent"]] == ["00000001", "00000007"]
    assert [row["level"] for row in rows] == [0, 1, 1, 1, 1]
    assert len(everything) == 8
    forest.root("empty")
    assert "no entries" in run("tree", "empty").stdout


def test_a_damaged_tree_is_shown_as_far_as_it_goes(forest: Forest, run: Run) -> None:
    session = forked(forest)
    session.damage()

    result = run("tree", session.id)

    assert result.exit_code == 4
    assert "The second way." in result.stdout
    assert "is damaged" in result.stderr


# --- changing ---------------------------------------------------------------------------------------------------------


def test_a_session_is_renamed_and_found_by_its_new_name(forest: Forest, run: Run) -> None:
    sample(forest)

    assert told(run("rename", "invoices", "bills", "--json"))["name"] == "bills"

    assert run("rename", "invoices", "x").exit_code == 2
    assert "Name:     bills" in run("show", "bills").stdout
    for command in ("tree", "show", "export", "check"):
        assert run(command, "bills").exit_code == 0, command
        assert run(command, "invoices").exit_code == 2, command
    assert run("rename", "bills", "  ").exit_code == 2
    rows = told(run("list", "--all", "--json"))
    assert [row["name"] for row in rows] == ["port-billing", "bills", "tax-rounding", "legacy-shim"]
    assert_same(forest)


def test_a_label_is_put_on_an_entry_and_taken_away(forest: Forest, run: Run) -> None:
    forked(forest)

    assert told(run("label", "forked", "7", "best", "--json"))["entryId"] == "00000007"
    assert told(run("label", "forked", "best", "--clear", "--json"))["label"] is None

    labels = {row["id"]: row["label"] for row in told(run("tree", "forked", "--json"))}
    assert labels == {"00000001": None, "00000002": None, "00000003": "left", "00000004": None, "00000007": None}
    for wrong in (["7"], ["7", "x", "--clear"], ["99", "x"], ["best", "x"]):
        assert run("label", "forked", *wrong).exit_code == 2


def test_a_branch_goes_on_from_an_earlier_entry(forest: Forest, run: Run) -> None:
    session = forked(forest)
    session.journal.close()

    assert told(run("branch", "forked", "left", "--json"))["leafId"] == "00000003"
    assert [row["id"] for row in told(run("tree", "forked", "--json")) if row["isLeaf"]] == ["00000003"]
    back = told(run("branch", "forked", "1", "--summary", "It was slow.", "--json"))
    assert [row["text"] for row in told(run("tree", "forked", "--json")) if row["id"] == back["leafId"]] == [
        "It was slow."
    ]
    assert told(run("branch", "forked", "root", "--json"))["leafId"] is None
    assert run("branch", "forked", "nowhere").exit_code == 2


def test_a_fork_begins_a_session_of_its_own(forest: Forest, run: Run, tmp_path: Path) -> None:
    session = forked(forest)

    fork = told(run("fork", "forked", "--at", "left", "--name", "second try", "-C", str(tmp_path), "--json"))

    assert fork["forkedFrom"] == {"sessionId": session.id, "entryId": "00000003", "records": 3}
    assert Path(fork["path"]).stem == fork["sessionId"]
    assert (fork["cwd"], fork["name"]) == (str(tmp_path), "second try")
    rows = told(run("tree", "second try", "--json"))
    assert [(row["text"], row["label"]) for row in rows][-1] == ("Go on\x1b[31m", "left")
    listed = {row["name"]: row for row in told(run("list", "--json"))}
    assert listed["second try"]["total"]["input"] == 0
    assert "sapwood run -r" in run("fork", "forked").stdout
    clone = told(run("clone", "forked", "--name", "third try", "--json"))
    leaf = next(row["id"] for row in told(run("tree", "forked", "--json")) if row["isLeaf"])
    assert (clone["forkedFrom"]["entryId"], clone["name"]) == (leaf, "third try")
    assert run("fork", "forked", "--at", "nowhere").exit_code == 2
    session.damage()
    assert run("fork", session.id).exit_code == 4


def test_an_archived_session_leaves_the_list_and_comes_back(forest: Forest, run: Run) -> None:
    sample(forest)

    assert told(run("archive", "port-billing", "--json"))["status"] == "archived"
    assert told(run("list", "--json")) == []
    assert {row["status"] for row in told(run("list", "--all", "--json"))} == {"archived", "idle"}
    run("archive", "port-billing", "--undo")
    assert len(told(run("list", "--json"))) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("rename", "{}", "x"),
        ("label", "{}", "1", "x"),
        ("branch", "{}", "1"),
        ("archive", "{}"),
        ("delete", "{}", "--force"),
    ],
)
def test_what_another_process_owns_is_not_changed(forest: Forest, run: Run, arguments: tuple[str, ...]) -> None:
    root = sample(forest)
    forest.own(root)
    for session in forest.sessions.values():
        before = session.path.read_bytes()

        result = run(*(argument.format(session.id) for argument in arguments))

        assert result.exit_code == 4
        assert f"belongs to process {os.getpid()}" in result.stderr
        assert session.path.read_bytes() == before
    assert run("fork", root.id).exit_code == 0  # a reader needs no lock


@pytest.mark.parametrize("command", ["tree", "rename", "label", "fork", "clone", "branch", "archive", "delete"])
@pytest.mark.parametrize("name", ["nobody", "../../etc/passwd", "\x1b]0;x\x07", "0198f0aa", ""])
def test_a_session_that_is_not_there_is_wrong_usage(forest: Forest, run: Run, command: str, name: str) -> None:
    sample(forest)
    more = {"rename": ["x"], "label": ["1", "x"], "branch": ["1"], "delete": ["--force"]}.get(command, [])

    result = run(command, name, *more)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "\x1b" not in result.stderr
    assert "Traceback" not in result.stderr


def test_a_session_without_a_header_is_told_as_damaged(forest: Forest, run: Run) -> None:
    root = sample(forest)
    root.path.write_bytes(b"\0" * 100 + root.path.read_bytes()[100:])
    before = root.path.read_bytes()

    for command in (["tree", root.id], ["rename", root.id, "x"], ["archive", root.id], ["delete", root.id]):
        assert run(*command).exit_code == 4
    assert root.path.read_bytes() == before


# --- deleting ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    folder = tmp_path / "person/.local/share/Trash"
    folder.mkdir(parents=True)
    return folder


def files_of(forest: Forest) -> set[str]:
    return {path.name for path in forest.home.sessions.iterdir() if not path.name.endswith(".lock")}


def test_a_tree_is_moved_to_the_trash_and_can_be_put_back(forest: Forest, run: Run, trash: Path) -> None:
    root = sample(forest)
    kept = forest.root("kept")
    sessions = {session.id: session.path.read_bytes() for session in forest.sessions.values() if session is not kept}
    artifacts = forest.home.make_artifact_dir(root.id)
    (artifacts / "out.txt").write_text("spilled")
    (root.path.with_name(f"{root.path.name}.torn-1")).write_bytes(b"torn")
    root.path.with_suffix(".idx").write_bytes(b"index")
    root.path.with_suffix(".idx.4242").write_bytes(b"half an index")

    removed = told(run("delete", "port-billing", "--json"))

    assert set(removed["sessionIds"]) == set(sessions)
    assert removed["sessionIds"][-1] == root.id
    assert files_of(forest) == {kept.path.name}
    assert {path.name for path in (trash / "files").iterdir()} == {
        *(f"{session}.jsonl" for session in sessions),
        f"{root.path.name}.torn-1",
        root.id,
    }
    assert not artifacts.exists()
    note = (trash / "info" / f"{root.path.name}.trashinfo").read_text().split("\n")
    assert note[:2] == ["[Trash Info]", f"Path={root.path}"]
    assert note[2].startswith("DeletionDate=20")
    assert [row["name"] for row in told(run("list", "--json"))] == ["kept"]
    for session, data in sessions.items():
        (trash / "files" / f"{session}.jsonl").rename(forest.home.journal_path(session))
        assert forest.home.journal_path(session).read_bytes() == data
    assert len(told(run("list", "--all", "--json"))) == 5


def test_names_in_the_trash_are_never_taken_twice(forest: Forest, run: Run, trash: Path) -> None:
    session = forest.root("again")
    data = session.path.read_bytes()
    for _ in range(3):
        session.path.write_bytes(data)
        assert run("delete", session.id).exit_code == 0
    (trash / "files" / f"{session.id}.4.jsonl").write_bytes(b"without a note")
    session.path.write_bytes(data)
    run("delete", session.id)

    names = {path.name for path in (trash / "files").iterdir()}
    assert names == {f"{session.id}{number}.jsonl" for number in ("", ".2", ".3", ".4", ".5")}
    assert {path.name.removesuffix(".trashinfo") for path in (trash / "info").iterdir()} == names - {
        f"{session.id}.4.jsonl"
    }


def test_without_a_trash_nothing_goes_unless_it_is_forced(forest: Forest, run: Run) -> None:
    root = sample(forest)
    (forest.home.make_artifact_dir(root.id) / "out.txt").write_text("spilled")
    before = files_of(forest)

    refused = run("delete", root.id)

    assert refused.exit_code == 4
    assert "--force" in refused.stderr
    assert files_of(forest) == before
    assert told(run("delete", root.id, "--force", "--json"))["trashed"] == []
    assert files_of(forest) == set()
    assert not forest.home.artifact_dir(root.id).exists()


def test_a_trash_on_another_disk_is_none(
    forest: Forest, run: Run, trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = forest.root("here")

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", refuse)
    result = run("delete", "here")

    assert result.exit_code == 4
    assert "on another disk" in result.stderr
    assert session.path.exists()
    assert list((trash / "info").iterdir()) == []


def test_a_child_goes_only_when_its_spend_is_counted_above(forest: Forest, run: Run, trash: Path) -> None:
    root = sample(forest)
    shim = named(forest, "legacy-shim")
    owing = root.child("owing")
    owing.prompt()
    owing.is_billed_alone = True
    owing.answer()
    owing.settle()
    silent = root.child("silent")
    silent.prompt()
    silent.add(RunSettledEntry(run=1, outcome="completed"))
    before = told(run("list", "--json"))[0]["total"]

    for name in ("owing", "silent"):
        refused = run("delete", name)
        assert refused.exit_code == 4
        assert "found 1 entries missing there" in refused.stderr
        assert run("delete", name, "--force").exit_code == 4
    assert run("delete", "legacy-shim", "invoices").exit_code == 0

    assert not shim.path.exists()
    assert not named(forest, "tax-rounding").path.exists()
    assert told(run("list", "--json"))[0]["total"] == before
    assert_same(forest)


def test_damage_on_the_way_forbids_deleting_a_child_but_not_the_tree(forest: Forest, run: Run, trash: Path) -> None:
    root = sample(forest)
    root.damage()
    invoices = named(forest, "invoices")

    assert run("delete", "invoices").exit_code == 4
    assert invoices.path.exists()
    assert run("delete", root.id).exit_code == 0
    assert files_of(forest) == set()


def test_a_tree_of_an_owner_out_of_sight_is_deleted_by_force_alone(forest: Forest, run: Run, trash: Path) -> None:
    root = sample(forest)
    forest.owned_elsewhere(root)

    assert run("delete", root.id).exit_code == 4
    assert root.path.exists()
    assert run("delete", root.id, "--force").exit_code == 0


def test_a_child_that_lost_its_root_is_deleted_by_force_alone(forest: Forest, run: Run, trash: Path) -> None:
    root = sample(forest)
    root.path.unlink()

    assert run("delete", "invoices").exit_code == 4
    assert set(told(run("delete", "invoices", "--force", "--json"))["sessionIds"]) == {
        named(forest, "invoices").id,
        named(forest, "tax-rounding").id,
    }


def named(forest: Forest, name: str) -> StoredSession:
    return next(session for session in forest.sessions.values() if session.header.name == name)


# --- all of them ------------------------------------------------------------------------------------------------------

COMMANDS = ["search", "tree", "rename", "label", "fork", "clone", "branch", "archive", "delete", "list"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_json(run: Run, command: str) -> None:
    result = run(command, "--help")

    assert result.exit_code == 0
    assert f"sapwood sessions {command}" in result.stdout
    assert "--json" in result.stdout


@pytest.mark.parametrize(
    "command", [["list"], ["search", "x"], ["tree", "s0"], ["rename", "s0", "x"], ["archive", "s0"]]
)
def test_neither_trio_nor_httpx_is_imported(forest: Forest, command: list[str]) -> None:
    forest.root("s0").prompt()
    code = (
        "import sys\nfrom orchestrator.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'trio', 'httpx'} & set(sys.modules), sorted(sys.modules)"
    )
    environ = {**os.environ, "SAPWOOD_HOME": str(forest.home.root)}
    environ.pop("SAPWOOD_SESSION_DIR", None)

    done = subprocess.run(
        [sys.executable, "-c", code, "sessions", *command], env=environ, cwd=ROOT, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()


def test_files_have_the_modes_that_they_should(forest: Forest, run: Run) -> None:
    forked(forest)
    before = os.umask(0)
    try:
        for command in (["list"], ["fork", "forked"], ["rename", "forked", "x"]):
            run(*command)
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in forest.home.root.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600}
