import base64
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.tools import ToolResult
from orchestrator.tools.output import MAX_BYTES, MAX_LINES
from orchestrator.tools.read import ReadTool
from store.messages import ImageContent

READ = ReadTool()
TextOf = Callable[[ToolResult], str]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


async def test_a_short_file_comes_whole_and_unchanged(place: Any, text_of: TextOf) -> None:
    place.file("a", "one\r\ntwo\n\n\tthree")
    assert text_of(await place.run(READ, path="a")) == "one\r\ntwo\n\n\tthree"


async def test_a_path_is_relative_to_the_folder_or_to_home(place: Any, text_of: TextOf) -> None:
    (place.folder / "d").mkdir()
    place.file("d/a", "x")
    for path in ("d/a", "./d/../d/a", "~/d/a", str(place.folder / "d/a")):
        assert text_of(await place.run(READ, path=path)) == "x"


@pytest.mark.parametrize(
    ("offset", "limit", "text"),
    [
        (1, 2, "1\n2\n[lines 1 to 2 of a file of 8 bytes; go on with offset=3]"),
        (2, 2, "2\n3\n[lines 2 to 3 of a file of 8 bytes; go on with offset=4]"),
        (3, 2, "3\n4\n"),
        (4, None, "4\n"),
        (2.0, None, "2\n3\n4\n"),
    ],
)
async def test_a_stretch_says_how_to_go_on(
    place: Any, text_of: TextOf, offset: int, limit: int | None, text: str
) -> None:
    place.file("a", "1\n2\n3\n4\n")
    assert text_of(await place.run(READ, path="a", offset=offset, limit=limit)) == text


@pytest.mark.parametrize(("data", "lines"), [("1\n2\n", "2 lines"), ("1\n2", "2 lines"), ("1", "1 line")])
async def test_an_offset_behind_the_end_names_the_number_of_lines(
    place: Any, text_of: TextOf, data: str, lines: str
) -> None:
    place.file("a", data)
    for offset in (3, 10**9):
        result = await place.run(READ, path="a", offset=offset)
        assert result.is_error
        assert f"has {lines}" in text_of(result)


async def test_an_empty_file_says_so(place: Any, text_of: TextOf) -> None:
    place.file("a", "")
    result = await place.run(READ, path="a")
    assert (text_of(result), result.is_error) == ("(empty file)", False)


@pytest.mark.parametrize("line", ["x\n", "é" * 40 + "\n", "y" * 3000 + "\n"])
async def test_pieces_of_a_long_file_are_bounded_and_together_are_the_file(
    place: Any, text_of: TextOf, line: str
) -> None:
    whole = "".join(f"{n} {line}" for n in range(1, 5001))
    place.file("a", whole)
    pieces, offset = [], 1
    while True:
        text = text_of(await place.run(READ, path="a", offset=offset))
        assert len(text.encode()) <= MAX_BYTES
        assert text.count("\n") <= MAX_LINES
        piece, found, note = text.partition("[lines ")
        pieces.append(piece)
        if not found:
            break
        offset = int(note.rpartition("offset=")[2].rstrip("]"))
    assert "".join(pieces) == whole


async def test_a_line_that_is_too_long_is_cut_between_characters(place: Any, text_of: TextOf) -> None:
    place.file("a", "1\n" + "€" * 100_000 + "\n3\n")
    text = text_of(await place.run(READ, path="a", offset=2))
    assert len(text.encode()) <= MAX_BYTES
    assert set(text.partition("\n")[0]) == {"€"}
    cut = len(text.partition("\n")[0].encode())
    assert f"[line 2 is longer than {cut:,} bytes" in text
    assert f"tail -c +{cut + 1};" in text
    assert text.endswith("offset=3]")
    assert text_of(await place.run(READ, path="a", offset=3)) == "3\n"


async def test_a_byte_order_mark_is_not_shown(place: Any, text_of: TextOf) -> None:
    place.file("a", "\ufeffx\n")
    assert text_of(await place.run(READ, path="a")) == "x\n"


async def test_bytes_of_another_encoding_are_shown_as_unknown(place: Any, text_of: TextOf) -> None:
    place.file("a", "Müller\n".encode("latin-1"))
    assert text_of(await place.run(READ, path="a")) == "M\ufffdller\n[what is not UTF-8 is shown as \ufffd]"


