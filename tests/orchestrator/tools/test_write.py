import os
import stat
from collections.abc import Callable
from typing import Any

import pytest
import trio

from actors.protocol.tools import ToolResult
from orchestrator.tools import replace
from orchestrator.tools.write import WriteTool

WRITE = WriteTool()
TextOf = Callable[[ToolResult], str]


async def test_a_new_file_is_created_with_its_folders(place: Any, text_of: TextOf) -> None:
    result = await place.run(WRITE, path="a/b/c.txt", content="héllo\r\n")
    assert (place.folder / "a/b/c.txt").read_bytes() == "héllo\r\n".encode()
    assert text_of(result) == f"{place.folder}/a/b/c.txt: created, 8 bytes"
    assert os.listdir(place.folder / "a/b") == ["c.txt"]


async def test_a_new_file_has_the_mode_that_the_umask_says(place: Any) -> None:
    before = os.umask(0o027)
    try:
        await place.run(WRITE, path="a", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((place.folder / "a").stat().st_mode) == 0o640


async def test_an_old_file_is_replaced_and_keeps_its_mode(place: Any, text_of: TextOf) -> None:
    path = place.file("run.sh", "old and longer")
    path.chmod(0o751)
    inode = path.stat().st_ino
    result = await place.run(WRITE, path="run.sh", content="new")
    assert text_of(result).endswith("overwritten, 3 bytes")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_ino != inode
    assert os.listdir(place.folder) == ["run.sh"]


async def test_an_empty_file_can_be_written(place: Any) -> None:
    assert not (await place.run(WRITE, path="a", content="")).is_error
    assert (place.folder / "a").read_bytes() == b""


async def test_a_link_stays_and_its_target_changes(place: Any) -> None:
    place.file("target", "old")
    (place.folder / "link").symlink_to("target")
    (place.folder / "dangling").symlink_to("fresh")
    await place.run(WRITE, path="link", content="new")
    await place.run(WRITE, path="dangling", content="made")
    assert (place.folder / "link").is_symlink()
    assert (place.folder / "target").read_text() == "new"
    assert (place.folder / "fresh").read_text() == "made"


async def test_hard_links_stay_one_file(place: Any) -> None:
    path = place.file("one", "old and longer")
    os.link(path, place.folder / "two")
    await place.run(WRITE, path="one", content="new")
    assert (place.folder / "two").read_text() == "new"


async def test_where_the_name_cannot_be_replaced_the_file_is_written_in_place(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.file("a", "old and longer")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(replace.os, "replace", refuse)
    assert not (await place.run(WRITE, path="a", content="new")).is_error
    assert path.read_text() == "new"
    assert os.listdir(place.folder) == ["a"]


async def test_a_failure_leaves_the_old_file_and_no_other(place: Any, text_of: TextOf, monkeypatch: Any) -> None:
    path = place.file("a", "old")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replace.os, "write", fail)
    result = await place.run(WRITE, path="a", content="new")
    monkeypatch.undo()
    assert result.is_error
    assert "No space left on device" in text_of(result)
    assert path.read_text() == "old"
    assert os.listdir(place.folder) == ["a"]


@pytest.mark.parametrize(
    "path", ["/proc/self/comm", "/dev/null", "fifo", "link", "folder", "folder/", "new/", "file/below", "proc-link"]
)
async def test_what_is_no_regular_file_is_refused_and_unchanged(place: Any, path: str) -> None:
    os.mkfifo(place.folder / "fifo")
    (place.folder / "link").symlink_to("fifo")
    (place.folder / "folder").mkdir()
    (place.folder / "proc-link").symlink_to("/proc/self/comm")
    place.file("file", "x")
    names = sorted(os.listdir(place.folder))
    assert (await place.run(WRITE, path=path, content="x")).is_error
    assert sorted(os.listdir(place.folder)) == names
    assert stat.S_ISFIFO((place.folder / "fifo").stat().st_mode)


async def test_a_file_is_never_seen_half_written(place: Any) -> None:
    contents = {letter * 300_000 for letter in "ab"}
    path = place.file("a", "a" * 300_000)
    async with trio.open_nursery() as nursery:
        for content in sorted(contents) * 5:
            nursery.start_soon(lambda content=content: place.run(WRITE, path="a", content=content))
        for _ in range(50):
            assert path.read_text() in contents
            await trio.lowlevel.checkpoint()
