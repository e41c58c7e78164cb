import os
import stat
from pathlib import Path

import pytest

from orchestrator.tools.output import HeadTail
from orchestrator.tools.spill import Capture, Captured, Spill


def captured(folder: Path, *pieces: bytes, cap_bytes: int = 10_000, label: str = "x") -> Captured:
    capture = Capture(str(folder), label, cap_bytes, HeadTail(40, 10))
    try:
        for piece in pieces:
            capture.add(piece)
        return capture.finish()
    finally:
        capture.close()


def test_a_short_output_makes_no_file(tmp_path: Path) -> None:
    assert captured(tmp_path / "a", b"short\n") == Captured("short\n", False, None)
    assert not (tmp_path / "a").exists()


def test_a_character_that_is_cut_by_the_border_of_two_pieces_stays_one(tmp_path: Path) -> None:
    euro = "€".encode()
    assert captured(tmp_path, euro[:1], euro[1:2], euro[2:] + euro[:2]).text == "€\ufffd"


def test_nuls_and_foreign_bytes_do_not_reach_the_text_but_the_file(tmp_path: Path) -> None:
    output = captured(tmp_path, b"a\0b\xff\n", b"\0" * 100)
    assert output.text == "ab\ufffd\n"
    assert output.path is not None
    assert Path(output.path).read_bytes() == b"a\0b\xff\n" + b"\0" * 100


def test_the_file_has_all_of_it_and_is_private(tmp_path: Path) -> None:
    output = captured(tmp_path / "a", *[b"%d\n" % n for n in range(100)], label="../../etc/x y")
    assert output.path is not None
    assert Path(output.path).read_bytes() == b"".join(b"%d\n" % n for n in range(100))
    assert stat.S_IMODE(os.stat(output.path).st_mode) == 0o600
    assert Path(output.path).parent == tmp_path / "a"
    assert f"whole output: {output.path}]" in output.text
    assert output.text.startswith("0\n1\n2\n")
    assert output.text.endswith("98\n99\n")


def test_foreign_bytes_that_grow_in_utf8_are_counted_as_they_are_shown(tmp_path: Path) -> None:
    output = captured(tmp_path, b"\xff" * 30)
    assert output.is_truncated
    assert output.text.startswith("\ufffd" * 6 + "\n[")


def test_beyond_its_cap_the_file_takes_no_more_and_the_text_says_so(tmp_path: Path) -> None:
    output = captured(tmp_path, b"x" * 90, b"y" * 90, cap_bytes=100)
    assert output.path is not None
    assert Path(output.path).read_bytes() == b"x" * 90 + b"y" * 10
    assert "the file ends after 100 bytes, its limit" in output.text
    assert "whole output" not in output.text


def test_without_a_folder_to_write_to_the_output_is_still_shown(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way")
    output = captured(tmp_path / "a", b"x" * 100)
    assert output.path is None
    assert "no file holds the whole output: File exists" in output.text


def test_a_full_disk_ends_the_file_not_the_command(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    spill = Spill("/dev/full", full)
    spill.write(b"x" * 10)
    spill.write(b"y" * 10)
    spill.close()
    assert spill.problem == "the file ends after 0 bytes: No space left on device"


@pytest.mark.parametrize("size", [39, 40, 41])
def test_the_file_is_there_exactly_when_the_text_is_cut(tmp_path: Path, size: int) -> None:
    output = captured(tmp_path, b"x" * size)
    assert output.is_truncated == (size > 40) == (output.path is not None)
