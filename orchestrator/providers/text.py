"""Text that comes in pieces: JSON of a stream, and characters that were cut in it."""

import json
from typing import Any

import attrs
import msgspec


def decoded_json(text: str) -> Any:
    """The value in `text`. Raises ValueError.

    What the fast decoder refuses gets a second look: half a surrogate pair in a string (`Halves` joins them), or a NaN
    among the counts, should not cost the whole reply.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_object(text: str) -> bool:
    """Whether `text` is a JSON object to its end, so that nothing can be added to it."""
    try:
        return isinstance(decoded_json(text), dict)
    except ValueError:
        return False


def encoded_json(value: Any) -> bytes:
    """`value` as a body that every server takes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, which no server takes
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")


@attrs.define
class Halves:
    """Joins the halves of characters that a server cut between two pieces, by UTF-16 units. A half alone is U+FFFD."""

    _half: str = ""

    def joined(self, piece: str) -> str:
        if not piece:
            return ""
        text = self._half + piece
        self._half = ""
        if "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return text if text.isascii() else whole_characters(text)

    def rest(self) -> str:
        half, self._half = self._half, ""
        return "\ufffd" if half else ""


def whole_characters(text: str) -> str:
    """`text` with pairs of halves joined, and U+FFFD for a half alone: it could not be written down."""
    return text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")


# --- members of what a provider sent, which may be anything ---------------------------------------------------------


def object_in(value: dict[str, Any], member: str) -> dict[str, Any]:
    found = value.get(member)
    return found if isinstance(found, dict) else {}


def list_in(value: dict[str, Any], member: str) -> list[Any]:
    found = value.get(member)
    return found if isinstance(found, list) else []


def text_in(value: dict[str, Any], member: str) -> str:
    """The text as it came: its first or last character may be half of one."""
    found = value.get(member)
    return found if isinstance(found, str) else ""


def word_in(value: dict[str, Any], member: str) -> str:
    """Text that came in one piece."""
    return whole_characters(text_in(value, member))
