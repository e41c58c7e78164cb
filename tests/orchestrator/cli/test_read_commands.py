"""The commands that read what is stored: usage, agents, sessions, events validate."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from orchestrator.cli import common
from orchestrator.cli.common import known_names
from orchestrator.cli.main import COMMANDS as PROGRAM
from orchestrator.cli.main import group, main, with_command
from orchestrator.cli.sessions import COMMANDS
from orchestrator.cli.sessions import command as sessions
from store.dialects import DIALECTS
from store.entries import SessionStateEntry
from store.ids import short
from tests.stored import Forest, StoredSession, sample

ROOT = Path(__file__).resolve().parents[3]
STREAMS = ROOT / "tests" / "data" / "streams"
PEER_STREAMS = sorted(STREAMS.glob("pi.*.jsonl"))
SAPWOOD = [sys.executable, "-m", "orchestrator.cli.main"]
READING = [
    ("usage",),
    ("agents",),
    ("sessions", "list"),
    ("sessions", "show", "port-billing"),
    ("events", "validate", str(STREAMS / "pi.text_openai.jsonl"), "--dialect", "pi"),
]

Run = Callable[..., Result]


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    found.now = time.time() - 120
    yield found
    found.close()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process."""
    for name in ("SAPWOOD_SESSION_DIR", "COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        from orchestrator.cli.main import group

        return CliRunner().invoke(group, with_command(list(arguments)), input=stdin, prog_name="sapwood")

    return invoke


def process(*arguments: str, home: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "SAPWOOD_HOME": str(home), **options.pop("env", {})}
    return subprocess.run([*SAPWOOD, *arguments], env=environ, capture_output=True, check=False, cwd=ROOT, **options)


def named(forest: Forest, name: str) -> StoredSession:
    return next(session for session in forest.sessions.values() if session.header.name == name)


# --- usage ------------------------------------------------------------------------------------------------------------


def test_usage_shows_the_newest_tree(forest: Forest, run: Run) -> None:
    forest.root("older").prompt()
    sample(forest)

    result = run("usage")

    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert lines[1].split() == [
        "port-billing",
        "opus",
        "✓",
        "completed",
        "3.2k",
        "140",
        "1.0k",
        "$0.0047",
        "≥",
        "$0.0464",
    ]
    assert lines[-2] == "4 sessions, own sums to total: verified"


def test_usage_as_json_sums_up(forest: Forest, run: Run) -> None:
    root = sample(forest)

    report = json.loads(run("usage", root.id, "--json").stdout)

    assert report["rootSessionId"] == root.id
    assert report["verified"] is True
    assert sum(node["own"]["input"] for node in report["nodes"]) == report["total"]["input"]
    assert report["total"]["cost"]["unpriced"] == ["local/qwen"]
    assert report["nodes"][2]["unpricedModels"] == ["local/qwen"]


@pytest.mark.parametrize("by", ["name", "prefix", "suffix", "id"])
def test_a_child_has_its_own_report(forest: Forest, run: Run, by: str) -> None:
    sample(forest)
    child = named(forest, "invoices")
    name = {"name": "invoices", "prefix": child.id, "suffix": child.id[-4:], "id": child.id}[by]

    report = json.loads(run("usage", name, "--json").stdout)

    assert [node["name"] for node in report["nodes"]] == ["invoices", "tax-rounding"]
    assert report["total"] == report["nodes"][0]["total"]


def test_usage_of_all_trees(forest: Forest, run: Run) -> None:
    older = forest.root("older")
    older.prompt()
    older.answer()
    sample(forest)

    reports = json.loads(run("usage", "--all", "--json").stdout)

    assert [report["nodes"][0]["name"] for report in reports] == ["older", "port-billing"]
    assert run("usage", "--all").stdout.count("own sums to total: verified") == 2


def test_usage_as_csv_has_a_row_per_session_and_model(forest: Forest, run: Run) -> None:
    root = sample(forest)
    root.answer(tokens=(10, 1, 0, 0), model="test/haiku")

    rows = list(csv.DictReader(io.StringIO(run("usage", "--csv").stdout)))
    total = json.loads(run("usage", "--json").stdout)["total"]

    assert [(row["name"], row["model"]) for row in rows[:2]] == [
        ("port-billing", "test/opus"),
        ("port-billing", "test/haiku"),
    ]
    assert sum(int(row["output"]) for row in rows) == total["output"]
    assert sum(float(row["costUsd"] or 0) for row in rows) == pytest.approx(total["cost"]["total"])
    assert {row["rootSessionId"] for row in rows} == {root.id}


@pytest.mark.parametrize(
    "arguments",
    [
        ("usage", "nobody"),
        ("usage", "../../etc/passwd"),
        ("usage", "\x1b]0;x\x07"),
        ("usage", "0198f0aa-0000-7000-8000-999999999999"),
        ("usage", "0198f0aa"),  # of several
        ("usage", "port-billing", "--all"),
        ("usage", "--json", "--csv"),
        ("usage", "--by"),
        ("sessions", "show"),
        ("sessions", "show", "nobody"),
        ("sessions", "lost"),
        ("agents", "--what"),
        ("events", "--type", "klingon"),
        ("events", "validate", "no such file"),
        ("events", "validate", "--dialect", "klingon"),
    ],
)
def test_wrong_usage_ends_with_status_2_and_says_why(forest: Forest, run: Run, arguments: tuple[str, ...]) -> None:
    sample(forest)

    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr
    assert "\x1b" not in result.stderr
    assert "Traceback" not in result.stderr


def test_without_any_session_usage_says_how_to_begin(run: Run) -> None:
    result = run("usage")

    assert result.exit_code == 2
    assert "there is no session yet" in result.stderr


def test_a_damaged_journal_in_the_sum_is_told_after_the_sum(forest: Forest, run: Run) -> None:
    sample(forest)
    named(forest, "invoices").damage()

    result = run("usage")

    assert result.exit_code == 4
    assert "NOT verified" in result.stdout
    assert f"session {named(forest, 'invoices').id} is damaged" in result.stderr
    assert run("usage", "legacy-shim").exit_code == 0  # it needs none of what is damaged


def test_a_stream_in_which_records_are_missing_says_so_behind_it(forest: Forest, run: Run) -> None:
    sample(forest)
    named(forest, "invoices").damage()

    result = run("events")

    assert (result.exit_code, bool(result.stdout)) == (4, True)
    assert f"session {named(forest, 'invoices').id} is damaged" in result.stderr
    assert run("events", "legacy-shim", "legacy-shim").stdout == run("events", "legacy-shim").stdout


def test_a_header_that_cannot_be_read_is_damage(forest: Forest, run: Run) -> None:
    root = sample(forest)
    root.path.write_bytes(b"\0" * 100 + root.path.read_bytes()[100:])
    before = root.path.read_bytes()

    assert run("usage", root.id).exit_code == 4
    assert run("sessions", "show", root.id).exit_code == 4
    rows = json.loads(run("agents", "--all", "--json").stdout)
    assert [row["status"] for row in rows if row["sessionId"] == root.id] == ["damaged"]
    assert {row["name"] for row in rows} == {None, "invoices", "tax-rounding", "legacy-shim"}  # nobody is out of reach
    assert run("usage", "invoices").exit_code == 0
    assert root.path.read_bytes() == before


# --- agents -----------------------------------------------------------------------------------------------------------


def test_agents_shows_what_ended_a_moment_ago(forest: Forest, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(forest)
    fresh = run("agents")
    later = time.time() + 3600
    monkeypatch.setattr("time.time", lambda: later)
    stale = run("agents")
    touched = sample(forest)
    os.utime(touched.path, (later, later))
    copied = run("agents")  # a file's time is a hint only
    all_of_them = run("agents", "--all")

    assert "├ ▾ invoices" in fresh.stdout
    assert fresh.stdout.split("\n")[-2] == "4 agents · 1 issue · 107k tok · ≥ $0.05"
    assert stale.stdout.split("\n") == [
        "No agents are running.",
        "Start one here or in a terminal; it appears by itself.",
        'sapwood run "…"    or    sapwood demo',
        "Ended trees: 1 · sapwood agents --all",
        "",
    ]
    assert "Ended trees: 2" in copied.stdout
    assert "8 agents" in all_of_them.stdout


def test_agents_shows_who_works_however_long_ago_it_wrote(
    forest: Forest, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sample(forest, ends="open")
    forest.own(root)
    tomorrow = time.time() + 86_400
    monkeypatch.setattr("time.time", lambda: tomorrow)

    rows = json.loads(run("agents", "--json").stdout)

    assert [row["status"] for row in rows] == ["running", "idle", "idle", "idle"]
    assert rows[0]["hostPid"] == os.getpid()


def test_a_crashed_tree_is_lost_and_reading_writes_nothing(forest: Forest, run: Run) -> None:
    root = sample(forest, ends="open")
    before = {path: path.read_bytes() for path in forest.home.sessions.iterdir()}

    rows = json.loads(run("agents", "--json").stdout)
    report = json.loads(run("usage", "--json").stdout)

    assert (rows[0]["status"], rows[0]["outcome"]) == ("lost", "lost")
    assert report["unrepaired"] == 1
    assert {path: path.read_bytes() for path in forest.home.sessions.iterdir()} == before
    assert str(root.path) == rows[0]["path"]


def test_agents_without_a_home(run: Run) -> None:
    assert json.loads(run("agents", "--json").stdout) == []
    assert run("agents").stdout.startswith("No agents are running.\n")


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_newest_first_without_children_and_archived_ones(forest: Forest, run: Run) -> None:
    old = forest.root("old")
    old.prompt()
    gone = forest.root("gone")
    gone.add(SessionStateEntry(state={"status": "archived"}))
    sample(forest)

    listed = json.loads(run("sessions", "list", "--json").stdout)
    everything = json.loads(run("sessions", "list", "--all", "--json").stdout)
    text = run("sessions", "list").stdout.split("\n")

    assert [row["name"] for row in listed] == ["port-billing", "old"]
    assert [row["name"] for row in everything] == [
        "port-billing",
        "invoices",
        "tax-rounding",
        "legacy-shim",
        "gone",
        "old",
    ]
    assert text[0].split() == ["Id", "Name", "Status", "Age", "Messages", "Total", "Folder"]
    assert text[1].split()[1:4] == ["port-billing", "✓", "completed"]


def test_a_long_list_is_cut_and_says_so_but_not_for_programs(forest: Forest, run: Run) -> None:
    for number in range(3):
        forest.root(f"s{number}").prompt()
    forest.root("gone").add(SessionStateEntry(state={"status": "archived"}))

    def names(*arguments: str) -> list[str]:
        return [row["name"] for row in json.loads(run("sessions", "list", "--json", *arguments).stdout)]

    assert run("sessions", "list", "-n", "2").stdout.split("\n")[1:3] == run("sessions", "list").stdout.split("\n")[1:3]
    assert run("sessions", "list", "-n", "2").stdout.endswith("\nOlder trees: 1 · sapwood sessions list --limit 0\n")
    assert "Older" not in run("sessions", "list", "-n", "3").stdout + run("sessions", "list", "-n", "0").stdout
    assert names() == names("--limit", "0") == ["s2", "s1", "s0"]
    assert names("--limit", "2") == ["s2", "s1"]
    assert names("--limit", "2", "--all") == ["gone", "s2"]
    busy = forest.root("busy")
    busy.add(SessionStateEntry(state={"status": "archived"}))
    busy.prompt("and yet it is at work")
    assert names("--limit", "1") == names()[:1] == ["s2"]
    forest.own(busy)
    assert names("--limit", "1") == names()[:1] == ["busy"]


def test_a_list_says_whether_there_is_nothing_or_nothing_but_what_is_archived(forest: Forest, run: Run) -> None:
    assert run("sessions", "list").stdout.startswith("No sessions are stored yet.")

    forest.root("gone").add(SessionStateEntry(state={"status": "archived"}))

    assert run("sessions", "list").stdout == "All stored trees are archived: sapwood sessions list --all\n"
    assert run("sessions", "list", "--json").stdout == "[]\n"


@pytest.mark.parametrize(("begun", "offered"), [("", ["billing", "$other"]), ("bil", ["billing"]), ("x", [])])
def test_the_shell_completes_what_sessions_are_called(
    begun: str, offered: list[str], forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(forest.home.root))
    forest.root(None).prompt()
    other = forest.root("billing")
    other.child("part")

    found = [item.value for item in known_names(click.Context(group), click.Argument(["session"]), begun)]

    unnamed = next(short(each.id) for each in forest.sessions.values() if each.header.name is None)
    assert found == [unnamed if name == "$other" else name for name in offered]


def test_where_nothing_can_be_read_nothing_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", "not absolute")

    assert known_names(click.Context(group), click.Argument(["session"]), "") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_each_is(name: str) -> None:
    found = sessions.get_command(click.Context(sessions), name)

    assert found is not None
    assert found.name == name


def test_a_session_is_shown_with_its_conversation(forest: Forest, run: Run) -> None:
    root = sample(forest)

    result = run("sessions", "show", "port-billing")

    assert result.exit_code == 0
    for expected in (
        f"Session:  {root.id}",
        "Status:   ✓ completed",
        "Model:    test/opus",
        "Entries:  1 model_change, 3 message, 2 child_spawned, 3 child_usage_attributed, 2 child_settled, 1 run_settled",
        f"Journal:  {root.path}",
        "user\n  Port the billing module\n",
        "assistant (opus)\n  Billing is ported; the shim is left.\n",
    ):
        assert expected in result.stdout


def test_a_long_conversation_is_bounded_and_says_so(forest: Forest, run: Run) -> None:
    root = forest.root("long")
    for number in range(60):
        root.prompt(f"message {number}")

    text = run("sessions", "show", "long").stdout
    shown = json.loads(run("sessions", "show", "long", "--json", "--messages", "2").stdout)

    assert "[20 earlier ones are not shown; --messages 60 shows all]" in text
    assert "message 19\n" not in text
    assert "message 20\n" in text
    assert shown["omittedMessages"] == 58
    assert [message["content"][0]["text"] for message in shown["messages"]] == ["message 58", "message 59"]
    assert shown["entries"] == {"message": 60, "run_settled": 1}  # the run was lost
    assert "Missing:  1 that a crash left out" in text
    assert shown["header"]["id"] == root.id
    assert shown["session"]["messageCount"] == 60


def test_a_damaged_session_is_shown_as_far_as_it_goes(forest: Forest, run: Run) -> None:
    sample(forest)
    named(forest, "invoices").damage()

    result = run("sessions", "show", "invoices")

    assert result.exit_code == 4
    assert "Status:   ! damaged" in result.stdout
    assert "Ported, 14 call sites." in result.stdout
    assert "sapwood sessions check" in result.stderr


# --- events validate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [path for path in PEER_STREAMS if "abort" not in path.name], ids=lambda path: path.name
)
def test_streams_of_a_peer_are_sound(run: Run, path: Path) -> None:
    data = path.read_bytes()
    result = run("events", "validate", str(path), "--dialect", "pi")
    from_stdin = run("events", "validate", "--dialect", "pi", stdin=data)
    from_dash = run("events", "validate", "-", "--dialect", "pi", "--json", stdin=data)

    lines = data.count(b"\n")
    expected = f"sound: {lines} line{'' if lines == 1 else 's'}, 1 session\n"
    assert (result.exit_code, result.stdout) == (0, expected)
    assert from_stdin.stdout == result.stdout
    assert json.loads(from_dash.stdout) == {
        "file": "stdin",
        "sound": True,
        "lines": lines,
        "sessions": 1,
        "findings": [],
    }


def test_a_lost_line_is_found_where_it_is_missed(run: Run, tmp_path: Path) -> None:
    lines = (STREAMS / "pi.parallel_tools_openai.jsonl").read_bytes().split(b"\n")
    ends = [place for place, line in enumerate(lines) if b'"tool_execution_end"' in line]
    del lines[ends[0]]
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"\n".join(lines))

    result = run("events", "validate", str(broken), "--dialect", "pi")
    verdict = json.loads(run("events", "validate", str(broken), "--dialect", "pi", "--json").stdout)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"{broken}:")
    assert "sound" not in result.stdout
    assert verdict["sound"] is False
    first = verdict["findings"][0]
    assert result.stdout.split("\n")[0] == f"{broken}:{first['line']}: {first['rule']}: {first['text']}"


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "header"),
        (b"\n", "json"),
        (b"{", "json"),
        (b"\xff\xfe\n", "json"),
        (b"[" * 100_000 + b"\n", "json"),
        (b'{"type":"session","id":"\xe2\x80\xa8"}\n', "shape"),
        (b'{"type":"\x1b[31m"}\n', "json"),
    ],
)
def test_rubbish_is_a_finding_and_no_crash(run: Run, data: bytes, rule: str) -> None:
    result = run("events", "validate", stdin=data)

    assert result.exit_code == 1
    assert f": {rule}: " in result.stdout
    assert "\x1b" not in result.stdout


