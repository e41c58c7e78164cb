"""Text for a terminal: what is dangerous made visible, and lines cut by what they take on screen."""

import re
import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len

CUT = "…"
SHOWN_INSTEAD = "·"

# C0, DEL and C1; what turns or hides the direction of text; line and paragraph separators; halves of a surrogate pair,
# which no output can encode.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_ZWJ = "\u200d"
# Of what a screen cell may have to hold more than one: longer clusters are a joke on the reader.
_CLUSTER_CHARS = 32


def sanitize_terminal(text: str) -> str:
    """`text` with every character that moves, colours, renames or turns something shown as `·`, newlines included."""
    return _HARMFUL.sub(SHOWN_INSTEAD, text)


def one_line(text: str, limit_chars: int = 2_000) -> str:
    """The beginning of `text` on one line, safe for a terminal: runs of white space become one space."""
    return sanitize_terminal(_SPACE.sub(" ", text[:limit_chars]).strip())


def safe_lines(text: str) -> list[str]:
    """The lines of `text`, each safe for a terminal. Tabs become spaces."""
    return [sanitize_terminal(line.removesuffix("\r").expandtabs(4)) for line in text.split("\n")]


def cells(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    return cell_len(text)


def cut(text: str, width: int, mark: str = CUT) -> str:
    """`text` if it fits into `width` cells, else its beginning and `mark`; never cut inside of a grapheme."""
    if width <= 0:
        return ""
    text = text[: (width + 1) * _CLUSTER_CHARS]
    if cell_len(text) <= width:
        return text
    room = width - cell_len(mark)
    if room < 0:
        return mark[:width]
    kept, taken = "", 0
    for cluster in graphemes(text):
        taken += cell_len(cluster)
        if taken > room:
            break
        kept += cluster
    return kept + mark


def ascii_text(text: str) -> str:
    """`text` for a terminal that shows ASCII only: a `?` for each character that people see and it cannot show."""
    return text if text.isascii() else "".join(each if each.isascii() else "?" for each in graphemes(text))


def fit(text: str, width: int, mark: str = CUT) -> str:
    """`text` cut or filled with spaces to exactly `width` cells."""
    shown = cut(text, width, mark)
    return shown + " " * (width - cell_len(shown))


def fit_right(text: str, width: int, mark: str = CUT) -> str:
    """As `fit`, with the text at the right end: for figures."""
    shown = cut(text, width, mark)
    return " " * (width - cell_len(shown)) + shown


def graphemes(text: str) -> Iterator[str]:
    """What people see as single characters.

    Source: Unicode Standard Annex 29, the rules GB6 to GB13 as far as the tables of `unicodedata` carry them.
    """
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or place - start >= _CLUSTER_CHARS or _is_break(text, start, place):
            yield text[start:place]
            start = place


def _is_break(text: str, start: int, place: int) -> bool:
    before, after = text[place - 1], text[place]
    if before < "\u0300" and after < "\u0300":
        return True
    if before == _ZWJ or _extends(after):
        return False
    if _is_flag(before) and _is_flag(after):
        return (place - start) % 2 == 0
    return not _is_one_syllable(_hangul(before), _hangul(after))


def _extends(char: str) -> bool:
    if char < "\u0300":
        return False
    return (
        char in "\u200c\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, of flags
        or unicodedata.category(char) in {"Mn", "Me", "Mc"}
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_one_syllable(before: str, after: str) -> bool:
    return after in {"L": "LVST", "V": "VT", "S": "VT", "T": "T"}.get(before, "") and after != ""


def _hangul(char: str) -> str:
    """L, V, T: leading consonant, vowel, trailing consonant; S: a whole syllable; empty for others."""
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    return "S" if "\uac00" <= char <= "\ud7a3" else ""


def count(number: int, noun: str) -> str:
    """`1 agent`, `4 agents`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def escaped_json(text: str) -> str:
    """JSON on one line that says the same and shows nothing harmful: what `sanitize_terminal` would replace is escaped."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
