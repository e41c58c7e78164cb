import textwrap
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import (
    BlockEnded,
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
from orchestrator.providers.scripted import BadScript, Reply, Script, ScriptedModel, child_answer, filled
from store.messages import TextContent, ToolResultMessage, UserMessage, user_text
from store.usage import Price, Usage


def request(*messages: Any, **members: Any) -> ModelRequest:
    named: dict[str, Any] = {"session_id": "s-1", "session_name": "root", "depth": 0, "call": 1} | members
    shown = tuple(user_text(message, 0) if isinstance(message, str) else message for message in messages)
    return ModelRequest(model=ModelInfo("scripted", "x"), messages=shown, **named)


def result(tool: str, text: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id="c", tool_name=tool, content=(TextContent(text=text),))


def model(text: str) -> ScriptedModel:
    return ScriptedModel(Script.parse(textwrap.dedent(text), "demo.toml"))


async def play(scripted: ScriptedModel, asked: ModelRequest) -> tuple[list[Chunk], ReplyEnd | ModelFailure]:
    heard: list[Chunk] = []

    async def hear(chunk: Chunk) -> None:
        heard.append(chunk)

    return heard, await scripted.call(asked, hear)


async def text_played(scripted: ScriptedModel, asked: ModelRequest) -> str:
    heard, end = await play(scripted, asked)
    assert isinstance(end, ReplyEnd), end
    return "".join(chunk.text for chunk in heard if isinstance(chunk, TextChunk))


CONDITIONS = """
    [[reply]]
    session = "scout-*"
    text = "by session"
    [[reply]]
    depth = 2
    text = "by depth"
    [[reply]]
    call = 3
    text = "by call"
    [[reply]]
    last = "^please"
    text = "by last"
    [[reply]]
    session = "both"
    call = 9
    text = "by both"
    [[reply]]
    text = "else"
"""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("hi", session_name="scout-1"), "by session"),
        (request("hi", session_name="Scout-1"), "else"),
        (request("hi", depth=2), "by depth"),
        (request("hi", call=3), "by call"),
        (request("please go"), "by last"),
        (request("yes, please"), "else"),
        (request("hi", result("bash", "please")), "by last"),
        (request("hi", session_name="both", call=9), "by both"),
        (request("hi", session_name="both"), "else"),
        (request(), "else"),
    ],
)
async def test_the_first_reply_whose_conditions_all_hold_is_played(asked: ModelRequest, expected: str) -> None:
    assert await text_played(model(CONDITIONS), asked) == expected


async def test_times_are_counted_for_each_session_alone() -> None:
    scripted = model(
        """
        [[reply]]
        times = 2
        text = "rare"
        [[reply]]
        text = "common"
        """
    )
    heard = [
        await text_played(scripted, request("hi", session_id=session)) for session in ("a", "a", "b", "a", "b", "b")
    ]

    assert heard == ["rare", "rare", "rare", "common", "rare", "common"]


async def test_no_match_is_a_failure_that_names_the_session_and_the_last_message() -> None:
    heard, end = await play(model("[[reply]]\ndepth = 5"), request("what now?", session_name="scout"))

    assert heard == []
    assert isinstance(end, ModelFailure)
    assert end.kind == "invalid_request"
    assert "scout" in end.message
    assert "what now?" in end.message


async def test_a_reply_is_thinking_then_text_then_calls_then_usage() -> None:
    scripted = model(
        """
        [[reply]]
        thinking = "hm"
        text = "I look."
        chunk = 100
        usage = { input = 10, output = 3, cache_read = 2, cache_write = 1 }
        [[reply.tool]]
        name = "bash"
        arguments = { command = "echo {{last}}", nested = { list = ["{{last}}", 1, true] } }
        [[reply.tool]]
        name = "list_agents"
        """
    )
    heard, end = await play(scripted, request("q", call=7))

    assert heard == [
        ThinkingChunk(0, "hm"),
        BlockEnded(0),
        TextChunk(1, "I look."),
        BlockEnded(1),
        CallStarted(2, "call_7_1", "bash"),
        CallArguments(2, '{"command":"echo q","nested":{"list":["q",1,true]}}'),
        BlockEnded(2),
        CallStarted(3, "call_7_2", "list_agents"),
        CallArguments(3, "{}"),
        BlockEnded(3),
        UsageReported(Usage(input=10, output=3, cache_read=2, cache_write=1, total_tokens=16)),
    ]
    assert end == ReplyEnd("toolUse")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "stop"),
        ('stop = "length"', "length"),
        ('tool = [{name = "a"}]', "toolUse"),
        ('stop = "toolUse"', "toolUse"),
    ],
)
async def test_the_stop_reason_is_what_is_said_or_follows_from_the_calls(lines: str, expected: str) -> None:
    _, end = await play(model(f"[[reply]]\n{lines}"), request("hi"))

    assert end == ReplyEnd(expected)  # type: ignore[arg-type]


async def test_arguments_that_are_no_json_are_sent_as_they_stand() -> None:
    heard, _ = await play(model("[[reply]]\ntool = [{name = 'a', arguments = '{\"x\": '}]"), request("hi"))

    assert heard[1] == CallArguments(0, '{"x": ')


@pytest.mark.parametrize(("after_chunks", "expected"), [(0, ""), (1, "ab"), (2, "abcd"), (9, "abcde")])
async def test_a_failure_comes_after_so_many_pieces_and_behind_the_usage(after_chunks: int, expected: str) -> None:
    scripted = model(
        f"""
        [[reply]]
        text = "abcde"
        chunk = 2
        usage = {{ input = 4 }}
        fail = {{ kind = "overloaded", message = "Busy", retry_after_s = 1.5, after_chunks = {after_chunks} }}
        """
    )
    heard, end = await play(scripted, request("hi"))

    assert "".join(chunk.text for chunk in heard if isinstance(chunk, TextChunk)) == expected
    assert heard[-1] == UsageReported(Usage(input=4, total_tokens=4))
    assert end == ModelFailure("overloaded", "Busy", retry_after_s=1.5)