def test_the_exit_status_is_part_of_the_stream(run: Run) -> None:
    stream = (STREAMS / "pi.text_openai.jsonl").read_bytes()
    cut = b"".join(line + b"\n" for line in stream.split(b"\n")[:-4])

    assert run("events", "validate", "--dialect", "pi", "--exit-status", "0", stdin=stream).exit_code == 0
    assert run("events", "validate", "--dialect", "pi", "--exit-status", "0", stdin=cut).exit_code == 1


def test_several_stored_trees_are_one_sound_stream(forest: Forest, run: Run) -> None:
    sample(forest)
    other = forest.root("other")
    other.prompt()
    other.answer()
    other.settle()

    told = run("events", "port-billing", "other")

    result = run("events", "validate", stdin=told.stdout_bytes)
    assert (result.exit_code, result.stdout) == (0, f"sound: {told.stdout.count(chr(10))} lines, 5 sessions\n")


@pytest.mark.parametrize("has_end", [True, False])
def test_a_line_above_the_limit_is_one_finding_and_what_follows_is_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, has_end: bool
) -> None:
    data = (STREAMS / "pi.text_openai.jsonl").read_bytes()
    monkeypatch.setattr("orchestrator.cli.events.LINE_LIMIT_BYTES", max(map(len, data.split(b"\n"))) + 1)

    result = run(
        "events", "validate", "--dialect", "pi", stdin=data + b"x" * 10 * len(data) + (b"\n" if has_end else b"")
    )
    before = run("events", "validate", "--dialect", "pi", stdin=b"x" * 10 * len(data) + b"\n" + data)

    lines = data.count(b"\n")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith(f"stdin:{lines + 1}: unread: expected lines of at most ")
    assert result.stdout.count("\n") == 1
    assert before.stdout.count("\n") == 1


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [*PROGRAM, *(f"sessions {name}" for name in COMMANDS), "events validate"],
)
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")

    assert result.exit_code == 0
    assert f"  sapwood {command.split()[0]}" in result.stdout or "| sapwood events validate" in result.stdout


