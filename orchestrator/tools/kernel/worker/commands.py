"""Commands of the shell in cells."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from typing import Any

from .screen import CellFailure, Screen

ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB in one argument
PLACE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|\$\$|\$([A-Za-z_]\w*)")


def expanded(command: str, frame: types.FrameType) -> str:
    """With the values of `{expression}` and `$name`, where Python has them; else they are the shell's."""

    def value(place: re.Match[str]) -> str:
        expression = place.group(1) or place.group(2)
        if expression is None:
            return place.group()[0]
        if place.group(2) and expression not in frame.f_locals and expression not in frame.f_globals:
            return place.group()
        try:
            found = eval(expression, frame.f_globals, frame.f_locals)
        except Exception:
            return place.group()
        return place.group() if callable(found) or isinstance(found, types.ModuleType) else str(found)

    return PLACE.sub(value, command)


def descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def run_command(argv: list[str]) -> int:
    """Run it with our own output. If it is interrupted, so is all that it started."""
    process = subprocess.Popen(argv)
    try:
        return process.wait()
    except BaseException:
        family = descendants(process.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in family:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
        raise


class Commands:
    """`!command`, `x = !command` and `%%bash`, the same with IPython and without."""

    def __init__(self, names: dict[str, Any], screen: Screen) -> None:
        self.names, self.screen = names, screen
        self.bash = shutil.which("bash") or "/bin/sh"

    def system(self, command: str) -> None:
        self.screen.flush()
        status = run_command([self.bash, "-c", expanded(command, sys._getframe(1))])
        self.names["_exit_code"] = status
        if status:
            self.screen.say(f"[exit status {status}]\n")

    def getoutput(self, command: str) -> Lines:
        self.screen.flush()
        argv = [self.bash, "-c", expanded(command, sys._getframe(1))]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.names["_exit_code"] = done.returncode
        text = done.stdout.decode("utf-8", "replace")
        return Lines(text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else [])

    def script(self, line: str, body: str, program: str | None = None) -> None:
        """A cell that is a script, with `line` as options of the shell."""
        self.screen.flush()
        argv = [program or self.bash, *shlex.split(line)]
        if len(body.encode()) < ARGUMENT_BYTES:
            status = run_command([*argv, "-c", body])
        else:
            with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
                file.write(body)
                file.flush()
                status = run_command([*argv, file.name])
        self.names["_exit_code"] = status
        if status:
            raise CellFailure(f"[exit status {status}]")

    def pip(self, line: str) -> None:
        raise CellFailure(
            "%pip is not run here: cells run in the project's interpreter, whose packages are the project's. "
            f"Where a change is meant, say so: !{shlex.quote(sys.executable)} -m pip {line}"
        )


class Lines(list):  # type: ignore[type-arg]  # list[str] is not there in 3.8
    """The lines of an output; `n`: as one text, `s`: as one line."""

    n = property("\n".join)
    s = property(" ".join)
