"""`sapwood run` as a process: what is on stdout, what is on stderr, with which status it ends."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.flusher import Flusher
from store.disk.fs import RealFs
from store.repair import runs
from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import REPOSITORY, Desk, marked_sleep

ECHO = '[[reply]]\ntext = "{{last}}"\nusage = { input = 10, output = 1 }\n'
FAILS = '[[reply]]\ntext = "half of"\nfail = { kind = "auth", message = "the key was refused", after_chunks = 1 }\n'
CUT = '[[reply]]\nstop = "length"\n'
LISTS = '[[reply]]\n[[reply.tool]]\nname = "list_agents"\n'


def test_the_answer_alone_is_on_stdout(desk: Desk) -> None:
    done = desk.run("-m", desk.script(ECHO), "hello", "there")
    assert (done.status, done.out, done.err) == (0, b"hello there\n", "")


@pytest.mark.parametrize(
    ("words", "config", "level"),
    [
        ((), "", "group"),
        ((), 'durability = "write"', "write"),
        (("--durability", "full"), 'durability = "write"', "full"),
    ],
)
def test_the_level_of_durability_reaches_the_flusher(
    desk: Desk, here: Here, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], config: str, level: str
) -> None:
    levels: list[str] = []

    class Watched(Flusher):
        def end(self) -> None:
            levels.append(self.level)
            super().end()

    monkeypatch.setattr("orchestrator.engine.one_shot.Flusher", Watched)
    desk.home.mkdir(exist_ok=True)
    (desk.home / "config.toml").write_text(config)
    done = here(*words, "-m", desk.script(ECHO), "hello")
    assert (done.status, done.out, levels) == (0, b"hello\n", [level])
    assert desk.tree().unrepaired == 0


@pytest.mark.parametrize(
    ("script", "words", "status", "reason"),
    [
        (FAILS, (), 1, "failed: the key was refused"),
        (CUT, (), 1, "failed: the reply was cut at the token limit before any text"),
        (LISTS, ("--max-turns", "2"), 3, "limit_reached: the limit of 2 turns for the whole tree is reached"),
        (ECHO.replace("[[reply]]", '[[reply]]\nlast = "^never$"'), (), 1, "failed: script script.toml has no reply"),
    ],
    ids=["failed", "cut", "limit", "no reply"],
)
@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_run_that_did_not_end_well_says_why_on_stderr(
    desk: Desk, here: Here, script: str, words: tuple[str, ...], status: int, reason: str, mode: str
) -> None:
    done = here("--mode", mode, "-m", desk.script(script), *words, "go")
    assert done.status == status
    assert done.err.startswith(f"sapwood: {reason}")
    assert done.err.count("\n") == 1
    if mode == "text":
        assert done.out == b""
    else:
        assert done.faults() == []
        assert done.events[-1]["type"] == "agent_settled"
        assert done.events[-1]["outcome"] == ("limit_reached" if status == 3 else "failed")
    assert desk.tree().unrepaired == 0


USAGE_ERRORS = {
    "no prompt": ((), "no prompt"),
    "a blank prompt": ((" ", "\t"), "no prompt"),
    "an unknown option": (("--modle", "x", "go"), "No such option '--modle'"),
    "a bad value": (("--max-depth", "many", "go"), "'many' is not a valid integer"),
    "a value out of range": (("--max-live-children", "0", "go"), "0 is not in the range"),
    "a time that is no number": (("--timeout", "nan", "go"), "expected a finite number, found 'nan'"),
    "a budget without end": (("--max-cost", "inf", "go"), "expected a finite number, found 'inf'"),
    "an answer in no folder": (
        ("-o", "no/such/answer.txt", "go"),
        "found no/such/answer.txt, and no file can be written",
    ),
    "a script that is not there": (("-m", "scripted/nowhere.toml", "go"), "nowhere.toml"),
    "a script that is a folder": (("-m", "scripted/.", "go"), "cannot be read: Is a directory"),
    "an unknown key in a script": (("-m", "scripted/typo.toml", "go"), "unknown field `txt` - at `$.reply[0]`"),
    "a script without replies": (("-m", "scripted/empty.toml", "go"), "reply"),
    "an unknown provider": (("-m", "nobody/model", "go"), "no provider is named 'nobody'"),
    "an unknown session": (("-r", "no-such-session", "go"), "no session has the id or name 'no-such-session'"),
    "an unknown session to fork": (("--fork", "no-such-session", "go"), "no-such-session"),
    "two sessions": (("-c", "-r", "x", "go"), "at most one of"),
    "an unknown tool": (("-t", "bush", "-m", "scripted/echo.toml", "go"), "no tool is named bush"),
    "a folder that is not there": (("-C", "/nowhere/at/all", "go"), "does not exist"),
    "a file that is not there": (("-m", "scripted/echo.toml", "@nowhere.txt"), "@nowhere.txt"),
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_wrong_usage_is_told_before_anything_is_written(desk: Desk, here: Here, case: str) -> None:
    words, reason = USAGE_ERRORS[case]
    desk.script('[[reply]]\ntxt = "x"\n', "typo.toml")
    desk.script("", "empty.toml")
    desk.script(ECHO, "echo.toml")
    done = here(*words)
    assert (done.status, done.out) == (2, b"")
    assert reason in done.err
    assert "Traceback" not in done.err
    assert list(desk.sessions.glob("*")) == []


@pytest.mark.parametrize(
    ("words", "prompt"),
    [
        (("--", "--help"), "--help"),
        (("--", "-x", "--mode"), "-x --mode"),
        (("--", "-"), "-"),
        (("--", "@@home"), "@home"),
        ((b"caf\xe9",), "caf�"),
    ],
)
def test_a_prompt_may_look_like_an_option(desk: Desk, here: Here, words: tuple[str | bytes, ...], prompt: str) -> None:
    done = here("-m", desk.script(ECHO), *words)
    assert (done.status, done.out.decode(), done.err) == (0, prompt + "\n", "")


def test_behind_two_dashes_the_name_of_a_command_is_a_prompt(desk: Desk) -> None:
    done = desk.run("--", "usage", env={"SAPWOOD_MODEL": desk.script(ECHO)})
    assert (done.status, done.out, done.err) == (0, b"usage\n", "")


def test_what_is_set_nearer_wins(desk: Desk, here: Here) -> None:
    """Flag over environment over the project's file over the home's."""
    for place in ("flag", "environment", "project", "home"):
        desk.script(f'[[reply]]\ntext = "{place}"\n', f"{place}.toml")
    desk.home.mkdir()
    (desk.home / "config.toml").write_text('model = "scripted/home.toml"\n')
    told = [here("go").out]
    (desk.folder / ".sapwood").mkdir()
    (desk.folder / ".sapwood" / "config.toml").write_text('model = "scripted/project.toml"\n')
    told.append(here("go").out)
    env = {"SAPWOOD_MODEL": "scripted/environment.toml"}
    told.append(here("go", env=env).out)
    told.append(here("-m", "scripted/flag.toml", "go", env=env).out)
    assert told == [b"home\n", b"project\n", b"environment\n", b"flag\n"]


def test_the_nearer_limit_wins_too(desk: Desk, here: Here) -> None:
    desk.home.mkdir()
    (desk.home / "config.toml").write_text("[limits]\nmax_turns = 5\n")
    model = desk.script(LISTS)
    told = [here("-m", model, "go")]
    (desk.folder / ".sapwood").mkdir()
    (desk.folder / ".sapwood" / "config.toml").write_text("[limits]\nmax_turns = 4\n")
    (desk.folder / "below").mkdir()
    told.append(here("-m", "scripted/../script.toml", "-C", "below", "go"))
    told.append(here("-m", model, "go", env={"SAPWOOD_MAX_TURNS": "3"}))
    told.append(here("-m", model, "--max-turns", "2", "go", env={"SAPWOOD_MAX_TURNS": "3"}))
    assert [done.status for done in told] == [3, 3, 3, 3]
    assert [re.findall(r"the limit of (\d) turns", done.err) for done in told] == [["5"], ["4"], ["3"], ["2"]]


def test_a_bad_configuration_is_wrong_usage_and_names_the_nearest_key(desk: Desk, here: Here) -> None:
    (desk.folder / ".sapwood").mkdir()
    file = desk.folder / ".sapwood" / "config.toml"
    file.write_text("[limits]\nmax_dept = 1\n")
    done = here("-m", desk.script(ECHO), "go")
    assert (done.status, done.out) == (2, b"")
    assert done.err == f"sapwood: {file}: there is no setting limits.max_dept; did you mean limits.max_depth?\n"


def test_a_home_that_cannot_be_used_is_told_without_a_traceback(desk: Desk, here: Here) -> None:
    (desk.root / "file").write_text("no folder")
    model = desk.script(ECHO)
    for home in ("relative/home", str(desk.root / "file"), str(desk.root / "file" / "below"), "/proc/none"):
        done = here("-m", model, "go", env={"SAPWOOD_HOME": home})
        assert done.status in {1, 2, 4}
        assert done.out == b""
        assert done.err.startswith("sapwood: ")
        assert done.err.count("\n") == 1


def test_a_session_goes_on_by_its_id_its_end_and_its_name(desk: Desk, here: Here) -> None:
    model = desk.script(ECHO)
    first = here("--mode", "json", "--name", "mine", "-m", model, "one")
    root = first.events[0]["id"]
    for named in (root, root[-8:], "mine"):
        done = here("-r", named, f"to {named}")
        assert (done.status, done.out.decode(), done.err) == (0, f"to {named}\n", "")
    tree = desk.tree(root)
    assert [(run.run, run.outcome) for run in runs(tree.nodes[root].records)] == [
        (number, "completed") for number in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("name", ["mine", "root"])
def test_a_session_gets_its_name_when_it_begins_or_when_it_goes_on(desk: Desk, here: Here, name: str) -> None:
    model = desk.script(ECHO)
    assert here("--mode", "json", "--name", name, "-m", model, "one").events[0]["name"] == name
    nameless = here("--mode", "json", "-m", model, "two").events[0]
    assert "name" not in nameless

    assert here("-r", nameless["id"], "--name", "later", "three").status == 0

    done = here("--mode", "json", "-r", "later", "four")
    assert (done.status, done.events[0]["id"]) == (0, nameless["id"])


def test_going_on_with_a_child_names_its_root(desk: Desk, here: Here) -> None:
    first = here("--mode", "json", "-m", desk.stored_script("three_levels.toml"), "go")
    assert first.status == 0
    child = next(event["childSessionId"] for event in first.events if event["type"] == "child_spawned")
    done = here("-r", child, "more")
    assert done.status == 2
    assert first.events[0]["id"] in done.err


def test_a_second_owner_is_refused_and_the_first_one_goes_on(desk: Desk) -> None:
    sleep = marked_sleep()
    model = desk.script(f'[[reply]]\n[[reply.tool]]\nname = "bash"\narguments = {{ command = "{sleep}" }}\n')
    first = desk.start("--mode", "json", "-m", model, "go")
    first.until_seen('"type":"tool_execution_start"')
    root = desk.tree().root_id
    before = desk.journals()

    second = desk.run("-r", root, "me too")

    assert (second.status, second.out) == (4, b"")
    assert f"process {first.pid} " in second.err
    assert desk.journals() == before
    assert first.popen.poll() is None
    first.send(signal.SIGTERM)
    done = first.end()
    assert (done.status, done.faults()) == (143, [])
    assert desk.tree().unrepaired == 0


@pytest.mark.parametrize("whose", ["header", "middle"])
def test_a_damaged_journal_is_refused_and_not_touched(desk: Desk, here: Here, whose: str) -> None:
    model = desk.script(ECHO)
    root = here("--mode", "json", "-m", model, "one").events[0]["id"]
    assert here("-r", root, "two").status == 0
    journal = desk.sessions / f"{root}.jsonl"
    data = bytearray(journal.read_bytes())
    data[0 if whose == "header" else len(data) // 2] ^= 0x20
    journal.write_bytes(data)

    done = here("-r", root, "three")

    assert (done.status, done.out) == (4, b"")
    assert root in done.err
    assert "Traceback" not in done.err
    assert journal.read_bytes() == data
    assert {path.name for path in desk.sessions.iterdir()} == {f"{root}.jsonl", f"{root}.lock"}


def test_stdout_holds_nothing_but_json_whatever_tools_print(desk: Desk) -> None:
    noise = "echo to stdout; echo to stderr >&2; printf 'no newline'; printf '\\\\001\\\\377' ; python3 -c 'print(1)'"
    model = desk.script(
        f'[[reply]]\ncall = 1\n[[reply.tool]]\nname = "bash"\narguments = {{ command = "{noise}" }}\n'
        '[[reply.tool]]\nname = "bash"\narguments = "{no json"\n[[reply.tool]]\nname = "bush"\n'
        '[[reply]]\ntext = "quiet"\n'
    )
    done = desk.run("--mode", "json", "-m", model, "go")
    assert (done.status, done.err, done.faults()) == (0, "", [])
    assert done.events[0]["type"] == "session"
    assert any("to stdout" in str(event) for event in done.events)


def test_an_answer_that_the_encoding_lacks_is_no_traceback(desk: Desk) -> None:
    done = desk.run("-m", desk.script(ECHO), "naïve", env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.out, done.err) == (0, b"na?ve\n", "")


@pytest.mark.parametrize("mode", ["text", "json"])
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_descriptor_that_is_closed_at_the_start_is_nobody_elses(desk: Desk, mode: str, closed: int) -> None:
    model = desk.script(ECHO)
    words = [str(word) for word in desk.argv(("--mode", mode, "-m", model, "go"))]
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}>&-', "bash", *words],
        cwd=desk.folder,
        env=desk.env(PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (1 if closed == 1 else 0)
    if closed == 1:
        assert b"stdout could not be written: " in done.stderr
        assert b"Bad file descriptor" in done.stderr
    tree = desk.tree()
    assert tree.troubles == {}
    assert tree.unrepaired == 0


def test_the_last_answer_is_also_in_the_file_that_was_named(desk: Desk) -> None:
    model = desk.script(ECHO)
    done = desk.run("-m", model, "-o", "answer.txt", "hello", stdout=subprocess.DEVNULL)
    assert (done.status, (desk.folder / "answer.txt").read_text()) == (0, "hello\n")
    (desk.folder / "loop").symlink_to("loop")
    done = desk.run("-m", model, "-o", "loop", "hello")
    assert (done.status, done.out) == (1, b"hello\n")
    assert "the answer could not be written to loop" in done.err


def test_the_demo_on_a_home_that_takes_no_journal_is_told_without_a_traceback(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RealFs.write

    def refuse_journals(fs: RealFs, fd: int, data: bytes | memoryview) -> int:
        if b'"type":"session"' in bytes(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fs, fd, data)

    monkeypatch.setattr(RealFs, "write", refuse_journals)

    done = here("demo")

    assert (done.status, done.out) == (1, b"")
    assert re.fullmatch(r"sapwood: [^\n]*No space left on device[^\n]*\n", done.err)


def test_the_demo_in_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd gone && rmdir ../gone && exec {sys.executable} -m orchestrator.cli.main demo"
    env = {**os.environ, "SAPWOOD_HOME": str(tmp_path / "home"), "PYTHONPATH": str(REPOSITORY), "PYTHONSAFEPATH": "1"}

    done = subprocess.run(["bash", "-c", line], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"sapwood: the folder [^\n]* is not there any more[^\n]*\n", done.stderr)
