"""B1 to B4: what an event costs on its way to the journal and to stdout."""

import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from actors.clock import Clock
from actors.flusher import InlineFlusher
from actors.outbox import Outbox
from actors.sink import Sink
from orchestrator.engine.stdout import LineWriter
from store.disk.fs import RealFs
from store.disk.journal import Journal
from store.entries import VERSION, ChildSettledEntry, Header, MessageEntry
from store.events import Event, MessageUpdate, Place, TextDelta, ToolExecutionEnd
from store.frame import COMMITS, seal
from store.ids import session_id
from store.messages import UserMessage
from store.tree import EntryTree
from store.wire import encode
from tests.bench.harness import Row, at_least, at_most, beside, in_turns, on_trio, plain

ROOT, CHILD = session_id(1_800_000_000_000, 1), session_id(1_800_000_000_000, 2)
PLACE = Place(CHILD, ROOT, ROOT, 1)
DELTA = MessageUpdate(message_id=1, assistant_message_event=TextDelta(content_index=0, delta="four"))
LARGE = ToolExecutionEnd(
    tool_call_id="call_1_1",
    tool_name="bash",
    result={"content": [{"type": "text", "text": 'a line of "output"\n' * 140}]},
    is_error=False,
    duration_ms=12,
)
EVENTS = 6_400
ENTRIES = 2_000


class _Written:
    """An outlet that writes each line at once."""

    has_room = True

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def offer(self, line: bytes) -> None:
        os.write(self.fd, line)

    async def wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint()


def bare(fd: int, event: Event) -> Callable[[int], None]:
    """The baseline: encode, write."""

    def run(count: int) -> None:
        _rewind(fd)
        for _ in range(count):
            os.write(fd, encode(event) + b"\n")

    return run


def tagged(fd: int, event: Event) -> Callable[[int], None]:
    def run(count: int) -> None:
        _rewind(fd)
        sink = Sink(Clock())
        sink.outlets.append(_Written(fd))
        for _ in range(count):
            sink.publish(PLACE, event)

    return run


