"""What a session says in the words of OpenAI's responses."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import ModelInfo, ModelRequest, ToolSpec
from orchestrator.providers.responses_body import body_of, kept_reasoning
from orchestrator.providers.responses_quirks import MODELS, QUIRKS, Quirks, model_row, quirks_of
from orchestrator.providers.text import encoded_json
from store.context import ModelMessage, for_model
from store.messages import (
    AssistantMessage,
    Block,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Visible,
)
from tests.orchestrator.providers.said import Json

IMAGE = ImageContent(data="QUJD", mime_type="image/png")
IMAGE_PART = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"}
TOOL = ToolSpec("bash", "Runs it.", {"type": "object"})
USUAL = Quirks()
INCLUDE = {"include": ["reasoning.encrypted_content"]}


def text(words: str) -> TextContent:
    return TextContent(text=words)


def part(words: str) -> Json:
    return {"type": "input_text", "text": words}


def call(id: str, name: str = "bash", arguments: Any = None) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def result(id: str, *content: Visible) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=id, tool_name="bash", content=content)


def answer(*content: Block, model: str = "gpt-5.4", api: str = "openai-responses") -> AssistantMessage:
    return AssistantMessage(content=content, api=api, provider="openai", model=model)


def body(*messages: ModelMessage, quirks: Quirks = USUAL, **members: Any) -> Json:
    model, max_output = members.pop("model", "gpt-4.1"), members.pop("max_output", 0)
    info = ModelInfo("openai", model, "openai-responses", max_output=max_output)
    request = ModelRequest("s-1", "root", 0, 1, info, messages, **members)
    return dict(msgspec.json.decode(encoded_json(body_of(request, quirks))))


def items(*messages: ModelMessage) -> list[Json]:
    return list(body(*messages, model="gpt-5.4")["input"])


HI = UserMessage(content="hi")


def test_a_call_is_streamed_and_nothing_is_stored() -> None:
    assert body() == {"model": "gpt-4.1", "input": [], "stream": True, "store": False}


def test_the_prompt_the_tools_and_the_limit() -> None:
    sent = body(system="Be brief.", tools=(TOOL,), max_output=99)

    assert sent["instructions"] == "Be brief."
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "bash",
            "description": "Runs it.",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]
    assert sent["max_output_tokens"] == 99
    assert body(system="Be brief.", quirks=QUIRKS["xai"])["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."}
    ]
    assert body(quirks=QUIRKS["api.openai.com"])["prompt_cache_key"] == "s-1"
    assert body_of(ModelRequest("s", "r", 0, 1, ModelInfo("x", "y"), ()), USUAL, "flex")["service_tier"] == "flex"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HI, {"type": "message", "role": "user", "content": [part("hi")]}),
        (
            UserMessage(content=(text("see"), IMAGE)),
            {"type": "message", "role": "user", "content": [part("see"), IMAGE_PART]},
        ),
        (answer(text("a")), {"type": "message", "role": "assistant", "content": "a"}),
        (
            answer(call("c", arguments={"x": 1})),
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"x":1}'},
        ),
        (
            answer(call("c", "no such tool!", "{")),
            {"type": "function_call", "call_id": "c", "name": "no_such_tool_", "arguments": "{}"},
        ),
        (result("c", text("out")), {"type": "function_call_output", "call_id": "c", "output": "out"}),
        (result("c"), {"type": "function_call_output", "call_id": "c", "output": "(no output)"}),
        (
            result("c", text("see"), IMAGE),
            {"type": "function_call_output", "call_id": "c", "output": [part("see"), IMAGE_PART]},
        ),
    ],
)
def test_messages_in_the_words_of_the_format(message: ModelMessage, expected: Json) -> None:
    assert items(message) == [expected]


@pytest.mark.parametrize("message", [UserMessage(content=""), answer(text("")), answer(ThinkingContent(thinking="hm"))])
def test_a_message_with_nothing_to_send_is_left_out(message: ModelMessage) -> None:
    assert items(message) == []


# --- reasoning --------------------------------------------------------------------------------------------------------

ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
ITEM |= {"encrypted_content": "gAAA"}


def thought(item: Any = ITEM) -> ThinkingContent:
    signature = item if isinstance(item, str | None) else msgspec.json.encode(item).decode()
    return ThinkingContent(thinking="hm", thinking_signature=signature)


def test_reasoning_goes_back_before_what_came_of_it() -> None:
    other = ITEM | {"id": "rs_2"}
    sent = items(answer(thought(), thought(other), text("a"), thought(), call("1"), thought(), call("2"), thought()))

    assert [item["type"] for item in sent] == [
        *("reasoning", "reasoning", "message", "reasoning", "function_call", "reasoning", "function_call"),
    ]
    assert sent[:2] == [ITEM, other]


@pytest.mark.parametrize(
    "kept", [None, "", "EqQB", "[", "[]", ITEM | {"type": "x"}, ITEM | {"encrypted_content": None}, {"id": "rs_1"}]
)
def test_what_cannot_be_sent_back_is_not(kept: Any) -> None:
    assert [item["type"] for item in items(answer(thought(kept), text("a")))] == ["message"]


def test_reasoning_of_another_model_stays_behind() -> None:
    for message in (answer(thought(), text("a"), model="gpt-5.1"), answer(thought(), text("a"), api="x")):
        assert [item["type"] for item in items(message)] == ["message"]


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        (ITEM | {"status": None, "content": None}, ITEM),
        (ITEM | {"summary": None}, ITEM | {"summary": []}),
        (ITEM | {"encrypted_content": None}, None),
        (ITEM | {"id": None}, None),
    ],
)
def test_of_an_item_that_is_kept_what_the_provider_wants_back(item: Json, kept: Json | None) -> None:
    found = kept_reasoning(item)

    assert (None if found is None else msgspec.json.decode(found)) == kept


@pytest.mark.parametrize(
    ("model", "level", "expected"),
    [
        ("gpt-4.1", None, {}),
        ("gpt-4.1", "off", {}),
        ("local", "high", {"reasoning": {"effort": "high", "summary": "auto"}} | INCLUDE),
        ("gpt-5.4", None, INCLUDE),
        ("gpt-5.4", "off", {"reasoning": {"effort": "none"}} | INCLUDE),
        ("gpt-5.4", "minimal", {"reasoning": {"effort": "low", "summary": "auto"}} | INCLUDE),
        ("gpt-5.4", "xhigh", {"reasoning": {"effort": "xhigh", "summary": "auto"}} | INCLUDE),
        ("gpt-6.2-astra", "xhigh", {"reasoning": {"effort": "xhigh", "summary": "auto"}} | INCLUDE),
        ("gpt-5.1", "xhigh", {"reasoning": {"effort": "high", "summary": "auto"}} | INCLUDE),
        ("gpt-5-mini", "off", {"reasoning": {"effort": "minimal"}} | INCLUDE),
        ("gpt-5-mini", "minimal", {"reasoning": {"effort": "minimal", "summary": "auto"}} | INCLUDE),
        ("gpt-5-pro", "low", {"reasoning": {"effort": "high", "summary": "auto"}} | INCLUDE),
        ("gpt-5.2-pro", "low", {"reasoning": {"effort": "medium", "summary": "auto"}} | INCLUDE),
        ("gpt-5.1-codex-max", "xhigh", {"reasoning": {"effort": "xhigh", "summary": "auto"}} | INCLUDE),
        ("gpt-5.1-codex", "xhigh", {"reasoning": {"effort": "high", "summary": "auto"}} | INCLUDE),
        ("o4-mini", "off", {"reasoning": {"effort": "low"}} | INCLUDE),
        ("openai/gpt-oss-120b", None, {}),
        ("openai/gpt-oss-120b", "xhigh", {"reasoning": {"effort": "high", "summary": "auto"}} | INCLUDE),
    ],
)
def test_each_model_is_asked_to_reason_in_its_way(model: str, level: str | None, expected: Json) -> None:
    sent = body(model=model, thinking=level)

    assert {key: sent[key] for key in ("reasoning", "include") if key in sent} == expected


def test_a_server_that_encrypts_nothing_is_not_asked_to() -> None:
    assert "include" not in body(model="gpt-5.4", thinking="high", quirks=QUIRKS["groq"])


def test_every_row_is_reached() -> None:
    ids = ["gpt-oss-20b", "o3", "codex-mini-latest", "gpt-5-pro", "gpt-5.4-pro", "gpt-5-codex", "gpt-5.3-codex"]
    ids += ["gpt-5", "gpt-5.1", "gpt-5.6-sol", "gpt-6-luna"]

    assert {id(model_row(name)) for name in ids} == {id(row) for _, row in MODELS}


@pytest.mark.parametrize(
    ("base_url", "provider", "expected"),
    [
        ("https://api.openai.com/v1", "openai", QUIRKS["api.openai.com"]),
        ("https://mine.openai.azure.com/openai/v1", "x", QUIRKS["openai.azure.com"]),
        ("http://127.0.0.1:8080/v1", "openai", USUAL),
        ("http://127.0.0.1:8080/v1", "xai", QUIRKS["xai"]),
    ],
)
def test_a_server_is_known_by_its_host_or_its_name(base_url: str, provider: str, expected: Quirks) -> None:
    assert quirks_of(base_url, provider) == expected


# --- any history ------------------------------------------------------------------------------------------------------

IDS = st.sampled_from(["1", "2", "ü|x", "x" * 99, ""])
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.text("a \ud83c", max_size=2).map(lambda words: UserMessage(content=words)),
    st.builds(
        lambda words, ids: answer(thought(), text(words), *[call(id) for id in dict.fromkeys(ids)], thought()),
        st.text("a ", max_size=2),
        st.lists(IDS, max_size=3),
    ),
    IDS.map(lambda id: result(id, text("out"))),
)


@given(messages=st.lists(MESSAGES, max_size=12))
def test_in_any_history_each_call_has_one_result_under_an_id_of_its_own(messages: list[Message]) -> None:
    sent = items(*for_model(messages))
    called = [item["call_id"] for item in sent if item["type"] == "function_call"]
    answered = [item["call_id"] for item in sent if item["type"] == "function_call_output"]

    assert called == answered
    assert len(set(called)) == len(called)
    assert all(0 < len(id) <= 64 and id.isascii() for id in called)
    for item, behind in pairwise([*sent, {"type": "nothing"}]):
        assert item["type"] != "reasoning" or behind["type"] in {"reasoning", "message", "function_call"}
