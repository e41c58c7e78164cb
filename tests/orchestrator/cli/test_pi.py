"""pi 1.6.0 itself opens, lists and continues what is exported: its own code, from npm."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import group
from store.context import build_context
from store.disk.forest import read_node
from store.entries import LEAF_MARK, MOVES_LEAF, CustomEntry, MessageEntry
from store.messages import decode_message
from store.records import read_record
from store.tree import EntryTree
from tests.imported import DATA, FILES
from tests.stored import Forest, sample

PACKAGE = "@earendil-works/pi-coding-agent"
SCRIPT = """
const { SessionManager } = await import(process.argv[1]);
const said = (m) => [m.role, m.timestamp, typeof m.content === "string" ? m.content : JSON.stringify(m.content ?? m.summary)];
const look = (path) => {
  const session = SessionManager.open(path);
  const { messages, model, thinkingLevel } = session.buildSessionContext();
  return { id: session.getSessionId(), leaf: session.getLeafId(), name: session.getSessionName(), model, thinkingLevel,
    path: session.getBranch().map((entry) => [entry.id, entry.type]), messages: messages.map(said) };
};
const jobs = {
  look: async (...paths) => paths.map(look),
  list: async (folder) => (await SessionManager.listAll(folder)).map((s) => ({ ...s, allMessagesText: undefined })),
  recent: async (cwd, folder) => SessionManager.continueRecent(cwd, folder).getSessionId(),
  say: async (path, text) => SessionManager.open(path).appendMessage({ role: "user", content: text, timestamp: 1 }),
  fork: async (path, cwd, folder) => SessionManager.forkFrom(path, cwd, folder).getSessionFile(),
};
console.log(JSON.stringify(await jobs[process.argv[2]](...process.argv.slice(3))));
"""
Pi = Callable[..., Any]


@pytest.fixture(scope="session")
def pi(npm_peers: Path) -> Pi:
    """Runs a job in pi's session manager."""
    node = str(shutil.which("node"))
    manager = npm_peers / "node_modules" / PACKAGE / "dist" / "core" / "session-manager.js"

    def run(job: str, *arguments: str | Path) -> Any:
        words = [node, "--input-type=module", "-e", SCRIPT, str(manager), job, *(str(each) for each in arguments)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return run


@pytest.fixture
def forest(tmp_path: Path) -> Forest:
    return Forest.at(tmp_path / "home")


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SAPWOOD_SESSION_DIR", raising=False)

    def invoke(*arguments: str | Path) -> Result:
        result = CliRunner().invoke(group, ["sessions", *(str(each) for each in arguments)], prog_name="sapwood")
        assert result.exit_code == 0, result.output
        return result

    return invoke


def test_pi_sees_in_an_export_what_it_sees_in_its_own_file(
    pi: Pi, sessions: Callable[..., Result], tmp_path: Path
) -> None:
    """For every file that pi or Prime Agent wrote: messages, leaf, name, model and thinking level."""
    originals: list[Path] = []
    exports: list[Path] = []
    for name in FILES:
        originals.append(tmp_path / "originals" / name)
        originals[-1].parent.mkdir(exist_ok=True)
        shutil.copy(DATA / name, originals[-1])
        row = json.loads(sessions("import", originals[-1], "--json").stdout)
        exports.append(tmp_path / "exports" / name)
        exports[-1].parent.mkdir(exist_ok=True)
        sessions("export", row["sessionId"], "-o", exports[-1])

    seen = pi("look", *originals, *exports)

    for name, before, after in zip(FILES, seen[: len(FILES)], seen[len(FILES) :], strict=True):
        added = after["messages"][len(before["messages"]) :]
        assert after["messages"][: len(before["messages"])] == before["messages"], name
        assert all(role == "toolResult" and "was not run again" in text for role, _, text in added), name
        for member in ("name", "model", "thinkingLevel"):
            assert after.get(member) == before.get(member), name
        left = [kind for entry, kind in before["path"] if [entry, kind] not in after["path"]]
        assert MOVES_LEAF.isdisjoint(left), name


def branched(forest: Forest) -> str:
    """A session with two branches, gone back to the first, and bookkeeping behind that."""
    root = forest.root("branched")
    root.prompt("one")
    first = root.answer("first")
    root.prompt("two")
    root.answer("second")
    root.settle()
    root.tree.leaf_id = first
    root.add(CustomEntry(custom_type=LEAF_MARK))
    root.announce("gone")
    return root.id


@pytest.mark.parametrize("build", [branched, lambda forest: sample(forest).id])
def test_pi_stands_where_we_stand(
    build: Callable[[Forest], str], pi: Pi, sessions: Callable[..., Result], forest: Forest, tmp_path: Path
) -> None:
    session = build(forest)
    sessions("export", session, "-o", tmp_path / "x.jsonl")

    (seen,) = pi("look", tmp_path / "x.jsonl")

    node, _ = read_node(forest.home.fs, forest.home, session)
    assert node is not None
    ours = [record.id for record in node.tree.path() if record.type == "message"]
    assert [entry for entry, kind in seen["path"] if kind == "message"] == ours
    assert [role for role, _, _ in seen["messages"]] == [
        message.__struct_config__.tag for message in build_context(node.tree.path()).messages
    ]
    assert seen["name"] == node.header.name


def test_pi_lists_and_continues_a_tree(pi: Pi, sessions: Callable[..., Result], forest: Forest, tmp_path: Path) -> None:
    root = sample(forest)
    sessions("export", root.id, "--layout", "pi", tmp_path / "pi")
    folder = tmp_path / "pi" / "--work--"

    listed = {each["id"]: each for each in pi("list", folder)}

    assert {each["name"] for each in listed.values()} == {"port-billing", "invoices", "tax-rounding", "legacy-shim"}
    for session, stored in forest.sessions.items():
        above = listed[stored.parent.id]["path"] if stored.parent else None
        assert listed[session].get("parentSessionPath") == above
        assert listed[session]["cwd"] == "/work"
    assert pi("recent", "/work", folder) in listed

    path = Path(listed[root.id]["path"])
    said = pi("say", path, "and now?")

    back = json.loads(sessions("import", path, "--json").stdout)
    node, trouble = read_node(forest.home.fs, forest.home, back["sessionId"])
    assert (trouble, back["skipped"], back["salvaged"]) == (None, [], [])
    assert node is not None
    own = [record for record in node.tree.own_records if record.type == "message"]
    assert [record.id for record in own] == [said]
    assert isinstance(body := own[0].body(), MessageEntry)
    assert "and now?" in str(decode_message(body.message))
    before, _ = read_node(forest.home.fs, forest.home, root.id)
    assert before is not None
    ours = [record.id for record in before.tree.path() if record.type == "message"]
    assert [record.id for record in node.tree.path() if record.type == "message"] == [*ours, said]


def test_a_fork_that_pi_made_of_an_export_is_billed_for_what_is_new(
    pi: Pi, sessions: Callable[..., Result], forest: Forest, tmp_path: Path
) -> None:
    root = forest.root("source")
    root.prompt()
    root.answer(tokens=(100, 0, 0, 0))
    root.settle()
    sessions("export", root.id, "--layout", "pi", tmp_path / "pi")
    (path,) = (tmp_path / "pi").rglob("*.jsonl")

    fork = pi("fork", path, "/elsewhere", tmp_path / "forks")

    row = json.loads(sessions("import", fork, "--json").stdout)
    assert row["copiedFrom"]["sessionId"] == root.id
    listed = {each["sessionId"]: each for each in json.loads(sessions("list", "--all", "--json").stdout)}
    assert (listed[root.id]["own"]["input"], listed[row["sessionId"]]["own"]["input"]) == (100, 0)


def test_what_we_put_into_context_is_what_pi_does(pi: Pi) -> None:
    """For pi's own files: the same roles in the same order, but for prompts kept as messages and for failed answers."""
    names = [name for name in FILES if name.startswith("pi.")]

    for name, seen in zip(names, pi("look", *(DATA / name for name in names)), strict=True):
        records = [read_record(line) for line in (DATA / name).read_bytes().split(b"\n")[1:-1]]
        ours = [message.__struct_config__.tag for message in build_context(EntryTree.of(records).path()).messages]
        theirs = [role for role, _, text in seen["messages"] if role != "system"]
        left = list(theirs)
        for role in ours:
            while left and left[0] != role:
                assert left.pop(0) == "assistant", name
            assert left, name
            left.pop(0)
        assert set(left) <= {"assistant"}, name
