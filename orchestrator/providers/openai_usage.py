"""The token counts of OpenAI's formats, wherever in the stream and under whichever member they come."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from orchestrator.providers.tally import Paths, Tally
from store.usage import Usage

# The names of chat completions, then those of responses.
_MEMBERS: dict[str, Paths] = {
    "prompt": (("prompt_tokens",), ("input_tokens",)),
    "completion": (("completion_tokens",), ("output_tokens",)),
    "cached": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
    ),
    "written": (("prompt_tokens_details", "cache_write_tokens"), ("input_tokens_details", "cache_write_tokens")),
    "reasoning": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}


@attrs.define
class Counts:
    """Counts of one reply. `is_reasoning_extra`: the server counts the output without them."""

    complain: Callable[[str], None]
    is_reasoning_extra: bool = False
    _tally: Tally = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tally = Tally(_MEMBERS, self.complain)

    def take(self, reported: Any) -> Usage | None:
        """The usage so far, when `reported` changed it."""
        if not self._tally.take(reported):
            return None
        prompt, completion, cached, written, reasoning = (self._tally[name] for name in _MEMBERS)
        # Both parts of the cache are part of the prompt here; where a server counts otherwise, nothing goes below zero.
        fresh = max(0, prompt - cached - written)
        output = completion + (reasoning if self.is_reasoning_extra else 0)
        return Usage(
            input=fresh,
            output=output,
            cache_read=cached,
            cache_write=written,
            total_tokens=fresh + output + cached + written,
            reasoning=reasoning if "reasoning" in self._tally else msgspec.UNSET,
        )