HOSTILE = "\x1b]0;owned\x07\u202egnp\x9b2J\x7f[red]\nx"


@pytest.mark.parametrize("is_json", [False, True])
def test_nothing_foreign_reaches_the_terminal_raw(forest: Forest, run: Run, is_json: bool) -> None:
    root = forest.root(HOSTILE, cwd=f"/{HOSTILE}")
    root.prompt(HOSTILE)
    root.answer(HOSTILE, model=f"local/{HOSTILE}", price=None)
    root.child(HOSTILE, HOSTILE).prompt(HOSTILE)
    flags = ("--json",) if is_json else ()

    for arguments in (("usage", root.id), ("agents",), ("sessions", "list", "--all"), ("sessions", "show", root.id)):
        result = run(*arguments, *flags)
        assert result.exit_code == 0, result.stderr
        for char in "\x1b\x07\x9b\x7f\u202e":
            assert char not in result.stdout
        assert not is_json or HOSTILE in texts_in(json.loads(result.stdout))


def texts_in(value: Any) -> set[str]:
    """All strings in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return set().union(*map(texts_in, value))
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: " ".join(arguments[:2]))
def test_reading_imports_neither_a_loop_nor_a_network(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    forest = Forest.at(tmp_path / "home")
    sample(forest)
    forest.close()
    probe = (
        "import sys\n"
        "from orchestrator.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\n"
        "except SystemExit as end:\n    print(end.code, file=sys.stderr)\n"
        "print([name for name in ('trio', 'httpx', 'asyncio', 'rich.console') if name in sys.modules], file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")},
        capture_output=True,
        check=False,
        cwd=ROOT,
    )

    assert done.stderr.decode().split("\n")[-3:] == ["0", "[]", ""]


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_reader_who_leaves_sees_no_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    forest = Forest.at(tmp_path / "home")
    sample(forest)
    forest.close()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*SAPWOOD, *arguments],
            env={**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")},
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            cwd=ROOT,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("arguments", "where"),
    [*((arguments, where) for arguments in READING for where in ("> /dev/full", ">&-")), (("--help",), "> /dev/full")],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_stdout_that_takes_nothing_is_told_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...], where: str
) -> None:
    forest = Forest.at(tmp_path / "home")
    sample(forest)
    forest.close()

    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {where}', "bash", *SAPWOOD, *arguments],
        env={**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")},
        capture_output=True,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 1
    assert re.fullmatch(rb"sapwood: stdout could not be written: [^\n]+\n", done.stderr)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["usage", "--help"], ["sessions", "list", "-h"]])
def test_help_that_nobody_reads_ends_without_a_word(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "orchestrator.cli.main", *arguments]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (141, b"")


def test_a_validator_whose_reader_leaves_in_the_middle_sees_no_traceback() -> None:
    lines = (STREAMS / "pi.text_openai.jsonl").read_bytes() * 2_000

    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m orchestrator.cli.main events validate | head -1; echo ${{PIPESTATUS[0]}}"],
        input=lines,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )

    assert done.stderr == b""
    assert done.stdout.split(b"\n")[0].startswith(b"stdin:1: ")
    assert done.stdout.split(b"\n")[1] == b"141"


@pytest.mark.parametrize("environ", [{"PYTHONIOENCODING": "ascii"}, {"TERM": "dumb", "PYTHONIOENCODING": "utf-8"}])
def test_where_there_is_only_ascii_signs_are_ascii(tmp_path: Path, environ: dict[str, str]) -> None:
    forest = Forest.at(tmp_path / "home")
    sample(forest)
    forest.close()

    for arguments in READING[:4]:
        done = process(*arguments, home=tmp_path / "home", env=environ)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()
    assert b"` tax-rounding" in process("agents", "--all", home=tmp_path / "home", env=environ).stdout


@pytest.mark.parametrize(
    ("environ", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_is_for_terminals_that_want_it(
    forest: Forest, run: Run, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], is_coloured: bool
) -> None:
    sample(forest)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert "\x1b" not in run("agents").stdout
    monkeypatch.setattr("sys.stdout", Terminal())

    assert common.has_colour() is is_coloured


class Terminal(io.StringIO):
    """A stdout that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_state_is_what_is_coloured(forest: Forest, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(forest)
    plain = run("agents").stdout.split("\n")
    monkeypatch.setattr(common, "has_colour", lambda: True)
    monkeypatch.setattr(common, "is_styled", lambda: True)

    coloured = run("agents").stdout.split("\n")

    assert plain[4].startswith(" └ legacy-shim          ✗ failed ")
    assert "\x1b[1;31m✗ failed       \x1b[0m" in coloured[4]
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured[4]).rstrip() == plain[4]


