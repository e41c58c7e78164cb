"""One owner per tree; and whether it lives, said only where it is certain."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal
from store.disk.ownership import Liveness, TreeLock, liveness
from store.errors import BadId, OwnedElsewhere
from tests.faulty_fs import FaultyFs

REPOSITORY = Path(__file__).resolve().parents[3]
ROOT = "0198f0aa-session"
SINCE = "2026-01-01T00:00:00Z"
LOCK = Path(f"/s/sessions/{ROOT}.lock")
HOST = os.uname().nodename


def stat_text(start: int, state: str = "S", name: str = "python (x) y") -> bytes:
    """/proc/pid/stat of a process that began `start` ticks after boot."""
    return f"1 ({name}) {state} {' '.join(['7'] * 18)} {start} 8 9\n".encode()


def machine(boot: str = "boot-1", ours: int = 100, space: str = "pid:[1]") -> FaultyFs:
    """A Linux in memory on which this process runs."""
    fs = FaultyFs.holding("/s/sessions")
    fs.plant(Path("/proc/sys/kernel/random/boot_id"), f"{boot}\n".encode())
    fs.plant(Path(f"/proc/{os.getpid()}/stat"), stat_text(ours))
    fs.links[Path("/proc/self/ns/pid")] = space
    return fs


def home(fs: FaultyFs) -> Home:
    return Home.from_env({"SAPWOOD_HOME": "/s"}, fs)


def acquire(fs: FaultyFs) -> TreeLock:
    return TreeLock.acquire(fs, home(fs), ROOT, SINCE)


def line(
    pid: int = 77, start: int | None = 500, boot: str = "boot-1", host: str = HOST, space: str = "pid:[1]"
) -> bytes:
    started = "" if start is None else f'"start":{start},'
    return (
        f'{{"pid":{pid},{started}"space":"{space}","boot":"{boot}","host":"{host}","since":"{SINCE}","epoch":4}}'.encode()
        + b" \n"
    )


def test_a_second_owner_is_told_who_has_the_tree_and_what_to_do() -> None:
    fs = machine()
    acquire(fs)

    with pytest.raises(OwnedElsewhere) as refusal:
        acquire(fs)

    for part in (str(os.getpid()), HOST, SINCE, ROOT, "sapwood agents", f"kill -INT {os.getpid()}"):
        assert part in str(refusal.value)
    assert len(fs.fds) == 1


def test_the_epoch_rises_with_each_owner_and_with_a_journal_that_is_ahead() -> None:
    fs = machine()
    first = acquire(fs)
    assert first.epoch == 1
    first.release()
    second = acquire(fs)
    assert second.epoch == 2
    assert second.raise_epoch(9) == second.epoch == 9
    assert second.raise_epoch(3) == 9
    fs.kill()

    assert acquire(fs).epoch == 10


@pytest.mark.parametrize("text", [b"", b"garbage", b"{}", b'{"pid":1,"host":"h","since":"","epoch":99999999999}'])
def test_an_unreadable_lock_file_is_no_obstacle(text: bytes) -> None:
    fs = machine()
    fs.plant(LOCK, text)

    assert liveness(fs, home(fs), ROOT) == Liveness("unknown")
    assert acquire(fs).epoch == 1
    assert liveness(fs, home(fs), ROOT) == Liveness("alive", os.getpid())


def test_the_lock_file_is_one_line_of_one_length_and_stays() -> None:
    fs = machine()
    fs.plant(LOCK, b"x" * 4000)
    lock = acquire(fs)
    size = len(fs.content(LOCK))
    assert size == 512
    lock.raise_epoch(2**31)
    assert len(fs.content(LOCK)) == size
    lock.release()
    lock.release()

    assert len(fs.content(LOCK)) == size
    assert fs.content(LOCK).count(b"\n") == 1
    assert "unlink" not in fs.log


def test_an_owner_that_let_go_is_dead_and_leaves_the_tree_free() -> None:
    fs = machine()
    acquire(fs).release()

    assert liveness(fs, home(fs), ROOT) == Liveness("dead", os.getpid(), has_let_go=True)
    assert list(fs.fds) == []


@pytest.mark.parametrize("name", ["lock", "write", "read_at"])
def test_an_error_while_acquiring_leaves_the_tree_free(name: str) -> None:
    fs = machine()
    fs.fails = {name: errno.EIO}

    with pytest.raises(OSError, match="Input/output"):
        acquire(fs)

    fs.fails = {}
    assert acquire(fs).epoch == 1


def test_a_tree_that_nobody_ever_owned_is_dead() -> None:
    fs = machine()

    assert liveness(fs, home(fs), ROOT) == Liveness("dead")
    with pytest.raises(BadId):
        liveness(fs, home(fs), "../escape")


@pytest.mark.parametrize(
    ("owner", "process", "state", "why"),
    [
        (line(), stat_text(500), "alive", "pid and start time agree"),
        (line(), stat_text(500, name=") S 1 ("), "alive", "the command's name may hold anything"),
        (line(), None, "dead", "no such process"),
        (line(), stat_text(501), "dead", "the pid was used again"),
        (line(), stat_text(500, state="Z"), "dead", "only a zombie is left"),
        (line(boot="boot-0"), stat_text(500), "dead", "the machine was started again"),
        (line(host="elsewhere"), None, "unknown", "another host"),
        (line(host="elsewhere", boot="boot-0"), None, "unknown", "another host with another boot"),
        (line(space="pid:[2]"), None, "unknown", "another container"),
        (line(start=None), stat_text(500), "unknown", "the owner's system did not tell its start"),
    ],
)
def test_liveness_is_said_only_where_it_is_certain(owner: bytes, process: bytes | None, state: str, why: str) -> None:
    fs = machine()
    fs.plant(LOCK, owner)
    if process is not None:
        fs.plant(Path("/proc/77/stat"), process)

    found = liveness(fs, home(fs), ROOT)
    assert (found.state, found.pid) == (state, 77), why
    assert "lock" not in fs.log


def test_without_proc_nothing_is_certain() -> None:
    fs = FaultyFs.holding("/s/sessions")
    lock = acquire(fs)

    assert liveness(fs, home(fs), ROOT) == Liveness("unknown", os.getpid())
    lock.release()
    assert liveness(fs, home(fs), ROOT) == Liveness("dead", os.getpid(), has_let_go=True)


def test_a_lock_file_that_cannot_be_read_says_nothing() -> None:
    fs = machine()
    acquire(fs)
    fs.fails = {"read_at": errno.EIO}
    assert liveness(fs, home(fs), ROOT).state == "unknown"
    fs.fails = {"open": errno.EACCES}
    assert liveness(fs, home(fs), ROOT).state == "unknown"


# The kernel's locks

OWNER = """
import os, sys
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.ownership import TreeLock

