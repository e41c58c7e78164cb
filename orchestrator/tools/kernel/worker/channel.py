"""The channel to the host: JSON lines both ways, and the questions that go by it."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

LINE_BYTES = 16 * 1024 * 1024


class Refused(RuntimeError):
    """The host did not do it, and says why."""


def private(fd: int) -> int:
    """A copy that child processes do not get, and that is not among the low numbers which programs close."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
    except OSError:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class Channel:
    """JSON lines both ways. A thread of its own writes: an interrupt in the middle of a line would break the stream."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = private(source), private(sink)
        os.close(source)
        os.close(sink)
        self.pid = os.getpid()
        self.outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.hear: dict[str, Callable[[dict[str, Any]], None]] = {}
        os.register_at_fork(after_in_child=self.close)

    def start(self) -> None:
        for work in (self.write, self.read):
            threading.Thread(target=work, name="sapwood-" + work.__name__, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        if os.getpid() != self.pid:
            raise RuntimeError("this is a fork of the kernel; only the kernel itself can ask its host")
        line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        if len(line) > LINE_BYTES:
            raise ValueError(f"the request has {len(line):,} bytes; the limit is {LINE_BYTES:,}")
        self.outgoing.put(line)

    def write(self) -> None:
        while True:
            rest = memoryview(self.outgoing.get())
            while rest:
                rest = rest[os.write(self.sink, rest) :]

    def read(self) -> None:
        try:
            with open(self.source, "rb", closefd=False) as lines:
                for line in lines:
                    message = json.loads(line)
                    self.hear[message["type"]](message)
        finally:
            # The host is gone, and nobody else will end what runs here.
            if os.getpgrp() == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            os._exit(1)

    def close(self) -> None:
        for fd in (self.source, self.sink):
            try:
                os.close(fd)
            except OSError:
                pass


class Host:
    """Questions to the host, from any thread that has a loop. They are heard while a cell runs, else with the next one."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.numbers = itertools.count(1)
        self.open: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[dict[str, Any]]]] = {}
        channel.hear["answer"] = self.answered

    async def ask(self, kind: str, **members: Any) -> dict[str, Any]:
        """Raises Refused with the host's reason."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        number = next(self.numbers)
        self.open[number] = loop, future
        try:
            self.channel.send({"type": "ask", "id": number, "request": dict(members, type=kind)})
            answer = await future
        except asyncio.CancelledError:
            self.channel.send({"type": "cancel", "id": number})
            raise
        finally:
            del self.open[number]
        if answer["type"] == "refused":
            raise Refused(answer["reason"])
        return answer

    def answered(self, message: dict[str, Any]) -> None:
        loop, future = self.open.get(message["id"], (None, None))
        if loop is None or future is None:
            return
        try:
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(message["value"]))
        except RuntimeError:  # that loop is closed
            pass
