"""A JSON object that is still being written: what it says so far."""

from typing import Any

import msgspec

_CLOSING = {"{": "}", "[": "]"}


class GrowingJson(msgspec.Struct, frozen=True):
    """The text so far, and how it would be closed. Takes each piece once, however long the whole becomes.

    closers     what closes the open brackets, innermost first
    safe        so many characters are whole values behind open brackets
    before      the last character that is no blank, outside of strings: tells a member's name from its value
    escape      where an escape began that has not ended, -1 for none
    """

    text: str = ""
    closers: str = ""
    safe: int = 0
    before: str = ""
    is_in_string: bool = False
    is_name: bool = False
    escape: int = -1

    def grown(self, piece: str) -> "GrowingJson":
        """With one more piece of its text."""
        closers, safe, before = self.closers, self.safe, self.before
        is_in_string, is_name, escape = self.is_in_string, self.is_name, self.escape
        text = self.text + piece
        for place, char in enumerate(piece, len(self.text)):
            if is_in_string:
                if escape >= 0:
                    length = place - escape
                    escape = escape if length < (5 if text[escape + 1] == "u" else 1) else -1
                elif char == "\\":
                    escape = place
                elif char == '"':
                    is_in_string, before = False, char
                    safe = safe if is_name else place + 1
                continue
            if char.isspace():
                continue
            if char == '"':
                is_in_string, is_name = True, before in "{," and closers[:1] == "}"
            elif char in "{[":
                closers, safe = _CLOSING[char] + closers, place + 1
            elif char in "}]":
                closers, safe = closers[1:], place + 1
            elif char == "," and before not in ']}"':
                safe = place  # a number or a word has ended
            before = char
        return GrowingJson(text, closers, safe, before, is_in_string, is_name, escape)

    def value(self) -> dict[str, Any] | None:
        """The object as far as it goes: an open string counts, half a name, number or escape does not. None: no object."""
        if self.is_in_string and not self.is_name:
            whole = self.text[: self.escape] if self.escape >= 0 else self.text
            closed = f'{whole}"{self.closers}'
        else:
            closed = self.text[: self.safe] + self.closers
        try:
            value = msgspec.json.decode(closed)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
