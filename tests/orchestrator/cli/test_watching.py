"""`agents --watch` on a pseudo-terminal: it shows what runs, ends nothing, and leaves the terminal as it was."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.orchestrator.cli.screens import ROOT, Shown, shown
from tests.orchestrator.views.test_grid import HOSTILE
from tests.stored import Forest, sample

SCRIPT = """
[[reply]]
depth = 0
times = 1
text = "I start two."
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "slow", prompt = "sleep" }
[[reply.tool]]
name = "spawn_agent"
arguments = { name = "other", prompt = "sleep" }

[[reply]]
depth = 0
text = "done {{last}}"

[[reply]]
depth = 1
times = 2
text = "I sleep."
[[reply.tool]]
name = "bash"
arguments = { command = "while [ ! -e stop-{NAME} ]; do sleep 0.05; done" }

[[reply]]
depth = 1
text = "awake"
"""


def script_for(folder: Path) -> Path:
    """A model whose children work until a file is there."""
    path = folder / "sleepers.toml"
    command = "while [ ! -e stop ]; do sleep 0.05; done"
    path.write_text(SCRIPT.replace("while [ ! -e stop-{NAME} ]; do sleep 0.05; done", command), "utf-8")
    return path


@contextmanager
def running(home: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A tree with two children at work, as another terminal would run it."""
    options = ["-m", f"scripted/{script_for(folder)}", "-C", str(folder), "--name", "sleepers"]
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.cli.main", *options, "Go"],
        env={**os.environ, "SAPWOOD_HOME": str(home)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        (folder / "stop").touch()
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "home"


def stored(home: Path) -> None:
    forest = Forest.at(home)
    sample(forest)
    forest.close()


def left_as_it_was(view: Shown, before: list[object]) -> bool:
    """Its modes, its cursor and its own screen."""
    pairs = [(b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?2004h", b"\x1b[?2004l")]
    are_even = all(view.written.count(there) == view.written.count(back) > 0 for there, back in pairs)
    return view.modes == before and are_even


def test_what_runs_in_another_terminal_is_shown_and_can_be_talked_to(home: Path) -> None:
    folder = home.parent / "folder"
    with running(home, folder) as process, shown("agents", "--watch", home=home) as view:
        text = view.until(lambda text: len(re.findall(r"(slow|other) +● running +bash while", text)) == 2)
        assert "sleepers" in text.split("\n")[0]
        view.press("j")
        view.until(lambda text: re.search(r"▌├ slow", text) is not None)
        view.press("m")
        view.until("Message to slow: ")
        view.press("wake up\r")
        view.until("[1q] bash while")
        view.press("q")
        assert view.ended() == 0
        assert process.poll() is None
        (folder / "stop").touch()
        assert process.wait(timeout=60) == 0


def test_abort_ends_exactly_what_was_confirmed(home: Path) -> None:
    folder = home.parent / "folder"
    with running(home, folder) as process, shown("agents", "--watch", home=home) as view:
        view.until(lambda text: len(re.findall(r"(slow|other) +● running +bash while", text)) == 2)
        view.press("jx")
        view.until("[Keep running]  [Abort 1 agent]")
        view.press("\r")
        view.until(lambda text: "Keep running" not in text)
        assert len(re.findall(r"● running +bash", view.text())) == 2
        view.press("x")
        view.until("Abort slow?")
        view.press("\t\r")
        text = view.until(lambda text: re.search(r"slow +■ aborted", text) is not None)
        assert re.search(r"other +● running +bash", text)
        view.press("\x03")
        assert view.ended() == 0
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(home: Path, number: int) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home) as view:
        before = view.modes
        view.until("port-billing")
        view.process.send_signal(number)
        assert view.ended() == 128 + number
        assert left_as_it_was(view, before)


@pytest.mark.parametrize("keys", ["q", "\x03", "e\x03", "xq\x03"])
def test_leaving_by_keys_leaves_the_terminal_as_it_was(home: Path, keys: str) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home) as view:
        before = view.modes
        view.until("port-billing")
        assert view.modes != before
        view.press(keys)
        assert view.ended() == 0
        assert left_as_it_was(view, before)


def test_a_crash_leaves_the_terminal_as_it_was(home: Path) -> None:
    stored(home)
    broken = (
        "import orchestrator.cli.watching as w\n"
        "def fail(screen):\n    raise RuntimeError('a bug')\n"
        "w.frame.frame = fail\n"
        "from orchestrator.cli.main import main\nmain(['agents', '--watch'])"
    )
    with shown(home=home, program=["-c", broken]) as view:
        before = view.modes
        assert view.ended() == 1
        assert left_as_it_was(view, before)
        assert b"a bug" in view.written


def test_a_stop_gives_the_terminal_back_and_takes_it_again(home: Path) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home) as view:
        before = view.modes
        view.until("port-billing")
        view.press("\x1a")
        view.until(lambda text: view.is_stopped)
        assert left_as_it_was(view, before)
        view.lines.clear()
        os.kill(view.process.pid, signal.SIGCONT)
        view.until("port-billing")
        assert view.modes != before
        view.press("q")
        assert view.ended() == 0
        assert left_as_it_was(view, before)


def test_a_resize_is_drawn_anew(home: Path) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home, columns=120) as view:
        view.until("Tokens")
        view.resize(80, 24)
        text = view.until(lambda text: "Below" in text and "Tokens" not in text)
        assert all(len(line) <= 80 for line in text.split("\n"))
        view.resize(30, 20)
        view.until("terminal has 30")


