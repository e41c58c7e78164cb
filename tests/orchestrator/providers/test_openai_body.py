import itertools
from typing import Any

import msgspec
import pytest

from actors.protocol.model import ModelInfo, ModelRequest, ToolSpec
from orchestrator.providers.openai_body import body_of, encoded_body
from orchestrator.providers.quirks import QUIRKS, Quirks, quirks_of
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

IMAGE = ImageContent(data="QUJD", mime_type="image/png")
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
USUAL = Quirks()


def text(words: str) -> TextContent:
    return TextContent(text=words)


def result(id: str, *content: TextContent | ImageContent) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=id, tool_name="bash", content=content)


def asked(*messages: ModelMessage, **members: Any) -> ModelRequest:
    info = ModelInfo("local", "fake-chat", max_output=members.pop("max_output", 0))
    return ModelRequest("s-1", "root", 0, 1, info, messages, **members)


def sent(*messages: ModelMessage, quirks: Quirks = USUAL, **members: Any) -> list[dict[str, Any]]:
    body: dict[str, Any] = msgspec.json.decode(encoded_body(asked(*messages, **members), quirks))
    return list(body["messages"])


def test_a_call_is_streamed_with_its_usage_and_says_nothing_that_was_not_asked_for() -> None:
    assert body_of(asked(), USUAL) == {
        "model": "fake-chat",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (UserMessage(content="hi"), {"role": "user", "content": "hi"}),
        (UserMessage(content=(text("a"), text("b"))), {"role": "user", "content": "a\nb"}),
        (
            UserMessage(content=(text("see"), IMAGE)),
            {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE_PART]},
        ),
        (AssistantMessage(content=(text("a"), text("b"))), {"role": "assistant", "content": "ab"}),
        (
            AssistantMessage(
                content=(ThinkingContent(thinking="hm"), ToolCall(id="c", name="bash", arguments={"x": 1}))
            ),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"x":1}'}}],
            },
        ),
        (result("c", text("out")), {"role": "tool", "tool_call_id": "c", "content": "out"}),
        (result("c"), {"role": "tool", "tool_call_id": "c", "content": "(no output)"}),
    ],
)
def test_messages_in_the_words_of_the_format(message: ModelMessage, expected: dict[str, Any]) -> None:
    assert sent(message) == [expected]


@pytest.mark.parametrize("stored", [None, "", "{", [], {}])
def test_arguments_that_were_stored_as_something_else_go_out_as_an_object(stored: Any) -> None:
    [message] = sent(AssistantMessage(content=(ToolCall(id="c", name="bash", arguments=stored),)))

    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_answer_of_thoughts_alone_is_left_out() -> None:
    assert sent(AssistantMessage(content=(ThinkingContent(thinking="hm"),))) == []


def test_pictures_of_results_follow_behind_the_whole_batch() -> None:
    user = UserMessage(content="go on")
    roles = [
        (message["role"], message.get("tool_call_id"))
        for message in sent(
            result("1", text("a"), IMAGE), result("2", IMAGE), result("3", text("c")), user, result("4", IMAGE)
        )
    ]

    assert roles == [
        ("tool", "1"),
        ("tool", "2"),
        ("tool", "3"),
        ("user", None),
        ("user", None),
        ("tool", "4"),
        ("user", None),
    ]
    assert sent(result("2", IMAGE))[0]["content"] == "(see the image below)"
    assert sent(result("1", IMAGE), result("2", IMAGE))[-1]["content"][1:] == [IMAGE_PART, IMAGE_PART]


def test_the_prompt_the_tools_and_the_limit() -> None:
    tool = ToolSpec("bash", "Runs it.", {"type": "object"})
    body = body_of(asked(system="Be brief.", tools=(tool,), max_output=99), USUAL)

    assert body["messages"] == [{"role": "system", "content": "Be brief."}]
    assert body["tools"] == [
        {"type": "function", "function": {"name": "bash", "description": "Runs it.", "parameters": {"type": "object"}}}
    ]
    assert body["max_tokens"] == 99
    assert body_of(asked(max_output=99), quirks_of("https://api.openai.com/v1", ""))["max_completion_tokens"] == 99


