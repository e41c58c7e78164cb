"""Where a text nearly has what was looked for, to tell a model how its quote differs."""

import difflib
import json

_MAX_LINES = 10_000
_MAX_SHOWN = 200


def near_hint(text: str, wanted: str) -> str:
    """One or two sentences for a `wanted` that `text` does not hold."""
    lines, quoted = text.split("\n"), wanted.split("\n")
    return (
        _whitespace_hint(lines, quoted)
        or _nearest_hint(lines, quoted)
        or "No line of the file is near to it: read the file first."
    )


def _whitespace_hint(lines: list[str], quoted: list[str]) -> str | None:
    """For a quote that fits whole lines but for spaces, tabs and line ends."""
    squeezed = [_squeezed(line) for line in lines]
    searched = [_squeezed(line) for line in quoted]
    while searched and not searched[0]:
        searched, quoted = searched[1:], quoted[1:]
    while searched and not searched[-1]:
        searched, quoted = searched[:-1], quoted[:-1]
    for index, line in enumerate(squeezed):
        if searched and line == searched[0] and squeezed[index : index + len(searched)] == searched:
            break
    else:
        return None
    last = index + len(searched)
    where = f"Line {last} is" if len(searched) == 1 else f"Lines {index + 1} to {last} are"
    for number, (there, asked) in enumerate(zip(lines[index:last], quoted, strict=True), start=index + 1):
        if there != asked:
            return f"{where} the same but for whitespace. Line {number} is {_shown(there)}, `old` has {_shown(asked)}."
    return f"{where} the same but for blank lines or line ends around them."


def _nearest_hint(lines: list[str], quoted: list[str]) -> str | None:
    """By the longest line of the quote, which says most."""
    asked = max((line.strip() for line in quoted), key=len)
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines[:_MAX_LINES], start=1):
        numbers.setdefault(line.strip()[:_MAX_SHOWN], number)
    near = difflib.get_close_matches(asked[:_MAX_SHOWN], numbers, n=1)
    if not near:
        return None
    number = numbers[near[0]]
    there = lines[number - 1]
    if there.strip() == asked:
        return f"Line {number} has {_shown(asked)}, but the lines around it differ from `old`: read them again."
    return f"The nearest is line {number}: it is {_shown(there)}, `old` has {_shown(asked)}."


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _shown(line: str) -> str:
    """Quoted, so that tabs and line ends can be seen."""
    return json.dumps(line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}…", ensure_ascii=False)
