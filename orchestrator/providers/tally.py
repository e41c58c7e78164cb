"""Token counts as providers report them: several times per reply, cumulative, under names of their own."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

_ABSURD_TOKENS = 10**12
_SHOWN_CHARS = 40

Paths = tuple[tuple[str, ...], ...]
"""Members that may hold one count, each as a path from the reported object, the usual one first."""


@attrs.define
class Tally:
    """Counts of one reply. The latest value of a member wins, absent or null keeps the one before, and 0 is a value."""

    members: Mapping[str, Paths]
    complain: Callable[[str], None]
    _values: dict[str, int] = attrs.field(factory=dict, init=False)
    _refused: set[str] = attrs.field(factory=set, init=False)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> int:
        """The count, 0 where none was reported."""
        return self._values.get(name, 0)

    def take(self, reported: Any) -> bool:
        """Whether `reported` changed a count."""
        if not isinstance(reported, dict):
            return False  # most events hold no counts
        before = dict(self._values)
        for name, paths in self.members.items():
            found = next((value for path in paths if (value := _at(reported, path)) is not None), None)
            if found is None:
                continue
            count = int(found) if isinstance(found, float) and found.is_integer() else found
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _ABSURD_TOKENS:
                self._values[name] = count
            elif name not in self._refused:  # once: some servers repeat their counts in each event
                self._refused.add(name)
                self.complain(
                    f"expected 0 to {_ABSURD_TOKENS} {name} tokens, found {repr(found)[:_SHOWN_CHARS]}: not counted"
                )
        return self._values != before


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for member in path:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value
