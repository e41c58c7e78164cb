"""`sapwood config`: who was heard, and nothing that is secret."""

import sys
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from orchestrator.cli import run
from orchestrator.cli.main import COMMANDS, group
from orchestrator.engine.settings import OPTIONS
from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import Desk
from tests.stored import Forest, sample

HOME = """
model = "local/x"
durability = "full"

[limits]
max_depth = 3
max_turns = 30

[providers.local]
base_url = "http://me:secret-1@127.0.0.1:1/v1?key=secret-2"
api_key_command = ["pass", "show", "secret-3"]
headers = { Authorization = "Bearer secret-4" }
"""
PROJECT = "[limits]\nmax_children = 5\nmax_turns = 20\n"


def configured(desk: Desk) -> None:
    desk.home.mkdir()
    (desk.home / "config.toml").write_text(HOME)
    (desk.folder / ".sapwood").mkdir()
    (desk.folder / ".sapwood" / "config.toml").write_text(PROJECT)


def rows(here: Here, *words: str, **env: str) -> dict[str, dict[str, Any]]:
    done = here("config", "--json", *words, env=env)
    assert (done.status, done.err) == (0, "")
    return {row["name"]: row for row in done.events[0]}


def test_the_first_that_says_something_is_heard(desk: Desk, here: Here) -> None:
    configured(desk)
    home, project = str(desk.home / "config.toml"), str(desk.folder / ".sapwood" / "config.toml")

    found = rows(here, "--max-depth", "1", SAPWOOD_MAX_DEPTH="2", SAPWOOD_DURABILITY="write")

    heard = {name: (row["value"], row["source"], row["where"]) for name, row in found.items()}
    assert heard["limits.max_depth"] == (1, "flag", "--max-depth")
    assert heard["durability"] == ("write", "environment", "SAPWOOD_DURABILITY")
    assert heard["limits.max_children"] == (5, "project", project)
    assert heard["limits.max_turns"] == (20, "project", project)
    assert heard["model"] == ("local/x", "home", home)
    assert heard["retry.max_retries"] == (4, "default", None)
    assert heard["home"] == (str(desk.home), "environment", "SAPWOOD_HOME")
    assert heard["session_dir"] == (str(desk.sessions), "default", None)


def test_a_run_hears_the_same(desk: Desk, here: Here) -> None:
    """`config` tells of the variable, and `run` goes by it: there is no model of that name."""
    configured(desk)

    done = here("go", env={"SAPWOOD_MODEL": "scripted/nowhere.toml"})

    assert rows(here, "model", SAPWOOD_MODEL="scripted/nowhere.toml")["model"]["source"] == "environment"
    assert "nowhere.toml" in done.err


def test_the_kernel_goes_by_the_variable_before_it_goes_by_a_file(desk: Desk, here: Here) -> None:
    configured(desk)
    (desk.home / "config.toml").write_text('[kernel]\npython = "/nowhere/python"\n')
    script = """
[[reply]]
call = 1
[[reply.tool]]
name = "ipython"
arguments = { code = "6 * 7" }
[[reply]]
text = "{{tool.ipython}}"
"""
    variable = {"SAPWOOD_KERNEL_PYTHON": sys.executable}

    assert rows(here, "kernel", **variable)["kernel.python"]["where"] == "SAPWOOD_KERNEL_PYTHON"
    assert desk.run("-m", desk.script(script), "go", env=variable).out.strip() == b"42"
    assert b"/nowhere/python" in desk.run("-m", desk.script(script), "go").out


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_no_key_is_ever_shown(desk: Desk, here: Here, words: tuple[str, ...]) -> None:
    configured(desk)

    done = here("config", *words, env={"OPENAI_API_KEY": "secret-5", "OPENAI_BASE_URL": "http://u:secret-6@host/v1"})

    assert done.status == 0
    assert b"secret" not in done.out.replace(b"(set)", b"")
    assert b"providers.openai.api_key" in done.out
    assert b"http://host/v1" in done.out
    assert b"http://127.0.0.1:1/v1" in done.out
    assert b"Authorization" in done.out


def test_tables_and_settings_can_be_picked(desk: Desk, here: Here) -> None:
    configured(desk)

    assert list(rows(here, "model", "retry")) == ["model", "retry.base_s", "retry.ceiling_s", "retry.max_retries"]
    done = here("config", "klingon")
    assert (done.status, done.out) == (2, b"")
    assert "there is no setting 'klingon'" in done.err


def test_a_file_that_is_wrong_is_told_as_a_run_would_tell_it(desk: Desk, here: Here) -> None:
    configured(desk)
    (desk.folder / ".sapwood" / "config.toml").write_text('[providers.x]\nbase_url = "http://elsewhere"\n')

    done = here("config")

    assert done.status == 2
    assert "a project's file cannot set providers" in done.err


def test_every_option_that_has_a_variable_is_a_setting() -> None:
    with_variables = {option.name for option in run.command.params if getattr(option, "envvar", None)}
    assert with_variables <= set(OPTIONS)
    assert set(OPTIONS) <= {option.name for option in run.command.params}


# --- completion -------------------------------------------------------------------------------------------------------


def completed(*words: str) -> set[str]:
    """What a shell is offered for the last word."""
    *before, last = words
    return {item.value for item in ShellComplete(group, {}, "sapwood", "").get_completions(before, last)}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ev",), {"events"}),
        (("",), set(COMMANDS)),
        (("--mod",), {"--mode", "--model"}),
        (("--vers",), {"--version"}),
        (("--mode", "js"), {"json"}),
        (("events", "va"), {"validate"}),
        (("events", "--fol"), {"--follow"}),
        (("sessions", "sh"), {"show"}),
        (("events", "validate", "--dialect", "pr"), {"prime-agent"}),
        (("run", "--max-d"), {"--max-depth"}),
        (("completion", "f"), {"fish"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_word_is_completed(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize(
    "words", ["events", "usage", "send", "abort", "attach", "sessions show", "run --resume", "--fork", "spawn --parent"]
)
def test_sessions_are_completed_by_their_names(desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(desk.home))
    forest = Forest.at(desk.home)
    sample(forest)
    forest.close()

    assert "port-billing" in completed(*words.split(), "po")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_calls_us_back(here: Here, shell: str) -> None:
    done = here("completion", shell)

    assert done.status == 0
    assert f"_SAPWOOD_COMPLETE={shell}_complete" in done.out.decode()


def test_a_shell_is_answered(desk: Desk) -> None:
    done = desk.run(env={"_SAPWOOD_COMPLETE": "bash_complete", "COMP_WORDS": "sapwood events --fol", "COMP_CWORD": "2"})

    assert (done.status, done.out) == (0, b"plain,--follow\n")
