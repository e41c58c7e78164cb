"""The tool `read`: a stretch of a text file, or an image."""

import base64
import os
from typing import Any

import attrs
import trio

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolContext, ToolResult, text_result
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.kinds import binary_kind, image_type
from orchestrator.tools.output import MAX_BYTES, MAX_LINES, count_lines
from orchestrator.tools.paths import BadPath, absolute_path, explained, open_regular, shown_path
from orchestrator.tools.spill import NOTE_BYTES, NOTE_LINES
from store.messages import ImageContent, TextContent

MAX_IMAGE_BYTES = 5 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_SNIFFED_BYTES = 8192
_ROOM_BYTES = MAX_BYTES - NOTE_BYTES
_ROOM_LINES = MAX_LINES - NOTE_LINES

_SPEC = ToolSpec(
    "read",
    "Read a text file, or look at an image (png, jpeg, gif, webp). A long file comes in pieces of up to 48 KiB or 2,000"
    " lines; the result says with which `offset` to go on.",
    object_schema(
        ("path",),
        path={"type": "string", "minLength": 1, "description": "Absolute, or relative to the working directory"},
        offset={"type": "integer", "minimum": 1, "description": "The first line to read, counted from 1"},
        limit={"type": "integer", "minimum": 1, "description": "How many lines"},
    ),
)


@attrs.frozen
class ReadTool:
    spec: ToolSpec = _SPEC
    is_waiting: bool = False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        try:
            path = absolute_path(given["path"], context.cwd, context.env)
            return await trio.to_thread.run_sync(_read, path, given.get("offset", 1), given.get("limit"))
        except BadPath as error:
            return text_result(f"read: {error}", is_error=True)


def _read(path: str, offset: int, limit: int | None) -> ToolResult:
    """Raises BadPath. Runs in a thread of trio's."""
    fd = open_regular(path)
    try:
        with open(fd, "rb", buffering=0, closefd=False) as file:
            start = file.read(_SNIFFED_BYTES)
            size = os.fstat(fd).st_size
            if (mime_type := image_type(start)) is not None:
                return _image(path, mime_type, start + _rest_of_image(fd, path, size))
            if (kind := binary_kind(start, path)) is not None:
                raise BadPath(f"{shown_path(path)} is no text: {kind}, {size:,} bytes; use bash to look into it")
        os.lseek(fd, 0, os.SEEK_SET)
        return _text(path, size, offset, _stretch(fd, offset, min(limit or _ROOM_LINES, _ROOM_LINES)))
    except OSError as error:
        raise BadPath(explained(error, path)) from error
    finally:
        os.close(fd)


def _rest_of_image(fd: int, path: str, size: int) -> bytes:
    if size > MAX_IMAGE_BYTES:
        raise BadPath(
            f"{shown_path(path)} is an image of {size:,} bytes; the limit is {MAX_IMAGE_BYTES:,}: scale it down"
        )
    pieces = []
    while piece := os.read(fd, _CHUNK_BYTES):
        pieces.append(piece)
        if sum(map(len, pieces)) > MAX_IMAGE_BYTES:
            raise BadPath(f"{shown_path(path)} grew beyond {MAX_IMAGE_BYTES:,} bytes while it was read")
    return b"".join(pieces)


def _image(path: str, mime_type: str, data: bytes) -> ToolResult:
    text = TextContent(text=f"{shown_path(path)}: {mime_type}, {len(data):,} bytes")
    return ToolResult((text, ImageContent(data=base64.b64encode(data).decode(), mime_type=mime_type)))


@attrs.frozen
class _Stretch:
    """Whole lines, or a piece of one that is too long. `lines_before` is less than asked where the file is shorter."""

    data: bytes
    lines_before: int
    is_line_cut: bool
    is_more: bool


def _stretch(fd: int, offset: int, max_lines: int) -> _Stretch:
    """What stands from line `offset` on, within the bounds."""
    skipped, data, is_mid_line = 0, b"", False
    while skipped < offset - 1:
        trio.from_thread.check_cancelled()
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return _Stretch(b"", skipped + is_mid_line, False, False)
        is_mid_line = not chunk.endswith(b"\n")
        newlines = chunk.count(b"\n")
        if skipped + newlines < offset - 1:
            skipped += newlines
            continue
        end = 0
        for _ in range(offset - 1 - skipped):
            end = chunk.index(b"\n", end) + 1
        skipped, data = offset - 1, chunk[end:]
    while len(data) <= _ROOM_BYTES and data.count(b"\n") <= max_lines and (chunk := os.read(fd, _CHUNK_BYTES)):
        data += chunk
    kept = _whole_lines(data, max_lines)
    if kept:
        return _Stretch(kept, skipped, False, len(kept) < len(data))
    cut = _without_torn_end(data[:_ROOM_BYTES])
    return _Stretch(cut, skipped, bool(cut), bool(cut))


def _whole_lines(data: bytes, max_lines: int) -> bytes:
    """The first lines that fit; none where the first is too long."""
    end = 0
    for _ in range(max_lines):
        line_end = data.find(b"\n", end) + 1 or len(data)
        if line_end > _ROOM_BYTES:
            break
        end = line_end
    return data[:end]


def _text(path: str, size: int, offset: int, stretch: _Stretch) -> ToolResult:
    if not stretch.data:
        if size == 0:
            return text_result("(empty file)")
        lines = f"{stretch.lines_before} line{'' if stretch.lines_before == 1 else 's'}"
        return text_result(f"read: offset {offset} is behind the end: {shown_path(path)} has {lines}", is_error=True)
    data = stretch.data
    if offset == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    notes = []
    last = offset + count_lines(stretch.data) - 1
    if stretch.is_line_cut:
        notes.append(
            f"[line {offset} is longer than {len(stretch.data):,} bytes and is cut here; for its rest use bash:"
            f" sed -n {offset}p FILE | tail -c +{len(stretch.data) + 1}; go on behind it with offset={offset + 1}]"
        )
    elif stretch.is_more:
        notes.append(f"[lines {offset} to {last} of a file of {size:,} bytes; go on with offset={last + 1}]")
    if not _is_utf8(data):
        notes.append("[what is not UTF-8 is shown as \ufffd]")
    newline = "" if text.endswith("\n") or not notes else "\n"
    return text_result(text + newline + "\n".join(notes), details={"truncated": bool(stretch.is_more)})


def _without_torn_end(data: bytes) -> bytes:
    """Less the character that a cut at the end went through."""
    end = len(data)
    while end > max(0, len(data) - 3) and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    is_torn = end > 0 and data[end - 1] >= 0xC0 and not _is_utf8(data[end - 1 :])
    return data[: end - 1] if is_torn else data


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
