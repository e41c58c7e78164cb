"""Messages: each is read back as it was written, and what other programs wrote is read too."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.entries import MessageEntry
from store.errors import BadRecord
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
    text_of,
    user_text,
)
from store.records import read_record
from store.usage import Usage
from store.wire import encode

SESSIONS = sorted((Path(__file__).parents[1] / "data" / "sessions").iterdir())
HARD = ["\u2028", "\u2029", "\0", "😀", "\r\n", '"\\', "\x7f\x85", "�", "e\u0301"]

texts = st.text(max_size=20) | st.sampled_from(HARD)
json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
visible = st.builds(TextContent, text=texts) | st.builds(ImageContent, data=texts, mime_type=texts)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=st.dictionaries(texts, json_values, max_size=3))
thinking = st.builds(ThinkingContent, thinking=texts, thinking_signature=st.none() | texts, redacted=st.booleans())
content = texts | st.lists(visible, max_size=3).map(tuple)
blocks = st.lists(visible | calls | thinking, max_size=4).map(tuple)
times = st.integers(0, 2**45)
usages = st.builds(Usage, input=st.integers(0, 10**9), output=st.integers(0, 10**9))

MESSAGES: dict[str, st.SearchStrategy[Message]] = {
    "user": st.builds(UserMessage, content=content, details=json_values, timestamp=times),
    "assistant": st.builds(
        AssistantMessage,
        content=blocks,
        api=texts,
        provider=texts,
        model=texts,
        usage=usages,
        stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted", "new"]),
        error_message=st.none() | texts,
        timestamp=times,
        response_id=st.none() | texts,
        raw_stop_reason=st.none() | texts,
        duration_ms=st.none() | times,
    ),
    "toolResult": st.builds(
        ToolResultMessage,
        tool_call_id=texts,
        tool_name=texts,
        content=st.lists(visible, max_size=3).map(tuple),
        details=json_values,
        is_error=st.booleans(),
        timestamp=times,
    ),
    "bashExecution": st.builds(
        BashExecutionMessage,
        command=texts,
        output=texts,
        exit_code=st.none() | st.integers(0, 255),
        full_output_path=st.none() | texts,
        exclude_from_context=st.booleans(),
    ),
    "custom": st.builds(
        CustomMessage, custom_type=texts, content=content, display=st.booleans(), details=json_values, timestamp=times
    ),
    "branchSummary": st.builds(BranchSummaryMessage, summary=texts, from_id=texts, timestamp=times),
    "compactionSummary": st.builds(CompactionSummaryMessage, summary=texts, tokens_before=times, timestamp=times),
    "system": st.builds(SystemMessage, content=texts, timestamp=times),
}


@given(st.one_of(*MESSAGES.values()))
def test_every_message_is_read_back_as_it_was_written(message: Message) -> None:
    raw = encode(message)

    assert decode_message(raw) == message
    assert encode(decode_message(raw)) == raw
    assert b"\n" not in raw
    assert b"\r" not in raw


@pytest.mark.parametrize("role", MESSAGES)
def test_the_role_is_on_the_wire_under_the_name_of_the_seeds(role: str) -> None:
    wire = msgspec.json.decode(encode(EXAMPLES[role]))

    assert wire["role"] == role
    assert not [name for name in wire if "_" in name]


EXAMPLES: dict[str, Message] = {
    "user": UserMessage(content="hi", timestamp=1),
    "assistant": AssistantMessage(content=(TextContent(text="hi"),)),
    "toolResult": ToolResultMessage(tool_call_id="c"),
    "bashExecution": BashExecutionMessage(command="ls", output=""),
    "custom": CustomMessage(custom_type="t", content="c", display=True),
    "branchSummary": BranchSummaryMessage(summary="s", from_id="a"),
    "compactionSummary": CompactionSummaryMessage(summary="s", tokens_before=1),
    "system": SystemMessage(),
}

# What each message always says, also when the value is what it usually is: readers of the seeds rely on it.
ALWAYS = {
    "assistant": {"content", "api", "provider", "model", "usage", "stopReason", "timestamp"},
    "toolResult": {"toolCallId", "toolName", "content", "isError", "timestamp"},
    "bashExecution": {"command", "output", "cancelled", "truncated"},
    "custom": {"customType", "content", "display"},
}


@pytest.mark.parametrize("role", ALWAYS)
def test_members_that_the_seeds_require_are_always_written(role: str) -> None:
    assert set(msgspec.json.decode(encode(EXAMPLES[role]))) >= ALWAYS[role]


# --- J13 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (b"", {}),
        (b',"arguments":null', {}),
        (b',"arguments":""', {}),
        (b',"arguments":"{\\"x\\":1}"', {}),
        (b',"arguments":[1]', {}),
        (b',"arguments":7', {}),
        (b',"arguments":{"x":1}', {"x": 1}),
    ],
)
def test_whatever_was_stored_as_arguments_is_read(stored: bytes, read: dict[str, Any]) -> None:
    raw = b'{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n"%s}]}' % stored
    message = decode_message(raw)

    assert isinstance(message, AssistantMessage)
    assert [call.checked_arguments for call in message.calls] == [read]


def test_arguments_are_written_also_when_there_are_none() -> None:
    assert msgspec.json.decode(encode(ToolCall(id="c", name="n"))) == {
        "type": "toolCall",
        "id": "c",
        "name": "n",
        "arguments": {},
    }


# --- what others wrote -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_every_message_of_real_session_files_is_read(path: Path) -> None:
    lines = [line for line in path.read_bytes().split(b"\n")[1:] if line]
    bodies = [read_record(line).body() for line in lines]

    assert all(decode_message(body.message) for body in bodies if isinstance(body, MessageEntry))


@given(st.sampled_from(list(EXAMPLES.values())), texts, json_values)
def test_members_that_we_do_not_know_do_not_disturb(message: Message, name: str, value: object) -> None:
    wire = msgspec.json.decode(encode(message))

    assert decode_message(msgspec.json.encode({f"x-{name}": value} | wire)) == message


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'{"role":"oracle","content":"x"}',
        b'{"content":"x"}',
        b'{"role":"user"}',
        b'{"role":"user","content":7}',
        b'{"role":"user","content":"\xff"}',
        b'{"role":"user","content":"x"',
        b"[" * 100_000,
    ],
)
def test_what_is_no_message_says_so(raw: bytes) -> None:
    with pytest.raises(BadRecord) as caught:
        decode_message(raw)
    assert len(str(caught.value)) < 600


def test_the_text_of_a_message() -> None:
    both = (TextContent(text="a"), ImageContent(data="", mime_type="image/png"), TextContent(text="b"))
    answer = AssistantMessage(content=(ThinkingContent(thinking="hm"), *both, ToolCall(id="c", name="n")))

    assert text_of("plain") == "plain"
    assert text_of(both) == "a\nb"
    assert answer.text == "ab"
    assert [call.id for call in answer.calls] == ["c"]
    assert text_of(user_text("hi", 5).content) == "hi"
