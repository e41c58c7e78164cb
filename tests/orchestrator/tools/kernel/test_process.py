"""The process of a kernel: which Python, what it sees, what it may use, what it costs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import trio

from orchestrator.tools.ipython import IpythonTool
from orchestrator.tools.kernel import host as host_module
from orchestrator.tools.kernel.interpreter import KernelLimits, KernelSettings, pythons
from orchestrator.tools.kernel.kernels import Kernels
from orchestrator.tools.kernel.link import WORKER
from orchestrator.tools.process import living_members


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_the_interpreter_that_is_chosen_stands_alone(tmp_path: Path) -> None:
    venv = script(tmp_path / ".venv/bin/python", "")
    own = script(tmp_path / "active/bin/python", "")
    env = {"VIRTUAL_ENV": str(tmp_path / "active")}
    cwd = str(tmp_path)
    assert pythons(KernelSettings(python="/a/python"), env, cwd) == ["/a/python"]
    assert pythons(KernelSettings(python="bin/python"), env, cwd) == [f"{cwd}/bin/python"]
    assert pythons(KernelSettings(python="python3.9"), env, cwd) == ["python3.9"]
    assert pythons(KernelSettings(), env | {"SAPWOOD_KERNEL_PYTHON": "/b/python"}, cwd) == ["/b/python"]
    assert pythons(KernelSettings(), env, cwd) == [own, venv, sys.executable]
    assert pythons(KernelSettings(), {}, cwd) == [venv, sys.executable]
    Path(venv).chmod(0o644)
    assert pythons(KernelSettings(), {"VIRTUAL_ENV": "/nowhere"}, cwd) == [sys.executable]


async def test_the_environment_of_the_project_is_used(place: Any, tree: Any) -> None:
    place.family = tree
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place.folder / ".venv")], check=True)
    kernels = Kernels()
    try:
        code = "import os, sys\nprint(sys.executable, sys.prefix, os.environ['VIRTUAL_ENV'])\n!which python"
        text = (await place.run(IpythonTool(kernels), code=code)).content[0].text
    finally:
        await kernels.aclose()
    venv = f"{place.folder}/.venv"
    assert text == f"{venv}/bin/python {venv} {venv}\n{venv}/bin/python\n"


async def test_a_project_python_that_cannot_run_cells_gives_way_with_a_note(place: Any, tree: Any) -> None:
    place.family = tree
    broken = script(place.folder / ".venv/bin/python", "echo broken >&2; exit 1")
    kernels = Kernels()
    try:
        text = (await place.run(IpythonTool(kernels), code="1")).content[0].text
        again = (await place.run(IpythonTool(kernels), code="1")).content[0].text
    finally:
        await kernels.aclose()
    assert text == f"[{broken} did not start the kernel: broken; this ran in {sys.executable}]\n1\n"
    assert again == "1\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [("echo why not >&2; exit 1", "why not"), ("exit 0", "it said nothing"), ("exec sleep 60", "nothing for 0.3 s")],
)
async def test_a_chosen_python_that_does_not_start_is_an_error_that_says_why(
    place: Any, tree: Any, text: str, why: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(host_module, "START_S", 0.3 if "sleep" in text else 60)
    place.family = tree
    kernels = Kernels(KernelSettings(python=script(place.folder / "python", text)))
    before = len(os.listdir("/proc/self/fd"))
    result = await place.run(IpythonTool(kernels), code="1")
    assert result.is_error
    assert f"{place.folder}/python did not start the kernel: " in result.content[0].text
    assert why in result.content[0].text
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_python_or_folder_that_is_not_there_is_an_error(place: Any, tree: Any) -> None:
    place.family = tree
    result = await place.run(IpythonTool(Kernels(KernelSettings(python="/nowhere/python"))), code="1")
    assert result.is_error
    assert "No such file" in result.content[0].text


async def test_it_sees_the_given_environment_and_a_scratch_folder_of_its_own(bench: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    assert "canary" not in await bench.text("import os; open('/proc/self/environ').read(), os.environ")
    scratch = await bench.text("print(os.environ['SAPWOOD_SCRATCH'])")
    assert scratch == str(bench.place.artifacts / "scratch")
    assert await bench.text("os.stat(os.environ['SAPWOOD_SCRATCH']).st_mode & 0o777 == 0o700") == "True"
    assert await bench.text("import sys; sys.argv, os.getcwd()") == f"([''], '{bench.place.folder}')"
    assert not (bench.place.folder / ".ipython").exists()


async def test_no_descriptor_of_ours_is_left_to_its_children(bench: Any) -> None:
    await bench.text("import os, subprocess, sys")
    code = "subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'], close_fds=False)"
    assert (await bench.text(code)).startswith("['0', '1', '2', '3']\n")
    assert await bench.text("!ls /proc/self/fd") == "0\n1\n2\n3"
    assert await bench.text("os.system('ls /proc/self/fd')") == "0\n1\n2\n3\n0"
    assert await bench.text("os.readlink('/proc/self/fd/0')") == "'/dev/null'"


async def test_it_leads_a_session_and_a_group_of_its_own(plain: Any) -> None:
    assert await plain.text("import os; os.getpid() == os.getsid(0) == os.getpgrp()") == "True"


async def test_limits_hold(place: Any, tree: Any) -> None:
    place.family = tree
    limits = KernelLimits(address_space_bytes=2 * 1024**3, file_bytes=1_000_000)
    kernels = Kernels(KernelSettings(python=sys.executable, is_rich=False, limits=limits))
    tool = IpythonTool(kernels)
    try:
        assert "MemoryError" in (await place.run(tool, code="x = bytearray(4 * 1024**3)")).content[0].text
        told = (await place.run(tool, code="with open('big', 'wb') as f: f.write(b'x' * 2_000_000)")).content[0].text
        assert "File too large" in told
        code = "import resource as r\n[r.getrlimit(n) for n in (r.RLIMIT_CORE, r.RLIMIT_FSIZE)]"
        assert (await place.run(tool, code=code)).content[0].text == "[(0, 0), (1000000, 1000000)]\n"
        assert (await place.run(tool, code="1")).content[0].text == "1\n"
    finally:
        await kernels.aclose()


def unprivileged(folder: Path) -> str | None:
    """A Python that runs as a user who is not root and has no other process, if this machine has one for all."""
    python, setpriv = "/usr/bin/python3", shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None or not os.path.exists(python):
        return None
    worker = shutil.copytree(WORKER, folder / "worker")
    return script(
        folder / "python",
        f'shift 2\nexec {setpriv} --reuid {100_000 + os.getpid()} --clear-groups {python} -u {worker} "$@"',
    )


async def test_a_fork_bomb_is_bounded_and_ends_with_the_kernel(place: Any, tree: Any) -> None:
    place.family = tree
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        python = unprivileged(folder)
        if python is None:
            pytest.skip("the limit does not bind root, and counts all processes of any other user")
        place.folder = folder
        kernels = Kernels(KernelSettings(python=python, is_rich=False, limits=KernelLimits(processes=60)))
        tool = IpythonTool(kernels)
        try:
            pid = int((await place.run(tool, code="import os; os.getpid()")).content[0].text)
            bomb = "    while True:\n        try: os.fork()\n        except BlockingIOError: time.sleep(0.01)"
            await place.run(tool, code=f"import time\nif os.fork() == 0:\n{bomb}\ntime.sleep(0.3)")
            assert 10 < len(living_members(pid)) <= 60
            told = (await place.run(tool, code="while True:\n    if os.fork() == 0: time.sleep(60)")).content[0].text
            assert "BlockingIOError" in told
        finally:
            await kernels.aclose()
        assert living_members(pid) == []


async def test_sessions_without_cells_cost_nothing(place: Any, tree: Any, children_of: Any) -> None:
    before = children_of(os.getpid())
    tools = [IpythonTool(Kernels()) for _ in range(16)]
    assert children_of(os.getpid()) == before
    assert all(len(tool.kernels) == 0 for tool in tools)


async def test_a_kernel_can_be_started_before_its_first_cell(plain: Any) -> None:
    place = plain.place
    plain.tool.kernels.warm(str(place.artifacts), place.context.env, str(place.folder))
    (kernel,) = plain.tool.kernels._kernels.values()
    pid = kernel.pid
    assert pid is not None
    assert await plain.pid() == pid
    assert (await plain.run("1")).details["kernelRestarted"] is False


async def test_a_kernel_that_cannot_be_started_early_says_so_with_the_first_cell(place: Any, tree: Any) -> None:
    place.family = tree
    kernels = Kernels(KernelSettings(python="/nowhere/python"))
    kernels.warm(str(place.artifacts), place.context.env, str(place.folder))
    assert (await place.run(IpythonTool(kernels), code="1")).is_error


async def test_each_session_has_a_kernel_of_its_own_and_the_eldest_idle_ones_are_closed(
    place: Any, tree: Any, is_alive: Any
) -> None:
    place.family = tree
    kernels = Kernels(KernelSettings(python=sys.executable, is_rich=False), max_idle=2)
    pids = []

    async def run(session: str, code: str) -> str:
        import attrs

        context = attrs.evolve(place.context, artifact_dir=str(place.folder / session))
        result = await IpythonTool(kernels).run({"code": code}, context)
        return str(result.content[0].text)

    try:
        for name in "abc":
            pids.append(int(await run(name, f"name = '{name}'\nimport os; os.getpid()")))
        assert [is_alive(pid) for pid in pids] == [False, True, True]
        assert await run("b", "name") == "'b'\n"
        assert (await run("a", "name")).startswith("[the kernel was restarted")
        assert [is_alive(pid) for pid in pids] == [False, True, False]
        assert len(kernels) == 2
    finally:
        await kernels.aclose()


HOST = """
import os, sys, trio
from actors.protocol.tools import ToolContext
from orchestrator.tools.ipython import IpythonTool
from orchestrator.tools.kernel.kernels import Kernels

