"""The progress of `run`: on a terminal's stderr alone, never in the way of the answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.orchestrator.cli.screens import ROOT, drained, terminal

SCRIPT = """
[[reply]]
depth = 0
times = 1
text = "I ask two."
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "good", prompt = "go", wait = true }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "bad", prompt = "go", wait = true }

[[reply]]
session = "bad"
fail = { kind = "auth", message = "no [red]key[/]" }

[[reply]]
text = "the answer"
delay_s = 0.3
"""


def command(folder: Path, *more: str) -> list[str]:
    (folder / "script.toml").write_text(SCRIPT, "utf-8")
    options = ["-m", f"scripted/{folder / 'script.toml'}", "-C", str(folder), *more]
    return [sys.executable, "-m", "orchestrator.cli.main", *options, "Go"]


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "SAPWOOD_HOME": str(folder / "home"), "TERM": "xterm", "PYTHONUTF8": "1"}


def test_on_a_terminal_stdout_holds_the_answer_and_stderr_ends_with_the_outcomes(tmp_path: Path) -> None:
    with terminal(100, 30) as (master, slave):
        done = subprocess.Popen(
            command(tmp_path),
            env=environ(tmp_path),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        answer = done.communicate(timeout=60)[0]
        told = drained(master)

    assert (done.returncode, answer) == (0, b"the answer\n")
    last = told.rpartition("\x1b[J")[2]
    lines = [line.strip() for line in plain(last).split("\n") if line.strip()]
    assert lines[0].startswith("✓ completed · 3 agents · ")
    assert lines[1] == "2 completed, 1 failed"
    assert lines[-1].startswith("where it went: sapwood usage ")
    shown = plain(told)
    assert "good" in shown
    assert "failed · no [red]key[/]" in shown
    assert "\x1b[?1049h" not in told


def test_without_a_terminal_there_is_no_progress(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path), env=environ(tmp_path), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"the answer\n", b"")


def test_quiet_is_quiet_on_a_terminal_too(tmp_path: Path) -> None:
    with terminal(100, 30) as (master, slave):
        done = subprocess.run(
            command(tmp_path, "--quiet"),
            env=environ(tmp_path),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
            check=False,
        )
        assert (done.stdout, drained(master)) == (b"the answer\n", "")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
