"""`sapwood attach`: the text of one session as it streams; what is typed goes to it."""

import os
import sys
from typing import Any

import click
import msgspec
import trio

from orchestrator.cli.common import SESSION, home_from_env, told
from orchestrator.cli.live import Reached, in_loop, reached
from orchestrator.cli.stdout import leave
from orchestrator.engine.control.answers import GAP
from orchestrator.engine.control.lines import LineReader, TooLong
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.stdin import read_input
from orchestrator.engine.stdout import LineWriter, hold_standard_descriptors
from orchestrator.views.attached import AttachedText
from orchestrator.views.text import one_line, safe_lines
from store.events import AgentSettled
from store.ids import short
from store.lines import read_line


@click.command()
@SESSION
@click.option("--follow-up", "is_follow_up", is_flag=True, help="What is typed waits for the end of what is at work.")
@told
def attach(session: str, is_follow_up: bool) -> None:
    """Look at one session as it works, and talk to it: a typed line is heard before its next step.

    A line that begins with > waits for the end of what is at work. !CMD runs a command beside the session and shows it to the
    model, !!CMD keeps it from the model. Ctrl-D leaves; the session goes on, unless nobody but this command had it at work.

    \b
      sapwood attach port-billing
      echo "How far are you?" | sapwood attach port-billing
    """
    hold_standard_descriptors()

    async def look() -> None:
        async with reached(home_from_env(), session) as there:
            await _Attached(there, "followUp" if is_follow_up else "steer").run()

    try:
        in_loop(look)
    except BrokenPipeError:
        leave()


class _Attached:
    """The two directions of a terminal. With an input that is no terminal it goes on until the session's run has ended."""

    def __init__(self, there: Reached, behavior: str) -> None:
        self.there = there
        self.behavior = behavior
        self.text = AttachedText()
        self.is_quiet = trio.Event()
        # Where this process is the host, too, a slow reader must not hold it up.
        self.writer = LineWriter(1, self._reader_gone)
        self.gone: OSError | None = None
        self.all_of_it = trio.CancelScope()

    async def run(self) -> None:
        """Until somebody leaves, or the host ends. Raises BrokenPipeError, EngineError where nothing can be shown any more."""
        await self.there.call("subscribe")
        state = await self.there.call("get_state")
        name = one_line(state["sessionName"] or short(self.there.session_id))
        self._write(f"-- {name} {'is at work' if state['isStreaming'] else 'is at rest'}\n")
        if not state["isStreaming"]:
            self.is_quiet.set()
        with self.all_of_it:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.writer.run)
                nursery.start_soon(self._show)
                await self._hear_input()
                if not os.isatty(0):
                    await self.is_quiet.wait()
                await self._leave()
        if isinstance(self.gone, BrokenPipeError):
            raise self.gone
        if self.gone is not None:
            raise EngineError(f"stdout could not be written: {self.gone.strerror}")

    async def _leave(self) -> None:
        self.writer.finish()
        await self.writer.written()
        self.all_of_it.cancel()

    def _reader_gone(self, error: OSError) -> None:
        self.gone = error
        self.all_of_it.cancel()

    async def _show(self) -> None:
        async for line in self.there.client.lines():
            if line.startswith(GAP):
                self._write(self.text.missed(msgspec.json.decode(line)["missed"]))
                continue
            try:
                tags, event = read_line(line)
            except msgspec.DecodeError:
                continue
            if tags.session_id == self.there.session_id:
                self._write(self.text.take(event))
                if isinstance(event, AgentSettled):
                    self.is_quiet.set()
                await self.writer.wait_for_room()
        click.echo("sapwood: the host has ended", err=True)
        await self._leave()

    def _write(self, text: str) -> None:
        if text:
            self.writer.offer(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", "replace"))

    async def _hear_input(self) -> None:
        reader = LineReader()
        while data := await read_input(0):
            for line in reader.feed(data):
                if not isinstance(line, TooLong) and line.strip():
                    await self._say(line.decode("utf-8", "replace").strip())

    async def _say(self, line: str) -> None:
        try:
            if line.startswith("!"):
                await self._bash(line.removeprefix("!"))
            else:
                waits = line.startswith(">")
                behavior = "followUp" if waits else self.behavior
                self.is_quiet = trio.Event()
                await self.there.call("prompt", message=line.removeprefix(">").strip(), streamingBehavior=behavior)
        except EngineError as error:
            click.echo("sapwood: " + "\n".join(safe_lines(str(error))), err=True)

    async def _bash(self, command: str) -> None:
        is_excluded = command.startswith("!")
        members: dict[str, Any] = {"command": command.removeprefix("!").strip(), "excludeFromContext": is_excluded}
        if not members["command"]:
            raise WrongUsage("expected a command behind !")
        ran = await self.there.call("bash", **members)
        if not ran.get("recorded", True):  # a host of an older version answers once it is
            self._write(self.text.ran(members["command"], ran["output"], ran["exitCode"]))
