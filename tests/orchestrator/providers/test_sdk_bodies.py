"""What we ask is what the SDKs of OpenAI and Anthropic allow: their typed parameters are the providers' own schemas."""

from functools import cache
from typing import Any

import msgspec
import pytest

from actors.protocol.model import ModelInfo, ModelRequest, ToolSpec
from orchestrator.providers import (
    anthropic_body,
    anthropic_quirks,
    openai_body,
    quirks,
    responses_body,
    responses_quirks,
)
from store.context import ModelMessage
from store.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.orchestrator.providers.speak_messages import SIGNATURE
from tests.orchestrator.providers.speak_responses import ENCRYPTED

pytest.importorskip("openai", reason="the dev extra has it")
pytest.importorskip("anthropic", reason="the dev extra has it")
pydantic = pytest.importorskip("pydantic")

IMAGE = ImageContent(data="QUJD", mime_type="image/png")
TOOL = ToolSpec("bash", "Runs it.", {"type": "object", "properties": {"command": {"type": "string"}}})
REDACTED = msgspec.json.encode({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}).decode()
REASONING = msgspec.json.encode(
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": ENCRYPTED}
).decode()


def text(words: str) -> TextContent:
    return TextContent(text=words)


def history(api: str) -> tuple[ModelMessage, ...]:
    signatures = [REASONING] if api == "openai-responses" else [SIGNATURE, REDACTED]
    thoughts = [ThinkingContent(thinking="hm", thinking_signature=signature) for signature in signatures]
    calls = [ToolCall(id=id, name="bash", arguments={"command": "ls"}) for id in ("call_1", "call|2")]
    return (
        UserMessage(content="plain"),
        UserMessage(content=(text("see"), IMAGE)),
        AssistantMessage(content=(*thoughts, text("I look."), *calls), api=api, provider="local", model="m"),
        ToolResultMessage(tool_call_id="call_1", tool_name="bash", content=(text("a"), IMAGE)),
        ToolResultMessage(tool_call_id="call|2", tool_name="bash", content=(), is_error=True),
        UserMessage(content="go on"),
    )


def deep(value: Any) -> Any:
    """`value` with the lazy lists of the validation made plain, which is when they are checked."""
    if isinstance(value, dict):
        return {key: deep(member) for key, member in value.items()}
    return value if isinstance(value, str | int | float | None) else [deep(member) for member in value]


def assert_allowed(body: dict[str, Any], params: Any) -> None:
    """All of `body` is among the typed parameters: what is not known there would be dropped, and be missing."""
    plain = msgspec.json.decode(msgspec.json.encode(body))
    assert deep(adapter(params).validate_python(plain)) == plain


@cache
def adapter(params: Any) -> Any:
    return pydantic.TypeAdapter(params)


LEVELS = [None, "off", "minimal", "low", "medium", "high", "xhigh"]
each_level = pytest.mark.parametrize("level", LEVELS)


def asked(api: str, model: str, level: str | None, tools: tuple[ToolSpec, ...] = (TOOL,)) -> ModelRequest:
    info = ModelInfo("local", model, api, max_output=2_048)
    messages = [
        msgspec.structs.replace(message, model=model) if isinstance(message, AssistantMessage) else message
        for message in history(api)
    ]
    return ModelRequest("s-1", "root", 0, 1, info, tuple(messages), "Be brief.", tools, level)


@each_level
@pytest.mark.parametrize("tools", [(), (TOOL,)])
@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-opus-4-6", "claude-sonnet-5", "glm-5", "claude-3-haiku"]
)
def test_anthropics_sdk_allows_our_body(level: str | None, tools: tuple[ToolSpec, ...], model: str) -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    request = asked("anthropic-messages", model, level, tools)
    for tier in (None, "auto", "default"):
        body = anthropic_body.body_of(request, anthropic_quirks.Quirks(), tier)

        assert_allowed(body, MessageCreateParamsStreaming)
        assert anthropic_body.beta_of(body) is None


@each_level
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1"])
def test_anthropics_sdk_allows_the_beta_in_our_body(level: str | None, model: str) -> None:
    from anthropic.types.anthropic_beta_param import AnthropicBetaParam
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

    body = anthropic_body.body_of(asked("anthropic-messages", model, level), anthropic_quirks.Quirks())

    assert_allowed(body, MessageCreateParamsStreaming)
    beta = anthropic_body.beta_of(body)
    assert beta is None or beta in str(AnthropicBetaParam)
    assert (beta is None) == ("block_binding" not in body["thinking"])


@each_level
@pytest.mark.parametrize("quirks", [responses_quirks.Quirks(), *responses_quirks.QUIRKS.values()])
@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5", "gpt-5.4", "o3", "gpt-oss-120b"])
def test_openais_sdk_allows_our_responses(level: str | None, quirks: responses_quirks.Quirks, model: str) -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    for tier in (None, "flex"):
        body = responses_body.body_of(asked("openai-responses", model, level), quirks, tier)
        assert_allowed(body, ResponseCreateParamsStreaming)


@each_level
def test_openais_sdk_allows_our_chat_completions(level: str | None) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    row = quirks.QUIRKS["api.openai.com"]
    for tier in (None, "flex"):
        body = openai_body.body_of(asked("openai-completions", "gpt-5.4", level), row, tier)
        assert_allowed(body, CompletionCreateParamsStreaming)


def test_a_member_that_the_sdk_does_not_know_is_found() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    body = anthropic_body.body_of(asked("anthropic-messages", "claude-opus-4-6", "high"), anthropic_quirks.Quirks())
    body["messages"][0]["content"][0]["stranger"] = 1
    with pytest.raises(AssertionError):
        assert_allowed(body, MessageCreateParamsStreaming)