def test_stored_sessions_are_renamed_archived_and_brought_back(home: Path) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home) as view:
        view.until("port-billing")
        view.press("r\x15billing\r")
        view.until(lambda text: "billing  " in text and "port-billing" not in text.split("\n")[3])
        view.press("A")
        view.until("Archived. Undo (u)")
        view.until("· archived")
        view.press("u")
        view.until("✓ completed")


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        ({"NO_COLOR": "1"}, "▌▾ port-billing"),
        ({"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, ">v port-billing"),
    ],
)
def test_without_colour_or_unicode_it_is_the_same_view(home: Path, env: dict[str, str], seen: str) -> None:
    stored(home)
    with shown("agents", "--watch", "--all", home=home, env=env) as view:
        assert "completed" in view.until(seen)
        colours = re.findall(rb"\x1b\[[0-9;]*\b3[0-7]m", view.written)
        assert bool(colours) == ("NO_COLOR" not in env)
        assert env.get("LC_ALL") is None or view.text().isascii()


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if len(text) < 1000])
def test_the_title_and_the_layout_are_ours(home: Path, hostile: str) -> None:
    forest = Forest.at(home)
    root = forest.root(hostile)
    root.prompt(hostile)
    root.answer("", stop_reason="error", error=hostile)
    root.settle("failed", hostile)
    forest.close()
    with shown("agents", "--watch", "--all", home=home) as view:
        view.until("failed")
        view.press(" ")
        view.until("cost ")
        assert b"\x1b]" not in view.written
        assert b"\xe2\x80\xae" not in view.written


@pytest.mark.parametrize("arguments", [("--json",), ()])
def test_without_a_terminal_it_says_what_to_use_instead(home: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli.main", "agents", "--watch", *arguments],
        env={**os.environ, "SAPWOOD_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"sapwood " in done.stderr
    assert done.stdout == b""


def test_a_host_that_is_killed_leaves_its_agents_lost_and_the_view_says_so(home: Path) -> None:
    folder = home.parent / "folder"
    with running(home, folder) as process, shown("agents", "--watch", home=home, columns=160) as view:
        view.until(lambda text: len(re.findall(r"(slow|other) +● running +bash while", text)) == 2)
        process.kill()
        process.wait()
        view.until(f"The host (pid {process.pid}) ended at ")
        text = view.until(lambda text: len(re.findall(r"∅ lost", text)) == 3)
        assert "3 agents are lost. They can be continued: sapwood run -r sleepers" in text
        assert "● live" in text.split("\n")[0]


def test_a_host_that_begins_later_appears_by_itself(home: Path) -> None:
    folder = home.parent / "folder"
    with shown("agents", "--watch", home=home) as view:
        view.until("No agents are running.")
        with running(home, folder):
            view.until("sleepers")
            view.press("q")
            assert view.ended() == 0
