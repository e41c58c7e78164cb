"""Kernels as real processes, in the Python of the tests without IPython and in one that has it."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.protocol.tools import (
    ChildReport,
    FamilyAnswer,
    FamilyRequest,
    Handle,
    ListFamily,
    Members,
    Relative,
    Spawn,
    ToolResult,
    Waited,
    WaitFor,
)
from orchestrator.tools.ipython import IpythonTool
from orchestrator.tools.kernel.interpreter import KernelSettings
from orchestrator.tools.kernel.kernels import Kernels

INSTALL_S = 180.0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 – what another process does is no event
            await trio.sleep(0.005)


@attrs.define
class Tree:
    """A family in which each child answers with its prompt. `let_settle` ends waits, `answer_for` what else is asked."""

    let_settle: trio.Event = attrs.field(factory=trio.Event)
    answer_for: Callable[[Any], Any] | None = None
    asked: list[Any] = attrs.field(factory=list)
    children: dict[str, str] = attrs.field(factory=dict)
    cancelled: list[Any] = attrs.field(factory=list)

    async def ask(self, request: FamilyRequest) -> FamilyAnswer:
        self.asked.append(request)
        try:
            await trio.lowlevel.checkpoint()
            return await self._answer(request)
        except trio.Cancelled:
            self.cancelled.append(request)
            raise

    async def _answer(self, request: Any) -> Any:
        match request:
            case Spawn():
                name = request.name or f"child-{len(self.children)}"
                self.children[name] = request.prompt
                return Handle(f"session-of-{name}", name, request.model or "fake/default")
            case WaitFor():
                names = request.names or tuple(self.children)
                with trio.move_on_after(request.timeout_s) as clock:
                    await self.let_settle.wait()
                outcome = "" if clock.cancelled_caught else "completed"
                return Waited("timeout" if clock.cancelled_caught else "settled", self._reports(names, outcome))
            case ListFamily():
                return Members((_relative("parent", "parent", ""), *(_relative(name) for name in self.children)))
        assert self.answer_for is not None
        return self.answer_for(request)

    def _reports(self, names: tuple[str, ...], outcome: str) -> tuple[ChildReport, ...]:
        return tuple(
            ChildReport(f"session-of-{name}", name, outcome, 1, f"answer to {self.children[name]}", turns=1)
            for name in names
        )


def _relative(name: str, role: Any = "child", outcome: str = "completed") -> Relative:
    status = "idle" if outcome else "waiting"
    return Relative(name, role, f"session-of-{name}", status, outcome, 10, 20, 0.5, 1.0)


@attrs.define
class Bench:
    """One session's cells, run by the tool."""

    place: Any
    tool: IpythonTool
    tree: Tree

    async def run(self, code: str, **arguments: Any) -> ToolResult:
        with trio.fail_after(60):
            return await self.place.run(self.tool, code=code, **arguments)

    async def text(self, code: str) -> str:
        """What the cell shows, without its last newline. It must end well."""
        result = await self.run(code)
        assert not result.is_error, result
        return result.content[0].text.removesuffix("\n")

    async def error(self, code: str, **arguments: Any) -> str:
        result = await self.run(code, **arguments)
        assert result.is_error, result
        return result.content[0].text.removesuffix("\n")

    async def pid(self) -> int:
        return int(await self.text("import os; os.getpid()"))


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture(scope="session")
def rich_python() -> str:
    """A Python that has IPython: that of the tests, or an environment beside it that is made once, if there is a network."""
    if importlib.util.find_spec("IPython") is not None:
        return sys.executable
    folder = Path(sys.prefix, "peers", "ipython")
    if not folder.is_dir():
        _install(folder)
    return str(folder / "bin" / "python")


def _install(folder: Path) -> None:
    """Beside the place where it is wanted, then in one step: two runs of the tests may do this at once."""
    folder.parent.mkdir(exist_ok=True)
    run = partial(subprocess.run, capture_output=True, text=True, timeout=INSTALL_S, check=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        made = Path(beside, "made")
        try:
            run([sys.executable, "-m", "venv", str(made)])
            pip = [str(made / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            run([*pip, "install", "-q", "ipython>=8.20"])
        except subprocess.TimeoutExpired:
            pytest.skip(f"IPython was not installed within {INSTALL_S:.0f} s")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"IPython is not here and could not be installed: {error.stderr.strip()[-200:]}")
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


@pytest.fixture
async def plain(place: Any, tree: Tree) -> AsyncIterator[Bench]:
    """Without IPython, which is all that most tests need."""
    async for bench in _bench(place, tree, KernelSettings(python=sys.executable, is_rich=False)):
        yield bench


@pytest.fixture(params=["plain", "rich"])
def settings(request: pytest.FixtureRequest) -> KernelSettings:
    if request.param == "plain":
        return KernelSettings(python=sys.executable, is_rich=False)
    return KernelSettings(python=request.getfixturevalue("rich_python"))


@pytest.fixture
async def bench(place: Any, tree: Tree, settings: KernelSettings) -> AsyncIterator[Bench]:
    """Once without and once with IPython."""
    async for bench in _bench(place, tree, settings):
        yield bench


async def _bench(place: Any, tree: Tree, settings: KernelSettings) -> AsyncIterator[Bench]:
    place.family = tree
    bench = Bench(place, IpythonTool(Kernels(settings)), tree)
    try:
        yield bench
    finally:
        with trio.CancelScope(shield=True):
            await bench.tool.kernels.aclose()


def children_of(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            stat = Path(f"/proc/{name}/stat").read_text() if name.isdigit() else ""
        except OSError:
            continue
        if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(name))
    return found


@pytest.fixture(name="is_alive")
def is_alive_fixture() -> Callable[[int], bool]:
    return is_alive


@pytest.fixture(name="until")
def until_fixture() -> Callable[[Callable[[], bool]], Any]:
    return until


@pytest.fixture(name="children_of")
def children_of_fixture() -> Callable[[int], list[int]]:
    return children_of
