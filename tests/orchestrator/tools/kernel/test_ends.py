"""How cells and kernels end: interrupt, timeout, death, cancellation, close; and what is left then."""

import os
import signal
from typing import Any

import pytest
import trio

from orchestrator.tools.kernel import cell as cell_module

RESTARTED = "[the kernel was restarted: variables, imports, tasks and the working directory of earlier cells are gone]"
LOOPS = [
    "while True: pass",
    "import time\ntime.sleep(300)",
    "import asyncio\nawait asyncio.sleep(300)",
    "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
    "!sleep 300; touch reached",
    "lines = !sleep 300",
    "%%bash\nsleep 300\nsleep 300",
]


async def test_a_timeout_interrupts_and_the_variables_stay(bench: Any, children_of: Any) -> None:
    pid = await bench.pid()
    await bench.text("x = 5")
    for code in LOOPS:
        result = await bench.run(code, timeout_s=0.2)
        assert result.is_error, code
        assert result.details["status"] == "timeout", code
        text = result.content[0].text
        assert text.endswith("[timeout: after 0.2 s the cell was interrupted; variables are kept]"), code
        assert "KeyboardInterrupt" in text, code
        assert await bench.text("x") == "5"
    assert await bench.pid() == pid
    assert children_of(pid) == []
    assert not (bench.place.folder / "reached").exists()


async def test_a_cell_that_ignores_interrupts_is_killed(plain: Any, monkeypatch: Any, is_alive: Any) -> None:
    monkeypatch.setattr(cell_module, "INTERRUPT_S", (0.05, 0.05, 0.05))
    pid = await plain.pid()
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('no')\nwhile True: pass"
    result = await plain.run(stubborn, timeout_s=0.2)
    assert result.details["status"] == "timeout"
    assert result.content[0].text.endswith(
        "no\n[timeout: after 0.2 s the cell was interrupted, and the kernel killed:"
        " its variables are gone, and the next cell gets a new one]"
    )
    assert not is_alive(pid)
    assert await plain.text("1") == f"{RESTARTED}\n1"
    assert await plain.text("1") == "1"


async def test_a_program_in_the_shell_that_only_its_group_can_end(plain: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(cell_module, "INTERRUPT_S", (0.1, 5, 5))
    result = await plain.run("import os\nos.system('sleep 300')", timeout_s=0.2)  # the C library keeps SIGINT from us
    assert result.content[0].text.endswith("variables are kept]")


async def test_an_interrupt_from_elsewhere_is_named(bench: Any) -> None:
    await bench.text("import os, signal, time, threading")
    code = "threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\ntime.sleep(300)"
    result = await bench.run(code)
    assert result.is_error
    assert result.details["status"] == "interrupted"
    assert result.content[0].text.endswith("[the cell was interrupted; variables are kept]")


async def test_an_interrupt_between_cells_is_nothing(bench: Any) -> None:
    pid = await bench.pid()
    for _ in range(3):
        os.kill(pid, signal.SIGINT)
    assert await bench.text("1") == "1"
    assert await bench.pid() == pid


async def test_an_interrupted_cell_that_awaits_may_clean_up(bench: Any) -> None:
    code = "import asyncio\ntry:\n    await asyncio.sleep(300)\nfinally:\n    print('cleaned')"
    result = await bench.run(code, timeout_s=0.2)
    assert result.content[0].text.startswith("cleaned\n")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os\nprint('last words', flush=True)\nos.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os\nos.write(1, b'last words')\nos._exit(3)", "exit status 3"),
        ("import os, time\nos.write(1, b'last words')\nos.kill(os.getpid(), 15)\ntime.sleep(60)", "killed by SIGTERM"),
        ("import ctypes, os\nos.write(1, b'last words')\nctypes.string_at(0)", "killed by SIGSEGV"),
        ("import os\nos.write(1, b'last words')\nos.closerange(3, 1000)\nimport time; time.sleep(60)", "SIGKILL"),
    ],
)
async def test_a_kernel_that_dies_under_a_cell_is_replaced_with_a_notice(plain: Any, code: str, why: str) -> None:
    await plain.text("x = 5")
    result = await plain.run(code)
    assert result.is_error
    assert result.details["status"] == "died"
    text = result.content[0].text
    assert text.startswith("last words\n[the kernel died (")
    assert why in text
    assert text.endswith("its variables are gone, and the next cell gets a new one]")
    result = await plain.run("x")
    assert result.content[0].text.startswith(RESTARTED)
    assert result.details["kernelRestarted"] is True
    assert "NameError" in result.content[0].text
    assert (await plain.run("1")).details["kernelRestarted"] is False


