"""What a session says in the words of Anthropic's messages."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import ModelInfo, ModelRequest, ToolSpec
from orchestrator.providers.anthropic_body import body_of
from orchestrator.providers.anthropic_quirks import Quirks
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
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
TOOL = ToolSpec("bash", "Runs it.", {"type": "object"})
NOW = ToolSpec("now", "The time.", {"type": "object"})


def text(words: str) -> TextContent:
    return TextContent(text=words)


def block(words: str) -> Json:
    return {"type": "text", "text": words}


def call(id: str, name: str = "bash", arguments: Any = None) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def result(id: str, *content: Visible, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=id, tool_name="bash", content=content, is_error=is_error)


def answer(*content: Block, model: str = "claude-opus-4-8", api: str = "anthropic-messages") -> AssistantMessage:
    return AssistantMessage(content=content, api=api, provider="anthropic", model=model)


def asked(*messages: ModelMessage, model: str = "claude-opus-4-8", max_output: int = 0, **members: Any) -> ModelRequest:
    info = ModelInfo("anthropic", model, "anthropic-messages", max_output=max_output)
    return ModelRequest("s-1", "root", 0, 1, info, messages, **members)


def body(*messages: ModelMessage, quirks: Quirks = Quirks(), **members: Any) -> Json:  # noqa: B008
    return dict(msgspec.json.decode(encoded_json(body_of(asked(*messages, **members), quirks))))


def turns(*messages: ModelMessage, **members: Any) -> list[tuple[str, list[Json]]]:
    """Roles and blocks, without what only says how long they stay in the cache."""
    sent = body(*messages, **members)["messages"]
    for message in sent:
        for each in message["content"]:
            each.pop("cache_control", None)
    return [(message["role"], message["content"]) for message in sent]


HI = UserMessage(content="hi")


def test_a_call_is_streamed_and_says_nothing_that_was_not_asked_for() -> None:
    assert body(HI) == {
        "model": "claude-opus-4-8",
        "max_tokens": 64_000,
        "messages": [{"role": "user", "content": [block("hi") | EPHEMERAL]}],
        "stream": True,
    }


def test_the_prompt_the_tools_and_the_last_message_of_the_person_stay_in_the_cache() -> None:
    sent = body(HI, answer(call("a")), result("a", text("x"), IMAGE), system="Be brief.", tools=(TOOL, NOW))

    assert sent["system"] == [block("Be brief.") | EPHEMERAL]
    assert sent["tools"] == [
        {"name": "bash", "description": "Runs it.", "input_schema": {"type": "object"}},
        {"name": "now", "description": "The time.", "input_schema": {"type": "object"}} | EPHEMERAL,
    ]
    assert "cache_control" in sent["messages"][-1]["content"][-1]
    assert encoded_json(sent).count(b"cache_control") == 3


# --- messages ---------------------------------------------------------------------------------------------------------


def test_results_come_first_in_one_message_with_what_the_person_says_behind_them() -> None:
    calls = answer(text("I look."), call("1", arguments={"command": "ls"}), call("2"))
    results = [result("1", text("a"), IMAGE), result("2", text("no"), IMAGE, is_error=True)]

    assert turns(HI, calls, *results, UserMessage(content=(text("go on"), IMAGE)), UserMessage(content="now")) == [
        ("user", [block("hi")]),
        (
            "assistant",
            [
                block("I look."),
                {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "2", "name": "bash", "input": {}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "1", "content": [block("a"), IMAGE_BLOCK]},
                {"type": "tool_result", "tool_use_id": "2", "content": [block("no")], "is_error": True},
                block("go on"),
                IMAGE_BLOCK,
                block("now"),
            ],
        ),
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_left_out_and_a_result_says_something(blank: str) -> None:
    assert turns(
        HI, UserMessage(content=blank), answer(text(blank)), UserMessage(content=(text(blank), text("b")))
    ) == [("user", [block("hi"), block("b")])]
    [*_, (_, results)] = turns(HI, answer(call("1")), result("1", text(blank)), result("2"))
    assert [each["content"] for each in results] == [[block("(no output)")]] * 2


def test_a_history_that_begins_with_an_answer_gets_a_beginning() -> None:
    assert [role for role, _ in turns(answer(text("a")), HI)] == ["user", "assistant", "user"]


@pytest.mark.parametrize("stored", [None, "", "{", [], {}])
def test_arguments_that_were_stored_as_something_else_go_out_as_an_object(stored: Any) -> None:
    [_, (_, blocks), _] = turns(HI, answer(call("1", arguments=stored)), result("1"))

    assert blocks[0]["input"] == {}


def test_calls_without_tools_bring_stand_ins_that_cannot_be_called() -> None:
    sent = body(HI, answer(call("1"), call("2", "no such tool!")), result("1"), result("2"))

    assert [tool["name"] for tool in sent["tools"]] == ["bash", "no_such_tool_"]
    assert sent["tool_choice"] == {"type": "none"}
    assert "tools" not in body(HI)


MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.text("a \ud83c", max_size=2).map(lambda words: UserMessage(content=words)),
    st.builds(
        lambda words, ids: answer(text(words), *[call(id) for id in dict.fromkeys(ids)]),
        st.text("a ", max_size=2),
        st.lists(st.sampled_from(["1", "2", "ü|x"]), max_size=3),
    ),
    st.sampled_from(["1", "2", "ü|x"]).map(lambda id: result(id, text("out"))),
    st.just(answer(ThinkingContent(thinking="hm", thinking_signature="EqQB"))),
)


@given(messages=st.lists(MESSAGES, max_size=12))
def test_any_history_alternates_and_pairs_each_call_with_its_result(messages: list[Message]) -> None:
    sent = turns(*for_model([HI, *messages]))
    roles = [role for role, _ in sent]
    used: list[str] = []

    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
    for place, (role, blocks) in enumerate(sent):
        assert blocks
        if role != "assistant":
            continue
        ids = [each["id"] for each in blocks if each["type"] == "tool_use"]
        used += ids
        behind = sent[place + 1][1] if place + 1 < len(sent) else []
        kinds = [each["type"] for each in behind]
        assert [each["tool_use_id"] for each in behind if each["type"] == "tool_result"] == ids
        assert kinds[: len(ids)] == ["tool_result"] * len(ids)
        assert blocks[-1]["type"] in {"text", "tool_use"}
    assert len(set(used)) == len(used)


# --- thinking that goes back ------------------------------------------------------------------------------------------

REDACTED = '{"type":"redacted_thinking","data":"EmwK"}'


def thought(signature: str | None, words: str = "hm", *, redacted: bool = False) -> ThinkingContent:
    return ThinkingContent(thinking=words, thinking_signature=signature, redacted=redacted)


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        (thought("EqQB"), [SIGNED]),
        (thought("EqQB", ""), [SIGNED | {"thinking": ""}]),
        (thought(REDACTED, ""), [{"type": "redacted_thinking", "data": "EmwK"}]),
        (thought("EmwK", "[redacted]", redacted=True), [{"type": "redacted_thinking", "data": "EmwK"}]),
        (thought(None), []),
        (thought(""), []),
        (thought(None, redacted=True), []),
        (thought("{broken"), [SIGNED | {"signature": "{broken"}]),
    ],
)
def test_thoughts_go_back_as_they_came(kept: ThinkingContent, sent: list[Json]) -> None:
    [_, (_, blocks), _] = turns(HI, answer(kept, call("1")), result("1"))

    assert blocks[:-1] == sent


def test_thoughts_of_other_models_and_at_the_end_stay_behind() -> None:
    others = [answer(thought("EqQB"), text("a"), model="other"), answer(thought("EqQB"), text("a"), api="openai")]
    for message in [*others, answer(text("a"), thought("EqQB"), thought(REDACTED))]:
        assert turns(HI, message, HI)[1] == ("assistant", [block("a")])
    assert turns(HI, answer(thought("EqQB")), HI) == [("user", [block("hi"), block("hi")])]


def test_servers_that_sign_nothing_get_their_thoughts_back_all_the_same() -> None:
    [_, (_, blocks), _] = turns(
        HI, answer(thought(None), call("1")), result("1"), quirks=Quirks(takes_unsigned_thoughts=True)
    )

    assert blocks[0] == SIGNED | {"signature": ""}


@pytest.mark.parametrize(("level", "is_sent"), [(None, True), ("low", True), ("off", False)])
def test_bound_thoughts_stay_behind_where_the_server_cannot_be_asked_to_drop_them(
    level: str | None, is_sent: bool
) -> None:
    model = "claude-sonnet-5-5"
    history = (HI, answer(thought("EqQB"), text("a"), model=model), HI)

    assert (SIGNED in turns(*history, model=model, thinking=level)[1][1]) == is_sent


# --- tiers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tier", "sent"), [("auto", "auto"), ("default", "standard_only"), ("priority", "auto")])
def test_a_tier_goes_by_anthropics_word(tier: str, sent: str) -> None:
    assert body_of(asked(HI), Quirks(), tier)["service_tier"] == sent
    assert "service_tier" not in body(HI)
