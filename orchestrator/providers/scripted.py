"""The scripted model: plays the replies of a TOML file, so that a tree can be rehearsed without a network or a bill."""

import math
import re
from collections.abc import Awaitable, Callable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import attrs
import msgspec
import trio

from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Chunk,
    FailureKind,
    Hear,
    ModelFailure,
    ModelInfo,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from store.context import ModelMessage
from store.errors import BadUsage
from store.messages import AssistantMessage, ToolResultMessage, UserMessage, text_of
from store.usage import Price, Usage, micro_usd

PIECE_CHARS = 40
Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Sleep = Callable[[float], Awaitable[None]]


class BadScript(ValueError):
    """A script that cannot be played; the text names the script and the place in it."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file. A misspelt key is an error that names it: a condition that is ignored matches everything."""


class ScriptedUsage(_Table, frozen=True):
    input: Tokens = 0
    output: Tokens = 0
    cache_read: Tokens = 0
    cache_write: Tokens = 0

    @property
    def counts(self) -> Usage:
        return Usage(
            input=self.input,
            output=self.output,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            total_tokens=self.input + self.output + self.cache_read + self.cache_write,
        )


class ScriptedTool(_Table, frozen=True):
    """A tool call of a reply. `arguments` as a string is sent as it stands, to rehearse arguments that are no JSON."""

    name: str
    arguments: dict[str, Any] | str = {}


class ScriptedFailure(_Table, frozen=True):
    """How a reply fails, after so many pieces of its thinking, text and arguments."""

    kind: FailureKind
    message: str = "the script says so"
    retry_after_s: Seconds | None = None
    after_chunks: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        _must_be_finite("retry_after_s", self.retry_after_s or 0.0)


class Reply(_Table, frozen=True):
    """One answer and the conditions under which it is given. Conditions that are absent hold."""

    session: str | None = None
    depth: int | None = None
    call: int | None = None
    last: str | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking: str = ""
    text: str = ""
    tool: tuple[ScriptedTool, ...] = ()
    usage: ScriptedUsage | None = None
    delay_s: Seconds = 0.0
    chunk: Annotated[int, msgspec.Meta(ge=1)] = PIECE_CHARS
    stop: Literal["stop", "length", "toolUse"] | None = None
    fail: ScriptedFailure | None = None

    def __post_init__(self) -> None:
        _must_be_finite("delay_s", self.delay_s)
        if self.last is not None:
            try:
                re.compile(self.last)
            except re.error as error:
                raise ValueError(f"expected a regular expression in `last`, found {self.last!r}: {error}") from error

    def answers(self, request: ModelRequest, last: str) -> bool:
        """Whether the conditions hold, but for `times`. `last` is the text of the last message."""
        return (
            (self.session is None or fnmatchcase(request.session_name, self.session))
            and self.depth in {None, request.depth}
            and self.call in {None, request.call}
            and (self.last is None or re.search(self.last, last) is not None)
        )


