"""G3: what those who watch cost those who work, and what one costs who has stopped reading."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import trio

from actors.protocol.model import Hear, ModelRequest, ReplyEnd, TextChunk
from tests.bench.harness import Row, Side, at_most, beside, in_turns
from tests.orchestrator.engine.control.live import Live, live_host

SESSIONS, PIECES, SUBSCRIBERS = 100, 40, 50

READER = """
import selectors, socket, sys
path, reading, stopped = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
waiting = selectors.DefaultSelector()
kept = []
for number in range(reading + stopped):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    sock.sendall(b'{"type":"subscribe"}\\n')
    kept.append(sock)
    if number < reading:
        waiting.register(sock, selectors.EVENT_READ)
print("ready", flush=True)
while waiting.get_map():
    for key, _ in waiting.select():
        if not key.fileobj.recv(1 << 20):
            waiting.unregister(key.fileobj)
"""


class Talker:
    """A root that begins all children at once; each says its pieces."""

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | Any:
        for piece in range(PIECES):
            await hear(TextChunk(0, f"{piece:040}"))
            await trio.lowlevel.checkpoint()
        return ReplyEnd("stop")


def spawning(request: ModelRequest) -> Any:
    if request.call == 1:
        return [("spawn_agent", {"prompt": f"part {n}"}) for n in range(SESSIONS)]
    return "done"


@contextmanager
def readers(path: Path, reading: int, stopped: int) -> Iterator[None]:
    """A process that subscribes so many times, and reads from all but the last ones."""
    command = [sys.executable, "-c", READER, str(path), str(reading), str(stopped)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def g3(rounds: int) -> list[Row]:
    """50 subscribers on one host while 100 sessions stream: one of them that has stopped slows nobody."""
    sides: dict[str, Side] = {
        "one has stopped": lambda: trio.run(_streamed, SUBSCRIBERS - 1, 1),
        "all read": lambda: trio.run(_streamed, SUBSCRIBERS, 0),
        "nobody": lambda: trio.run(_streamed, 0, 0),
    }
    best = in_turns(rounds, sides)
    return [
        at_most("G3 stopped reader", 1.1, best["one has stopped"], best["all read"], "all 50 read"),
        beside("G3 subscribers", best["all read"], best["nobody"], "nobody watches"),
    ]


async def _streamed(reading: int, stopped: int) -> float:
    """CPU seconds of this process, the host's, per line."""
    with TemporaryDirectory() as folder:
        async with live_host(Path(folder)) as live:
            _give_talkers(live)
            with readers(live.path, reading, stopped):
                async with live.connected() as client:
                    started = process_time()
                    await live.prompt(client, "go")
                    await live.planted.settled(live.planted.tree.root)
                    return (process_time() - started) / live.planted.feed.ring.seq


def _give_talkers(live: Live) -> None:
    """The root spawns, the children talk."""
    live.answer = spawning
    models = live.planted.models
    root, info = models._made["test/model"]
    talker = Talker()

    class Both:
        async def call(self, request: ModelRequest, hear: Hear) -> Any:
            return await (root if request.depth == 0 else talker).call(request, hear)

    models._made["test/model"] = Both(), info
