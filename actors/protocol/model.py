"""The port to a model: what is asked, what comes back piece by piece, how it ends."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from store.context import ModelMessage
from store.usage import Price, Usage

FailureKind = Literal[
    "overloaded",
    "rate_limited",
    "quota",
    "auth",
    "invalid_request",
    "overflow",
    "refusal",
    "network",
    "timeout",
    "incomplete",
    "server",
]
RETRYABLE: frozenset[FailureKind] = frozenset(
    {"overloaded", "rate_limited", "network", "timeout", "incomplete", "server"}
)


class ToolSpec(msgspec.Struct, frozen=True):
    """What a model is told of a tool. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelInfo(msgspec.Struct, frozen=True):
    """One model of one provider. `price` None: unknown. Windows in tokens, 0: unknown."""

    provider: str
    id: str
    api: str = "scripted"
    price: Price | None = None
    context_window: int = 0
    max_output: int = 0

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.id}"


class ModelRequest(msgspec.Struct, frozen=True):
    """One model call. `call` counts the calls of the session from 1; `thinking` is a level or None.

    `service_tier`: the session's own; None: as the provider is configured.
    """

    session_id: str
    session_name: str
    depth: int
    call: int
    model: ModelInfo
    messages: tuple[ModelMessage, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    thinking: str | None = None
    service_tier: str | None = None


class TextChunk(msgspec.Struct, frozen=True):
    """A piece of the text block at `index` of the answer's content. The first piece opens the block."""

    index: int
    text: str


class ThinkingChunk(msgspec.Struct, frozen=True):
    """A piece of a thinking block; `signature` replaces what was there."""

    index: int
    text: str = ""
    signature: str | None = None


class CallStarted(msgspec.Struct, frozen=True):
    """A tool call opens at `index`."""

    index: int
    id: str
    name: str


class CallArguments(msgspec.Struct, frozen=True):
    """A piece of the JSON text of the arguments of the call at `index`."""

    index: int
    json: str


class BlockEnded(msgspec.Struct, frozen=True):
    """The block at `index` is whole. Blocks that are not ended so are ended with the reply, and not at all on a failure."""

    index: int


class UsageReported(msgspec.Struct, frozen=True):
    """The counts so far: cumulative, the latest wins. Cost is added by whoever knows the price."""

    usage: Usage


class ResponseNamed(msgspec.Struct, frozen=True):
    """The provider's id of this response."""

    id: str


Chunk = TextChunk | ThinkingChunk | CallStarted | CallArguments | BlockEnded | UsageReported | ResponseNamed


class ReplyEnd(msgspec.Struct, frozen=True):
    """The reply came whole. `raw` is the provider's own word where it says more."""

    stop_reason: Literal["stop", "length", "toolUse"]
    raw: str | None = None


class ModelFailure(msgspec.Struct, frozen=True):
    """The call did not end well. `message` is the provider's text, verbatim."""

    kind: FailureKind
    message: str
    retry_after_s: float | None = None
    raw: str | None = None

    @property
    def is_retryable(self) -> bool:
        return self.kind in RETRYABLE


Hear = Callable[[Chunk], Awaitable[None]]


class Model(Protocol):
    """A provider's way to call one of its models."""

    def call(self, request: ModelRequest, hear: Hear) -> Awaitable[ReplyEnd | ModelFailure]:
        """Stream one reply: every chunk goes to `hear`, which may wait (back-pressure). Failures are values; it never retries."""
        ...