class _Cost(_Table, frozen=True):
    """Dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class _File(_Table, frozen=True):
    reply: tuple[Reply, ...]
    cost: _Cost | None = None


class Script(msgspec.Struct, frozen=True):
    """A script that was checked. `price` is None where the file has no `[cost]`: unknown, not free."""

    name: str
    replies: tuple[Reply, ...]
    price: Price | None = None

    @classmethod
    def parse(cls, text: str, name: str) -> "Script":
        """The script in `text`, a TOML file known as `name`. Raises BadScript."""
        try:
            file = msgspec.toml.decode(text, type=_File)
            price = None if file.cost is None else _price(file.cost)
        except (msgspec.DecodeError, BadUsage) as error:
            raise BadScript(f"script {name}: {error}") from error
        if not file.reply:
            raise BadScript(f"script {name}: expected at least one [[reply]], found none")
        return cls(name, file.reply, price)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(provider="scripted", id=self.name, api="scripted", price=self.price)


def _must_be_finite(name: str, seconds: float) -> None:
    if not math.isfinite(seconds):
        raise ValueError(f"expected a finite number in `{name}`, found {seconds}")


def _price(cost: _Cost) -> Price:
    return Price(
        input=micro_usd(cost.input),
        output=micro_usd(cost.output),
        cache_read=micro_usd(cost.cache_read),
        cache_write=micro_usd(cost.cache_write),
    )


@attrs.define
class ScriptedModel:
    """The port to a model, over a script.

    `times` is counted per session: siblings run at once, and a count that they shared would hand out the replies in the
    order in which they happen to ask, so that a rehearsal would not go the same way twice.
    """

    script: Script
    sleep: Sleep = trio.sleep
    _used: dict[tuple[str, int], int] = attrs.field(factory=dict, init=False)

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        """Play the first reply whose conditions hold."""
        last = text_of_message(request.messages[-1]) if request.messages else ""
        reply = self._choose(request, last)
        if reply is None:
            return ModelFailure(
                kind="invalid_request",
                message=f"script {self.script.name} has no reply for call {request.call} of session "
                f"{request.session_name!r} at depth {request.depth}, whose last message is {last[:200]!r}",
            )
        await self.sleep(reply.delay_s)
        left = math.inf if reply.fail is None else reply.fail.after_chunks
        for chunk in _chunks(reply, request):
            if left <= 0:
                break
            await hear(chunk)
            await trio.lowlevel.checkpoint()
            left -= isinstance(chunk, TextChunk | ThinkingChunk | CallArguments)
        if reply.usage is not None:
            await hear(UsageReported(reply.usage.counts))
        if reply.fail is not None:
            return ModelFailure(
                kind=reply.fail.kind, message=reply.fail.message, retry_after_s=reply.fail.retry_after_s
            )
        return ReplyEnd(stop_reason=reply.stop or ("toolUse" if reply.tool else "stop"))

    def _choose(self, request: ModelRequest, last: str) -> Reply | None:
        for place, reply in enumerate(self.script.replies):
            used = self._used.get((request.session_id, place), 0)
            if (reply.times is None or used < reply.times) and reply.answers(request, last):
                self._used[request.session_id, place] = used + 1
                return reply
        return None


def _chunks(reply: Reply, request: ModelRequest) -> Iterator[Chunk]:
    index = 0
    if thinking := filled(reply.thinking, request.messages):
        for piece in _pieces(thinking, reply.chunk):
            yield ThinkingChunk(index, piece)
        yield BlockEnded(index)
        index += 1
    if text := filled(reply.text, request.messages):
        for piece in _pieces(text, reply.chunk):
            yield TextChunk(index, piece)
        yield BlockEnded(index)
        index += 1
    for number, tool in enumerate(reply.tool, start=1):
        yield CallStarted(index, id=f"call_{request.call}_{number}", name=tool.name)
        arguments = _filled_deep(tool.arguments, request.messages)
        json = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        for piece in _pieces(json, reply.chunk):
            yield CallArguments(index, piece)
        yield BlockEnded(index)
        index += 1


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


# --- placeholders -----------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{\{\s*(last|tool\.[^{}]+?|child\.[^{}]+?)\s*\}\}")
_ANSWERING_TOOLS = frozenset({"wait_agents", "spawn_agent"})
# A child's answer may have headings of its own: only a line that names an outcome or a status begins another child's.
_NEXT_CHILD = re.compile(
    r"^## [^\n]+: (?:completed|failed|aborted|timed_out|limit_reached|lost"
    r"|running|waiting|retrying|compacting|idle|unknown|damaged|archived)\b",
    re.MULTILINE,
)


def filled(template: str, messages: tuple[ModelMessage, ...]) -> str:
    """`template` with its placeholders replaced, in one pass: what was inserted is not looked at again.

    `{{last}}` is the text of the last message, `{{tool.NAME}}` of a tool's last result, `{{child.NAME}}` of the last
    answer of a child; empty where there is none. Other words in braces stay as they are.
    """

    def value(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(".")
        if kind == "last":
            return text_of_message(messages[-1]) if messages else ""
        return _tool_result(name, messages) if kind == "tool" else child_answer(name, messages)

    return _PLACEHOLDER.sub(value, template)


def _filled_deep(value: Any, messages: tuple[ModelMessage, ...]) -> Any:
    match value:
        case str():
            return filled(value, messages)
        case dict():
            return {key: _filled_deep(member, messages) for key, member in value.items()}
        case list():
            return [_filled_deep(member, messages) for member in value]
    return value


def text_of_message(message: ModelMessage) -> str:
    return message.text if isinstance(message, AssistantMessage) else text_of(message.content)


def _tool_result(name: str, messages: tuple[ModelMessage, ...]) -> str:
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage) and message.tool_name == name:
            return text_of(message.content)
    return ""


def child_answer(name: str, messages: tuple[ModelMessage, ...]) -> str:
    """What child `name` answered last: the text below the line `## NAME: OUTCOME`, up to the next such line."""
    heading = re.compile(rf"^## {re.escape(name)}: [^\n]*(?:\n|\Z)", re.MULTILINE)
    for message in reversed(messages):
        is_told = isinstance(message, UserMessage) or (
            isinstance(message, ToolResultMessage) and message.tool_name in _ANSWERING_TOOLS
        )
        text = text_of_message(message) if is_told else ""
        for found in reversed(list(heading.finditer(text))):
            following = _NEXT_CHILD.search(text, found.end())
            return text[found.end() : following.start() if following else None].strip("\n")
    return ""
