"""What the providers' words for the end of a reply mean."""

from collections.abc import Mapping
from typing import Literal

import attrs

from actors.protocol.model import FailureKind, ModelFailure, ReplyEnd

Reason = Literal["stop", "length", "toolUse"]


@attrs.frozen
class Endings:
    """The words of one wire format, in lower case. A word of neither table fails, and is shown as it came.

    `usual`: the word that says no more than the reason itself.
    """

    reasons: Mapping[str, Reason]
    failures: Mapping[str, FailureKind]
    usual: Mapping[Reason, str]

    def end(self, told: str, *, has_calls: bool, why: str = "") -> ReplyEnd | ModelFailure:
        """How a reply ended whose provider said `told`, and `why`."""
        word = told.lower()
        reason = self.reasons.get(word)
        if reason is None:
            text = f"the provider ended the reply with the finish reason {told!r}"
            return ModelFailure(
                kind=self.failures.get(word, "invalid_request"), message=f"{text}: {why}" if why else text, raw=told
            )
        if reason == "toolUse" and not has_calls:
            return ModelFailure(kind="incomplete", message="the provider announced tool calls and sent none", raw=told)
        if reason == "stop" and has_calls:
            reason = "toolUse"
        return ReplyEnd(reason, raw=None if word == self.usual[reason] else told)
