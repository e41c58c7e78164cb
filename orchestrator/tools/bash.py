"""The tool `bash`: one command, its output within bounds, nothing left running."""

import errno
import math
import shutil
import signal
from typing import Any, Literal

import attrs
import trio

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolContext, ToolResult, text_result
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.process import GroupProcess
from orchestrator.tools.spill import Capture, Captured

DEFAULT_TIMEOUT_S = 120.0
PROGRESS_PERIOD_S = 0.1
PROGRESS_BYTES = 4096
# What a process in the background may still write after the command has ended.
SILENCE_S = 0.2
DRAIN_S = 2.0

_SPEC = ToolSpec(
    "bash",
    "Run a command in bash, in the working directory, with stdin empty. Returns stdout and stderr as they came, and the"
    " exit status. Output over 48 KiB or 2,000 lines is cut in the middle, and a file holds all of it. Every call is a"
    " new shell; processes left in the background are killed when the command ends.",
    object_schema(
        ("command",),
        command={"type": "string", "minLength": 1, "description": "The command"},
        timeout_s={
            "type": "number",
            "exclusiveMinimum": 0,
            "description": f"Seconds after which it is killed (default {DEFAULT_TIMEOUT_S:.0f})",
        },
    ),
)


@attrs.frozen
class CommandEnd:
    """How a command ended. `exit_code`: negative for a signal, None when even KILL did not end it in time.

    `left` says what became of processes that it left in the background: killed, or escaped where one made a session of
    its own and still holds the output.
    """

    output: Captured
    exit_code: int | None
    is_timed_out: bool
    left: Literal["nothing", "killed", "escaped"]
    duration_s: float


@attrs.frozen
class BashTool:
    spec: ToolSpec = _SPEC
    is_waiting: bool = False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = checked_arguments(self.spec, arguments)
        if isinstance(given, ToolResult):
            return given
        timeout_s = float(given.get("timeout_s", DEFAULT_TIMEOUT_S))
        try:
            end = await run_command(given["command"], timeout_s, context)
        except (OSError, ValueError) as error:
            return text_result(f"bash: the command did not start: {_why(error, given['command'])}", is_error=True)
        return _result(end, timeout_s)


async def run_command(command: str, timeout_s: float, context: ToolContext) -> CommandEnd:
    """Run it until it and its group have ended, also when cancelled. Raises OSError, ValueError if it cannot start."""
    started = trio.current_time()
    capture = Capture(context.artifact_dir, f"bash-{context.call_id}")
    try:
        process = GroupProcess.start([*_shell(context), "-c", command], context.cwd, context.env)
        command_run = _CommandRun(process, capture, context)
        try:
            is_timed_out = await command_run.finish_within(timeout_s)
            if not is_timed_out:
                await command_run.wind_up()
        finally:
            with trio.CancelScope(shield=True):
                await process.end()
            process.close()
        duration_s = trio.current_time() - started
        return CommandEnd(capture.finish(), process.exit_code, is_timed_out, command_run.left, duration_s)
    finally:
        capture.close()


def _shell(context: ToolContext) -> list[str]:
    path = context.env.get("PATH", "/usr/bin:/bin")
    return [shutil.which("bash", path=path) or shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"]


@attrs.define
class _CommandRun:
    process: GroupProcess
    capture: Capture
    context: ToolContext
    left: Literal["nothing", "killed", "escaped"] = "nothing"
    _shown_at: float = -math.inf
    _is_news: bool = False

    async def finish_within(self, timeout_s: float) -> bool:
        """Wait until the command has ended, or end it after `timeout_s`. Whether it was the timeout."""
        with trio.move_on_after(timeout_s) as clock:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, clock)
                await self.process.exited()
                nursery.cancel_scope.cancel()
        if clock.cancelled_caught:
            await self._terminate()
        return clock.cancelled_caught

    async def _pump(self, clock: trio.CancelScope) -> None:
        """Take the output as there is room for it. Time without room does not count."""
        while True:
            left_s = clock.deadline - trio.current_time()
            clock.deadline = math.inf
            try:
                await self.context.wait_for_room()
            finally:
                clock.deadline = trio.current_time() + left_s
            data = None
            with trio.move_on_at(self._shown_at + PROGRESS_PERIOD_S if self._is_news else math.inf):
                data = await self.process.read()
            if data == b"":
                return
            if data is not None:
                self.capture.add(data)
                self._is_news = True
            self._show_progress()

    def _show_progress(self) -> None:
        now = trio.current_time()
        if self._is_news and now >= self._shown_at + PROGRESS_PERIOD_S:
            self._shown_at, self._is_news = now, False
            self.context.update(text_result(self.capture.shown.recent(PROGRESS_BYTES)))

    async def _terminate(self) -> None:
        """End the group, and hear what it says meanwhile."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._take_all)
                await self.process.end()
                nursery.cancel_scope.cancel()
            self._take_what_is_there()

    async def wind_up(self) -> None:
        """Take what is still in the pipe, and end what the command left behind."""
        is_at_end = self._take_what_is_there()
        if not is_at_end:
            with trio.move_on_after(DRAIN_S):
                await self._take_until_silent()
        with trio.CancelScope(shield=True):
            if await self.process.end_rest():
                self.left = "killed"
        if not is_at_end and not self._take_what_is_there():
            self.left = "escaped"

    async def _take_all(self) -> None:
        while data := await self.process.read():
            self.capture.add(data)

    async def _take_until_silent(self) -> None:
        while True:
            data = b""
            with trio.move_on_after(SILENCE_S):
                data = await self.process.read()
            if not data:
                return
            self.capture.add(data)

    def _take_what_is_there(self) -> bool:
        """Whether that was the end of the output."""
        limit = 16 * 1024 * 1024  # of bytes, against a writer that is as fast as we are
        while limit > 0 and (data := self.process.read_now()) is not None:
            if not data:
                return True
            self.capture.add(data)
            limit -= len(data)
        return False


def _result(end: CommandEnd, timeout_s: float) -> ToolResult:
    notes = []
    if end.left == "killed":
        notes.append("[processes left in the background were killed]")
    if end.left == "escaped":
        notes.append("[a process in a session of its own (setsid) was left, and may still run]")
    if end.is_timed_out:
        notes.append(f"[timeout: the command was killed after {timeout_s:g} s; this is its output so far]")
    if end.exit_code is None:
        notes.append("[a process could not be killed and may still run]")
    elif end.exit_code < 0 and not end.is_timed_out:
        notes.append(f"[killed by {_signal_name(-end.exit_code)}]")
    elif end.exit_code > 0 and not end.is_timed_out:
        notes.append(f"[exit status {end.exit_code}]")
    text = end.output.text or "(no output)"
    newline = "" if text.endswith("\n") or not notes else "\n"
    details: dict[str, Any] = {
        "exitCode": None if end.is_timed_out else end.exit_code,
        "truncated": end.output.is_truncated,
        "durationMs": round(end.duration_s * 1000),
    }
    if end.output.path is not None:
        details["fullOutputPath"] = end.output.path
    if end.is_timed_out:
        details["timedOut"] = True
    is_error = end.is_timed_out or end.exit_code != 0
    return text_result(text + newline + "\n".join(notes), is_error=is_error, details=details)


def _why(error: OSError | ValueError, command: str) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return f"it has {len(command.encode()):,} bytes, too many for one argument; write it to a file and run that"
    return str(error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
