"""The tool `edit`: replace a piece of a text file that is quoted exactly."""

import os
from typing import Any

import attrs
import trio

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolContext, ToolResult, text_result
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.diff import unified_diff
from orchestrator.tools.near import near_hint
from orchestrator.tools.paths import BadPath, absolute_path, explained, open_regular, shown_path
from orchestrator.tools.replace import CHANGES, replace_file

MAX_FILE_BYTES = 64 * 1024 * 1024
_BOM = "\ufeff"
_NAMED_LINES = 10

_SPEC = ToolSpec(
    "edit",
    "Replace text in a file. `old` has to be in the file exactly as it stands there, spaces included, and only once unless"
    " `all` is true.",
    object_schema(
        ("path", "old", "new"),
        path={"type": "string", "minLength": 1, "description": "Absolute, or relative to the working directory"},
        old={
            "type": "string",
            "minLength": 1,
            "description": "What is there, and enough around it to be unique",
        },
        new={"type": "string", "description": "The text to put in its place"},
        all={"type": "boolean", "description": "Replace every occurrence (default false)"},
    ),
)


class NoEdit(Exception):
    """The edit cannot be made; the text says why and what is near."""


@attrs.frozen
class Edit:
    """A text after its edit. `lines` are where the replaced pieces stood, counted from 1."""

    text: str
    lines: tuple[int, ...]


@attrs.frozen
class EditTool:
    spec: ToolSpec = _SPEC
    is_waiting: bool = False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        old, new, is_all = given["old"], given["new"], given.get("all", False)
        path = given["path"]
        try:
            path = absolute_path(path, context.cwd, context.env)
            return await trio.to_thread.run_sync(_edit_file, path, old, new, is_all, limiter=CHANGES)
        except (BadPath, NoEdit) as error:
            return text_result(f"edit: {error}", is_error=True)
        except OSError as error:
            return text_result(f"edit: {explained(error, path)}", is_error=True)


def _edit_file(path: str, old: str, new: str, is_all: bool) -> ToolResult:
    before = _contents(path)
    try:
        edit = edited(before, old, new, is_all=is_all)
    except NoEdit as error:
        raise NoEdit(f"{shown_path(path)}: {error}") from error
    diff = unified_diff(_valid(before), _valid(edit.text))
    replace_file(path, edit.text.encode("utf-8", "surrogateescape"))
    count = len(edit.lines)
    where = f"line {edit.lines[0]}" if count == 1 else f"{count} places, lines {_named(edit.lines)}"
    return text_result(
        f"{shown_path(path)}: replaced in {where}\n{diff}",
        details={"diff": diff, "firstChangedLine": edit.lines[0], "replacements": count},
    )


def _contents(path: str) -> str:
    """The text of a file; bytes that are not UTF-8 become surrogates, so that they go back unchanged."""
    fd = open_regular(path)
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        if size > MAX_FILE_BYTES:
            raise BadPath(f"{shown_path(path)} has {size:,} bytes; the limit is {MAX_FILE_BYTES:,}: use bash (sed)")
        data = file.read(MAX_FILE_BYTES + 1)
    if b"\0" in data[:8192]:
        raise BadPath(f"{shown_path(path)} is binary ({size:,} bytes); use bash to change it")
    return data.decode("utf-8", "surrogateescape")


def edited(text: str, old: str, new: str, *, is_all: bool) -> Edit:
    """`text` with `new` for `old`, in the line ends that the text has, its byte order mark kept. Raises NoEdit."""
    bom = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    for wanted, put in _in_line_ends_of(body, old.removeprefix(_BOM), new.removeprefix(_BOM)):
        starts = _occurrences(body, wanted)
        if not starts:
            continue
        lines = _line_numbers(body, starts)
        if len(starts) > 1 and not is_all:
            where = f"{len(starts)} times, at lines {_named(lines)}"
            raise NoEdit(f"`old` occurs {where}; quote more around it, or set `all` to true")
        if wanted == put:
            raise NoEdit("`old` and `new` are the same, so nothing would change")
        return Edit(bom + body.replace(wanted, put), lines)
    raise NoEdit(f"`old` is not in the file. {_valid(near_hint(body, old))}")


def _in_line_ends_of(body: str, old: str, new: str) -> list[tuple[str, str]]:
    """`old` and `new` with line ends as the text has them; in turn as given, CRLF and LF where it has both."""
    old_lf, new_lf = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    crlf = body.count("\r\n")
    lf = body.count("\n") - crlf
    as_crlf = old_lf.replace("\n", "\r\n"), new_lf.replace("\n", "\r\n")
    if crlf and not lf:
        return [as_crlf]
    if lf and not crlf:
        return [(old_lf, new_lf)]
    return list(dict.fromkeys([(old, new), as_crlf, (old_lf, new_lf)]))


def _occurrences(body: str, wanted: str) -> list[int]:
    starts = []
    start = body.find(wanted) if wanted else -1
    while start >= 0:
        starts.append(start)
        start = body.find(wanted, start + len(wanted))
    return starts


def _line_numbers(body: str, starts: list[int]) -> tuple[int, ...]:
    numbers, line, counted = [], 1, 0
    for start in starts:
        line += body.count("\n", counted, start)
        counted = start
        numbers.append(line)
    return tuple(numbers)


def _named(lines: tuple[int, ...]) -> str:
    more = f" and {len(lines) - _NAMED_LINES} more" if len(lines) > _NAMED_LINES else ""
    return ", ".join(map(str, lines[:_NAMED_LINES])) + more


def _valid(text: str) -> str:
    """What is no UTF-8 in the file becomes U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
