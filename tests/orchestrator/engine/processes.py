"""The command in processes of its own, with a home and a folder of their own. All waits are bounded and fail loudly."""

import fcntl
import itertools
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import msgspec

from store.disk.forest import StoredTree, read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.stream import check_stream

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = REPOSITORY / "tests" / "data" / "scripts"
PATIENCE_S = 60.0
"""No wait takes a twentieth of it on a quiet machine."""
LOOK_AGAIN_S = 0.01

T = TypeVar("T")
_numbers = itertools.count(1)


def until(look: Callable[[], T], what: str) -> T:
    """What `look` gives once that is true. Fails when it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_S:.0f} s for {what}; the last look gave {seen!r}")
        time.sleep(LOOK_AGAIN_S)
    return seen


def marked_sleep() -> str:
    """The command of a long sleep that no other process has."""
    return f"sleep 1000.{os.getpid()}{next(_numbers):04}"


def living(command: str) -> set[int]:
    """The processes whose command line is just that."""
    wanted = b"\0".join(command.encode().split()) + b"\0"
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == wanted:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@attrs.frozen
class Done:
    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines(keepends=True)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.out.split(b"\n") if line]

    def faults(self) -> list[str]:
        """What is wrong with stdout as a stream, and with the status beside it."""
        return [
            f"{found.line} {found.rule}: {found.text}" for found in check_stream(self.lines, exit_status=self.status)
        ]


@attrs.define(eq=False)
class Running:
    """A process whose stdout is read here, as slowly as a test likes."""

    popen: "subprocess.Popen[bytes]"
    out: int
    err: Path
    _seen: bytearray = attrs.field(factory=bytearray)
    _is_closed: bool = False

    @property
    def pid(self) -> int:
        return self.popen.pid

    def read(self) -> bytes:
        """The next piece of stdout; empty at its end."""
        if not select.select([self.out], [], [], PATIENCE_S)[0]:
            raise AssertionError(f"nothing came on stdout for {PATIENCE_S:.0f} s; stderr: {self.err.read_text()}")
        piece = os.read(self.out, 1 << 20)
        self._seen += piece
        return piece

    def until_seen(self, text: str, times: int = 1) -> None:
        """Read on until stdout has shown `text` so many times."""
        while self._seen.count(text.encode()) < times:
            if not self.read():
                raise AssertionError(f"stdout has ended without {text!r}: {bytes(self._seen[-2000:])!r}")

    def unread_bytes(self) -> int:
        """What waits in the pipe."""
        (count,) = struct.unpack("i", fcntl.ioctl(self.out, termios.FIONREAD, b"\0" * 4))
        return int(count)

    def until_it_stands(self) -> None:
        """Wait until the pipe holds as much as it takes and the process has nothing to do."""

        def is_standing() -> bool:
            before = self.cpu_ticks(), self.unread_bytes()
            time.sleep(5 * LOOK_AGAIN_S)
            return (self.cpu_ticks(), self.unread_bytes()) == before and before[1] > 48 * 1024

        until(is_standing, "a process that waits for its reader")

    def cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])

    def send(self, number: int) -> None:
        self.popen.send_signal(number)

    def stop_reading(self) -> None:
        """The reader goes away."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self.out)

    def end(self) -> Done:
        """Read the rest, if somebody still reads, and wait for the end."""
        while not self._is_closed and self.read():
            pass
        return Done(self.popen.wait(PATIENCE_S), bytes(self._seen), self.err.read_text())


@attrs.define(eq=False)
class Desk:
    """Somebody's home and folder."""

    root: Path
    started: list[Running] = attrs.field(factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def folder(self) -> Path:
        folder = self.root / "folder"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def sessions(self) -> Path:
        return self.home / "sessions"

    def script(self, text: str, name: str = "script.toml") -> str:
        """The model that plays this script."""
        (self.folder / name).write_text(text, "utf-8")
        return f"scripted/{name}"

    def stored_script(self, name: str) -> str:
        return self.script((SCRIPTS / name).read_text("utf-8"), name)

    def env(self, **more: str) -> dict[str, str]:
        # A process whose files may not grow would leave half-written bytecode behind, for all that come after it.
        own = {"HOME": str(self.root), "SAPWOOD_HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        return {"PATH": os.environ["PATH"], **own, **more}

    def argv(self, words: Sequence[str | bytes]) -> list[str | bytes]:
        return [sys.executable, "-m", "orchestrator.cli.main", *words]

    def run(self, *words: str | bytes, env: dict[str, str] | None = None, **options: Any) -> Done:
        """To its end. `options` are those of `subprocess.run`."""
        done = subprocess.run(
            self.argv(words),
            **{
                "cwd": self.folder,
                "env": self.env(PYTHONPATH=str(REPOSITORY), **(env or {})),
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "timeout": PATIENCE_S,
                **options,
            },
        )
        return Done(done.returncode, done.stdout or b"", (done.stderr or b"").decode())

    def start(self, *words: str, **options: Any) -> Running:
        """In the background, with stdout in a pipe of the usual 64 KiB."""
        out, theirs = os.pipe()
        err = self.root / f"stderr-{len(self.started)}"
        try:
            with err.open("wb") as stderr:
                popen = subprocess.Popen(
                    self.argv(words),
                    **{
                        "cwd": self.folder,
                        "env": self.env(PYTHONPATH=str(REPOSITORY)),
                        "stdin": subprocess.DEVNULL,
                        "stdout": theirs,
                        "stderr": stderr,
                        **options,
                    },
                )
        finally:
            os.close(theirs)
        running = Running(popen, out, err)
        self.started.append(running)
        return running

    def journals(self) -> dict[str, bytes]:
        """What the journals hold now, by session id."""
        return (
            {path.stem: path.read_bytes() for path in self.sessions.glob("*.jsonl")} if self.sessions.exists() else {}
        )

    def tree(self, root_id: str | None = None) -> StoredTree:
        """The tree as a reader sees it: of this root, or the only one that there is."""
        fs = RealFs()
        roots = [path.stem for path in self.sessions.glob("*.lock")]
        if root_id is None:
            (root_id,) = roots
        return read_tree(fs, Home(self.home, self.sessions, fs), root_id)

    def close(self) -> None:
        for running in self.started:
            if running.popen.poll() is None:
                running.send(signal.SIGKILL)
                running.popen.wait(PATIENCE_S)
            if running.popen.stdin is not None:
                running.popen.stdin.close()
            running.stop_reading()


@contextmanager
def desk_at(root: Path) -> Iterator[Desk]:
    desk = Desk(root)
    try:
        yield desk
    finally:
        desk.close()
