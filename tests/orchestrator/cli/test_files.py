"""`sapwood sessions import`, `export`, `check` and `repair`, as people and programs call them."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import group, with_command
from store.entries import ChildUsageAttributedEntry
from store.usage import Usage
from tests.imported import DATA, NESTED
from tests.plain import HEADER, SESSION, TORN, A, B, C
from tests.stored import Forest, sample

ROOT = Path(__file__).resolve().parents[3]
Run = Callable[..., Result]


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`sapwood sessions …` in this process."""
    for name in ("SAPWOOD_SESSION_DIR", "COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))

    def invoke(*arguments: str | Path) -> Result:
        words = ["sessions", *(str(each) for each in arguments)]
        return CliRunner().invoke(group, with_command(words), prog_name="sapwood")

    return invoke


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def plain(folder: Path, *lines: str, name: str = "x.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# --- import -----------------------------------------------------------------------------------------------------------


def test_an_import_tells_programs_what_became_of_the_file(run: Run, tmp_path: Path) -> None:
    path = plain(tmp_path, HEADER, A, TORN + C)

    result = run("import", path, "--json")

    start = len(f"{HEADER}\n{A}\n")
    assert result.exit_code == 0
    assert rows(result) == [
        {
            "sessionId": SESSION,
            "entries": 2,
            "skipped": [{"line": 3, "offset": start, "reason": "no whole JSON object"}],
            "salvaged": [
                {"line": 3, "offset": start + len(TORN), "what": "an entry on a line with something else"},
                {"line": 3, "offset": start + len(TORN), "what": "its parent 'b' is not there: attached to entry a"},
            ],
            "path": str(path),
        }
    ]


def test_an_import_tells_people_the_same(run: Run, tmp_path: Path) -> None:
    path = plain(tmp_path, HEADER, A, TORN, B)

    result = run("import", path)

    assert result.stdout.split("\n") == [
        f"{path}: 2 entries, now session {SESSION}",
        f"  line 3 (byte {len(HEADER) + len(A) + 2}): no whole JSON object",
        "",
    ]


def test_what_was_imported_before_is_told_and_left_alone(run: Run, tmp_path: Path) -> None:
    path = plain(tmp_path, HEADER, A)
    run("import", path)

    again, json_again, once_more = run("import", path), run("import", path, "--json"), run("import", path, "--again")

    assert (again.exit_code, json_again.exit_code, once_more.exit_code) == (0, 0, 0)
    assert again.stdout == f"{path}: was imported before, as {SESSION}; --again imports it once more\n"
    assert rows(json_again)[0]["importedBefore"] is True
    assert f"the first 1 are copies from session {SESSION}" in once_more.stdout


def test_a_file_that_is_no_session_is_refused_and_the_others_come_in(run: Run, tmp_path: Path) -> None:
    newer = plain(tmp_path, HEADER.replace('"version":3', '"version":4'), A, name="newer.jsonl")
    good = plain(tmp_path, HEADER, A, name="good.jsonl")
    missing = tmp_path / "missing.jsonl"

    result = run("import", newer, missing, good, "--json")

    assert result.exit_code == 1
    assert [row["sessionId"] for row in rows(result)] == [SESSION, None, None]
    assert "found version 4" in rows(result)[1]["refusal"]
    assert "No such file" in rows(result)[2]["refusal"]
    assert "files that were not imported: 2" in result.stderr


def test_a_folder_is_read_with_all_that_is_in_it(run: Run, tmp_path: Path) -> None:
    """Prime Agent's layout: sessions here, children in folders of session-artifacts, other files beside them."""
    folder = tmp_path / "prime"
    for name, place in zip(
        NESTED, ("sessions", "session-artifacts/a/sub-1", "session-artifacts/a/sub-1/sub-2"), strict=True
    ):
        plain(folder / place, *(DATA / name).read_text().rstrip("\n").split("\n"), name=name)
    plain(folder, '{"v":1,"op":"meta"}', name="rlm-ledger.jsonl")

    result = run("import", folder, "--json")

    assert result.exit_code == 0
    assert [row.get("parentSessionId") for row in rows(result)] == [
        None,
        rows(result)[0]["sessionId"],
        rows(result)[1]["sessionId"],
    ]
    assert "no sessions: 1" in result.stderr
    listed = json.loads(run("list", "--all", "--json").stdout)
    assert [(row["depth"], row["total"]["input"]) for row in listed] == [(0, 700), (1, 400), (2, 100)]


def test_a_folder_without_sessions_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    result = run("import", tmp_path / "empty")

    assert result.exit_code == 1
    assert "there is no session file in there" in result.stderr


def test_hostile_names_and_ids_stay_text(run: Run, tmp_path: Path) -> None:
    path = plain(tmp_path, HEADER.replace(SESSION, "../../../../etc/x"), A, name="a\x1b[31m\u202eb.jsonl")

    result = run("import", path)

    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
    files = [each.relative_to(tmp_path) for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.parts[0] for each in files} == {"home", path.name}


# --- export -----------------------------------------------------------------------------------------------------------


def test_an_export_is_the_file_that_was_imported(run: Run, tmp_path: Path) -> None:
    source = DATA / "pi.two_prompts.session.jsonl"
    run("import", source)
    session = json.loads(run("list", "--json").stdout)[0]["sessionId"]

    result = run("export", session)

    assert result.exit_code == 0
    lines = result.stdout.encode().split(b"\n")
    wanted = source.read_bytes().split(b"\n")[:-1]
    assert lines[1 : len(wanted)] == wanted[1:]
    header = json.loads(lines[0])
    assert "framing" not in header
    assert {**header, "importedFrom": None} == {**json.loads(wanted[0]), "importedFrom": None}


def test_a_file_that_is_there_is_not_replaced_unless_it_is_asked_for(run: Run, forest: Forest, tmp_path: Path) -> None:
    sample(forest)
    target = tmp_path / "out.jsonl"
    target.write_text("mine")

    refused = run("export", "port-billing", "-o", target)
    kept = target.read_text()
    forced = run("export", "port-billing", "-o", target, "--force")

    assert (refused.exit_code, kept) == (2, "mine")
    assert forced.exit_code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert json.loads(target.read_text().split("\n")[0])["name"] == "port-billing"
    assert {path.name for path in tmp_path.iterdir()} == {"home", "out.jsonl"}


def test_a_tree_goes_where_pi_looks_for_it(run: Run, forest: Forest, tmp_path: Path) -> None:
    root = sample(forest)
    folder = tmp_path / "pi" / "sessions"

    result = run("export", "port-billing", "--layout", "pi", folder)
    again = run("export", "port-billing", "--layout", "pi", folder)

    assert (result.exit_code, again.exit_code) == (0, 2)
    paths = [Path(line) for line in result.stdout.split("\n") if line]
    assert {path.parent for path in paths} == {folder / "--work--"}
    assert sorted(path for path in folder.rglob("*.jsonl")) == sorted(paths)
    headers = [json.loads(path.read_bytes().split(b"\n")[0]) for path in paths]
    assert headers[0]["id"] == root.id
    assert paths[0].name == f"{headers[0]['timestamp'].replace(':', '-').replace('.', '-')}_{root.id}.jsonl"
    by_id = dict(zip((header["id"] for header in headers), paths, strict=True))
    assert all(header["parentSession"] == str(by_id[header["parentSessionId"]]) for header in headers[1:])
    names = [json.loads(path.read_bytes().split(b"\n")[-2]).get("name") for path in paths]
    assert names == ["port-billing", "invoices", "tax-rounding", "legacy-shim"]


def test_a_damaged_session_is_exported_as_far_as_it_can_be_read(run: Run, forest: Forest) -> None:
    root = sample(forest)
    root.damage()

    result = run("export", root.id)

    assert result.exit_code == 4
    assert "sessions check" in result.stderr
    lines = [json.loads(line) for line in result.stdout.split("\n") if line]
    known = {line["id"] for line in lines[1:]}
    assert all(line["parentId"] is None or line["parentId"] in known for line in lines[1:])


def test_a_page_for_people_holds_the_tree(run: Run, forest: Forest, tmp_path: Path) -> None:
    sample(forest)
    target = tmp_path / "page.html"

    result = run("export", "port-billing", "--html", "-o", target)

    assert result.exit_code == 0
    page = target.read_text()
    assert all(text in page for text in ("port-billing", "tax-rounding", "Ported, 14 call sites.", "Half even."))


@pytest.mark.parametrize("options", [("--html", "--layout", "pi", "x"), ("-o", "y", "--layout", "pi", "x")])
def test_options_that_exclude_each_other_are_told(options: tuple[str, ...], run: Run, forest: Forest) -> None:
    sample(forest)

    assert run("export", "port-billing", *options).exit_code == 2


def test_a_reader_that_leaves_ends_an_export_without_a_word(forest: Forest, tmp_path: Path) -> None:
    root = forest.root("big")
    for _ in range(40):
        root.prompt("x" * 10_000)
    export = f"{sys.executable} -m orchestrator.cli.main sessions export {root.id}"
    command = f"{export} | head -c 10 >/dev/null; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "SAPWOOD_HOME": str(forest.home.root)},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert (done.stdout, done.stderr) == ("141\n", "")


def test_on_a_terminal_an_export_harms_nothing_and_says_the_same(forest: Forest) -> None:
    root = forest.root("root")
    root.prompt("a\x9b31m\u202eb")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "orchestrator.cli.main", "sessions", "export", root.id]

    subprocess.run(
        command, env={**os.environ, "SAPWOOD_HOME": str(forest.home.root)}, stdout=theirs, check=True, cwd=ROOT
    )

    os.close(theirs)
    shown = os.read(ours, 65_536)
    os.close(ours)
    assert shown.isascii()
    assert json.loads(shown.split(b"\n")[1])["message"]["content"][0]["text"] == "a\x9b31m\u202eb"


# --- check ------------------------------------------------------------------------------------------------------------


def test_sound_sessions_have_no_findings(run: Run, forest: Forest) -> None:
    root = sample(forest)

    everything, one = run("check"), run("check", "port-billing", "--json")

    assert (everything.exit_code, everything.stdout) == (0, "sessions: 4 sound, 0 not\n")
    assert one.exit_code == 0
    assert rows(one)[0]["sessionId"] == root.id
    assert all(row["skipped"] == row["salvaged"] == row["faults"] == [] for row in rows(one))


def test_damage_is_named_by_line_and_byte(run: Run, forest: Forest) -> None:
    root = sample(forest)
    root.damage()
    lines = root.path.read_bytes().splitlines(keepends=True)

    for target in (root.id, str(root.path)):
        result = run("check", target, "--json")
        assert result.exit_code == 1
        assert rows(result)[0]["skipped"] == [
            {"line": 2, "offset": len(lines[0]), "end": len(lines[0] + lines[1]), "reason": "bytes that are no record"}
        ]
    assert "  line 2 (bytes " in run("check").stdout
    assert run("check").stdout.endswith("sessions: 3 sound, 1 not\n")


def test_a_journal_without_its_header_is_checked_by_its_id(run: Run, forest: Forest) -> None:
    root = sample(forest)
    root.path.write_bytes(root.path.read_bytes().replace(b'"type":"session"', b'"tYpe":"session"', 1))

    result = run("check", root.id, "--json")

    assert result.exit_code == 1
    assert "it has no header" in str(rows(result)[0]["faults"])


def test_an_aggregate_that_does_not_add_up_is_a_finding(run: Run, forest: Forest) -> None:
    root = forest.root("root")
    root.prompt()
    target = root.answer()
    told = ChildUsageAttributedEntry(
        target_id=target,
        child_usage=Usage(input=5),
        aggregate_usage=Usage(input=7),
        origin_session_id="0198f0aa-0000-7000-8000-00000000ffff",
        origin_entry_id="00000001",
    )
    entry = root.add(told)
    root.settle()

    faults = rows(run("check", "root", "--json"))[0]["faults"]

    assert f"the aggregateUsage of entry {entry} is not what its parts add up to" in str(faults)


def test_children_that_are_missing_and_crashes_are_findings(run: Run, forest: Forest) -> None:
    root = forest.root("root")
    root.prompt()
    root.announce("gone")
    root.answer()

    result = run("check", "root")

    assert result.exit_code == 1
    assert "a crash left 2 entries of this tree out; the next opening writes them" in result.stdout
    assert "  line 3 (byte " in result.stdout
    assert "its child 0198f0aa-0000-7000-8000-000000000002 has no journal here" in result.stdout


def test_sums_that_cannot_be_verified_are_a_finding(run: Run, forest: Forest) -> None:
    root = forest.root("root")
    root.prompt()
    target = root.answer()
    root.add(ChildUsageAttributedEntry(target_id=target, child_usage=Usage(input=7), aggregate_usage=None))
    root.settle()

    result = run("check", "root")

    assert result.exit_code == 1
    assert "its total and the sum of what its sessions cost are $0.0000, 7 tokens, apart" in result.stdout


def test_a_file_of_another_program_is_checked_as_it_is(run: Run, tmp_path: Path) -> None:
    good = plain(tmp_path, HEADER, A, B, name="good.jsonl")
    bad = plain(tmp_path, HEADER, A, TORN, B, name="bad.jsonl")
    other = plain(tmp_path, "{}", name="other.jsonl")

    results = [run("check", path, "--json") for path in (good, bad, other)]

    assert [result.exit_code for result in results] == [0, 1, 1]
    assert [row["line"] for row in rows(results[1])[0]["skipped"]] == [3]
    assert "expected a session file" in rows(results[2])[0]["refusal"]
    assert not (tmp_path / "home").exists()


def test_a_journal_elsewhere_is_checked_with_its_frames(run: Run, forest: Forest, tmp_path: Path) -> None:
    root = sample(forest)
    copy = tmp_path / "copy.jsonl"
    data = root.path.read_bytes()
    copy.write_bytes(data)
    sound = run("check", copy)
    copy.write_bytes(data.replace(b"I start two", b"I start 200", 1))

    changed = run("check", copy)

    assert (sound.exit_code, changed.exit_code) == (0, 1)
    assert "damaged: " in changed.stdout


@pytest.mark.parametrize("command", ["check", "export", "repair"])
def test_a_session_that_is_not_there_is_wrong_usage(command: str, run: Run, forest: Forest) -> None:
    result = run(command, "nobody")

    assert result.exit_code == 2
    assert "no session has the id or name 'nobody'" in result.stderr


# --- repair -----------------------------------------------------------------------------------------------------------


def test_a_repair_leaves_a_sound_tree_and_the_old_file(run: Run, forest: Forest) -> None:
    root = sample(forest)
    root.damage()
    old = root.path.read_bytes()

    result = run("repair", "port-billing")

    assert result.exit_code == 0
    kept = root.path.with_name(f"{root.path.name}.damaged-1")
    assert kept.read_bytes() == old
    assert f"the damaged file is {kept}" in result.stdout
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert run("check").exit_code == 0


def test_a_repair_writes_what_a_crash_left_out(run: Run, forest: Forest) -> None:
    root = forest.root("root")
    root.prompt()
    root.announce("gone")

    result = run("repair", "root")

    assert result.exit_code == 0
    assert "2 entries that a crash had left out of the tree were written" in result.stdout
    found = rows(run("check", "root", "--json"))[0]["faults"]
    assert ["has no journal here" in fault["reason"] for fault in found] == [True]


def test_a_tree_that_is_owned_is_left_alone(run: Run, forest: Forest) -> None:
    root = sample(forest)
    root.damage()
    forest.own(root)
    old = root.path.read_bytes()

    result = run("repair", root.id, "--json")

    assert result.exit_code == 4
    assert "belongs to process" in result.stderr
    assert root.path.read_bytes() == old


# --- as commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["import", "export", "check", "repair"])
def test_each_command_shows_an_example(command: str, run: Run) -> None:
    result = run(command, "--help")

    assert result.exit_code == 0
    assert f"  sapwood sessions {command}" in result.stdout


def test_the_group_brings_no_event_loop_along() -> None:
    code = "import sys, orchestrator.cli.sessions; print(sorted({'trio', 'httpx'} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout == "[]\n"
