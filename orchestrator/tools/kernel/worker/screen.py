"""What cells show: output, values, errors."""

from __future__ import annotations

import io
import os
import pprint
import sys
import traceback
from typing import Any, ClassVar

from .channel import private
from .source import CELL


class CellFailure(Exception):
    """What is told in one line, without a traceback."""


class Output(io.TextIOWrapper):
    is_sapwood = True


class Screen:
    """What a cell shows. `folders`: of those frames are not told in which an error has only passed through."""

    def __init__(self) -> None:
        self.out = private(1)
        self.folders = [os.path.dirname(os.path.abspath(__file__))]
        self.open()

    def open(self) -> None:
        """As the host gave it, whatever a cell did to it."""
        for fd in (1, 2):
            os.dup2(self.out, fd)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            if getattr(getattr(sys, name), "is_sapwood", False) and not getattr(sys, name).closed:
                continue
            # Not Python's own under -u: that one loses the rest of a write which a signal cut short.
            raw = io.FileIO(fd, "wb", closefd=False)
            stream = Output(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # whatever a cell has put there
                pass

    def say(self, text: str) -> None:
        self.flush()
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest:
            rest = rest[os.write(self.out, rest) :]

    def tell(self, error: BaseException) -> None:
        if isinstance(error, CellFailure) or type(error).__name__ == "UsageError":  # IPython's, of a magic
            self.say(f"{error}\n")
        elif isinstance(error, SystemExit):
            self.say(f"[SystemExit: {error.code}; the kernel goes on]\n")
        else:
            told = traceback.TracebackException(type(error), error, error.__traceback__)
            self.trim(told)
            self.say("".join(told.format() if told.stack else told.format_exception_only()))

    def trim(self, told: traceback.TracebackException) -> None:
        """From the cell on, and without what is ours or IPython's and what that has called."""
        frames = []
        is_shown = not any(frame.filename.startswith(CELL) for frame in told.stack)
        for frame in told.stack:
            is_ours = any(frame.filename.startswith(folder + os.sep) for folder in self.folders)
            is_shown = frame.filename.startswith(CELL) or (is_shown and not is_ours)
            if is_shown:
                frames.append(frame)
        told.stack = traceback.StackSummary.from_list(frames)
        for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
            if other is not None:
                self.trim(other)


class Printer(pprint.PrettyPrinter):
    """Containers over several lines, but no string in pieces."""

    _dispatch: ClassVar[dict[Any, Any]] = {
        key: value for key, value in getattr(pprint.PrettyPrinter, "_dispatch", {}).items() if key is not str.__repr__
    }


def shown(value: object) -> str:
    text = repr(value)
    is_container = isinstance(value, (dict, list, tuple, set, frozenset))
    if is_container and 100 < len(text) < 100_000 and "\n" not in text:
        return Printer(width=110, compact=True, sort_dicts=False).pformat(value)
    return text


def pretty(value: object, printer: Any, _: bool) -> None:
    """As IPython's formatters want it."""
    printer.text(shown(value))