def under_load(fd: int, waiting: int) -> Callable[[int], Awaitable[None]]:
    """So many events are published each time before the writer has its turn."""

    async def run(count: int) -> None:
        _rewind(fd)
        sink, writer = Sink(Clock()), LineWriter(fd, lambda error: None)
        sink.outlets.append(writer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for _ in range(count // waiting):
                for _ in range(waiting):
                    sink.publish(PLACE, DELTA)
                await sink.wait_for_room()
                await trio.lowlevel.checkpoint()
            writer.finish()

    return run


def _rewind(fd: int) -> None:
    try:
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        pass  # a pipe


@contextmanager
def _file() -> Iterator[int]:
    with tempfile.TemporaryFile(buffering=0) as file:
        yield file.fileno()


@contextmanager
def _pipe() -> Iterator[int]:
    """A pipe that another process reads, whose CPU time is not ours."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reader:
        assert reader.stdin is not None
        yield reader.stdin.fileno()
        reader.stdin.close()


def b1(rounds: int) -> list[Row]:
    """encode, tag and write one event"""
    with _file() as fd:
        sides = {
            "delta": plain(tagged(fd, DELTA), EVENTS),
            "bare delta": plain(bare(fd, DELTA), EVENTS),
            "large": plain(tagged(fd, LARGE), EVENTS),
            "bare large": plain(bare(fd, LARGE), EVENTS),
        }
        best = in_turns(rounds, sides)
    return [
        at_least("B1 a delta to a file", 0.75, best["delta"], best["bare delta"], "encode + os.write"),
        at_least("B1 a 3 KB event to a file", 0.9, best["large"], best["bare large"], "encode + os.write"),
    ]


def b2(rounds: int) -> list[Row]:
    """the writer with 8 and with 64 events waiting"""
    rows = []
    for kind, opened in (("file", _file), ("pipe", _pipe)):
        with opened() as fd:
            sides = {str(waiting): on_trio(under_load(fd, waiting), EVENTS) for waiting in (8, 64)}
            best = in_turns(rounds, sides | {"bare": plain(bare(fd, DELTA), EVENTS)})
        rows += [
            at_least(f"B2 8 deltas waiting, {kind}", 1.4, best["8"], best["bare"], "encode + os.write"),
            at_least(f"B2 64 deltas waiting, {kind}", 2.2, best["64"], best["bare"], "encode + os.write"),
        ]
    return rows


# --- journals ---------------------------------------------------------------------------------------------------------

HEADER = Header(version=VERSION, id=ROOT, timestamp="2027-01-15T08:00:00.000Z", cwd="/")
MESSAGE = MessageEntry(message=msgspec.Raw(encode(UserMessage(content="What does this project do? " * 20))))
SETTLED = ChildSettledEntry(child_session_id=CHILD, run=1, outcome="completed", text="It runs trees of agents. " * 20)


def appended(folder: Path, body: MessageEntry | ChildSettledEntry, *, is_shown: bool) -> Callable[[int], None]:
    """Entries to a journal on disk through the session's outbox; nothing is flushed."""

    def run(count: int) -> None:
        path = folder / f"{ROOT}.jsonl"
        journal = Journal.create(RealFs(), path, HEADER, 1)
        sink = Sink(Clock())
        with tempfile.TemporaryFile(buffering=0) as file:
            if is_shown:
                sink.outlets.append(_Written(file.fileno()))
            outbox = Outbox(PLACE, journal, EntryTree(), sink, InlineFlusher(), sink.clock, lambda record, usage: None)
            for _ in range(count):
                outbox.append(body)
        journal.close()
        os.unlink(path)

    return run


def sealed(folder: Path) -> Callable[[int], None]:
    """The journal alone: a record that is ready, framed and written."""

    def run(count: int) -> None:
        path = folder / f"{ROOT}.jsonl"
        journal = Journal.create(RealFs(), path, HEADER, 1)
        for _ in range(count):
            journal.append((encode(MESSAGE),))
        journal.close()
        os.unlink(path)

    return run


def b3(rounds: int) -> list[Row]:
    """journal and stream of the same entry"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = {
            "both": plain(appended(folder, SETTLED, is_shown=True), ENTRIES),
            "journal": plain(appended(folder, SETTLED, is_shown=False), ENTRIES),
        }
        best = in_turns(rounds, sides)
    return [at_most("B3 journal and stream", 1.4, best["both"], best["journal"], "journal alone")]


def b4(rounds: int) -> list[Row]:
    """appending one entry

    A record that checks itself has its frame and its CRC at every append: with `encode + os.write` that alone is 1.9 times
    those two, so the limit is one of all three. The ratios without the frame are shown beside.
    """
    with tempfile.TemporaryDirectory() as name, _file() as fd:
        folder = Path(name)

        def written(count: int) -> None:
            _rewind(fd)
            for _ in range(count):
                os.write(fd, encode(MESSAGE) + b"\n")

        def framed(count: int) -> None:
            _rewind(fd)
            for number in range(count):
                os.write(fd, seal(encode(MESSAGE), number, 0, 1, COMMITS, 0))

        sides = {
            "record": plain(sealed(folder), ENTRIES),
            "framed": plain(framed, ENTRIES),
            "outbox": plain(appended(folder, MESSAGE, is_shown=False), ENTRIES),
            "bare": plain(written, ENTRIES),
        }
        best = in_turns(rounds, sides)
    return [
        at_most("B4 append of a record", 1.5, best["record"], best["framed"], "encode + frame + os.write"),
        beside("B4 append of a record", best["record"], best["bare"], "encode + os.write"),
        beside("B4 encode + frame + os.write", best["framed"], best["bare"], "encode + os.write"),
        beside("B4 append through the outbox", best["outbox"], best["bare"], "encode + os.write"),
    ]
