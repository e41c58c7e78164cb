"""The token counts of Anthropic's messages: both parts of the cache stand beside the input, not in it."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from orchestrator.providers.tally import Paths, Tally
from store.usage import Usage

_MEMBERS: dict[str, Paths] = {
    "input": (("input_tokens",),),
    "output": (("output_tokens",),),
    "cached": (("cache_read_input_tokens",),),
    "written": (("cache_creation_input_tokens",),),
    "written for 5 min": (("cache_creation", "ephemeral_5m_input_tokens"),),
    "written for 1 h": (("cache_creation", "ephemeral_1h_input_tokens"),),
    "thinking": (("output_tokens_details", "thinking_tokens"),),
}


@attrs.define
class Counts:
    """Counts of one reply, from `message_start` and every `message_delta`."""

    complain: Callable[[str], None]
    _tally: Tally = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tally = Tally(_MEMBERS, self.complain)

    def take(self, reported: Any) -> Usage | None:
        """The usage so far, when `reported` changed it."""
        if not self._tally.take(reported):
            return None
        fresh, output, cached, written, for_5_min, for_1_h, thinking = (self._tally[name] for name in _MEMBERS)
        # The parts of what was written come once, its sum may come again: where both are known, the sum is newer.
        if "written" not in self._tally:
            written = for_5_min + for_1_h
        return Usage(
            input=fresh,
            output=output,
            cache_read=cached,
            cache_write=written,
            total_tokens=fresh + output + cached + written,
            reasoning=thinking if "thinking" in self._tally else msgspec.UNSET,
        )
