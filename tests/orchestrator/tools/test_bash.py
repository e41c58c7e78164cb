import contextlib
import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.protocol.tools import ToolResult
from orchestrator.tools import process
from orchestrator.tools.bash import BashTool
from orchestrator.tools.output import MAX_BYTES, MAX_LINES

BASH = BashTool()
TextOf = Callable[[ToolResult], str]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_stdout_and_stderr_come_in_their_order(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="echo 1; echo 2 >&2; echo 3")
    assert text_of(result) == "1\n2\n3\n"
    assert not result.is_error
    assert result.details["exitCode"] == 0
    assert result.details["truncated"] is False
    assert "fullOutputPath" not in result.details


async def test_it_runs_in_the_given_folder_with_the_given_environment_only(
    place: Any, text_of: TextOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    result = await place.run(BASH, command="pwd; env; cat; tr '\\0' '\\n' </proc/self/environ")
    assert text_of(result).startswith(f"{place.folder}\n")
    assert f"HOME={place.folder}" in text_of(result)
    assert "canary" not in text_of(result)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; exit 3", "out\n[exit status 3]"),
        ("printf out; exit 3", "out\n[exit status 3]"),
        ("exit 7", "(no output)\n[exit status 7]"),
        ("kill -9 $$", "(no output)\n[killed by SIGKILL]"),
        ("nonsense-command-x 2>/dev/null", "(no output)\n[exit status 127]"),
    ],
)
async def test_a_failure_is_an_error_with_the_output_and_the_status(
    place: Any, text_of: TextOf, command: str, text: str
) -> None:
    result = await place.run(BASH, command=command)
    assert result.is_error
    assert text_of(result) == text


async def test_a_command_without_output_says_so(place: Any, text_of: TextOf) -> None:
    assert text_of(await place.run(BASH, command=":")) == "(no output)"


async def test_text_is_utf8_whatever_the_command_writes(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command=r"printf '\xe2'; sleep 0.05; printf '\x82\xac\0\xff'")
    assert text_of(result) == "€\ufffd"


@pytest.mark.parametrize("command", ["a\0b", ": " + "x" * 200_000])
async def test_a_command_that_cannot_start_is_an_error(place: Any, text_of: TextOf, command: str) -> None:
    result = await place.run(BASH, command=command)
    assert result.is_error
    assert "did not start" in text_of(result)


async def test_a_folder_that_is_gone_is_an_error(place: Any, text_of: TextOf) -> None:
    place.folder = place.folder / "gone"
    result = await place.run(BASH, command="true")
    assert result.is_error
    assert "gone" in text_of(result)


async def test_a_timeout_kills_the_group_and_shows_what_there_was(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="sleep 300 & echo $!; wait", timeout_s=0.3)
    child, _, note = text_of(result).partition("\n")
    assert result.is_error
    assert note == "[timeout: the command was killed after 0.3 s; this is its output so far]"
    assert result.details["timedOut"] is True
    assert result.details["exitCode"] is None
    assert not is_alive(int(child))


async def test_what_a_command_says_on_its_way_out_is_heard(place: Any, text_of: TextOf) -> None:
    command = "trap 'echo bye; exit' TERM; echo hi; while :; do sleep 0.05; done"
    assert "bye\n[timeout" in text_of(await place.run(BASH, command=command, timeout_s=0.3))


async def cancelled_once_it_speaks(place: Any, command: str) -> list[int]:
    """The process ids that the command printed before it was cancelled."""
    with trio.CancelScope() as scope:
        place.on_progress = lambda text: scope.cancel() if text.count("\n") >= 2 else None
        await place.run(BASH, command=command)
    assert scope.cancelled_caught
    return [int(line) for line in place.progress[-1].split()]


async def test_a_cancelled_command_leaves_no_process(place: Any) -> None:
    pids = await cancelled_once_it_speaks(place, "(sleep 300 & echo $!; wait) & echo $$; wait")
    assert len(pids) == 2
    assert not any(map(is_alive, pids))


async def test_what_ignores_term_is_killed(place: Any) -> None:
    command = "trap '' TERM; (sleep 300 & echo $!; wait) >/dev/stdout & echo $$; while :; do sleep 300; done"
    pids = await cancelled_once_it_speaks(place, command)
    assert not any(map(is_alive, pids))


async def test_background_processes_that_hold_the_output_are_killed(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="sleep 300 & echo $!")
    child, _, note = text_of(result).partition("\n")
    assert note == "[processes left in the background were killed]"
    assert not result.is_error
    assert not is_alive(int(child))


async def test_background_processes_that_let_go_of_the_output_are_killed(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="sleep 300 >/dev/null 2>&1 & echo $!")
    child, _, note = text_of(result).partition("\n")
    assert note == "[processes left in the background were killed]"
    assert not is_alive(int(child))


