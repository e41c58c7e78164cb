"""The three wire formats: how a server speaks each, who of ours reads it, and what was heard."""

from collections.abc import Callable, Sequence

import attrs

from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Chunk,
    ModelFailure,
    ModelInfo,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    ThinkingChunk,
    UsageReported,
)
from orchestrator.providers import anthropic_usage, openai_usage
from orchestrator.providers.anthropic_messages import AnthropicMessages, MessageReader
from orchestrator.providers.http import opened_http
from orchestrator.providers.openai_completions import CompletionReader, OpenAICompletions
from orchestrator.providers.openai_responses import OpenAIResponses, ResponseReader
from orchestrator.providers.ports import Port
from orchestrator.providers.post import HttpLimits
from orchestrator.providers.sse import SseParser
from store.messages import user_text
from store.usage import Usage
from tests.orchestrator.providers.said import Call, Said
from tests.orchestrator.providers.speak_completions import completion, completion_failure
from tests.orchestrator.providers.speak_messages import message, message_failure
from tests.orchestrator.providers.speak_responses import response, response_failure

CANARY = "sk-canary-7f3a9b2c5d"
INFO = ModelInfo("local", "fake")
_LIMITS = HttpLimits(connect_s=60, first_byte_s=60, idle_s=60, total_s=60)


@attrs.frozen
class Heard:
    """What a reader made of it."""

    text: str
    thinking: str
    calls: Sequence[Call]
    usage: Usage
    end: ReplyEnd | ModelFailure
    signature: str | None = None


@attrs.frozen
class Api:
    """One wire format: how a server speaks it, and who of ours reads it. `path`: below the server's address."""

    name: str
    base: str
    path: str
    speak: Callable[[Said], bytes]
    port: type[Port]
    reader: Callable[..., CompletionReader | ResponseReader | MessageReader]
    failure: Callable[[str, str], bytes]
    """The event of an error in a stream: its code or type, and its message."""

    async def listen(self, *chunks: bytes) -> tuple[list[Chunk], ReplyEnd | ModelFailure]:
        """What our reader makes of the bytes of a stream, without a network."""
        heard: list[Chunk] = []

        async def hear(chunk: Chunk) -> None:
            heard.append(chunk)

        parser = SseParser()
        reader = self.reader(hear)
        found = [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()
        for event in found:
            if await reader.take(event):
                break
        return heard, await reader.end(None)


async def ask(api: Api, url: str) -> tuple[list[Chunk], ReplyEnd | ModelFailure]:
    """What our port to the server at `url` hears. Never a word of the key that it sends."""
    chunks: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        chunks.append(chunk)

    info = ModelInfo("local", "fake", api.name)
    request = ModelRequest("s-1", "root", 0, 1, info, (user_text("hi", 0),))
    async with opened_http(_LIMITS, uses_environment=False) as http:
        model = api.port(http, f"{url}{api.base}", CANARY, {"X-Extra": "1"})
        end = await model.call(request, hear)
        assert CANARY not in repr(model)
    assert CANARY not in repr((end, chunks))
    return chunks, end


def heard(chunks: Sequence[Chunk], end: ReplyEnd | ModelFailure) -> Heard:
    arguments: dict[int, str] = {}
    for chunk in chunks:
        if isinstance(chunk, CallArguments):
            arguments[chunk.index] = arguments.get(chunk.index, "") + chunk.json
    started = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    usages = [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)]
    signatures = [chunk.signature for chunk in chunks if isinstance(chunk, ThinkingChunk) and chunk.signature]
    return Heard(
        "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)),
        "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk)),
        [(call.id, call.name, arguments.get(call.index, "")) for call in started],
        usages[-1] if usages else Usage(),
        end,
        signatures[-1] if signatures else None,
    )


def _complain(text: str) -> None:
    raise AssertionError(text)


COMPLETIONS = Api(
    "openai-completions",
    "/v1",
    "/v1/chat/completions",
    completion,
    OpenAICompletions,
    lambda hear: CompletionReader(hear, openai_usage.Counts(_complain), "call_1"),
    completion_failure,
)
RESPONSES = Api(
    "openai-responses",
    "/v1",
    "/v1/responses",
    response,
    OpenAIResponses,
    lambda hear: ResponseReader(hear, openai_usage.Counts(_complain), "call_1"),
    response_failure,
)
MESSAGES = Api(
    "anthropic-messages",
    "",
    "/v1/messages",
    message,
    AnthropicMessages,
    lambda hear: MessageReader(hear, anthropic_usage.Counts(_complain), "call_1"),
    message_failure,
)
APIS = (COMPLETIONS, RESPONSES, MESSAGES)
