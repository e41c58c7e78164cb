"""What a run is asked and told, as the server sees it: words, files, stdin, instructions, tools, thinking."""

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.engine.prompt import MAX_FILE_BYTES, piped_text
from tests.orchestrator.http.chat_server import Asked, Said, chat_server, in_turn
from tests.orchestrator.http.command import Desk, Done, each

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def asked(desk: Desk, *arguments: str | bytes, **given: Any) -> Asked:
    """Run the command well; what the server was asked."""
    async with chat_server(in_turn(Said("ok"))) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", *arguments, **given)
    assert (done.status, done.faults, done.stderr) == (0, [], "")
    [one] = server.asked
    return one


async def refused(desk: Desk, *arguments: str, **given: Any) -> Done:
    """Run the command, which never gets to ask."""
    async with chat_server(in_turn(Said("never"))) as server:
        desk.use(server.url)
        done = await desk.run(*arguments, **given)
    assert (done.status, done.stdout, server.asked) == (2, b"", [])
    assert done.stderr.startswith("sapwood: ")
    assert "Traceback" not in done.stderr
    return done


# --- the prompt -------------------------------------------------------------------------------------------------------


async def test_words_are_joined_and_everything_else_of_the_prompt_stands_in_front_of_them(desk: Desk) -> None:
    (desk.folder / "a file.txt").write_text("Zeile eins\nzwei\u2028drei\n")
    (desk.folder / "b.md").write_text("# B")

    one = await asked(desk, "look", "@a file.txt", "at", "@b.md", "this", stdin=b"piped \xff\xe4\xb8\xad\n")

    assert one.messages[1] == {
        "role": "user",
        "content": "piped \ufffd中\n\n"
        '<file name="a file.txt">\nZeile eins\nzwei\u2028drei\n\n</file>\n\n<file name="b.md">\n# B\n</file>\n\n'
        "look at this",
    }


PROMPTS: dict[str, tuple[list[str | bytes], str]] = {
    "a literal @": (["@@team", "hello"], "@team hello"),
    "two of them": (["@@@team"], "@@team"),
    "an @ alone": (["@", "home"], "@ home"),
    "an address": (["write", "to me@example.org"], "write to me@example.org"),
    "the name of a command": (["--", "usage"], "usage"),
    "what looks like an option": (["--", "-m", "is", "an", "option"], "-m is an option"),
    "a template": (["{{last}} %s {0} ${HOME}"], "{{last}} %s {0} ${HOME}"),
    "lines": (["one\n\ttwo\r\n\u2028three"], "one\n\ttwo\r\n\u2028three"),
    "what is no UTF-8": ([b"caf\xe9 \xe4\xb8\xad"], "caf\ufffd 中"),
}


async def test_words_reach_the_model_as_they_were_written(desk: Desk) -> None:
    async def told(desk: Desk, case: tuple[list[str | bytes], str]) -> Any:
        return (await asked(desk, *case[0])).messages[1]

    seen = await each(desk, PROMPTS, told)

    assert seen == {name: {"role": "user", "content": content} for name, (_, content) in PROMPTS.items()}


async def test_an_image_goes_along_as_an_image(desk: Desk) -> None:
    (desk.folder / "dot.png").write_bytes(PNG)

    one = await asked(desk, "what", "is", "this?", "@dot.png")

    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert one.messages[1]["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]


async def test_an_image_alone_is_a_prompt_and_a_file_of_the_home_is_found(desk: Desk) -> None:
    Path(desk.environ["HOME"]).mkdir()
    (Path(desk.environ["HOME"]) / "dot.png").write_bytes(PNG)

    one = await asked(desk, "@~/dot.png")

    assert [part["type"] for part in one.messages[1]["content"]] == ["image_url"]


def binary(folder: Path) -> None:
    (folder / "x").write_bytes(b"\x7fELF\0\0")


def huge(folder: Path) -> None:
    with (folder / "x").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)


def folder_there(folder: Path) -> None:
    (folder / "x").mkdir()


def pipe_there(folder: Path) -> None:
    os.mkfifo(folder / "x")


def loop_there(folder: Path) -> None:
    (folder / "x").symlink_to("x")


async def test_what_is_no_text_and_no_image_is_refused_by_name(desk: Desk) -> None:
    async def is_named(desk: Desk, make: Callable[[Path], None]) -> bool:
        make(desk.folder)
        return "@x" in (await refused(desk, "look at", "@x")).stderr

    cases = {make.__name__: make for make in (binary, huge, folder_there, pipe_there, loop_there)}
    assert await each(desk, cases, is_named) == dict.fromkeys(cases, True)


