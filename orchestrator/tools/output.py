"""Output of any length, kept within bounds: its head and its tail."""

import attrs

MAX_BYTES = 48 * 1024
MAX_LINES = 2_000

# The longest UTF-8 character has four bytes: with so many to spare, a cut can look at both of its sides.
_SPARE = 4


@attrs.frozen
class Cut:
    """What is shown of a text. Without an omission `head` is all of it and `tail` is empty.

    `omitted_lines` counts the lines of which any part is missing.
    """

    head: str
    tail: str
    omitted_bytes: int
    omitted_lines: int

    @property
    def is_whole(self) -> bool:
        return self.omitted_bytes == 0


@attrs.define
class HeadTail:
    """Takes text piece by piece and shows at most `max_bytes` (of UTF-8) and `max_lines` of it, in constant memory.

    The first and the last `max_bytes` are both kept, and may be the same bytes: where to cut is decided when somebody
    looks. A cut falls at a line's end where there is one near, and never inside of a character.
    """

    max_bytes: int = MAX_BYTES
    max_lines: int = MAX_LINES
    total_bytes: int = attrs.field(default=0, init=False)
    total_newlines: int = attrs.field(default=0, init=False)
    _front: bytearray = attrs.field(factory=bytearray, init=False)
    _back: bytearray = attrs.field(factory=bytearray, init=False)

    def add(self, text: str) -> None:
        data = text.encode()
        capacity = self.max_bytes + _SPARE
        self.total_bytes += len(data)
        self.total_newlines += data.count(b"\n")
        if len(self._front) < capacity:
            self._front += data[: capacity - len(self._front)]
        self._back += data[-capacity:]
        del self._back[:-capacity]

    @property
    def total_lines(self) -> int:
        return self.total_newlines + (self.total_bytes > 0 and not self._back.endswith(b"\n"))

    @property
    def is_over(self) -> bool:
        """Whether a part will be left out."""
        return self.total_bytes > self.max_bytes or self.total_lines > self.max_lines

    def cut(self) -> Cut:
        if not self.is_over:
            return Cut(self._front.decode(), "", 0, 0)
        head = self._front[: prefix_length(self._front, self.max_bytes // 2, self.max_lines // 2)]
        room = self.max_bytes - len(head), self.max_lines - count_lines(head)
        tail = self._back[len(self._back) - suffix_length(self._back, *room) :]
        omitted = self.total_bytes - len(head) - len(tail)
        newlines = self.total_newlines - head.count(b"\n") - tail.count(b"\n")
        before_tail = self._back[: len(self._back) - len(tail)]
        lines = newlines + (not before_tail.endswith(b"\n"))
        return Cut(head.decode(), tail.decode(), omitted, lines)

    def recent(self, max_bytes: int) -> str:
        """The last `max_bytes` of what came so far, less what belongs to a cut character."""
        start = max(0, len(self._back) - min(max_bytes, self.max_bytes))
        return self._back[_forward(self._back, start) :].decode()


def count_lines(data: bytes | bytearray) -> int:
    """Lines of a text; what stands behind the last newline is one too."""
    return data.count(b"\n") + (len(data) > 0 and not data.endswith(b"\n"))


def prefix_length(data: bytes | bytearray, max_bytes: int, max_lines: int) -> int:
    """How much of the beginning of UTF-8 `data` fits."""
    length = _backward(data, min(len(data), max_bytes))
    line_end = 0
    for _ in range(max_lines):
        line_end = data.find(b"\n", line_end, length) + 1
        if line_end == 0:
            break
    else:
        return line_end
    at_line_end = data.rfind(b"\n", 0, length) + 1
    return at_line_end if length < len(data) and at_line_end * 2 > length else length


def suffix_length(data: bytes | bytearray, max_bytes: int, max_lines: int) -> int:
    """How much of the end of UTF-8 `data` fits."""
    if max_lines == 0:
        return 0
    start = _forward(data, max(0, len(data) - max_bytes))
    newline = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(max_lines):
        newline = data.rfind(b"\n", start, newline)
        if newline < 0:
            break
    else:
        return len(data) - newline - 1
    at_line_start = data.find(b"\n", start) + 1
    is_near = start > 0 and at_line_start > 0 and (len(data) - at_line_start) * 2 > len(data) - start
    return len(data) - (at_line_start if is_near else start)


def _backward(data: bytes | bytearray, index: int) -> int:
    """The last border between characters at or before `index`."""
    while 0 < index < len(data) and data[index] & 0xC0 == 0x80:
        index -= 1
    return index


def _forward(data: bytes | bytearray, index: int) -> int:
    """The first border between characters at or behind `index`."""
    while index < len(data) and data[index] & 0xC0 == 0x80:
        index += 1
    return index
