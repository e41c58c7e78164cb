"""JSON lines out of a stream of bytes: split on byte 0x0A and nothing else, each of a bounded length."""

import attrs

LINE_BYTES = 16 << 20


@attrs.frozen
class TooLong:
    """A line above the limit. It was passed over to its end."""


@attrs.define
class LineReader:
    """Takes bytes in any pieces. An optional 0x0D before the 0x0A is dropped; so are empty lines."""

    limit_bytes: int = LINE_BYTES
    _begun: bytearray = attrs.field(factory=bytearray)
    _is_skipping: bool = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that are whole with `data`."""
        found: list[bytes | TooLong] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end, found)
            self._end(found)
        self._add(rest, found)
        return found

    def _add(self, piece: bytes, found: list[bytes | TooLong]) -> None:
        if self._is_skipping:
            return
        if len(self._begun) + len(piece) > self.limit_bytes:
            # Said at once: a line that never ends is told of, too.
            self._begun.clear()
            self._is_skipping = True
            found.append(TooLong())
            return
        self._begun += piece

    def _end(self, found: list[bytes | TooLong]) -> None:
        line, self._begun = bytes(self._begun), bytearray()
        if not self._is_skipping and line.strip(b"\r"):
            found.append(line.removesuffix(b"\r"))
        self._is_skipping = False