async def test_a_background_process_that_never_stops_writing_does_not_hold_up_the_result(
    place: Any, text_of: TextOf
) -> None:
    result = await place.run(BASH, command="yes & echo $! >pid")
    assert "processes left in the background were killed" in text_of(result)
    assert not is_alive(int((place.folder / "pid").read_text()))


async def test_what_is_written_just_after_the_end_is_not_lost(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="exec > >(sleep 0.05; sed s/a/b/); echo aaa")
    assert text_of(result).startswith("baa\n")


async def test_a_process_that_made_its_own_session_is_reported(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="setsid sh -c 'echo $$; exec sleep 5' & sleep 0.1")
    escaped, _, note = text_of(result).partition("\n")
    assert "session of its own" in note
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(escaped), signal.SIGKILL)


async def test_fifty_megabytes_are_shown_in_part_and_kept_whole(place: Any, text_of: TextOf) -> None:
    result = await place.run(BASH, command="seq 6500000; seq 6500000 | sha256sum >sum; wc -c <sum")
    text = text_of(result)
    assert len(text.encode()) <= MAX_BYTES
    assert text.count("\n") <= MAX_LINES
    assert text.startswith("1\n2\n3\n")
    assert "left out here; whole output: " in text
    assert text.endswith("6500000\n68\n")
    path = Path(result.details["fullOutputPath"])
    assert path.parent == place.artifacts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    digest = (place.folder / "sum").read_text().split()[0]
    assert hashlib.sha256(path.read_bytes().removesuffix(b"68\n")).hexdigest() == digest
    path.unlink()


async def test_one_line_without_end_stays_in_bounded_memory(place: Any, text_of: TextOf) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await place.run(BASH, command="yes | tr -d '\\n' | head -c 300000000")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
    assert len(text_of(result).encode()) <= MAX_BYTES
    assert "the file ends after 268,435,456 bytes, its limit" in text_of(result)
    Path(result.details["fullOutputPath"]).unlink()


async def test_progress_is_bounded_and_not_too_frequent(place: Any) -> None:
    shown_at: list[float] = []
    place.on_progress = lambda text: shown_at.append(trio.current_time())
    await place.run(BASH, command="for n in $(seq 30); do seq 2000; sleep 0.01; done")
    assert all(len(text.encode()) <= 4096 for text in place.progress)
    assert len(shown_at) >= 2
    # Counted over the whole, since each look at the clock comes a little later than what it looks at.
    assert len(shown_at) <= 2 + (shown_at[-1] - shown_at[0]) / 0.1


async def test_the_last_words_before_a_silence_are_shown_while_it_lasts(place: Any) -> None:
    with trio.CancelScope() as scope:
        place.on_progress = lambda text: scope.cancel() if text.endswith("second\n") else None
        await place.run(BASH, command="echo first; sleep 0.02; echo second; sleep 300")
    assert scope.cancelled_caught
    assert place.progress == ["first\n", "first\nsecond\n"]


async def test_without_room_nothing_is_read_and_the_clock_stands_still(place: Any, text_of: TextOf) -> None:
    room = trio.Event()
    place.wait_for_room = room.wait
    async with trio.open_nursery() as nursery:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await place.run(BASH, command="seq 100000; echo $? >ended", timeout_s=0.2))

        nursery.start_soon(run)
        await trio.sleep(0.5)  # longer than the timeout
        assert place.progress == []
        assert not (place.folder / "ended").exists()
        room.set()
    assert not results[0].is_error
    assert text_of(results[0]).endswith("100000\n")


async def test_a_command_that_ended_is_not_held_up_by_the_lack_of_room(place: Any, text_of: TextOf) -> None:
    place.wait_for_room = trio.sleep_forever
    with trio.fail_after(30):
        result = await place.run(BASH, command="seq 3")
    assert text_of(result) == "1\n2\n3\n"


async def test_many_commands_at_once_leave_no_descriptor(place: Any) -> None:
    await place.run(BASH, command="true")
    before = len(os.listdir("/proc/self/fd"))
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(lambda: place.run(BASH, command="sleep 0.05 & seq 100000"))
    assert len(os.listdir("/proc/self/fd")) == before


HOST = """
import sys, trio
from actors.protocol.tools import ToolContext
from orchestrator.tools.bash import BashTool

async def room(): pass

context = ToolContext("1", sys.argv[1], sys.argv[1], {"PATH": "/usr/bin:/bin"}, None,
                      lambda result: print(result.content[0].text, flush=True), room)
trio.run(BashTool().run, {"command": "echo $$; exec sleep 300"}, context)
"""


@pytest.mark.skipif(not process._dies_with_parent(os.getpid()), reason="no setpriv that knows --pdeathsig")
def test_a_command_does_not_outlive_a_host_that_is_killed(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, env=env) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        assert is_alive(pid)
        host.kill()
    give_up_at = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert not is_alive(pid)


async def test_a_huge_timeout_is_no_trouble(place: Any, text_of: TextOf) -> None:
    assert text_of(await place.run(BASH, command="echo x", timeout_s=1e18)) == "x\n"
