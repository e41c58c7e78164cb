"""A program on a pseudo-terminal, and what its screen shows."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 10.0
_PIECE = re.compile(rb"\x1b\[(\d+);1H|\x1b\[(\d*)J|\x1b\[K|\x1b\[\?[0-9]+[hl]|\x1b\[[0-9;]*m|\x1b\][^\x07]*\x07")


@attrs.define(eq=False)
class Shown:
    """A program on a terminal of its own; what it writes is kept as the lines that a person sees."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    written: bytes = b""
    lines: dict[int, str] = attrs.field(factory=dict)
    _line: int = 0
    _rest: bytes = b""

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.lines.clear()
        set_size(self.master, columns, lines)

    def text(self) -> str:
        self._read()
        return "\n".join(self.lines.get(number, "") for number in range(max(self.lines, default=0) + 1))

    def until(self, seen: str | Callable[[str], bool]) -> str:
        """The screen as soon as it shows this."""
        is_there = seen if callable(seen) else lambda text: seen in text
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            text = self.text()
            if is_there(text):
                return text
            select.select([self.master], [], [], 0.05)
        raise AssertionError(f"waited in vain for {seen!r}; the screen is\n{self.text()}")

    def ended(self) -> int:
        """The exit status."""
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            self._read()
            select.select([self.master], [], [], 0.02)
        self._read()
        return self.process.wait(timeout=1)

    @property
    def is_stopped(self) -> bool:
        return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is not None

    @property
    def modes(self) -> list[object]:
        return termios.tcgetattr(self.slave)

    def _read(self) -> None:
        while select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.written += data
            self._take(data)

    def _take(self, data: bytes) -> None:
        data, place = self._rest + data, 0
        for found in _PIECE.finditer(data):
            self._write(data[place : found.start()])
            place = found.end()
            if found[1]:
                self._line = int(found[1]) - 1
                self.lines[self._line] = ""
            elif found[2] is not None:
                self.lines = {} if found[2] == b"2" else {n: t for n, t in self.lines.items() if n < self._line}
        rest = data[place:]
        cut = rest.find(b"\x1b")
        self._rest = rest[cut:] if cut >= 0 else b""
        self._write(rest[:cut] if cut >= 0 else rest)

    def _write(self, data: bytes) -> None:
        if data:
            self.lines[self._line] = self.lines.get(self._line, "") + data.decode("utf-8", "replace")


def set_size(fd: int, columns: int, lines: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextmanager
def terminal(columns: int, lines: int) -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: the end that a person has, and the program's."""
    master, slave = os.openpty()
    set_size(master, columns, lines)
    try:
        yield master, slave
    finally:
        os.close(master)
        os.close(slave)


def drained(master: int) -> str:
    """What was written and not read yet."""
    data = b""
    while select.select([master], [], [], 0)[0]:
        data += os.read(master, 1 << 16)
    return data.decode("utf-8", "replace")


@contextmanager
def shown(
    *arguments: str,
    home: Path,
    columns: int = 120,
    lines: int = 30,
    env: Mapping[str, str] = {},
    program: Sequence[str] = ("-m", "orchestrator.cli.main"),
) -> Iterator[Shown]:
    """`sapwood ARGUMENTS` on a terminal of this size, alone in its session."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environ = {**inherited, "SAPWOOD_HOME": str(home), "TERM": "xterm-256color", "PYTHONUTF8": "1", **env}

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with terminal(columns, lines) as (master, slave):
        process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            cwd=ROOT,
            preexec_fn=own_terminal,
        )
        try:
            yield Shown(process, master, slave)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
