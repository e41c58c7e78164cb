"""A terminal as a screen of lines: keys come in, lines go out, and everything is put back on every way out."""

import os
import signal
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import trio

from orchestrator.views.screen.keyboard import read_keys
from orchestrator.views.spans import Line, sgr

ESCAPE_S = 0.05
"""So long the rest of a key may take that begins with an escape."""
_READ_BYTES = 4096
# Another screen, no cursor, pasted text marked as such; and back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J"
_LEAVE = "\x1b[?2004l\x1b[?25h\x1b[?1049l"


@attrs.define
class Terminal:
    """`entered` around its use. Only lines that changed are written."""

    fd: int
    has_colour: bool
    encoding: str = "utf-8"
    _shown: list[str] = attrs.field(factory=list)
    _saved: list[Any] | None = None
    _is_away: bool = False

    @property
    def size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self.fd)
        except OSError:
            return os.terminal_size((80, 24))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Ours inside; as it was before, whatever happens. Raises OSError where there is no terminal."""
        try:
            self._saved = termios.tcgetattr(self.fd)
        except termios.error as error:
            raise OSError(f"expected a terminal to watch agents on: {error}") from error
        try:
            self._take()
            yield
        finally:
            self._give_back()

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines from the top."""
        if self._is_away:
            return
        fresh = [sgr(line, has_colour=self.has_colour) for line in lines]
        changed = [
            f"\x1b[{number + 1};1H{text}\x1b[0m\x1b[K"
            for number, text in enumerate(fresh)
            if number >= len(self._shown) or self._shown[number] != text
        ]
        if len(fresh) < len(self._shown):
            changed.append(f"\x1b[{len(fresh) + 1};1H\x1b[J")
        if changed:
            self.write("".join(changed))
            self._shown = fresh

    def forget(self) -> None:
        """Everything is written with the next frame: the size is another one, or somebody else has drawn."""
        self._shown = []
        self.write("\x1b[2J")

    def write(self, text: str) -> None:
        """A terminal that is gone is noticed by its keys."""
        data = text.encode(self.encoding, "replace")
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError:
            return

    async def keys(self) -> list[str]:
        """The next keys; none where the terminal is gone."""
        data = b""
        while True:
            await trio.lowlevel.wait_readable(self.fd)
            more = self._read()
            if not more:
                return []
            found, data = read_keys(data + more)
            if data:
                with trio.move_on_after(ESCAPE_S) as waiting:
                    await trio.lowlevel.wait_readable(self.fd)
                if waiting.cancelled_caught:
                    last, data = read_keys(data, is_all=True)
                    found += last
            if found:
                return found

    def suspend(self) -> None:
        """To the shell, with all of our job. When it lets us go on a SIGCONT comes; until `resume` nothing is drawn."""
        self._give_back()
        self._is_away = True
        os.kill(0, signal.SIGSTOP)

    def resume(self) -> None:
        """After a stop: the shell has changed the modes."""
        self._is_away = False
        self._take()
        self._shown = []

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, _READ_BYTES)
        except OSError:
            return b""

    def _take(self) -> None:
        """Each key at once, and keys instead of signals; output is left as it is."""
        modes = termios.tcgetattr(self.fd)
        modes[0] &= ~(termios.IXON | termios.ICRNL | termios.INLCR)
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.fd, termios.TCSADRAIN, modes)
        self.write(_ENTER)

    def _give_back(self) -> None:
        if self._is_away:
            return
        self.write(_LEAVE)
        if self._saved is not None:
            try:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._saved)
            except termios.error:  # it is gone
                return
