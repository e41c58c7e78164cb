"""The SDKs of OpenAI and Anthropic read what our server sends: streams that nobody but us understood would not do."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.protocol.model import ModelFailure, ReplyEnd
from tests.orchestrator.providers.apis import COMPLETIONS, MESSAGES, RESPONSES, Api, ask, heard
from tests.orchestrator.providers.said import Call, Said
from tests.raw_server import cut_anywhere, head, raw_server

openai = pytest.importorskip("openai", reason="the dev extra has it")
anthropic = pytest.importorskip("anthropic", reason="the dev extra has it")

Seen = tuple[str, str, list[tuple[str, str, Any]], tuple[int, int, int, int], str]
"""Text, thinking, calls with their arguments as values, tokens (input, output, cache read, cache write), stop reason."""
KEY = "sk-of-a-peer"


def arguments_of(text: str) -> Any:
    return msgspec.json.decode(text.strip() or "{}")


def by_openai_completions(url: str) -> Seen:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    with client, client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
        try:
            reply = stream.get_final_completion()
        except openai.LengthFinishReasonError as cut:
            reply = cut.completion
    [choice] = reply.choices
    calls = choice.message.tool_calls or []
    counts = reply.usage
    details = counts.prompt_tokens_details
    written = details.cache_write_tokens
    fresh = counts.prompt_tokens - details.cached_tokens - written
    return (
        choice.message.content or "",
        getattr(choice.message, "reasoning_content", None) or "",
        [(call.id, call.function.name, arguments_of(call.function.arguments)) for call in calls],
        (fresh, counts.completion_tokens, details.cached_tokens, written),
        {"stop": "stop", "tool_calls": "toolUse", "length": "length"}[choice.finish_reason],
    )


def by_openai_responses(url: str) -> Seen:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    with client, client.responses.stream(model="m", input="hi") as stream:
        [*_, last] = list(stream)
    reply = last.response
    thoughts = [part.text for item in reply.output if item.type == "reasoning" for part in item.summary]
    calls = [item for item in reply.output if item.type == "function_call"]
    counts = reply.usage
    details = counts.input_tokens_details
    fresh = counts.input_tokens - details.cached_tokens - details.cache_write_tokens
    is_cut = reply.status == "incomplete" and reply.incomplete_details.reason == "max_output_tokens"
    return (
        reply.output_text,
        "\n\n".join(thoughts),
        [(call.call_id, call.name, arguments_of(call.arguments)) for call in calls],
        (fresh, counts.output_tokens, details.cached_tokens, details.cache_write_tokens),
        "length" if is_cut else "toolUse" if calls else "stop",
    )


def by_anthropic(url: str) -> Seen:
    client = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)
    hi = [{"role": "user", "content": "hi"}]
    with client, client.messages.stream(model="m", max_tokens=9, messages=hi) as stream:
        reply = stream.get_final_message()
    counts = reply.usage
    calls = [block for block in reply.content if block.type == "tool_use"]
    return (
        "".join(block.text for block in reply.content if block.type == "text"),
        "".join(block.thinking for block in reply.content if block.type == "thinking"),
        [(call.id, call.name, call.input) for call in calls],
        (
            counts.input_tokens,
            counts.output_tokens,
            counts.cache_read_input_tokens,
            counts.cache_creation_input_tokens,
        ),
        {"end_turn": "stop", "tool_use": "toolUse", "max_tokens": "length"}[reply.stop_reason],
    )


PEERS: list[tuple[Api, Callable[[str], Seen]]] = [
    (COMPLETIONS, by_openai_completions),
    (RESPONSES, by_openai_responses),
    (MESSAGES, by_anthropic),
]
each_peer = pytest.mark.parametrize(("api", "peer"), PEERS, ids=lambda one: getattr(one, "name", ""))

TOKENS = (900, 41, 1_200, 300, 17)
BASH: Call = ("call_a", "bash", '{"command":"echo \\"中\\"","n":[1,null]}')
NOW: Call = ("call_b", "now", "")


async def agree(api: Api, peer: Callable[[str], Seen], said: Said, seed: int = 0) -> None:
    answer = cut_anywhere(head() + api.speak(said), seed)
    async with raw_server(answer) as server:
        theirs = await trio.to_thread.run_sync(peer, server.url)
        chunks, end = await ask(api, server.url)
    assert isinstance(end, ReplyEnd)
    ours = heard(chunks, end)
    usage = ours.usage
    calls = [(id, name, arguments_of(arguments)) for id, name, arguments in ours.calls]
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    assert (ours.text, ours.thinking, calls, counts, end.stop_reason) == theirs
    assert usage.total_tokens == sum(counts)


@each_peer
@pytest.mark.parametrize(
    "said",
    [
        Said(text="Hello.", tokens=TOKENS),
        Said(text="中文 🌲 é\u2028\r\n", thinking="Hm – 二つ.", tokens=TOKENS, piece=1),
        Said(calls=[BASH], stop="toolUse", tokens=TOKENS),
        Said(text="Both.", thinking="Two at once.", calls=[BASH, NOW], stop="toolUse", tokens=TOKENS, piece=2),
        Said(text="It was a dark and", stop="length", tokens=(5, 9, 0, 0, 0)),
        Said(stop="length", tokens=(5, 32_000, 0, 0, 32_000)),
    ],
    ids=["text", "thinking", "call", "all", "cut", "cut-empty"],
)
@pytest.mark.parametrize("seed", range(3))
async def test_the_sdk_and_our_reader_agree(api: Api, peer: Callable[[str], Seen], said: Said, seed: int) -> None:
    await agree(api, peer, said, seed)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.dictionaries(WORDS, WORDS | st.integers(-(2**53), 2**53) | st.booleans() | st.none(), max_size=2)


@each_peer
@given(
    text=WORDS,
    thinking=WORDS,
    values=st.lists(VALUES, max_size=2),
    tokens=st.tuples(*[st.integers(1, 10**6)] * 4),
    piece=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_the_sdk_and_our_reader_agree_on_anything(
    api: Api,
    peer: Callable[[str], Seen],
    text: str,
    thinking: str,
    values: list[dict[str, Any]],
    tokens: tuple[int, int, int, int],
    piece: int,
    seed: int,
) -> None:
    calls = [(f"call_{place}", "bash", msgspec.json.encode(value).decode()) for place, value in enumerate(values)]
    said = Said(text, thinking, calls, "toolUse" if calls else "stop", (*tokens, 0), piece)
    await agree(api, peer, said, seed)


@pytest.mark.parametrize(("api", "peer"), [PEERS[0], PEERS[2]], ids=lambda one: getattr(one, "name", ""))
@pytest.mark.parametrize(
    ("code", "message"), [("overloaded_error", "Overloaded"), ("rate_limit_exceeded", "Rate limit reached")]
)
async def test_where_we_hear_a_failure_the_sdk_does_too(
    api: Api, peer: Callable[[str], Seen], code: str, message: str
) -> None:
    stream = api.speak(Said(text="Partial"))
    stream = stream[: stream.index(b"\n\n") + 2] + api.failure(code, message)
    async with raw_server([head() + stream]) as server:
        _, end = await ask(api, server.url)
        assert isinstance(end, ModelFailure)
        assert message in end.message
        with pytest.raises((openai.APIError, anthropic.APIError), match=message):
            await trio.to_thread.run_sync(peer, server.url)


async def test_a_response_that_failed_is_a_failed_one_to_the_sdk_too() -> None:
    def status(url: str) -> str:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        with client, client.responses.create(model="m", input="hi", stream=True) as stream:
            [*_, last] = list(stream)
        return str(last.response.status)

    async with raw_server([head() + RESPONSES.failure("server_error", "An error occurred")]) as server:
        _, end = await ask(RESPONSES, server.url)
        assert isinstance(end, ModelFailure)
        assert await trio.to_thread.run_sync(status, server.url) == "failed"