def test_every_dialect_can_be_asked_for(run: Run) -> None:
    assert all(name in run("events", "validate", "--help").stdout for name in DIALECTS)


def test_the_program_takes_its_arguments_from_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path))

    with pytest.raises(SystemExit) as ended:
        main(["agents", "--json"])

    assert ended.value.code == 0


@pytest.mark.parametrize("by", ["model", "day"])
@pytest.mark.parametrize("arguments", [(), ("--all",)])
def test_usage_by_model_and_by_day_sums_to_what_sessions_show(
    forest: Forest, run: Run, by: str, arguments: tuple[str, ...]
) -> None:
    sample(forest)
    reports = json.loads(run("usage", "--all", "--json").stdout)

    found = json.loads(run("usage", "--by", by, "--json", *arguments).stdout)
    table = list(csv.DictReader(io.StringIO(run("usage", "--by", by, "--csv", *arguments).stdout)))
    text = run("usage", "--by", by, *arguments).stdout

    assert found["by"] == by
    assert found["verified"] is True
    assert found["total"] == reports[0]["total"]
    assert sum(int(row["output"]) for row in table) == found["total"]["output"]
    assert [row[by] for row in table] == [part["key"] for part in found["parts"]]
    assert "parts sum to total: verified" in text
    assert "≥ $0.0464" in text


def test_usage_by_something_else_is_refused(run: Run) -> None:
    assert run("usage", "--by", "colour").exit_code == 2
