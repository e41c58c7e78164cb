"""The stream on its way out: pipes and files, slow readers, readers that leave, a disk that is full."""

import errno
import os
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from orchestrator.engine.stdout import ROOM_BYTES, LineWriter
from store.repair import runs
from tests.orchestrator.engine.processes import Desk, Done, desk_at, living, marked_sleep, until

WORDS = "All that was said, and a little more. "
LONG = WORDS * 4_000  # a hundred and fifty thousand characters: the stream has more than a million bytes
LARGE = WORDS * 40_000
SPAWN = '[[reply.tool]]\nname = "spawn_agent"\narguments = { prompt = "sleep" }\n'


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def says(text: str, then: str = "") -> str:
    return f'[[reply]]\ncall = 1\ntext = "{text}"\nusage = {{ input = 7, output = 5 }}\n{then}'


def bash(command: str) -> str:
    return f'[[reply.tool]]\nname = "bash"\narguments = {{ command = "{command}" }}\n'


def structure(done: Done) -> list[bytes]:
    """The lines without what differs from run to run: ids, times, durations."""
    ids = re.compile(rb"01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
    times = re.compile(rb'"(at|timestamp|durationMs)":("[^"]*"|\d+)')
    return [times.sub(rb'"\1":0', ids.sub(b"ID", line)) for line in done.lines]


@pytest.mark.parametrize("end", ["success", "failure", "abort"])
def test_a_file_and_a_pipe_get_the_same_lines_to_the_last(desk: Desk, end: str) -> None:
    sleep = marked_sleep()
    text, status = {
        "success": (says(LONG), 0),
        "failure": (says(LONG, f'fail = {{ kind = "auth", message = "no", after_chunks = {len(LONG)} }}\n'), 1),
        "abort": (says(LONG, bash(sleep)), 143),
    }[end]
    words = ("--mode", "json", "-m", desk.script(text), "go")

    piped = desk.start(*words)
    if end == "abort":
        piped.until_seen('"type":"tool_execution_start"')
        piped.send(signal.SIGTERM)
    first = piped.end()
    path = desk.root / "stream.jsonl"
    with path.open("wb") as file:
        filed = desk.start(*words, stdout=file)
    if end == "abort":
        until(lambda: living(sleep), "the tool")
        filed.send(signal.SIGTERM)
    status_of_second = filed.end().status
    second = Done(status_of_second, path.read_bytes(), "")

    assert (first.status, second.status) == (status, status)
    assert (first.faults(), second.faults()) == ([], [])
    assert len(first.out) > 16 * 65_536
    assert structure(first) == structure(second)


def test_a_slow_reader_holds_the_model_back_and_loses_nothing(desk: Desk) -> None:
    running = desk.start("--mode", "json", "-m", desk.script(says(LARGE)), "go")
    running.until_it_stands()
    # The answer is not there: the model waits for the reader, the answer is not piling up in memory.
    (journal,) = desk.journals().values()
    assert b'"role":"assistant"' not in journal

    done = running.end()

    assert (done.status, done.err, done.faults()) == (0, "", [])
    answer = next(event for event in done.events if event["type"] == "message_end" and "messageId" in event)
    assert answer["message"]["content"] == [{"type": "text", "text": LARGE}]
    assert len(done.out) > 8 * len(LARGE) // 2


def talks_while_a_child_sleeps(sleep: str) -> str:
    """The root speaks at length once the tool of its child runs."""
    child = f"[[reply]]\ndepth = 1\n{bash(f'touch started; {sleep}')}"
    waits = bash("until [ -e started ]; do sleep 0.01; done")
    return f'{child}[[reply]]\ncall = 1\n{SPAWN}[[reply]]\ncall = 2\n{waits}[[reply]]\ntext = "{LARGE}"\n'


def test_a_tree_is_aborted_while_nobody_reads(desk: Desk) -> None:
    sleep = marked_sleep()
    running = desk.start("--mode", "json", "-m", desk.script(talks_while_a_child_sleeps(sleep)), "go")
    until(lambda: living(sleep), "the child's tool")
    running.until_it_stands()

    running.send(signal.SIGTERM)

    # The journals are closed and the processes gone before anybody reads on.
    until(lambda: all(b'"type":"run_settled"' in data for data in desk.journals().values()), "the end of both runs")
    assert living(sleep) == set()
    done = running.end()
    assert (done.status, done.faults()) == (143, [])
    assert {node.records[-1].type for node in desk.tree().nodes.values()} <= {"run_settled", "child_usage_attributed"}
    assert {run.outcome for node in desk.tree().nodes.values() for run in runs(node.records)} == {"aborted"}


def test_a_second_signal_ends_it_while_nobody_reads(desk: Desk) -> None:
    running = desk.start("--mode", "json", "-m", desk.script(says(LARGE)), "go")
    running.until_it_stands()
    running.send(signal.SIGTERM)
    until(lambda: all(b'"type":"run_settled"' in data for data in desk.journals().values()), "the end of the run")
    assert running.popen.poll() is None
    running.send(signal.SIGTERM)
    assert running.popen.wait(60) == 143
    assert running.err.read_text() in {"", "sapwood: aborted: stopped by SIGTERM\n"}
    assert desk.tree().unrepaired == 0


def test_a_signal_after_the_end_changes_nothing_for_a_slow_reader(desk: Desk) -> None:
    # In one piece, so that the model is done before it has to wait.
    running = desk.start("--mode", "json", "-m", desk.script(says(LONG, f"chunk = {len(LONG)}\n")), "go")
    until(lambda: [data for data in desk.journals().values() if b'"outcome":"completed"' in data], "the end of the run")
    running.until_it_stands()
    running.send(signal.SIGTERM)
    done = running.end()
    assert (done.status, done.err, done.faults()) == (0, "", [])

    running = desk.start("--mode", "json", "-m", "scripted/script.toml", "go")
    ends = b'"outcome":"completed"'
    until(lambda: sum(ends in data for data in desk.journals().values()) == 2, "the end of the second run")
    running.until_it_stands()
    running.send(signal.SIGTERM)
    running.send(signal.SIGHUP)  # another one, as two of a kind may be seen as one
    assert running.popen.wait(60) in {129, 143}
    assert re.fullmatch(r"sapwood: completed: stopped by SIG(TERM|HUP)\n", running.err.read_text())


@pytest.mark.parametrize("is_talking", [True, False], ids=["in the middle of a line", "while nothing is said"])
def test_a_reader_that_leaves_ends_the_tree_without_a_traceback(desk: Desk, is_talking: bool) -> None:
    sleep = marked_sleep()
    text = f"[[reply]]\ndepth = 0\ncall = 1\n{SPAWN}[[reply]]\n{bash(sleep)}"
    if is_talking:
        text = talks_while_a_child_sleeps(sleep)
    running = desk.start("--mode", "json", "-m", desk.script(text), "go")
    until(lambda: len(living(sleep)) == (1 if is_talking else 2), "the tools")
    if is_talking:
        running.until_it_stands()
    running.read()

    running.stop_reading()

    done = running.end()
    assert (done.status, done.err) == (141, "sapwood: aborted: the reader of stdout went away\n")
    assert living(sleep) == set()
    tree = desk.tree()
    assert (tree.unrepaired, tree.troubles, tree.liveness.state) == (0, {}, "dead")
    assert [run.outcome for node in tree.nodes.values() for run in runs(node.records)] == ["aborted", "aborted"]


def test_a_reader_that_left_in_text_mode_is_a_status_and_no_word(desk: Desk) -> None:
    running = desk.start("-m", desk.script(says(LONG)), "go")
    running.stop_reading()
    done = running.end()
    assert (done.status, done.err) == (141, "")


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_stdout_without_room_is_told_on_stderr(desk: Desk, mode: str) -> None:
    with open("/dev/full", "wb") as full:
        done = desk.run("--mode", mode, "-m", desk.script(says(LONG)), "go", stdout=full)
    assert done.status == 1
    assert re.fullmatch(r"sapwood: .*stdout could not be written: .*No space left on device\n", done.err)
    assert desk.tree().unrepaired == 0


async def test_all_who_wait_for_room_are_woken() -> None:
    read_end, write_end = os.pipe()
    gone: list[OSError] = []
    writer = LineWriter(write_end, gone.append)
    writer.offer(b"x" * (2 * ROOM_BYTES))
    with trio.fail_after(30):
        async with trio.open_nursery() as waiting:
            for _ in range(3):
                waiting.start_soon(writer.wait_for_room)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writer.run)
                left = 2 * ROOM_BYTES
                while left:
                    await trio.lowlevel.wait_readable(read_end)
                    left -= len(os.read(read_end, 1 << 16))
                writer.finish()
    assert gone == []
    os.close(read_end)
    os.close(write_end)