async def test_the_delay_comes_before_the_reply(autojump_clock: trio.abc.Clock) -> None:
    started = trio.current_time()
    heard, _ = await play(model('[[reply]]\ntext = "late"\ndelay_s = 5'), request("hi"))

    assert trio.current_time() - started == 5
    assert heard


async def test_a_reply_can_be_cancelled_between_pieces_though_nobody_waits() -> None:
    heard: list[Chunk] = []
    with trio.CancelScope() as scope:

        async def hear(chunk: Chunk) -> None:
            heard.append(chunk)
            if len(heard) == 3:
                scope.cancel()

        await model('[[reply]]\ntext = "abcdef"\nchunk = 1').call(request("hi"), hear)

    assert scope.cancelled_caught
    assert len(heard) == 3


# --- placeholders -----------------------------------------------------------------------------------------------------

NOTICE = "Two children ended.\n## ann: completed\nFirst line\n\n## Findings\nSecond\n## bob: failed\nno key\n"


@pytest.mark.parametrize(
    ("template", "messages", "expected"),
    [
        ("<{{last}}>", ("one", "two"), "<two>"),
        ("<{{ last }}>", ("one",), "<one>"),
        ("{{last}}", (), ""),
        ("{{last}}", ("a {{tool.bash}}", result("bash", "{{last}}")), "{{last}}"),
        ("{{tool.bash}}", (result("bash", "1"), result("bash", "2"), result("read", "3")), "2"),
        ("{{tool.none}}", (result("bash", "1"),), ""),
        ("{{child.ann}}", (NOTICE,), "First line\n\n## Findings\nSecond"),
        ("{{child.bob}}", (NOTICE, "go on"), "no key"),
        ("{{child.bo}}", (NOTICE,), ""),
        ("{{child.a.b*}}", (result("wait_agents", "## a.b*: completed\nyes"),), "yes"),
        ("{{child.ann}}", (NOTICE, result("spawn_agent", "## ann: completed\nnewer")), "newer"),
        ("{{child.ann}}", (NOTICE, result("bash", "## ann: completed\nforged")), "First line\n\n## Findings\nSecond"),
        ("{{child.ann}}", (result("wait_agents", "## ann: completed"),), ""),
        ("{{child.ann}}", (result("wait_agents", "## ann: completed\n1\n## ann: completed\n2"),), "2"),
        ("{{lost}} {last} {{}}", ("x",), "{{lost}} {last} {{}}"),
    ],
)
def test_placeholders_insert_what_the_messages_hold(template: str, messages: tuple[Any, ...], expected: str) -> None:
    assert filled(template, request(*messages).messages) == expected


def test_text_of_a_user_message_may_be_a_plain_string() -> None:
    assert filled("{{last}}", (UserMessage(content="plain"),)) == "plain"
    assert child_answer("a", (UserMessage(content="## a: completed\nplain"),)) == "plain"


@given(
    text=st.text(st.characters(exclude_characters="{}", codec="utf-8"), max_size=200),
    size=st.integers(1, 50),
)
def test_the_pieces_joined_are_the_text_at_any_size(text: str, size: int) -> None:
    scripted = ScriptedModel(Script("x", (Reply(text=text, thinking=text, chunk=size),)))

    heard, end = trio.run(play, scripted, request("hi"))

    for kind in (TextChunk, ThinkingChunk):
        pieces = [chunk.text for chunk in heard if isinstance(chunk, kind)]
        assert "".join(pieces) == text
        assert all(0 < len(piece) <= size for piece in pieces)
    assert end == ReplyEnd("stop")


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[reply]]\ntxet = 'a'", "txet"),
        ("[[reply]]\n[[reply.tool]]\nname = 'a'\nargument = {}", "argument"),
        ("[[reply]]\nusage = { inputs = 1 }", "inputs"),
        ("[[reply]]\nusage = { input = -1 }", "usage"),
        ("[[reply]]\nfail = { kind = 'tired' }", "tired"),
        ("[[reply]]\nfail = { kind = 'server', retry_after_s = inf }", "retry_after_s"),
        ("[[reply]]\nlast = '('", "last"),
        ("[[reply]]\nchunk = 0", "chunk"),
        ("[[reply]]\ntimes = 0", "times"),
        ("[[reply]]\ndelay_s = nan", "delay_s"),
        ("[[reply]]\nstop = 'never'", "stop"),
        ("[[reply]]\n[cost]\nprompt = 1", "prompt"),
        ("[[reply]]\n[cost]\ninput = -1", "price"),
        ("[[reply]]\n[prices]\ninput = 1", "prices"),
        ("reply = []", "at least one"),
        ("", "reply"),
        ("[[reply", "demo.toml"),
    ],
)
def test_a_bad_script_is_refused_by_name_and_place(text: str, named: str) -> None:
    with pytest.raises(BadScript) as caught:
        Script.parse(text, "demo.toml")

    assert named in str(caught.value)
    assert "demo.toml" in str(caught.value)


def test_the_price_is_in_dollars_per_million_tokens_and_unknown_without_cost() -> None:
    priced = Script.parse("[[reply]]\n[cost]\ninput = 1\noutput = 10.0\ncache_read = 0.1\ncache_write = 1.25", "a")

    assert priced.price == Price(1_000_000, 10_000_000, 100_000, 1_250_000)
    assert priced.info == ModelInfo("scripted", "a", price=priced.price)
    assert Script.parse("[[reply]]", "a").price is None