@pytest.mark.parametrize(
    ("style", "level", "expected"),
    [
        ("reasoning_effort", None, {}),
        ("reasoning_effort", "off", {}),
        ("reasoning_effort", "high", {"reasoning_effort": "high"}),
        ("reasoning_effort", "minimal", {"reasoning_effort": "low"}),
        ("reasoning_effort", "xhigh", {"reasoning_effort": "high"}),
        ("reasoning", "low", {"reasoning": {"effort": "low"}}),
        ("reasoning", "off", {"reasoning": {"enabled": False}}),
        ("thinking", "high", {"thinking": {"type": "enabled"}}),
        ("thinking", "off", {"thinking": {"type": "disabled"}}),
        ("enable_thinking", "high", {"enable_thinking": True}),
        ("enable_thinking", "off", {"enable_thinking": False}),
        ("none", "high", {}),
    ],
)
def test_thinking_is_asked_for_in_the_way_of_the_server(
    style: Any, level: str | None, expected: dict[str, Any]
) -> None:
    plain = body_of(asked(), Quirks(thinking=style))

    assert body_of(asked(thinking=level), Quirks(thinking=style)) == plain | expected


@pytest.mark.parametrize(("signature", "is_sent"), [("reasoning_content", True), ("EqQBCgIYAh", False), (None, False)])
def test_thoughts_go_back_where_the_server_wants_them_in_the_member_they_came_in(
    signature: str | None, is_sent: bool
) -> None:
    answer = AssistantMessage(content=(ThinkingContent(thinking="hm", thinking_signature=signature), text("a")))

    assert ("reasoning_content" in sent(answer, quirks=Quirks(wants_reasoning_back=True))[0]) == is_sent
    assert sent(answer) == [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize("id", ["call_1_1", "toolu_01A|fc_" + "x" * 60, "ünïcode", "", "a b", "x" * 9])
@pytest.mark.parametrize("quirks", [USUAL, QUIRKS["mistral"]])
def test_ids_of_other_providers_are_made_fit_for_the_call_and_its_result_alike(id: str, quirks: Quirks) -> None:
    call = AssistantMessage(content=(ToolCall(id=id, name="bash"),))
    [said, came] = sent(call, result(id), quirks=quirks)
    shown = said["tool_calls"][0]["id"]

    assert came["tool_call_id"] == shown
    assert shown.isascii()
    assert 0 < len(shown) <= quirks.call_id_chars
    assert not quirks.is_call_id_exact or (shown.isalnum() and len(shown) == 9)


def test_half_a_surrogate_pair_is_no_reason_to_fail() -> None:
    assert sent(UserMessage(content="a\ud83cb")) == [{"role": "user", "content": "a?b"}]


@pytest.mark.parametrize(
    ("base_url", "provider", "row"),
    [
        ("https://api.openai.com/v1", "anything", "api.openai.com"),
        ("https://mine.openai.azure.com/openai", "x", "openai.azure.com"),
        ("https://API.Mistral.ai/v1", "x", "api.mistral.ai"),
        ("http://127.0.0.1:8080/v1", "deepseek", "deepseek"),
        ("http://127.0.0.1:8080/v1", "openai", None),
        ("http://127.0.0.1:8080/v1", "api.openai.com", None),
        ("https://evil-api.openai.com.example/v1", "x", None),
        ("http://[::1", "x", None),
        ("", "", None),
    ],
)
def test_quirks_are_looked_up_by_host_and_then_by_name(base_url: str, provider: str, row: str | None) -> None:
    assert quirks_of(base_url, provider) == (Quirks() if row is None else QUIRKS[row])


@pytest.mark.parametrize("quirks", [USUAL, *QUIRKS.values()])
def test_every_row_makes_a_body(quirks: Quirks) -> None:
    for level, reported in itertools.product([None, "off", "minimal", "xhigh"], [0, 10]):
        body = body_of(asked(UserMessage(content="hi"), thinking=level, max_output=reported), quirks)
        assert body["messages"] == [{"role": "user", "content": "hi"}]
