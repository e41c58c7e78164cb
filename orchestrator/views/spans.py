"""Lines of styled text: what every drawing of rows is made of, before a terminal or a picture shows it."""

from collections.abc import Iterable

from orchestrator.views.text import CUT, cells, cut

Span = tuple[str, str]
"""A piece of a line and its style, in words: `bold`, `dim`, `reverse` and the names of the sixteen colours. Its text is safe."""
Line = tuple[Span, ...]

_ATTRIBUTES = {"bold": "1", "dim": "2", "underline": "4", "reverse": "7"}
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_CODES = (
    {name: str(30 + number) for number, name in enumerate(_COLOURS)}
    | {f"bright_{name}": str(90 + number) for number, name in enumerate(_COLOURS)}
    | {f"on_{name}": str(40 + number) for number, name in enumerate(_COLOURS)}
    | {f"on_bright_{name}": str(100 + number) for number, name in enumerate(_COLOURS)}
)


def line_cells(line: Line) -> int:
    return sum(cells(text) for text, _ in line)


def line_text(line: Line) -> str:
    """The line without its styles."""
    return "".join(text for text, _ in line)


def cut_line(line: Line, width: int, mark: str = CUT) -> Line:
    """The line in at most `width` cells. What is cut ends with `mark`."""
    if line_cells(line) <= width:
        return line
    kept: list[Span] = []
    room = width
    for place, (text, style) in enumerate(line):
        rest = line_cells(line[place + 1 :])
        if cells(text) < room or (cells(text) == room and not rest):
            kept.append((text, style))
            room -= cells(text)
            continue
        kept.append((cut(text + mark, room, mark), style))
        break
    return tuple(kept)


def filled(left: Line, right: Line, width: int, mark: str = CUT) -> Line:
    """`left` and `right` at their ends of a line of `width` cells; where both do not fit, the left one is cut."""
    room = width - line_cells(right)
    if room <= 0:
        return cut_line(right, width, mark)
    shown = cut_line(left, max(room - 1, 0), mark)
    return (*shown, (" " * (room - line_cells(shown)), ""), *right)


def sgr(line: Line, *, has_colour: bool) -> str:
    """The line with the escapes of a terminal. Without colour bold, dim and reverse are kept."""
    return "".join(_styled(text, style, has_colour=has_colour) for text, style in line)


def _styled(text: str, style: str, *, has_colour: bool) -> str:
    words = style.split()
    codes = [_ATTRIBUTES[word] for word in words if word in _ATTRIBUTES]
    if has_colour:
        codes += [_CODES[word] for word in words if word in _CODES]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text


def restyled(line: Line, style: str) -> Line:
    """The line in one style more."""
    return tuple((text, f"{own} {style}".strip()) for text, own in line)


def joined(parts: Iterable[Line], between: Span) -> Line:
    """Parts with `between` in between."""
    found: list[Span] = []
    for part in parts:
        found += [*([between] if found else []), *part]
    return tuple(found)