async def test_what_is_piped_in_alone_is_the_prompt_also_from_a_file(desk: Desk) -> None:
    assert (await asked(desk, stdin=b"  do it\n")).messages[1]["content"] == "do it"
    (desk.folder / "prompt.txt").write_text("do it from a file")
    with (desk.folder / "prompt.txt").open("rb") as file:
        assert (await asked(desk, stdin=file.fileno())).messages[1]["content"] == "do it from a file"


async def test_an_empty_stdin_adds_nothing(desk: Desk) -> None:
    assert (await asked(desk, "hello", stdin=b"")).messages[1]["content"] == "hello"
    assert (await asked(desk, "hello", stdin=subprocess.DEVNULL)).messages[1]["content"] == "hello"


async def test_more_on_stdin_than_a_prompt_may_hold_is_refused(desk: Desk) -> None:
    done = await refused(desk, "hello", stdin=b"x" * (MAX_FILE_BYTES + 1))

    assert str(MAX_FILE_BYTES) in done.stderr


def test_a_stdin_that_stays_open_and_silent_is_left_alone_with_a_note() -> None:
    reader, writer = os.pipe()
    notes: list[str] = []
    try:
        assert piped_text(reader, True, notes.append, patience_s=0.01) == ""
        assert len(notes) == 1
        assert "stdin" in notes[0]
        assert "/dev/null" in notes[0]

        os.write(writer, b"late, ")
        os.write(writer, b"but there")
        os.close(writer)
        assert piped_text(reader, True, notes.append, patience_s=0.01) == "late, but there"
        assert len(notes) == 1
    finally:
        os.close(reader)