home = Home.from_env(os.environ, RealFs())
lock = TreeLock.acquire(home.fs, home, sys.argv[1], "now")
print(lock.epoch, flush=True)
sys.stdin.read()
"""


def test_two_processes_never_own_one_tree_and_death_frees_it(tmp_path: Path) -> None:
    environ = {**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")}
    ours = Home.from_env(environ, RealFs())
    command = [sys.executable, "-c", OWNER, ROOT]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"

        with pytest.raises(OwnedElsewhere, match=f"process {other.pid} "):
            TreeLock.acquire(ours.fs, ours, ROOT, SINCE)
        assert liveness(ours.fs, ours, ROOT) == Liveness("alive", other.pid)

        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, but still in the table
        assert liveness(ours.fs, ours, ROOT) == Liveness("dead", other.pid)
    assert liveness(ours.fs, ours, ROOT) == Liveness("dead", other.pid)
    lock = TreeLock.acquire(ours.fs, ours, ROOT, SINCE)
    assert lock.epoch == 2
    assert lock.path.stat().st_mode & 0o777 == 0o600
    lock.release()


APPENDER = """
import os, sys
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal
from store.disk.ownership import TreeLock
from store.entries import Header
from store.errors import OwnedElsewhere

home, root = Home.from_env(os.environ, RealFs()), sys.argv[1]
for number in range(5):
    while True:
        try:
            lock = TreeLock.acquire(home.fs, home, root, "now")
            break
        except OwnedElsewhere:
            os.sched_yield()
    try:
        journal = Journal.create(home.fs, home.journal_path(root), Header(version=3, id=root, timestamp="", cwd="/"), 1)
    except FileExistsError:
        journal, found = Journal.open(home.fs, home.journal_path(root), root, lock.epoch)
        journal.epoch = lock.raise_epoch(found.epoch + 1)
    journal.append([b'{"who":%d,"n":%d,"x":"%b"}' % (os.getpid(), number, b"x" * 300_000)])
    journal.sync()
    journal.close()
    lock.release()
"""


def test_many_processes_take_turns_on_one_journal(tmp_path: Path) -> None:
    environ = {**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", APPENDER, ROOT]
    appenders = [subprocess.Popen(command, cwd=REPOSITORY, env=environ) for _ in range(6)]
    assert [appender.wait() for appender in appenders] == [0] * 6

    ours = Home.from_env(environ, RealFs())
    journal, found = Journal.open(ours.fs, ours.journal_path(ROOT), ROOT, 1)
    journal.close()
    assert len({record[:30] for record in found.records}) == len(found.records) == 30
    assert (found.torn, found.epoch) == (None, 30)
