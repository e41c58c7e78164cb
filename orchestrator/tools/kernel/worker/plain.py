"""Cells without IPython."""

from __future__ import annotations

import builtins
import os
import shlex
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from .commands import Commands, expanded
from .screen import CellFailure, Screen, shown
from .source import AWAITED, CELL, FUTURES, NEEDS_LOOP, codes_of, transformed
from .turns import Turns


class PlainShell:
    """Does by itself what people use most of IPython. `get_ipython()` gives this object."""

    ipython_version = None

    def __init__(self, names: dict[str, Any], screen: Screen, turns: Turns, commands: Commands) -> None:
        self.user_ns, self.screen, self.turns = names, screen, turns
        self.system, self.getoutput = commands.system, commands.getoutput
        self.flags = 0
        self.last_folder = os.getcwd()
        self.line_magics: dict[str, Callable[[str], Any]] = {
            "cd": self.cd,
            "pwd": lambda line: os.getcwd(),
            "env": self.env,
            "pip": commands.pip,
            "time": lambda line: self.timed(line),
            "pinfo": self.help,
            "matplotlib": lambda line: None,
        }
        self.cell_magics: dict[str, Callable[[str, str], Any]] = {
            "bash": commands.script,
            "sh": lambda line, body: commands.script(line, body, "/bin/sh"),
            "time": lambda line, body: self.timed(body),
            "writefile": self.write_file,
        }
        builtins.get_ipython = lambda: self  # type: ignore[attr-defined]
        builtins.display = self.display  # type: ignore[attr-defined]

    def run(self, source: str, name: str) -> BaseException | None:
        """Run the cell and show what it gives, or what ended it early."""
        try:
            if source.lstrip().startswith("%%"):
                line, _, body = source.lstrip()[2:].partition("\n")
                magic, _, line = line.strip().partition(" ")
                source = f"get_ipython().run_cell_magic({magic!r}, {line.strip()!r}, {body!r})"
            codes = codes_of(transformed(source), name, self.flags)
            for code in codes:
                self.flags |= code.co_flags & FUTURES
            needs_loop = NEEDS_LOOP.search(source) or any(code.co_flags & AWAITED for code in codes)
            value = self.turns.drive(self.evaluate(codes), bool(needs_loop))
            if value is not None:
                builtins._ = value  # type: ignore[attr-defined]
                self.display(value)
        except BaseException as error:
            self.turns.tell(error)
            return error
        return None

    async def evaluate(self, codes: list[types.CodeType]) -> Any:
        value = None
        for code in codes:
            value = eval(code, self.user_ns)
            if code.co_flags & AWAITED:
                value = await value
        return value

    def display(self, *values: object) -> None:
        for value in values:
            self.screen.say(shown(value) + "\n")

    def run_line_magic(self, name: str, line: str) -> Any:
        return self._magic("%", name, self.line_magics)(expanded(line, sys._getframe(1)))

    def run_cell_magic(self, name: str, line: str, body: str) -> Any:
        return self._magic("%%", name, self.cell_magics)(line, body)

    def _magic(self, mark: str, name: str, known: dict[str, Any]) -> Any:
        if name not in known:
            names = ", ".join(mark + other for other in known)
            raise CellFailure(f"{mark}{name} needs IPython, which {sys.executable} lacks; here are {names}")
        return known[name]

    def cd(self, line: str) -> None:
        folder = self.last_folder if line == "-" else os.path.expanduser(line.strip("\"'") or "~")
        before = os.getcwd()
        os.chdir(folder)
        self.last_folder = before
        self.screen.say(os.getcwd() + "\n")

    def env(self, line: str) -> Any:
        name, is_set, value = (part.strip() for part in line.partition("=" if "=" in line else " "))
        if is_set or value:
            os.environ[name] = value
            return None
        return os.environ.get(name) if name else dict(os.environ)

    def timed(self, source: str) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        value = None
        for code in codes_of(transformed(source), CELL + "time>", self.flags):
            if code.co_flags & AWAITED:
                raise CellFailure("%time does not await here; take time.perf_counter() before and after")
            value = eval(code, self.user_ns)
        spent = time.process_time() - cpu, time.perf_counter() - wall
        self.screen.say("CPU time: {:.3g} s, wall time: {:.3g} s\n".format(*spent))
        return value

    def write_file(self, line: str, body: str) -> None:
        words = shlex.split(line)
        is_added = "-a" in words
        path = [word for word in words if word != "-a"]
        if len(path) != 1:
            raise CellFailure("%%writefile wants one path: %%writefile [-a] PATH")
        with open(os.path.expanduser(path[0]), "a" if is_added else "w", encoding="utf-8") as file:
            file.write(body)
        self.screen.say("{} {}\n".format("Appended to" if is_added else "Wrote", path[0]))

    def help(self, line: str) -> None:
        import inspect

        value = eval(line, self.user_ns)
        try:
            head = line + str(inspect.signature(value))
        except (TypeError, ValueError):
            head = f"{line}: {type(value).__name__}"
        self.screen.say("{}\n{}\n".format(head, inspect.getdoc(value) or "(no documentation)"))
