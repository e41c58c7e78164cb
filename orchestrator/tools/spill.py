"""What a process wrote: bounded in memory, and whole in a file once it is too long to show."""

import codecs
import os
import re
import tempfile

import attrs

from orchestrator.tools.output import MAX_BYTES, MAX_LINES, HeadTail

SPILL_CAP_BYTES = 256 * 1024 * 1024

# What the notes about an output may take of the bounds.
NOTE_BYTES = 1024
NOTE_LINES = 8


@attrs.define
class Spill:
    """A private file for a whole output. Past its cap, or when the disk fails, it takes no more; `problem` says so."""

    path: str
    _fd: int
    cap_bytes: int = SPILL_CAP_BYTES
    problem: str | None = None
    _written_bytes: int = 0

    @classmethod
    def create(cls, folder: str, label: str, cap_bytes: int = SPILL_CAP_BYTES) -> "Spill":
        """Raises OSError. The file is new, 0600, and named after `label`, which may be any text."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", label)[:60]
        fd, path = tempfile.mkstemp(prefix=f"{safe}-", suffix=".log", dir=folder)
        return cls(path, fd, cap_bytes)

    def write(self, data: bytes | bytearray) -> None:
        if self.problem is not None:
            return
        room = self.cap_bytes - self._written_bytes
        rest = memoryview(data)[:room]
        try:
            while rest:
                written = os.write(self._fd, rest)
                self._written_bytes += written
                rest = rest[written:]
        except OSError as error:
            self.problem = f"the file ends after {self._written_bytes:,} bytes: {error.strerror}"
        else:
            if len(data) > room:
                self.problem = f"the file ends after {self._written_bytes:,} bytes, its limit"

    def close(self) -> None:
        os.close(self._fd)


@attrs.frozen
class Captured:
    """`text` holds the head, a note of what was left out, and the tail. `path` is the spill file, if there is one."""

    text: str
    is_truncated: bool
    path: str | None


@attrs.define
class Capture:
    """Takes raw output. Shown is UTF-8 (a foreign byte is U+FFFD) without NULs; the spill file has the very bytes."""

    folder: str
    label: str
    cap_bytes: int = SPILL_CAP_BYTES
    shown: HeadTail = attrs.field(factory=lambda: HeadTail(MAX_BYTES - NOTE_BYTES, MAX_LINES - NOTE_LINES))
    _decoder: codecs.IncrementalDecoder = attrs.field(factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _early: bytearray = attrs.field(factory=bytearray)
    _spill: Spill | None = None
    _problem: str | None = None

    def add(self, data: bytes) -> None:
        self.shown.add(self._decoder.decode(data).replace("\0", ""))
        if self._spill is not None:
            self._spill.write(data)
        elif self._problem is None:
            self._early += data
            if self.shown.is_over or len(self._early) > self.shown.max_bytes:
                self._begin_spill()

    def _begin_spill(self) -> None:
        try:
            self._spill = Spill.create(self.folder, self.label, self.cap_bytes)
        except OSError as error:
            self._problem = f"no file holds the whole output: {error.strerror}"
        else:
            self._spill.write(self._early)
        self._early.clear()

    def finish(self) -> Captured:
        """The output as it is shown. To be called once, after the last `add`."""
        self.shown.add(self._decoder.decode(b"", final=True).replace("\0", ""))
        if self.shown.is_over and self._spill is None and self._problem is None:
            self._begin_spill()
        cut = self.shown.cut()
        path = None if self._spill is None else self._spill.path
        if cut.is_whole:
            return Captured(cut.head, False, path)
        note = f"[{cut.omitted_bytes:,} bytes in {cut.omitted_lines:,} lines left out here; {self._where(path)}]"
        newline = "" if cut.head.endswith("\n") or not cut.head else "\n"
        return Captured(f"{cut.head}{newline}{note}\n{cut.tail}", True, path)

    def _where(self, path: str | None) -> str:
        problem = self._problem if self._spill is None else self._spill.problem
        if path is None:
            return problem or "nothing else was kept"
        return f"whole output: {path}" if problem is None else f"output: {path} ({problem})"

    def close(self) -> None:
        """Let go of the file. Always to be called."""
        if self._spill is not None:
            self._spill.close()
