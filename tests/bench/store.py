"""C1 to C6 and B5: what stored sessions cost to open, load, append to and list, and what durability costs.

Nothing is measured here against pi and Prime Agent: they would have to be installed with what runs them, and read formats of
their own. What reads a file is compared with what must be done at least.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time

import msgspec
import trio

from actors.clock import Clock
from actors.flusher import Flusher, InlineFlusher
from actors.outbox import Outbox
from actors.sink import Sink
from store.disk.catalog import Catalog
from store.disk.forest import read_node
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal
from store.disk.manager import SessionManager
from store.disk.reads import UNLIMITED
from store.entries import FRAMING, VERSION, Entry, Header, Known, MessageEntry, RunSettledEntry
from store.events import Place
from store.frame import COMMITS, seal, seed
from store.ids import entry_id, session_id
from store.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
)
from store.records import Draft, Record
from store.times import iso
from store.usage import Usage
from store.wire import encode
from tests.bench.command import SAPWOOD, process
from tests.bench.harness import Row, Side, absent, at_least, at_most, beside, in_turns, seconds

BEGIN_MS = 1_800_000_000_000
LARGE_BYTES, HUGE_BYTES = 100 << 20, 1 << 30
NEEDED_BYTES = 3 << 30
ENTRIES = 25_000
APPENDS = 2_000
SESSIONS = 10_000
GROUP = 64
LINES = 256
QUIET_DISK_S = 20e-6
"""A flush that takes less has no disk behind it."""
CODE = 'def folded(rows: list[Row]) -> Usage:\n    """The sum, each key once."""\n    return sum(rows, Usage())\n'


@contextmanager
def home_for(case: str) -> Iterator[Home | Row]:
    """An empty home, or a row that says why there is none."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < NEEDED_BYTES:
        yield absent(
            case, "", f"needs {NEEDED_BYTES >> 30} GiB of disk for temporary files, found {free / (1 << 30):.1f}"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), Path(folder) / "sessions", RealFs())
        home.create()
        yield home


def header_of(number: int) -> Header:
    return Header(
        version=VERSION,
        id=session_id(BEGIN_MS + number, number),
        timestamp=iso(BEGIN_MS / 1000),
        cwd="/work",
        rlm_depth=0,
    )


