"""The three wire formats as aimock speaks them, a provider that others wrote: tools, thinking, and how calls fail there."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.protocol.model import BlockEnded, Chunk, ModelFailure, ModelInfo, ModelRequest, ReplyEnd, ToolSpec
from actors.reply import Reply
from orchestrator.providers.http import opened_http
from store.context import ModelMessage
from store.messages import AssistantMessage, TextContent, ThinkingContent, ToolResultMessage, UserMessage
from tests.orchestrator.http.command import Desk
from tests.orchestrator.http.told import answers_of
from tests.orchestrator.providers.apis import APIS, MESSAGES, RESPONSES, Api, heard
from tests.peers.aimock import aimock

pytestmark = pytest.mark.usefixtures("npm_peers")

MODELS = {"openai-completions": "gpt-5", "openai-responses": "gpt-5", "anthropic-messages": "claude-sonnet-4-5"}
TOOL = ToolSpec("bash", "Runs it.", {"type": "object", "properties": {"command": {"type": "string"}}})
USAGE = {"prompt_tokens": 20, "completion_tokens": 4}
BUSY = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"toolResultContains": "two.txt"}, "response": {"content": "There are two.", "usage": USAGE}},
    {
        "match": {"userMessage": "look twice"},
        "response": {
            "content": "I look – 中文 🌲.",
            "reasoning": "Two at once.",
            "toolCalls": [
                {"name": "bash", "arguments": '{"command":"ls \\"中\\""}'},
                {"name": "bash", "arguments": '{"command":"touch one.txt two.txt; ls"}'},
            ],
            "usage": USAGE,
        },
    },
    {"match": {"userMessage": "busy"}, "response": BUSY | {"retryAfter": 7}},
    {
        "match": {"userMessage": "overloaded"},
        "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529},
    },
    {
        "match": {"userMessage": "cut"},
        "response": {"content": "a beginning that is long enough for chunks"},
        "chunkSize": 5,
        "latency": 5,
        "truncateAfterChunks": 6,
    },
    {"match": {"userMessage": "too long"}, "response": {"content": "half of", "finishReason": "length"}},
]

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@pytest.fixture
def fixtures(tmp_path: Path) -> Path:
    file = tmp_path / "aimock.json"
    file.write_bytes(msgspec.json.encode({"fixtures": FIXTURES}))
    return file


async def ask(
    api: Api, url: str, *messages: ModelMessage
) -> tuple[list[Chunk], AssistantMessage, ReplyEnd | ModelFailure]:
    """What our port hears, and the message that is left of it."""
    info = ModelInfo("local", MODELS[api.name], api.name, max_output=4_096)
    request = ModelRequest("s-1", "root", 0, 1, info, messages, "Be brief.", (TOOL,), "low")
    reply = Reply(info, 0, 0.0)
    chunks: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        chunks.append(chunk)
        reply.take(chunk)

    async with opened_http(uses_environment=False) as http:
        end = await api.port(http, f"{url}{api.base}", "sk-any").call(request, hear)
    return chunks, reply.message(end.stop_reason if isinstance(end, ReplyEnd) else "error", 0.0), end


@each_api
async def test_a_loop_over_two_tools_goes_round_with_its_thoughts(api: Api, fixtures: Path) -> None:
    question = UserMessage(content="look twice")
    async with aimock(fixtures) as url:
        chunks, answer, end = await ask(api, url, question)
        results = [
            ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(TextContent(text=text),))
            for call, text in zip(answer.calls, ("中", "one.txt two.txt"), strict=True)
        ]
        _, last, last_end = await ask(api, url, question, answer, *results)

    assert (end, last_end) == (ReplyEnd("toolUse"), ReplyEnd("stop"))
    found = heard(chunks, end)
    assert (found.text, found.thinking) == ("I look – 中文 🌲.", "Two at once.")
    assert [call.arguments for call in answer.calls] == [
        {"command": 'ls "中"'},
        {"command": "touch one.txt two.txt; ls"},
    ]
    assert len({call.id for call in answer.calls}) == 2
    assert (found.usage.input, found.usage.output) == (20, 4)
    assert len([chunk for chunk in chunks if isinstance(chunk, BlockEnded)]) == 4
    assert last.text == "There are two."
    if api in (RESPONSES, MESSAGES):
        [thought] = [block for block in answer.content if isinstance(block, ThinkingContent)]
        assert thought.thinking_signature


@each_api
@pytest.mark.parametrize(
    ("prompt", "kind", "wait_s", "words"),
    [
        ("busy", "rate_limited", 7.0, "slow down"),
        ("overloaded", "overloaded", None, "Overloaded"),
        ("never heard of", "server", None, ""),
    ],
)
async def test_a_refusal_is_a_failure_of_its_kind(
    api: Api, fixtures: Path, prompt: str, kind: str, wait_s: float | None, words: str
) -> None:
    async with aimock(fixtures) as url:
        _, _, end = await ask(api, url, UserMessage(content=prompt))

    assert isinstance(end, ModelFailure)
    assert (end.kind, end.retry_after_s) == (kind, wait_s)
    assert words in end.message


@each_api
async def test_a_stream_that_breaks_is_incomplete_and_one_at_its_limit_is_not(api: Api, fixtures: Path) -> None:
    async with aimock(fixtures) as url:
        chunks, _, cut = await ask(api, url, UserMessage(content="cut"))
        _, short, limit = await ask(api, url, UserMessage(content="too long"))

    assert isinstance(cut, ModelFailure)
    assert cut.is_retryable
    assert "a beginning that is long enough for chunks".startswith(heard(chunks, cut).text)
    assert (short.text, getattr(limit, "stop_reason", limit)) == ("half of", "length")


@each_api
async def test_the_command_speaks_the_api_that_is_configured(api: Api, fixtures: Path, desk: Desk) -> None:
    async with aimock(fixtures) as url:
        desk.use(f"{url}{api.base}", provider=f'api = "{api.name}"')
        done = await desk.run("--mode", "json", "look twice")

    assert (done.status, done.faults, done.stderr) == (0, [], "")
    first, last = answers_of(done)
    assert {answer["api"] for answer in (first, last)} == {api.name}
    assert [block["type"] for block in first["content"]] == ["thinking", "text", "toolCall", "toolCall"]
    assert last["content"][0]["text"] == "There are two."
    assert sorted(path.name for path in desk.folder.iterdir()) == ["one.txt", "two.txt"]


async def test_anthropic_needs_no_configuration(fixtures: Path, desk: Desk) -> None:
    model = ("-m", "anthropic/claude-sonnet-4-5", "--thinking", "low", "look twice")
    async with aimock(fixtures) as url:
        place = {"ANTHROPIC_BASE_URL": url}
        done = await desk.run("--json", *model, environ=place | {"ANTHROPIC_API_KEY": "sk-ant-any"})
        option = await desk.run("--api-key", "sk-ant-any", *model, environ=place)
    nothing = await desk.run(*model)

    assert (done.status, done.faults, done.stderr) == (0, [], "")
    assert [(answer["api"], answer["provider"]) for answer in answers_of(done)] == [
        ("anthropic-messages", "anthropic")
    ] * 2
    assert (option.status, option.stdout) == (0, b"There are two.\n")
    assert nothing.status == 2
    assert "ANTHROPIC_API_KEY" in nothing.stderr