async def test_what_waits_for_a_reader_is_bounded_by_those_who_wait_for_room() -> None:
    read_end, write_end = os.pipe()
    gone: list[OSError] = []
    writer = LineWriter(write_end, gone.append)
    most = sent = 0

    async def talk() -> None:
        nonlocal most, sent
        for number in range(2_000):
            await writer.wait_for_room()
            line = b"%06d %s\n" % (number, b"x" * 2_000)
            writer.offer(line)
            sent += len(line)
            most = max(most, writer._waiting_bytes)
        writer.finish()

    received = bytearray()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            nursery.start_soon(talk)
            while writer.has_room:
                await trio.lowlevel.checkpoint()
            assert sent < ROOM_BYTES + 3 * 65_536
            while len(received) < 2_000 * 2_008:
                await trio.lowlevel.wait_readable(read_end)
                received += os.read(read_end, 1 << 16)
            await writer.written()
    assert most < ROOM_BYTES + 2_008
    assert [line[:6] for line in received.splitlines()] == [b"%06d" % number for number in range(2_000)]
    assert gone == []
    os.close(read_end)
    os.close(write_end)


async def test_a_pipe_that_somebody_made_non_blocking_is_waited_for_all_the_same() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    gone: list[OSError] = []
    writer = LineWriter(write_end, gone.append)
    line = b"y" * 50_000 + b"\n"
    for _ in range(20):
        writer.offer(line)
    writer.finish()
    received = bytearray()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            while len(received) < 20 * len(line):
                await trio.lowlevel.wait_readable(read_end)
                received += os.read(read_end, 1 << 16)
                # Another writer of the same pipe takes the room that was announced.
                if len(received) < 10 * len(line) and select.select([], [write_end], [], 0)[1]:
                    try:
                        os.write(write_end, b"")
                    except BlockingIOError:
                        pass
            await writer.written()
    assert (bytes(received), gone) == (20 * line, [])
    os.close(read_end)
    os.close(write_end)


async def test_a_pipe_that_is_open_for_both_ways_has_a_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    both = os.open(tmp_path / "fifo", os.O_RDWR)  # as with `1<>fifo` in a shell
    gone: list[OSError] = []
    writer = LineWriter(both, gone.append)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            writer.offer(b"one\n")
            await trio.testing.wait_all_tasks_blocked()
            assert os.read(both, 100) == b"one\n"
            writer.offer(b"two\n")
            writer.finish()
            await writer.written()
    assert (os.read(both, 100), gone) == (b"two\n", [])
    os.close(both)


async def test_a_writer_whose_reader_left_drops_what_comes_and_says_so_once() -> None:
    read_end, write_end = os.pipe()
    gone: list[OSError] = []
    writer = LineWriter(write_end, gone.append)
    os.close(read_end)
    writer.offer(b"one\n")
    with trio.fail_after(30):
        await writer.run()
        writer.offer(b"x" * 2 * ROOM_BYTES)
        await writer.wait_for_room()
        await writer.written()
    assert [error.errno for error in gone] == [errno.EPIPE]
    assert writer._waiting_bytes == 0
    os.close(write_end)