async def test_a_kernel_that_dies_between_cells_is_replaced_with_a_notice(plain: Any, until: Any) -> None:
    pid = await plain.pid()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
    assert await plain.text("1") == f"{RESTARTED}\n1"


async def test_what_a_dead_kernel_had_started_is_ended(plain: Any, is_alive: Any) -> None:
    await plain.text("import subprocess, os\nchild = subprocess.Popen(['sleep', '300'])")
    child = int(await plain.text("child.pid"))
    await plain.error("os._exit(1)")
    assert not is_alive(child)


async def cancel_when_it_speaks(bench: Any, code: str) -> None:
    with trio.CancelScope() as scope:
        bench.place.on_progress = lambda text: scope.cancel()
        await bench.run(code)
    assert scope.cancelled_caught
    bench.place.on_progress = lambda text: None


async def test_a_cancelled_cell_ends_with_all_it_has_started_and_the_variables_stay(
    bench: Any, children_of: Any, until: Any
) -> None:
    pid = await bench.pid()
    await bench.text("import subprocess, time\nx = 5")
    for code in (
        "child = subprocess.Popen(['sleep', '300'])\nprint('on')\ntime.sleep(300)",
        "print('on')\n!sleep 300",
        "import asyncio\nprint('on')\nawait asyncio.sleep(300)",
    ):
        await cancel_when_it_speaks(bench, code)
        await until(lambda: [child for child in children_of(pid) if is_not_zombie(child)] == [])
        assert (await bench.text("x")).endswith("5")
    assert await bench.pid() == pid


def is_not_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_cancelled_cell_that_does_not_let_go_takes_the_kernel_with_it(
    plain: Any, is_alive: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(cell_module, "CANCEL_GRACE_S", 0.1)
    pid = await plain.pid()
    await plain.text("from signal import *\nfor number in (SIGINT, SIGTERM): signal(number, SIG_IGN)")
    stubborn = "signal(SIGINT, SIG_IGN)\nprint('on')\nwhile True: pass"
    await cancel_when_it_speaks(plain, stubborn)
    assert not is_alive(pid)
    assert await plain.text("1") == f"{RESTARTED}\n1"


async def test_cancelled_while_it_starts(plain: Any, children_of: Any) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await plain.run("1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plain.run, "1")
        await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert [pid for pid in children_of(os.getpid()) if is_not_zombie(pid)] == []
    assert await plain.text("1") == "1"


async def test_cells_of_one_session_run_one_after_the_other(plain: Any) -> None:
    await plain.text("import time\nopen_cells = 0")
    code = "open_cells += 1\ntime.sleep(0.02)\nprint(open_cells)\nopen_cells -= 1"
    texts: list[str] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            texts.append(await plain.text(code))

        for _ in range(5):
            nursery.start_soon(run)
    assert texts == ["1"] * 5


async def test_closing_ends_the_process_and_all_it_has_started(plain: Any, is_alive: Any) -> None:
    pid = await plain.pid()
    await plain.text("import subprocess\nchild = subprocess.Popen('trap \"\" TERM; sleep 300', shell=True)")
    child = int(await plain.text("child.pid"))
    before = len(os.listdir("/proc/self/fd"))
    await plain.tool.kernels.aclose()
    assert not is_alive(pid)
    assert not is_alive(child)
    assert len(plain.tool.kernels) == 0
    assert len(os.listdir("/proc/self/fd")) < before


async def test_closing_under_a_cell_ends_it(plain: Any) -> None:
    results: list[Any] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            results.append(await plain.run("print('on')\nwhile True: pass"))

        begun = trio.Event()
        plain.place.on_progress = lambda text: begun.set()
        nursery.start_soon(run)
        await begun.wait()
        await plain.tool.kernels.aclose()
    assert results[0].details["status"] == "died"


async def test_a_session_that_is_opened_later_is_told_what_is_gone(plain: Any) -> None:
    assert await plain.text("x = 1") == "(no output)"
    await plain.tool.kernels.aclose()  # as when the host ends; another one has nothing but the folder
    result = await plain.run("x")
    assert result.content[0].text.startswith(RESTARTED)
    assert "NameError" in result.content[0].text


async def test_many_kernels_leave_no_descriptor(plain: Any) -> None:
    await plain.text("1")
    await plain.tool.kernels.aclose()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await plain.text("1")
        await plain.error("import os; os._exit(0)")
    await plain.tool.kernels.aclose()
    assert sorted(os.listdir("/proc/self/fd")) == before
