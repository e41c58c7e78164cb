import os
import stat
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.tools import ToolResult
from orchestrator.tools.diff import unified_diff
from orchestrator.tools.edit import EditTool, NoEdit, edited

EDIT = EditTool()
TextOf = Callable[[ToolResult], str]


async def test_a_quoted_piece_is_replaced_and_the_change_is_shown(place: Any, text_of: TextOf) -> None:
    path = place.file("a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    path.chmod(0o755)
    result = await place.run(EDIT, path="a.py", old="line 10\n", new="ten\nand a half\n")
    diff = "@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+ten\n+and a half\n line 11\n line 12\n line 13\n"
    assert text_of(result) == f"{path}: replaced in line 10\n{diff}"
    assert result.details == {"diff": diff, "firstChangedLine": 10, "replacements": 1}
    assert "\nten\nand a half\n" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x", "x\r\n"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        ("\ufeffa\nb\n", "a", "x", "\ufeffx\nb\n"),
        ("\ufeffa\r\nb\r\n", "\ufeffa\nb", "x", "\ufeffx\r\n"),
        ("a\nb\r\nc\r\n", "b\nc", "x\ny", "a\nx\r\ny\r\n"),
        ("a\nb\r\n", "a\nb", "x", "x\r\n"),
        ("one", "one", "", ""),
        ("naïve \udcff byte", "naïve", "wise", "wise \udcff byte"),
    ],
)
def test_line_ends_mark_and_foreign_bytes_are_kept(before: str, old: str, new: str, after: str) -> None:
    assert edited(before, old, new, is_all=False).text == after


async def test_bytes_that_are_no_utf8_go_back_unchanged(place: Any, text_of: TextOf) -> None:
    path = place.file("a", b"caf\xe9 one\ntwo \xff\n")
    result = await place.run(EDIT, path="a", old="one", new="1")
    assert path.read_bytes() == b"caf\xe9 1\ntwo \xff\n"
    text_of(result).encode()


async def test_more_than_one_place_needs_all(place: Any, text_of: TextOf) -> None:
    path = place.file("a", "x\ny\nx x\n")
    result = await place.run(EDIT, path="a", old="x", new="z")
    assert result.is_error
    assert "occurs 3 times, at lines 1, 3, 3" in text_of(result)
    assert path.read_text() == "x\ny\nx x\n"
    result = await place.run(EDIT, path="a", old="x", new="z", all=True)
    assert "3 places, lines 1, 3, 3" in text_of(result)
    assert path.read_text() == "z\ny\nz z\n"


@pytest.mark.parametrize(
    ("text", "old", "hint"),
    [
        ("def f():\n\treturn 1\n", "def f():\n    return 1", r'Line 2 is "\treturn 1", `old` has "    return 1".'),
        ("a\n  b  c\n", "b c", 'Line 2 is the same but for whitespace. Line 2 is "  b  c", `old` has "b c".'),
        ("alpha = 1\nbeta = 2\n", "beta = 3", 'The nearest is line 2: it is "beta = 2", `old` has "beta = 3".'),
        ("one\nlong enough line\ntwo\n", "long enough line\nthree", 'Line 2 has "long enough line", but the lines'),
        ("entirely\n", "0123456789", "No line of the file is near to it"),
        ("", "x", "No line of the file is near to it"),
        ("a\nb\nc\n", "\n\nb\n", "Line 2 is the same but for blank lines or line ends around them."),
    ],
)
def test_a_piece_that_is_not_there_is_told_from_what_is_near(text: str, old: str, hint: str) -> None:
    with pytest.raises(NoEdit) as failure:
        edited(text, old, "new", is_all=False)
    assert hint in str(failure.value)


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(NoEdit, match="are the same"):
        edited("a\r\n", "a\n", "a\r\n", is_all=False)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("missing", None, "does not exist"),
        ("fifo", None, "is a FIFO"),
        ("binary", b"a\0b", "is binary"),
        ("/proc/self/comm", None, "which file tools do not touch"),
    ],
)
async def test_what_cannot_be_edited_is_explained(
    place: Any, text_of: TextOf, name: str, data: bytes | None, words: str
) -> None:
    os.mkfifo(place.folder / "fifo")
    if data is not None:
        place.file(name, data)
    result = await place.run(EDIT, path=name, old="a", new="b")
    assert result.is_error
    assert words in text_of(result)


async def test_edits_of_one_batch_do_not_lose_each_other(place: Any) -> None:
    path = place.file("a", "".join(f"<{n}>\n" for n in range(20)))
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(lambda n=n: place.run(EDIT, path="a", old=f"<{n}>", new=f"({n})"))
    assert path.read_text() == "".join(f"({n})\n" for n in range(20))


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=40)


def patched(before: str, diff: str) -> str:
    """Apply a diff by its hunk headers, and check each line that it says is there."""
    old, new, at = before.splitlines(keepends=True), [], 0
    for line in diff.replace("\n\\ No newline at end of file\n", "").splitlines(keepends=True):
        if line.startswith("@@"):
            start, _, count = line.split()[1].removeprefix("-").partition(",")
            first = int(start) - (count != "0")
            new += old[at:first]
            at = first
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [line[1:]] if line.startswith(" ") else []
            at += 1
    return "".join(new + old[at:])


@given(lines, lines, lines, lines)
def test_a_diff_applied_to_the_old_text_gives_the_new(
    start: list[str], old: list[str], new: list[str], end: list[str]
) -> None:
    before, after = ("".join(start + middle + end) for middle in (old, new))
    assert patched(before, unified_diff(before, after)) == after


def test_a_diff_says_where_the_last_line_has_no_end() -> None:
    end = "\\ No newline at end of file\n"
    assert unified_diff("a\nb", "a\nc") == f"@@ -1,2 +1,2 @@\n a\n-b\n{end}+c\n{end}"


def test_a_diff_of_very_much_is_left_out() -> None:
    before = "".join(f"{n}\n" for n in range(10_000))
    assert "too many for a diff" in unified_diff(before, before.replace("\n", ";\n"))
    assert unified_diff(before, before.replace("7", "x", 2000).replace("1\n", "y\n", 100)).count("\n") < 500
