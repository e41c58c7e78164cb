"""The token counts of a chat completion, wherever in the stream and under whichever member they come."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from store.usage import Usage

_ABSURD_TOKENS = 10**12
# What is counted, and the members that hold it, the usual one first.
_MEMBERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prompt": (("prompt_tokens",),),
    "completion": (("completion_tokens",),),
    "cached": (("prompt_tokens_details", "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",)),
    "written": (("prompt_tokens_details", "cache_write_tokens"),),
    "reasoning": (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",)),
}


@attrs.define
class Counts:
    """Counts of one reply. The latest value of a member wins, absent or null keeps the one before, and 0 is a value."""

    complain: Callable[[str], None]
    is_reasoning_extra: bool = False
    _values: dict[str, int] = attrs.field(factory=dict, init=False)
    _refused: set[str] = attrs.field(factory=set, init=False)

    def take(self, reported: Any) -> Usage | None:
        """The usage so far, when `reported` changed it."""
        before = dict(self._values)
        for name, paths in _MEMBERS.items():
            found = next((value for path in paths if (value := _at(reported, path)) is not None), None)
            if found is None:
                continue
            count = int(found) if isinstance(found, float) and found.is_integer() else found
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _ABSURD_TOKENS:
                self._values[name] = count
            elif name not in self._refused:  # once: some servers repeat their counts in each event
                self._refused.add(name)
                self.complain(f"expected 0 to {_ABSURD_TOKENS} {name} tokens, found {repr(found)[:40]}: not counted")
        return None if self._values == before else self._usage()

    def _usage(self) -> Usage:
        prompt, completion, cached, written, reasoning = (self._values.get(name, 0) for name in _MEMBERS)
        # Both parts of the cache are part of the prompt here; where a server counts otherwise, nothing goes below zero.
        fresh = max(0, prompt - cached - written)
        output = completion + (reasoning if self.is_reasoning_extra else 0)
        return Usage(
            input=fresh,
            output=output,
            cache_read=cached,
            cache_write=written,
            total_tokens=fresh + output + cached + written,
            reasoning=reasoning if "reasoning" in self._values else msgspec.UNSET,
        )


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for member in path:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value