async def room(): pass

folder = sys.argv[1]
context = ToolContext("1", folder, folder, {"PATH": "/usr/bin:/bin"}, None,
                      lambda result: print(result.content[0].text, flush=True), room)
code = sys.argv[2]
trio.run(IpythonTool(Kernels()).run, {"code": code}, context)
"""


@pytest.mark.parametrize("code", ["while True: pass", "time.sleep(300)", "await asyncio.sleep(300)", "10**10**9"])
def test_a_kernel_and_its_children_do_not_outlive_a_host_that_is_killed(
    tmp_path: Path, code: str, is_alive: Any
) -> None:
    import time

    start = "import asyncio, os, subprocess, time\nprint(os.getpid(), subprocess.Popen(['sleep', '300']).pid)\n"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOST, str(tmp_path), start + code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as host:
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        assert [is_alive(pid) for pid in pids] == [True, True]
        host.kill()
    give_up_at = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))


async def test_a_worker_by_itself_speaks_json_lines(tmp_path: Path) -> None:
    """The protocol as another program would see it."""
    commands, give = os.pipe()
    take, events = os.pipe()
    life, alive = os.pipe()
    config = json.dumps({"ipython": False, "folder": str(tmp_path), "limits": {}})
    command = [sys.executable, "-u", WORKER, str(commands), str(events), str(life), config]
    fds = (commands, events, life)
    with subprocess.Popen(
        command, pass_fds=fds, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
    ) as worker:
        for fd in fds:
            os.close(fd)
        with open(take, "rb") as lines:
            assert json.loads(lines.readline())["type"] == "ready"
            os.write(give, b'{"type":"execute","id":7,"code":"6*7"}\n')
            assert json.loads(lines.readline()) == {"type": "end", "id": 7, "status": "ok", "count": 1}
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"42\n"
            os.close(give)
            assert lines.readline() == b""
        assert worker.wait(10) == -signal.SIGKILL
        os.close(alive)
    await trio.lowlevel.checkpoint()