def test_what_is_no_pipe_and_no_file_is_not_read(tmp_path: Path) -> None:
    null, folder = os.open(os.devnull, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
    closed = os.dup(null)
    os.close(closed)

    assert [piped_text(fd, True, print) for fd in (null, folder, closed)] == ["", "", ""]
    os.close(null)
    os.close(folder)


# --- instructions -----------------------------------------------------------------------------------------------------


async def test_instructions_come_from_the_home_then_from_the_top_down_the_nearest_last(desk: Desk) -> None:
    inner = desk.folder / "inner"
    deep = inner / "deep"
    deep.mkdir(parents=True)
    desk.home.mkdir()
    (desk.home / "AGENTS.md").write_text("of the home")
    (desk.folder / "AGENTS.md").write_text("of the folder")
    (desk.folder / "CLAUDE.md").write_text("never read beside the other")
    (inner / "CLAUDE.md").write_text("of inner, by the other name")
    (deep / "AGENTS.md").write_text("of deep")
    (deep / "below").mkdir()
    (deep / "below" / "AGENTS.md").write_text("never read: it is further down")

    system = (await asked(desk, "hello", cwd=deep)).system

    places = [system.index(text) for text in ("of the home", "of the folder", "of inner, by the other name", "of deep")]
    assert places == sorted(places)
    assert "never read" not in system
    for file in (desk.home / "AGENTS.md", desk.folder / "AGENTS.md", inner / "CLAUDE.md", deep / "AGENTS.md"):
        assert system.count(f'"{file}"') == 1
    assert system.startswith("You are an agent of sapwood.")
    assert str(deep) in system


async def test_instructions_are_told_once_also_where_the_home_lies_above_the_folder(desk: Desk) -> None:
    (inner := desk.home / "inner").mkdir(parents=True)
    (desk.home / "AGENTS.md").write_text("of the home")
    (inner / "AGENTS.md").write_text("of inner")

    system = (await asked(desk, "hello", cwd=inner)).system

    assert (system.count("of the home"), system.count("of inner")) == (1, 1)


async def test_the_same_folder_by_option_and_by_being_there_is_the_same_to_the_model(desk: Desk) -> None:
    inner = desk.folder / "inner"
    inner.mkdir()
    (desk.folder / "AGENTS.md").write_text("of the folder")
    (inner / "AGENTS.md").write_text("of inner")

    being_there = await asked(desk, "hello", cwd=inner)
    relative = await asked(desk, "-C", "inner", "hello")
    absolute = await asked(desk, "-C", str(inner), "hello", cwd=desk.home)

    assert being_there.system == relative.system == absolute.system


async def test_instructions_that_cannot_be_read_are_passed_over(desk: Desk) -> None:
    (desk.folder / "AGENTS.md").mkdir()
    (desk.folder / "CLAUDE.md").write_bytes(b"caf\xe9")

    assert "caf\ufffd" in (await asked(desk, "hello")).system


async def test_a_file_of_instructions_that_is_too_long_is_cut_and_says_so(desk: Desk) -> None:
    (desk.folder / "AGENTS.md").write_text("ä" * 100_000)

    system = (await asked(desk, "hello")).system

    assert 30_000 < system.count("ä") < 40_000
    assert "cut here" in system
    assert "\ufffd" not in system


OPTIONS: dict[str, tuple[list[str], str, bool, str]] = {
    # the arguments, how the system message begins, whether the files are in it, how it ends
    "nothing": ([], "You are an agent of sapwood.", True, "</instructions>"),
    "no files": (["--no-context-files"], "You are an agent of sapwood.", False, "."),
    "words of one's own": (
        ["--system-prompt", "Speak like a pirate."],
        "Speak like a pirate.",
        True,
        "</instructions>",
    ),
    "an addition": (["--append-system-prompt", "Be brief."], "You are an agent of sapwood.", True, "Be brief."),
    "both, without files": (
        ["--system-prompt", "Speak.", "--append-system-prompt", "Be brief.", "--no-context-files"],
        "Speak.\n\nBe brief.",
        False,
        "Be brief.",
    ),
}


async def test_options_for_the_system_message(desk: Desk) -> None:
    async def told(desk: Desk, case: tuple[list[str], str, bool, str]) -> tuple[bool, bool, bool]:
        (desk.folder / "AGENTS.md").write_text("of the folder")
        system = (await asked(desk, *case[0], "hello")).system
        return system.startswith(case[1]), "of the folder" in system, system.endswith(case[3])

    expected = {name: (True, has_files, True) for name, (_, _, has_files, _) in OPTIONS.items()}
    assert await each(desk, OPTIONS, told) == expected


async def test_an_empty_system_prompt_without_files_sends_no_system_message(desk: Desk) -> None:
    one = await asked(desk, "--system-prompt", "", "--no-context-files", "hello")

    assert [message["role"] for message in one.messages] == ["user"]


# --- tools, thinking, model -------------------------------------------------------------------------------------------


async def test_tools_are_those_of_the_list_or_none_or_all(desk: Desk) -> None:
    listed = await asked(desk, "--tools", "read, bash", "hello")
    none = await asked(desk, "--no-tools", "hello")
    everything = await asked(desk, "hello")

    assert listed.tools == ["bash", "read"]
    assert "tools" not in none.body
    assert "spawn_agent" not in none.system
    assert {"bash", "read", "write", "edit", "spawn_agent", "wait_agents", "list_agents"} <= set(everything.tools)


LEVELS: dict[str, tuple[list[str], dict[str, str], str | None, str]] = {
    "none": ([], {}, None, "fake-chat"),
    "by option": (["--thinking", "medium"], {}, "medium", "fake-chat"),
    "by suffix": (["-m", "local/fake-chat:high"], {}, "high", "fake-chat"),
    "the option wins over the suffix": (["-m", "local/fake-chat:high", "--thinking", "low"], {}, "low", "fake-chat"),
    "by environment": ([], {"SAPWOOD_THINKING": "low"}, "low", "fake-chat"),
    "off": (["--thinking", "off"], {}, None, "fake-chat"),
    "a tag is no level": (["-m", "local/qwen:7b"], {}, None, "qwen:7b"),
    "a tag and a level": (["-m", "local/qwen:7b:high"], {}, "high", "qwen:7b"),
    "a model with slashes": (["-m", "local/org/name"], {}, None, "org/name"),
    "a provider by option": (["--provider", "local", "-m", "org/name"], {}, None, "org/name"),
    "a provider by option and by name": (["--provider", "local", "-m", "local/name"], {}, None, "name"),
    "a model by environment": ([], {"SAPWOOD_MODEL": "local/other:low"}, "low", "other"),
}


async def test_the_model_and_the_level_of_thinking_reach_the_request(desk: Desk) -> None:
    async def told(desk: Desk, case: tuple[list[str], dict[str, str], str | None, str]) -> tuple[str | None, str]:
        one = await asked(desk, *case[0], "hello", environ=case[1])
        return one.body.get("reasoning_effort"), one.body["model"]

    assert await each(desk, LEVELS, told) == {name: case[2:] for name, case in LEVELS.items()}
