"""Output: all that is written, in its order, within bounds."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from orchestrator.tools.output import MAX_BYTES, MAX_LINES


async def test_what_c_code_and_child_processes_write_is_heard_in_its_order(bench: Any) -> None:
    await bench.text("import os, subprocess, sys")
    code = """print('python')
os.write(1, b'descriptor\\n')
os.system('echo shell')
print('stderr', file=sys.stderr)
subprocess.run(['echo', 'child'])
os.write(2, b'error descriptor\\n')
'value'"""
    assert await bench.text(code) == "python\ndescriptor\nshell\nstderr\nchild\nerror descriptor\n'value'"


async def test_text_is_utf8_whatever_is_written(bench: Any) -> None:
    assert await bench.text("print('é\\u2028\\ud800')") == "é\u2028\\ud800"
    assert await bench.text("import os\n_ = os.write(1, b'\\xff\\0\\xe2\\x82\\xac')") == "\ufffd€"


async def test_fifty_megabytes_are_shown_in_part_and_kept_whole(plain: Any) -> None:
    result = await plain.run("for n in range(65_000): print(str(n) * 160)")
    text = result.content[0].text
    assert not result.is_error
    assert len(text.encode()) <= MAX_BYTES
    assert text.count("\n") <= MAX_LINES
    assert text.startswith("0" * 160 + "\n" + "1" * 160 + "\n")
    assert "left out here; whole output: " in text
    assert text.endswith("64999" * 160 + "\n")
    assert result.details["truncated"] is True
    path = Path(result.details["fullOutputPath"])
    assert path.parent == plain.place.artifacts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    whole = "".join(f"{str(n) * 160}\n" for n in range(65_000)).encode()
    assert len(whole) > 50_000_000
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(whole).digest()
    path.unlink()


@pytest.mark.parametrize("code", ["'x' * 1_000_000", "raise ValueError('x' * 1_000_000)", "list(range(1_000_000))"])
async def test_a_huge_value_or_error_is_bounded_too(plain: Any, code: str) -> None:
    result = await plain.run(code)
    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert os.path.getsize(result.details["fullOutputPath"]) > 1_000_000


async def test_stderr_that_nobody_asks_for_holds_up_nothing(plain: Any) -> None:
    await plain.text("import subprocess, sys")
    code = "subprocess.run([sys.executable, '-c', 'import sys; sys.stderr.write(\"x\" * 1_000_000)']).returncode"
    result = await plain.run(code)
    assert result.content[0].text.endswith("x0\n")


async def test_output_between_cells_is_told_with_the_next_and_holds_up_nothing(plain: Any, until: Any) -> None:
    done = plain.place.folder / "done"
    await plain.text(f"""import threading, pathlib
go = threading.Event()
def write():
    go.wait()
    for n in range(400_000): print('line', n)
    pathlib.Path({str(done)!r}).touch()
thread = threading.Thread(target=write)
thread.start()
threading.Timer(0.05, go.set).start()""")
    await until(done.exists)
    text = await plain.text("thread.join()\n'value'")
    assert text.startswith("[since the last cell:]\nline 0\nline 1\n")
    assert "bytes left out]" in text
    assert "line 399999\n" in text
    assert text.endswith("'value'")
    assert len(text) < 100_000  # those of before, and what the pipe held
    assert await plain.text("1") == "1"


async def test_progress_is_shown_while_the_cell_runs(plain: Any) -> None:
    with trio.CancelScope() as scope:
        plain.place.on_progress = lambda text: scope.cancel() if "second" in text else None
        await plain.run("import time\nprint('first')\ntime.sleep(0.2)\nprint('second')\ntime.sleep(300)")
    assert scope.cancelled_caught
    assert plain.place.progress[-1] == "first\nsecond\n"


async def test_without_room_nothing_is_read_and_the_clock_stands_still(plain: Any) -> None:
    await plain.text("1")
    room = trio.Event()
    plain.place.wait_for_room = room.wait
    results: list[Any] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            results.append(await plain.run("print('x' * 500_000)", timeout_s=1))

        nursery.start_soon(run)
        await trio.sleep(1.2)  # longer than the timeout
        assert results == []
        room.set()
    assert results[0].details["status"] == "ok"


async def test_a_closed_or_redirected_output_is_there_again_for_the_next_cell(bench: Any) -> None:
    await bench.text("import os, sys\nos.close(1); os.close(2)")
    assert await bench.text("print('there'); 5") == "there\n5"
    await bench.run("sys.stdout.close()")
    assert await bench.text("print('there'); 5") == "there\n5"
