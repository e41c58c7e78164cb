"""Every example does what its first lines say, with the installed command."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAPWOOD = Path(sys.executable).with_name("sapwood")
PATIENCE_S = 120.0

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command inside a folder of `examples`, with a home of its own."""
    environ = {
        "PATH": os.pathsep.join([str(SAPWOOD.parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(tmp_path),
        "SAPWOOD_HOME": str(tmp_path / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(folder: str, *command: str | Path) -> Done:
        return subprocess.run(
            command,
            cwd=EXAMPLES / folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )

    return run


def script(*words: str) -> Sequence[str]:
    return (str(SAPWOOD), "-m", "scripted/script.toml", *words)


def stream(run: Run, folder: str, *words: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The events of a run in JSON mode, which `events validate` finds nothing wrong with."""
    done = run(folder, *script("--mode", "json", *words))
    assert (done.stderr == "") == (done.returncode == 0)
    kept = tmp_path / "stream.jsonl"
    kept.write_text(done.stdout, "utf-8")
    checked = run(folder, SAPWOOD, "events", "validate", kept, "--exit-status", str(done.returncode))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def names(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Names of sessions by id; the root is `root`."""
    heads = [event for event in events if event["type"] == "session"]
    return {head["sessionId"]: head.get("name", "root") for head in heads}


def outcomes(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    name = names(events)
    return {name[event["sessionId"]]: event["outcome"] for event in events if event["type"] == "agent_settled"}


def test_all_examples_are_in_the_list_that_the_folder_begins_with() -> None:
    listed = set(re.findall(r"^\| \[`([^`/]+)/?`\]", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE))

    assert listed == {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}


# --- review -----------------------------------------------------------------------------------------------------------


def test_three_reviewers_look_at_the_files_and_the_root_merges_what_they_found(run: Run) -> None:
    done = run("review", *script("shop.py", "mail.py"))

    assert (done.returncode, done.stderr) == (0, "")
    errors, secrets, todos = done.stdout.split("\n## ")[1:]
    assert "shop.py:11:        except Exception:" in errors
    assert 'mail.py:5:PASSWORD = "' in secrets
    assert {line.partition(":")[0] for line in todos.strip().split("\n")[1:]} == {"shop.py", "mail.py"}


def test_only_the_files_that_were_named_are_reviewed(run: Run) -> None:
    done = run("review", *script("mail.py"))

    assert "mail.py:" in done.stdout
    assert "shop.py" not in done.stdout


def test_the_stream_of_a_review_shows_three_children_that_completed(run: Run, tmp_path: Path) -> None:
    events = stream(run, "review", "shop.py", "mail.py", tmp_path=tmp_path)

    assert outcomes(events) == dict.fromkeys(("root", "errors", "secrets", "todos"), "completed")


# --- retry ------------------------------------------------------------------------------------------------------------


def test_what_can_be_tried_again_is_and_the_root_hears_how_each_child_ended(run: Run) -> None:
    done = run("retry", *script("Go"))

    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split(": ", 1) for line in done.stdout.strip().split("\n")[:3])
    assert said == {
        "busy": "third time lucky",
        "cut": "whole at last",
        "broke": "error: You exceeded your current quota",
    }


def test_the_stream_tells_of_every_retry_and_of_its_success(run: Run, tmp_path: Path) -> None:
    events = stream(run, "retry", "Go", tmp_path=tmp_path)
    name = names(events)

    starts = [
        (name[event["sessionId"]], event["attempt"], event["errorMessage"])
        for event in events
        if event["type"] == "auto_retry_start"
    ]
    assert sorted(starts) == [
        ("busy", 1, "Overloaded, please try again"),
        ("busy", 2, "Overloaded, please try again"),
        ("cut", 1, "peer closed connection"),
    ]
    ends = [(name[event["sessionId"]], event["success"]) for event in events if event["type"] == "auto_retry_end"]
    assert sorted(ends) == [("busy", True), ("cut", True)]
    assert outcomes(events) == {"root": "completed", "busy": "completed", "cut": "completed", "broke": "failed"}


def test_the_answer_that_was_cut_is_billed(run: Run, tmp_path: Path) -> None:
    events = stream(run, "retry", "Go", tmp_path=tmp_path)
    name = names(events)

    billed = [
        (event["message"]["stopReason"], event["message"]["usage"]["output"])
        for event in events
        if event["type"] == "message_end"
        and event["message"]["role"] == "assistant"
        and name[event["sessionId"]] == "cut"
    ]
    assert billed == [("error", 8), ("stop", 14)]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_refused_child_is_told_to_the_model_and_fails_nothing(run: Run) -> None:
    done = run("limits", *script("--max-children", "5", "Go"))

    assert (done.returncode, done.stderr) == (0, "")
    assert "this would make 6 children in all, and the limit (max_children) is 5; raise it with --max-children" in (
        done.stdout
    )
    rows = json.loads(run("limits", SAPWOOD, "agents", "--all", "--json").stdout)
    assert Counter(row["depth"] for row in rows) == {0: 1, 1: 1, 2: 4}


def test_more_depth_makes_a_chain(run: Run) -> None:
    run("limits", *script("--max-depth", "4", "--max-children", "4", "Go"))

    rows = json.loads(run("limits", SAPWOOD, "agents", "--all", "--json").stdout)
    assert [row["depth"] for row in rows] == [0, 1, 2, 3, 4]


def test_the_limit_of_turns_ends_the_run_with_a_status_of_its_own(run: Run, tmp_path: Path) -> None:
    done = run("limits", *script("--max-turns", "4", "Go"))
    events = stream(run, "limits", "--max-turns", "4", "Go", tmp_path=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert "the limit of 4 turns for the whole tree is reached; raise it with --max-turns" in done.stderr
    assert "max_turns" in {event["limit"] for event in events if event["type"] == "limit_reached"}
    assert outcomes(events)["root"] == "limit_reached"


# --- declared ---------------------------------------------------------------------------------------------------------


def test_a_declared_tree_runs_in_its_order_and_answers_with_what_its_agents_answered(run: Run) -> None:
    done = run("declared", SAPWOOD, "run", "--tree", "tree.toml")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.split("\n") if line.startswith("## ")] == [
        "## longest: completed",
        "## names: completed",
        "## report: completed",
    ]
    assert done.stdout.endswith("It is all there: tree.toml\n")
    rows = json.loads(run("declared", SAPWOOD, "agents", "--all", "--json").stdout)
    assert [(row["name"], row["depth"], row["outcome"]) for row in rows[1:]] == [
        ("longest", 1, "completed"),
        ("names", 1, "completed"),
        ("report", 1, "completed"),
        ("proof", 2, "completed"),
    ]


# --- the programs -----------------------------------------------------------------------------------------------------


def watch(run: Run, folder: str, *words: str | Path) -> Done:
    return run(folder, sys.executable, EXAMPLES / "watch.py", *words)


def test_the_monitor_takes_no_retry_for_an_end(run: Run) -> None:
    done = watch(run, "retry", "-m", "scripted/script.toml", "Go")

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.strip().split("\n")
    assert sum("agent_end, but it will be tried again" in line for line in lines) == 3
    assert "root: completed" in lines
    assert {line.strip() for line in lines[-3:]} == {"busy: completed", "cut: completed", "broke: failed"}


def test_the_monitor_prints_one_line_per_event(run: Run) -> None:
    done = watch(run, "retry", "--deltas", "-m", "scripted/script.toml", "Go")

    numbers = [int(line.split()[0]) for line in done.stdout.split("\n") if re.match(r" *\d+ ", line)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 100


def test_the_monitor_splits_the_stream_into_what_each_session_told(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "split"

    watch(run, "retry", "--split", folder, "-m", "scripted/script.toml", "Go")

    parts = {
        path.stem: [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]] for path in folder.iterdir()
    }
    assert len(parts) == 4
    for session_id, events in parts.items():
        assert events[0]["type"] == "session"
        assert events[0]["id"] == session_id
        assert not any({"seq", "sessionId", "at"} & event.keys() for event in events)
        assert [event["type"] for event in events].count("agent_settled") == 1
    root = next(events for events in parts.values() if "parentSessionId" not in events[0])
    spawned = {event["childSessionId"] for event in root if event["type"] == "child_spawned"}
    assert spawned == {session_id for session_id, events in parts.items() if events is not root}


def test_the_monitor_ends_with_the_status_of_what_it_watches(run: Run) -> None:
    limited = watch(run, "limits", "-m", "scripted/script.toml", "--max-turns", "4", "Go")
    wrong = watch(run, "limits", "-m", "scripted/nothing.toml", "Go")

    assert limited.returncode == 3
    assert "root: limit_reached" in limited.stdout
    assert wrong.returncode == 2
    assert "nothing.toml" in wrong.stderr


def test_a_tree_with_a_model_and_a_tool_of_ones_own_needs_no_disk(run: Run, tmp_path: Path) -> None:
    done = run(".", sys.executable, EXAMPLES / "embed.py")

    assert (done.returncode, done.stderr) == (0, "")
    answer, *rows, events = done.stdout.strip().split("\n")
    assert answer == "sea: 13 words; hill: 13 words"
    assert rows[0] == "root: completed, 3 turns, own $0.000600, with children $0.001400"
    assert sorted(row.partition(":")[0] for row in rows[1:]) == ["hill", "sea"]
    assert int(events.split()[0]) > 50
    assert not (tmp_path / "home").exists()


def test_costs_are_folded_per_level_and_per_model(run: Run) -> None:
    run("review", *script("shop.py", "mail.py"))

    done = run("review", sys.executable, EXAMPLES / "costs.py")

    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.strip().split("\n")]
    assert ["0", "1", "5,220", "0.0207"] in rows
    assert ["1", "3", "5,760", "0.0234"] in rows
    assert ["scripted/script.toml", "4", "10,980", "0.0441"] in rows
    assert rows[-1] == ["sum", "0.0441", "dollars,", "verified:", "yes"]


def test_costs_of_a_session_that_is_not_there_end_with_the_status_of_the_command(run: Run) -> None:
    done = run(".", sys.executable, EXAMPLES / "costs.py", "nobody")

    assert done.returncode == 2
    assert "nobody" in done.stderr
    assert done.stdout == ""


def test_a_front_end_drives_a_run_by_lines(run: Run, tmp_path: Path) -> None:
    done = run("driven", sys.executable, "front_end.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == [
        "Seven times six is forty-two.",
        "  completed: It holds: 7 * 6 is 42.",
        "The checker agrees, so 42 it is.",
        "root: 146 tokens, 195 with all below",
        "checker: 49 tokens, 49 with all below",
        "",
    ]
    assert not list((tmp_path / "home").rglob("*.jsonl"))
