"""Server-sent events out of bytes, however they were cut on the way.

Source: WHATWG HTML, "9.2.6 Interpreting an event stream".
"""

import re

import attrs
import msgspec

LINE_BYTES = 1024 * 1024
EVENT_BYTES = 16 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n?|\n")
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True):
    """One event. `type` is empty where the server named none; `id` is the last one that the stream gave.

    `is_cut`: the stream ended before the blank line that ends an event.
    """

    data: str
    type: str = ""
    id: str = ""
    is_cut: bool = False


@attrs.define
class SseParser:
    """Feed it bytes, take events. Lines end with CRLF, LF or a bare CR, which no UTF-8 character contains.

    Past a bound it says so in `exceeded` and reads no further: the events before it were already handed out.
    """

    line_bytes: int = LINE_BYTES
    event_bytes: int = EVENT_BYTES
    exceeded: str | None = attrs.field(default=None, init=False)
    retry_ms: int | None = attrs.field(default=None, init=False)
    _line: bytearray = attrs.field(factory=bytearray, init=False)
    _is_first_line: bool = attrs.field(default=True, init=False)
    _is_behind_cr: bool = attrs.field(default=False, init=False)
    _data: list[bytes] = attrs.field(factory=list, init=False)
    _data_bytes: int = attrs.field(default=0, init=False)
    _type: str = attrs.field(default="", init=False)
    _id: str = attrs.field(default="", init=False)

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes."""
        events: list[Event] = []
        if self.exceeded is not None or not chunk:
            return events
        start = 1 if self._is_behind_cr and chunk[:1] == b"\n" else 0
        self._is_behind_cr = chunk[-1:] == b"\r"
        for end in _LINE_END.finditer(chunk, start):
            self._grow(chunk[start : end.start()])
            start = end.end()
            self._end_line(events)
            if self.exceeded is not None:
                return events
        self._grow(chunk[start:])
        return events

    def close(self) -> list[Event]:
        """The event that the end of the stream left open, if it has data.

        The standard drops it. Some servers send the last event without the blank line behind it: let the caller judge;
        half a character at the very end reads as one U+FFFD.
        """
        events: list[Event] = []
        if self._line:
            self._end_line(events)
        if self.exceeded is None:
            self._dispatch(events, is_cut=True)
        return events

    def _grow(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > self.line_bytes:
            self.exceeded = f"a line of the event stream is longer than {self.line_bytes} bytes"

    def _end_line(self, events: list[Event]) -> None:
        if self.exceeded is not None:
            return
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        self._take_field(field, value.removeprefix(b" "))

    def _take_field(self, field: bytes, value: bytes) -> None:
        match field:
            case b"data":
                self._data.append(value)
                self._data_bytes += len(value) + 1
                if self._data_bytes > self.event_bytes:
                    self.exceeded = f"an event of the stream is larger than {self.event_bytes} bytes"
            case b"event":
                self._type = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 16:
                self.retry_ms = int(value)

    def _dispatch(self, events: list[Event], *, is_cut: bool = False) -> None:
        if self._data:
            data = b"\n".join(self._data).decode(errors="replace")
            events.append(Event(data, self._type, self._id, is_cut))
        self._data.clear()
        self._data_bytes = 0
        self._type = ""