def said(size: int) -> list[Message]:
    """A prompt, a call and what the tool answered: together about three times `size` bytes."""
    call = ToolCall(id="call_1", name="bash", arguments={"command": "grep -rn 'usage' store | head -40"})
    thought = TextContent(text="I look where usage is folded. " * max(1, size // 90))
    return [
        UserMessage(content="Where is usage folded, and “why” there? " * max(1, size // 120), timestamp=BEGIN_MS),
        AssistantMessage(
            content=(thought, call),
            provider="test",
            model="model",
            usage=Usage(input=900, output=90),
            stop_reason="toolUse",
        ),
        ToolResultMessage(
            tool_call_id="call_1",
            tool_name="bash",
            content=(TextContent(text=CODE * max(1, 2 * size // len(CODE))),),
            is_error=False,
            timestamp=BEGIN_MS,
        ),
    ]


def drafts(size: int) -> list[Draft]:
    return [Draft.of(MessageEntry(message=msgspec.Raw(encode(message)))) for message in said(size)]


def write_journal(home: Home, number: int, size_bytes: int, entry_bytes: int, *, is_settled: bool = False) -> str:
    """A stored session of so many bytes, in frames of the store's own; its run has ended if it `is_settled`."""
    header, kinds = header_of(number), drafts(entry_bytes)
    key, timestamp = seed(header.id), header.timestamp
    with open(home.journal_path(header.id), "xb", buffering=1 << 20) as file:
        os.fchmod(file.fileno(), 0o600)
        done = file.write(seal(encode(msgspec.structs.replace(header, framing=FRAMING)), 0, 0, 1, COMMITS, key))
        seq = 1
        while done < size_bytes:
            record = kinds[seq % 3].record(entry_id(seq), entry_id(seq - 1) if seq > 1 else None, timestamp)
            done += file.write(seal(record.raw, seq, 0, 1, COMMITS, key))
            seq += 1
        if is_settled:
            end = Draft.of(RunSettledEntry(run=1, outcome="completed"))
            file.write(seal(end.record(entry_id(seq), entry_id(seq - 1), timestamp).raw, seq, 0, 1, COMMITS, key))
    return header.id


# --- opening and loading ----------------------------------------------------------------------------------------------


class CountingFs(RealFs):
    """Counts the bytes that are read of journals."""

    def __init__(self) -> None:
        self.journals: set[int] = set()
        self.read_bytes = 0

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self.journals.discard(fd)
        if path.suffix == ".jsonl":
            self.journals.add(fd)
        return fd

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read_at(fd, size, offset)
        self.read_bytes += len(data) * (fd in self.journals)
        return data


def timed(act: Callable[[], object], before: Callable[[], object] | None = None) -> Side:
    """CPU seconds of one call; what comes `before` it is not counted."""

    def side() -> float:
        if before is not None:
            before()
        started = process_time()
        act()
        return process_time() - started

    return side


def opened(home: Home, session: str) -> None:
    """Ready to list, to walk and to read any entry."""
    with SessionManager.open_read_only(home.journal_path(session), home=home) as manager, manager.captured():
        assert manager.trouble == ""


def c1(rounds: int) -> list[Row]:
    """opening 100 MiB that have no saved index"""
    with home_for("C1 open 100 MiB, no index") as home:
        if isinstance(home, Row):
            return [home]
        session = write_journal(home, 1, LARGE_BYTES, LARGE_BYTES // ENTRIES)
        path, index = home.journal_path(session), home.index_path(session)
        sides = {
            "ours": timed(lambda: opened(home, session), lambda: index.unlink(missing_ok=True)),
            "read": timed(path.read_bytes),
        }
        best = in_turns(rounds, sides)
    return [at_most("C1 open 100 MiB, no index", 2.5, best["ours"], best["read"], "reading the file")]


def c2(rounds: int) -> list[Row]:
    """opening 100 MiB with a saved index"""
    with home_for("C2 open 100 MiB, index") as home:
        if isinstance(home, Row):
            return [home]
        session = write_journal(home, 1, LARGE_BYTES, LARGE_BYTES // ENTRIES)
        opened(home, session)
        fs = CountingFs()
        opened(Home(home.root, home.sessions, fs), session)
        sides = {"ours": timed(lambda: opened(home, session)), "read": timed(home.journal_path(session).read_bytes)}
        best = in_turns(rounds, sides)
    mib = fs.read_bytes / (1 << 20)
    return [
        Row("C2 open 100 MiB, index", "<= 2 MiB of the journal read", f"{mib:.3f} MiB", f"{mib:.3f} MiB", "", mib <= 2),
        beside("C2 open 100 MiB, index", best["ours"], best["read"], "reading the file"),
    ]


_known: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)
_message: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def bare_load(path: Path) -> list[object]:
    """The baseline: read, split, decode."""
    loaded: list[object] = []
    for line in path.read_bytes().split(b"\n")[1:-1]:
        body = _known.decode(line)
        loaded.append(_message.decode(body.message) if isinstance(body, MessageEntry) else body)
    return loaded


def typed(records: Sequence[Record]) -> list[Entry | Message]:
    bodies = (record.body() for record in records)
    return [decode_message(body.message) if isinstance(body, MessageEntry) else body for body in bodies]


def manager_load(home: Home, session: str) -> list[Entry | Message]:
    manager = SessionManager.open_read_only(home.journal_path(session), home=home)
    with manager, manager.captured(UNLIMITED) as capture:
        return typed(capture.all_entries())


def node_load(home: Home, session: str) -> list[Entry | Message]:
    node, trouble = read_node(home.fs, home, session)
    assert node is not None
    assert trouble is None
    return typed(node.records)


def c3(rounds: int) -> list[Row]:
    """loading 100 MiB, every entry and message typed

    Ours checks every line, too: frames and CRCs of 25,000 lines take a quarter of what the baseline takes.
    """
    with home_for("C3 load 100 MiB") as home:
        if isinstance(home, Row):
            return [home]
        session = write_journal(home, 1, LARGE_BYTES, LARGE_BYTES // ENTRIES)
        path = home.journal_path(session)
        assert len(manager_load(home, session)) == len(node_load(home, session)) == len(bare_load(path))
        sides = {
            "manager": timed(lambda: manager_load(home, session)),
            "node": timed(lambda: node_load(home, session)),
            "bare": timed(lambda: bare_load(path)),
        }
        best = in_turns(rounds, sides)
    of = "read + split + decode"
    return [
        at_most("C3 load 100 MiB, a tree as stored", 1.3, best["node"], best["bare"], of),
        at_most("C3 load 100 MiB, session manager", 1.3, best["manager"], best["bare"], of),
    ]


# --- appending --------------------------------------------------------------------------------------------------------

MESSAGE = UserMessage(content="What does this project do? " * 20)
BODY = MessageEntry(message=msgspec.Raw(encode(MESSAGE)))


def manager_appends(home: Home, session: str | None) -> Side:
    """To a stored session, or to a new one whose first entry is there."""

    def side() -> float:
        if session is None:
            manager = SessionManager.create("/work", home=home)
            manager.append_message(MESSAGE)
        else:
            manager = SessionManager.open(home.journal_path(session), home=home)
        with manager:
            started = process_time()
            for _ in range(APPENDS):
                manager.append_message(MESSAGE)
            return (process_time() - started) / APPENDS

    return side


def outbox_appends(home: Home, session: str | None) -> Side:
    """The same through what a running session writes by."""
    numbers = iter(range(1_000, 1_000_000))

    def side() -> float:
        header = header_of(next(numbers))
        if session is None:
            Journal.create(home.fs, home.journal_path(header.id), header, 1).close()
        name = session or header.id
        node, _ = read_node(home.fs, home, name)
        assert node is not None
        journal, _ = Journal.open(home.fs, home.journal_path(name), name, 1)
        clock = Clock()
        place = Place(name, name, name, 0)
        outbox = Outbox(place, journal, node.tree, Sink(clock), InlineFlusher(), clock, lambda record, usage: None)
        started = process_time()
        for _ in range(APPENDS):
            outbox.append(BODY)
        took = (process_time() - started) / APPENDS
        journal.close()
        return took

    return side


def c4(rounds: int) -> list[Row]:
    """appending to a session with 25,000 entries"""
    with home_for("C4 append, 25,000 entries") as home:
        if isinstance(home, Row):
            return [home]
        first, second = (write_journal(home, number, ENTRIES * 1_000, 900) for number in (1, 2))
        sides = {
            "manager": manager_appends(home, first),
            "manager, empty": manager_appends(home, None),
            "outbox": outbox_appends(home, second),
            "outbox, empty": outbox_appends(home, None),
        }
        best = in_turns(rounds, sides)
    case = f"C4 append, {ENTRIES:,} entries"
    return [
        at_most(f"{case}, session manager", 1.2, best["manager"], best["manager, empty"], "to an empty one"),
        at_most(f"{case}, running session", 1.2, best["outbox"], best["outbox, empty"], "to an empty one"),
    ]


# --- listing ----------------------------------------------------------------------------------------------------------


def within(case: str, limit_s: float, took: float) -> Row:
    """CPU time, since the machine is shared."""
    return Row(case, f"< {seconds(limit_s)}", seconds(took), seconds(took), "", took < limit_s)


def c5(rounds: int) -> list[Row]:
    """listing 10,000 sessions, and the newest 50"""
    with home_for("C5 list 10,000 sessions") as home:
        if isinstance(home, Row):
            return [home]
        for number in range(SESSIONS):
            write_journal(home, number, 1_500, 300, is_settled=True)
        settled = time.time() - 60  # as if nothing had come or gone for a while
        os.utime(home.sessions, (settled, settled))

        def listed() -> None:
            with Catalog.open(home) as catalog:
                assert len(catalog.sessions()) == SESSIONS

        def newest() -> None:
            with Catalog.open(home) as catalog:
                assert len(catalog.newest(50)) == 50

        first = timed(listed)()
        environ = {**os.environ, "SAPWOOD_HOME": str(home.root)}
        command = process([SAPWOOD, "sessions", "list"], environ)
        best = in_turns(rounds, {"list": timed(listed), "newest": timed(newest), "command": command})
    return [
        within(f"C5 list {SESSIONS:,} sessions", 0.3, best["list"]),
        within(f"C5 `sessions list`, {SESSIONS:,} sessions", 0.3, best["command"]),
        within(f"C5 newest 50 of {SESSIONS:,} sessions", 0.02, best["newest"]),
        beside("C5 list, no catalog yet", first, best["list"], "the next list"),
    ]


def c6(rounds: int) -> list[Row]:
    """the last 100 entries of 1 GiB"""
    with home_for("C6 last 100 entries of 1 GiB") as home:
        if isinstance(home, Row):
            return [home]
        path = home.journal_path(write_journal(home, 1, HUGE_BYTES, LARGE_BYTES // ENTRIES))

        def last() -> None:
            with SessionManager.open_read_only(path, home=home) as manager:
                assert len(manager.read_last_entries(100)) == 100

        best = in_turns(rounds, {"last": timed(last)})
    return [within("C6 last 100 entries of 1 GiB", 0.05, best["last"])]


# --- durability -------------------------------------------------------------------------------------------------------


class Waits:
    """The p99 of each round, wall time: a writer's wait, a flush alone, the gathering of a group. The best round counts."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.flushes: list[float] = []
        self.gathered: list[float] = []


def flushed_lines(fd: int, waits: Waits) -> Side:
    """The baseline: each line is written and flushed. Wall time, which is what a flush takes."""
    line = seal(encode(BODY), 1, 0, 1, COMMITS, 0)

    def side() -> float:
        flushes: list[float] = []
        started = perf_counter()
        for _ in range(LINES):
            os.write(fd, line)
            before = perf_counter()
            os.fdatasync(fd)
            flushes.append(perf_counter() - before)
        took = (perf_counter() - started) / LINES
        waits.flushes.append(p99(flushes))
        return took

    return side


def grouped(home: Home, waits: Waits) -> Side:
    """64 writers of one session, each of which goes on when its line is durable."""
    numbers = iter(range(1_000_000))

    async def run() -> float:
        header = header_of(next(numbers))
        journal = Journal.create(home.fs, home.journal_path(header.id), header, 1)
        journal.sync()
        flusher, body = Flusher(), encode(BODY)
        times = 8 * LINES // GROUP
        appended: list[list[float]] = [[] for _ in range(times)]
        waited: list[float] = []

        async def writer() -> None:
            for turn in range(times):
                journal.append((body,))
                before = perf_counter()
                appended[turn].append(before)
                await flusher.durable(journal)
                waited.append(perf_counter() - before)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flusher.run)
            started = perf_counter()
            async with trio.open_nursery() as writers:
                for _ in range(GROUP):
                    writers.start_soon(writer)
            took = perf_counter() - started
            flusher.end()
        waits.waits.append(p99(waited))
        waits.gathered.append(p99([max(group) - min(group) for group in appended]))
        journal.close()
        return took / (times * GROUP)

    return lambda: trio.run(run)


def b5(rounds: int) -> list[Row]:
    """lines that are durable: a group of 64, against a flush for each"""
    case = f"B5 durable lines, groups of {GROUP}"
    with home_for(case) as home:
        if isinstance(home, Row):
            return [home]
        waits = Waits()
        fd = os.open(home.root / "lines", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            best = in_turns(rounds, {"ours": grouped(home, waits), "bare": flushed_lines(fd, waits)})
        finally:
            os.close(fd)
    if best["bare"] < QUIET_DISK_S:
        return [absent(case, ">= 10x fdatasync per line", "the temporary folder is on no disk")]
    wait, flush, gathering = min(waits.waits), min(waits.flushes), min(waits.gathered)
    ratio = (wait - gathering) / flush
    return [
        at_least(case, 10, best["ours"], best["bare"], "write + fdatasync per line"),
        Row(
            "B5 p99 of a writer's wait",
            "<= 2x fdatasync + gathering",
            f"{ratio:.2f}x",
            seconds(wait),
            f"{seconds(flush)} + {seconds(gathering)}",
            ratio <= 2,
        ),
    ]


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]
