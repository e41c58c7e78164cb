"""The kernel of one session: a Python process that lives from the first cell to the end, and is replaced when it dies."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import trio

from actors.protocol.tools import ToolContext
from orchestrator.tools.kernel.asks import Asks
from orchestrator.tools.kernel.cell import CellRun
from orchestrator.tools.kernel.interpreter import KernelSettings, kernel_env, pythons, scratch_folder
from orchestrator.tools.kernel.link import BadLine, Link
from orchestrator.tools.output import HeadTail
from orchestrator.tools.spill import Capture, Captured

DEFAULT_TIMEOUT_S = 600.0
START_S = 60.0
# What is kept of the output between two cells.
BETWEEN_BYTES = 8 * 1024
BETWEEN_LINES = 200
BETWEEN_PAUSE_S = 0.01


class KernelNotStarted(Exception):
    """No Python could run cells; the text says which were tried and what each said."""


@attrs.frozen
class CellEnd:
    """How a cell ended. `timeout`: it was interrupted in time if `is_kernel_alive`, else killed.

    `restarted`: an earlier process is gone, with all variables, and this cell ran in a new one. `delivered` names the
    notices of children whose ends the cell was told. `exit_code`, of a process that died: negative for a signal.
    """

    status: Literal["ok", "error", "timeout", "died", "interrupted"]
    output: Captured
    duration_s: float
    restarted: bool
    is_kernel_alive: bool
    count: int = 0
    exit_code: int | None = None
    problem: str | None = None
    delivered: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.output.text

    @property
    def path(self) -> str | None:
        """The file that holds the whole output, where it was too long to show."""
        return self.output.path


def _between() -> HeadTail:
    return HeadTail(BETWEEN_BYTES, BETWEEN_LINES)


@attrs.define
class _Process:
    """The one that is there now. `is_ready`: it has said that it takes cells; `cells`: how many it has taken."""

    link: Link
    asks: Asks
    is_ready: bool = False
    cells: int = 0


@attrs.define
class Kernel:
    """`artifact_dir` is the session's, and tells whether there was a kernel before this one, also in another process.

    Between cells a system task takes the output, so that what goes on in the background is not held up.
    """

    artifact_dir: str
    settings: KernelSettings = attrs.field(factory=KernelSettings)
    _process: _Process | None = attrs.field(default=None, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _news: str = attrs.field(default="", init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _between: HeadTail = attrs.field(factory=_between, init=False)
    _idle: trio.CancelScope | None = attrs.field(default=None, init=False)
    _idle_over: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.link.process.pid

    @property
    def is_running(self) -> bool:
        """Whether a cell runs, or waits to run."""
        return self._lock.locked()

    def warm(self, env: Mapping[str, str], cwd: str) -> None:
        """Start the process of the first choice, if there is none, without waiting for it. Cheap, and never fails."""
        if self._process is None and not self._lock.locked():
            try:
                self._launch(pythons(self.settings, env, cwd)[0], env, cwd)
            except (OSError, ValueError):
                pass  # the first cell will say why

    async def execute(self, code: str, timeout_s: float, context: ToolContext) -> CellEnd:
        """Run a cell, after those that were asked for before. Raises KernelNotStarted."""
        async with self._lock:
            await self._end_idle()
            try:
                return await self._execute(await self._ready(context), code, timeout_s, context)
            finally:
                self._begin_idle()

    async def _execute(self, process: _Process, code: str, timeout_s: float, context: ToolContext) -> CellEnd:
        started = trio.current_time()
        is_restarted = self._is_successor(process)
        process.cells += 1
        capture = Capture(context.artifact_dir, f"ipython-{context.call_id}")
        cell = CellRun(process.link, process.asks, capture, context, process.cells)
        try:
            self._tell_news(capture)
            try:
                await cell.run(code, timeout_s)
            finally:
                if cell.status == "died":
                    await self._discard()
            is_alive = self._process is not None
            return CellEnd(
                status="timeout" if cell.is_timed_out else cell.status,
                output=capture.finish(),
                duration_s=trio.current_time() - started,
                restarted=is_restarted,
                is_kernel_alive=is_alive,
                count=cell.count,
                exit_code=process.link.process.exit_code,
                problem=cell.problem,
                delivered=tuple(process.asks.delivered) if is_alive else (),
            )
        finally:
            capture.close()

    def _is_successor(self, process: _Process) -> bool:
        """Whether this is the first cell of a process, and earlier cells of the session ran in another one."""
        mark = Path(self.artifact_dir, "kernel", "used")
        was_used = mark.exists()
        mark.touch(mode=0o600)
        return was_used and process.cells == 0

    # The process

    async def _ready(self, context: ToolContext) -> _Process:
        """The process, which takes cells. Raises KernelNotStarted."""
        process = self._process
        is_there = process is not None and not _has_exited(process.link)
        if process is not None and is_there and (process.is_ready or await self._problem_of(process) is None):
            return process
        problems: list[str] = []
        for python in pythons(self.settings, context.env, context.cwd):
            await self._discard()
            try:
                process = self._launch(python, context.env, context.cwd)
                problem = await self._problem_of(process)
            except (OSError, ValueError) as error:
                problem = str(error)
            else:
                if problem is None:
                    self._news += "".join(f"[{problem}; this ran in {python}]\n" for problem in problems)
                    return process
            problems.append(f"{python} did not start the kernel: {problem}")
        await self._discard()
        raise KernelNotStarted("\n".join(problems))

    def _launch(self, python: str, env: Mapping[str, str], cwd: str) -> _Process:
        if self._is_closed:
            raise KernelNotStarted("the kernel was closed")
        folder = Path(self.artifact_dir, "kernel")
        for needed in (folder, scratch_folder(self.artifact_dir)):
            os.makedirs(needed, mode=0o700, exist_ok=True)
        config = {
            "ipython": self.settings.is_rich,
            "folder": str(folder),
            "limits": self.settings.limits.as_rlimits(),
        }
        link = Link.start(python, cwd, kernel_env(env, python, self.artifact_dir), config)
        self._process = _Process(link, Asks(link))
        return self._process

    async def _problem_of(self, process: _Process) -> str | None:
        """Wait until it takes cells. Why it does not, or None."""
        message = None
        try:
            with trio.move_on_after(START_S) as clock:
                message = await process.link.message()
        except BadLine as error:
            return str(error)
        except BaseException:
            await self._discard()
            raise
        process.is_ready = message is not None and message["type"] == "ready"
        if process.is_ready:
            return None
        said = (process.link.process.read_now() or b"").decode("utf-8", "replace").strip()
        return said[-1000:] or (f"it said nothing for {START_S:g} s" if clock.cancelled_caught else "it said nothing")

    async def _discard(self) -> None:
        """End the process with all that it has started, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with trio.CancelScope(shield=True):
                await process.link.process.end()
            process.link.close()

    async def close(self) -> None:
        """End the process, also under a cell. For good: what is asked of this kernel later is refused."""
        self._is_closed = True
        with trio.CancelScope(shield=True):
            if self._lock.locked() and self._process is not None:
                _kill(self._process.link)
            async with self._lock:
                await self._end_idle()
                await self._discard()

    # Between cells

    def _begin_idle(self) -> None:
        if self._process is not None:
            self._idle, self._idle_over = trio.CancelScope(), trio.Event()
            trio.lowlevel.spawn_system_task(self._take_between, self._process.link, self._idle, self._idle_over)

    async def _end_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            await self._idle_over.wait()
            self._idle = None

    async def _take_between(self, link: Link, scope: trio.CancelScope, over: trio.Event) -> None:
        """Not faster than so much in a while: nobody waits for it."""
        try:
            with scope:
                while data := await link.process.read():
                    self._between.add(data.decode("utf-8", "replace").replace("\0", ""))
                    await trio.sleep(BETWEEN_PAUSE_S)
        except OSError:
            pass
        finally:
            over.set()

    def _tell_news(self, capture: Capture) -> None:
        cut = self._between.cut()
        if cut.head:
            left_out = f"\n[{cut.omitted_bytes:,} bytes left out]\n" if cut.omitted_bytes else ""
            newline = "" if (cut.tail or cut.head).endswith("\n") else "\n"
            self._news += f"[since the last cell:]\n{cut.head}{left_out}{cut.tail}{newline}"
            self._between = _between()
        capture.add(self._news.encode())
        self._news = ""


def _has_exited(link: Link) -> bool:
    """Without reaping it: its number names the group."""
    return os.waitid(os.P_PID, link.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(link: Link) -> None:
    try:
        os.killpg(link.process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