@pytest.mark.parametrize(
    ("start", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_an_image_is_shown_as_one_whatever_its_name(
    place: Any, text_of: TextOf, start: bytes, mime_type: str
) -> None:
    data = start + bytes(100_000)
    place.file("picture.txt", data)
    result = await place.run(READ, path="picture.txt")
    image = result.content[1]
    assert isinstance(image, ImageContent)
    assert base64.b64decode(image.data) == data
    assert image.mime_type == mime_type
    assert text_of(result).endswith(f"{mime_type}, {len(data):,} bytes")


async def test_an_image_that_is_too_large_is_refused(place: Any, text_of: TextOf) -> None:
    place.file("a.png", PNG + bytes(5 * 1024 * 1024))
    result = await place.run(READ, path="a.png")
    assert result.is_error
    assert "the limit is 5,242,880" in text_of(result)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a", b"\x7fELF\0\0", "an ELF program"),
        ("a", b"%PDF-1.4", "a PDF document"),
        ("a", "text".encode("utf-16"), "UTF-16"),
        ("a.wav", b"abc\0def", "audio/"),
        ("a", b"abc\0def", "binary data"),
    ],
)
async def test_a_binary_file_is_refused_with_its_kind_and_size(
    place: Any, text_of: TextOf, name: str, data: bytes, kind: str
) -> None:
    place.file(name, data)
    result = await place.run(READ, path=name)
    assert result.is_error
    assert kind in text_of(result)
    assert f"{len(data)} bytes" in text_of(result)


async def test_a_fifo_is_refused_and_not_waited_for(place: Any, text_of: TextOf) -> None:
    os.mkfifo(place.folder / "fifo")
    (place.folder / "link").symlink_to("fifo")
    for path in ("fifo", "link"):
        result = await place.run(READ, path=path)
        assert result.is_error
        assert "is a FIFO; expected a regular file" in text_of(result)


@pytest.mark.parametrize(
    "path",
    ["/proc/self/environ", "//proc/self/environ", "/tmp/../proc/self/environ", "/dev/null", "/dev/stdin", "/proc"],
)
async def test_proc_and_dev_are_refused(place: Any, text_of: TextOf, path: str) -> None:
    result = await place.run(READ, path=path)
    assert result.is_error
    assert "which file tools do not touch" in text_of(result)


async def test_links_to_proc_and_dev_are_refused(place: Any, text_of: TextOf) -> None:
    (place.folder / "environ").symlink_to("/proc/self/environ")
    (place.folder / "null").symlink_to("/dev/null")
    (place.folder / "folder").symlink_to("/proc/self")
    for path in ("environ", "null", "folder/environ", "folder/../1/environ"):
        result = await place.run(READ, path=path)
        assert result.is_error
        assert "PATH=" not in text_of(result)


async def test_a_socket_and_a_folder_are_refused(place: Any, text_of: TextOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert (await place.run(READ, path="socket")).is_error
    assert "bash: ls" in text_of(await place.run(READ, path="."))


async def test_a_missing_file_names_what_is_near(place: Any, text_of: TextOf) -> None:
    place.file("Readme.md", "")
    place.file(os.fsdecode(b"readm\xff.md"), "")
    text = text_of(await place.run(READ, path="readme.md"))
    assert f"did you mean {place.folder}/Readme.md or {place.folder}/readm\ufffd.md?" in text


async def test_a_missing_folder_names_what_is_near(place: Any, text_of: TextOf) -> None:
    (place.folder / "source").mkdir()
    text = text_of(await place.run(READ, path="sourse/main.py"))
    assert f"did you mean {place.folder}/source?" in text


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "loop", "file/below"])
async def test_paths_that_cannot_be_are_explained(place: Any, text_of: TextOf, path: str) -> None:
    (place.folder / "loop").symlink_to("loop")
    place.file("file", "x")
    result = await place.run(READ, path=path)
    assert result.is_error
    assert text_of(result).startswith("read: ")


async def test_a_rename_race_never_reads_from_proc(place: Any, text_of: TextOf, tmp_path: Path) -> None:
    place.file("good", "good\n")
    for n in range(50):
        link = tmp_path / "swapped"
        link.unlink(missing_ok=True)
        link.symlink_to("/proc/self/environ" if n % 2 else "good")
        result = await place.run(READ, path="swapped")
        assert result.is_error == bool(n % 2)
