"""A small unified diff of two texts that differ in few places."""

import difflib

from orchestrator.tools.output import HeadTail

MAX_DIFF_BYTES = 16 * 1024
MAX_DIFF_LINES = 400
_CONTEXT = 3
# difflib is quadratic; what is longer than this is not compared.
_MAX_COMPARED = 4_000


def unified_diff(before: str, after: str) -> str:
    """The hunks, without the two lines that name the files; bounded."""
    old, new = _lines(before), _lines(after)
    start = _common_prefix(old, new)
    end = _common_prefix(old[start:][::-1], new[start:][::-1])
    first = max(0, start - _CONTEXT)
    old_part = old[first : len(old) - max(0, end - _CONTEXT)]
    new_part = new[first : len(new) - max(0, end - _CONTEXT)]
    if max(len(old_part), len(new_part)) > _MAX_COMPARED:
        return f"(the changes span {len(old_part):,} lines: too many for a diff)\n"
    bounded = HeadTail(MAX_DIFF_BYTES, MAX_DIFF_LINES)
    matcher = difflib.SequenceMatcher(None, old_part, new_part, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        bounded.add(_hunk(group, old_part, new_part, first))
    cut = bounded.cut()
    return cut.head if cut.is_whole else f"{cut.head}… {cut.omitted_lines:,} lines left out …\n{cut.tail}"


def _hunk(group: list[tuple[str, int, int, int, int]], old: list[str], new: list[str], first: int) -> str:
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    pieces = [f"@@ -{_span(old_start, old_end, first)} +{_span(new_start, new_end, first)} @@\n"]
    for tag, i, i_end, j, j_end in group:
        if tag == "equal":
            pieces += [f" {line}" for line in old[i:i_end]]
        else:
            pieces += [f"-{line}" for line in old[i:i_end]]
            pieces += [f"+{line}" for line in new[j:j_end]]
    return "".join(piece if piece.endswith("\n") else f"{piece}\n\\ No newline at end of file\n" for piece in pieces)


def _span(start: int, end: int, first: int) -> str:
    """As in unified diffs: an empty span names the line before it, one line has no count."""
    length = end - start
    return f"{first + start + (length > 0)}" + ("" if length == 1 else f",{length}")


def _lines(text: str) -> list[str]:
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _common_prefix(one: list[str], other: list[str]) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
