"""The process in which cells run: what it is held to, and its work."""

from __future__ import annotations

import asyncio
import fcntl
import json
import linecache
import os
import queue
import signal
import sys
import types
from typing import Any

from .channel import Channel, Host, private
from .commands import Commands
from .family import Compact, PreloadedFinder, Rlm
from .plain import PlainShell
from .rich import RichShell
from .screen import Screen
from .source import CELL
from .turns import Turns


class Worker:
    """Takes cells one after the other."""

    def __init__(self, channel: Channel, config: dict[str, Any]) -> None:
        self.channel = channel
        self.cells: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.count = 0
        # The user's own main module, so that pickle and multiprocessing find what cells define.
        self.module = sys.modules["__main__"] = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.screen = Screen()
        self.turns = Turns(self.screen)
        channel.hear["execute"] = self.take
        commands = Commands(self.names, self.screen)
        self.shell: PlainShell | RichShell
        try:
            if not config.get("ipython", True):
                raise ImportError("not wanted")
            self.shell = RichShell(self.names, self.screen, self.turns, commands, config["folder"])
        except Exception:
            self.shell = PlainShell(self.names, self.screen, self.turns, commands)

    def take(self, message: dict[str, Any]) -> None:
        self.cells.put(message)
        try:
            self.turns.loop.call_soon_threadsafe(self.turns.arrived.set)
        except RuntimeError:  # a cell has closed it; `next_cell` looks before it waits
            pass

    def serve(self) -> None:
        signal.signal(signal.SIGINT, self.turns.interrupt)
        version = sys.version.split()[0]
        self.channel.send({"type": "ready", "python": version, "ipython": self.shell.ipython_version})
        while True:
            cell = self.next_cell()
            status = self.run(cell["code"])
            self.screen.flush()
            if os.getpid() != self.channel.pid:  # a cell has forked, and this is not the kernel
                os._exit(status != "ok")
            self.channel.send({"type": "end", "id": cell["id"], "status": status, "count": self.count})

    def next_cell(self) -> dict[str, Any]:
        """The tasks that earlier cells have left go on meanwhile."""
        while True:
            if self.turns.loop.is_closed():
                self.turns.open()
            asyncio.set_event_loop(self.turns.loop)  # asyncio.run has taken it away
            self.turns.arrived.clear()
            try:
                return self.cells.get_nowait()
            except queue.Empty:
                pass
            self.turns.turn_until(self.turns.loop.create_task(self.turns.arrived.wait()))

    def run(self, code: str) -> str:
        self.count += 1
        name = f"{CELL}{self.count}>"
        linecache.cache[name] = len(code), None, [line + "\n" for line in code.split("\n")], name
        self.screen.open()
        signal.signal(signal.SIGINT, self.turns.interrupt)
        error: BaseException | None
        try:
            try:
                self.turns.is_interrupted, self.turns.is_running = False, True
                error = self.shell.run(code, name)
            finally:
                self.turns.is_running = False
        except KeyboardInterrupt as late:  # just as it ended
            self.turns.is_running, error = False, late
        if self.turns.is_interrupted and isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            return "interrupted"
        is_well = error is None or (isinstance(error, SystemExit) and not error.code)
        return "ok" if is_well else "error"


def die_with_host(life: int) -> None:
    """The kernel of the system kills our whole group when the other end of this pipe closes, which the host holds.

    The end of the channel says it too, but code that never lets go of the interpreter would not hear that. PDEATHSIG would
    kill this process alone, and leave what it has started.
    """
    fd = private(life)
    os.close(life)
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def set_limits(limits: dict[str, int]) -> None:
    import resource

    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))


def main() -> None:
    source, sink, life = map(int, sys.argv[1:4])
    config = json.loads(sys.argv[4])
    sys.argv[:] = [""]
    die_with_host(life)
    set_limits(config["limits"])
    os.environ.setdefault("MPLBACKEND", "Agg")  # no window may hold up a cell
    channel = Channel(source, sink)
    host = Host(channel)
    worker = Worker(channel, config)
    rlm = Rlm(host)
    preloaded = {"rlm": rlm, "agent_message": rlm.agent_message, "compact": Compact(host)}
    worker.names.update(preloaded)
    sys.meta_path.append(PreloadedFinder(preloaded))
    worker.names["exit"] = worker.names["quit"] = lambda code=None: sys.exit(code)
    sys.path.insert(0, "")
    channel.start()
    worker.serve()
