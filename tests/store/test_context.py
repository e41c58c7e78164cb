"""From entries to what a model sees: the seeds' rules, and never a call without its result or a result without its call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import entries
from store.context import (
    INTERRUPTED,
    build_context,
    dangling_calls,
    for_model,
    interrupted,
    last_assistant,
)
from store.entries import MessageEntry
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from store.records import Draft, Record, read_record
from store.tree import EntryTree
from store.wire import encode

DATA = Path(__file__).parents[1] / "data" / "sessions"


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def answer(text: str = "", *calls: str, stop: str | None = None) -> AssistantMessage:
    blocks: list[Any] = [TextContent(text=text)] if text else []
    blocks += [ToolCall(id=call, name="t") for call in calls]
    return AssistantMessage(content=tuple(blocks), stop_reason=stop or ("toolUse" if calls else "stop"), timestamp=17)


def result(call: str, text: str = "ok") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, tool_name="t", content=(TextContent(text=text),), timestamp=2)


def chain(*bodies: Any) -> list[Record]:
    """A path of these bodies (messages become entries), ids `00000001` and on."""
    tree = EntryTree()
    for body in bodies:
        if isinstance(body, Message):
            body = MessageEntry(message=msgspec.Raw(encode(body)))
        tree.add(Draft.of(body).record(tree.next_ids(1)[0], tree.records[-1].id if tree.records else None, ""))
    return tree.records


def texts(messages: Sequence[Message]) -> list[str]:
    """One short word per message."""
    shown = []
    for message in messages:
        match message:
            case CompactionSummaryMessage():
                shown.append(f"summary:{message.summary}")
            case AssistantMessage():
                shown.append(message.text + "".join(f"+{call.id}" for call in message.calls))
            case ToolResultMessage():
                shown.append(f"{message.tool_call_id}={text_of(message.content)}")
            case _:
                shown.append(text_of(getattr(message, "content", getattr(message, "summary", ""))))
    return shown


def compaction(first_kept: str, summary: str = "S") -> entries.CompactionEntry:
    return entries.CompactionEntry(summary=summary, first_kept_entry_id=first_kept, tokens_before=9)


# --- context building, as the seeds say ------------------------------------------------------------------------------


def test_the_messages_of_the_path_in_its_order_with_the_last_settings() -> None:
    context = build_context(
        chain(
            entries.ModelChangeEntry(provider="p", model_id="old"),
            user("a"),
            entries.ThinkingLevelChangeEntry(thinking_level="low"),
            answer("b"),
            entries.ModelChangeEntry(provider="p", model_id="new"),
            entries.ThinkingLevelChangeEntry(thinking_level="high"),
        )
    )

    assert texts(context.messages) == ["a", "b"]
    assert (context.model, context.thinking_level) == (("p", "new"), "high")


def test_without_entries_there_is_nothing() -> None:
    context = build_context([])
    assert (context.messages, context.model, context.thinking_level) == ((), None, None)


@pytest.mark.parametrize(
    ("first_kept", "shown"),
    [
        ("00000001", ["summary:S", "a", "b", "c", "d"]),
        ("00000002", ["summary:S", "b", "c", "d"]),
        ("00000003", ["summary:S", "c", "d"]),
        ("00000004", ["summary:S", "d"]),  # the compaction itself: pi writes this to keep nothing
        ("00000005", ["summary:S", "d"]),
        ("lost", ["summary:S", "d"]),
        ("", ["summary:S", "d"]),
    ],
)
def test_a_compaction_is_its_summary_then_what_was_kept_then_what_came_after(first_kept: str, shown: list[str]) -> None:
    path = chain(user("a"), answer("b"), user("c"), compaction(first_kept), answer("d"))

    assert texts(build_context(path).messages) == shown


def test_the_last_compaction_of_the_path_counts() -> None:
    path = chain(user("a"), compaction("00000001", "1"), user("b"), compaction("00000003", "2"), user("c"))

    assert texts(build_context(path).messages) == ["summary:2", "b", "c"]


def test_settings_from_before_a_compaction_still_hold() -> None:
    path = chain(entries.ModelChangeEntry(provider="p", model_id="m"), user("a"), compaction("lost"))

    assert build_context(path).model == ("p", "m")


def test_branch_summaries_and_custom_messages_become_messages() -> None:
    path = chain(
        entries.BranchSummaryEntry(from_id="00000009", summary="left"),
        entries.CustomMessageEntry(custom_type="t", content="told", display=False, details={"delivers": ["m"]}),
    )
    context = build_context(path)

    assert texts(context.messages) == ["left", "told"]
    assert isinstance(context.messages[1], CustomMessage)
    assert context.messages[1].details == {"delivers": ["m"]}


BOOKKEEPING: list[Any] = [
    entries.CustomEntry(custom_type="t", data={"role": "user", "content": "no"}),
    entries.LabelEntry(target_id="00000001", label="no"),
    entries.SessionInfoEntry(name="no"),
    entries.SessionStateEntry(state={"status": "active"}),
    entries.AgentStatusEntry(status={"summary": "no"}),
    entries.GitStateEntry(git={}),
    entries.ServiceTierChangeEntry(service_tier="flex"),
    entries.MailEntry(message_id="m", sender="x", mode="prompt", content="no"),
    entries.RunSettledEntry(run=1, outcome="completed"),
    entries.ChildSpawnedEntry(child_session_id="c", name="n", child_depth=1, prompt="no", model="m"),
    entries.ChildSettledEntry(child_session_id="c", run=1, outcome="completed", text="no"),
    entries.ChildUsageAttributedEntry(target_id=None, child_usage=AssistantMessage(content=()).usage),
    entries.UsageEntry(kind="k", provider="p", model="m", usage=AssistantMessage(content=()).usage),
]


@pytest.mark.parametrize("body", BOOKKEEPING, ids=lambda body: type(body).__name__)
def test_bookkeeping_never_enters_context(body: Any) -> None:
    assert texts(build_context(chain(user("a"), body, answer("b"))).messages) == ["a", "b"]


def test_an_unknown_entry_never_enters_context() -> None:
    path = [
        *chain(user("a")),
        read_record(b'{"type":"new","id":"x","parentId":"00000001","message":{"role":"user","content":"no"}}'),
        read_record(b'{"type":"message","id":"y","parentId":"x","message":{"role":"oracle","content":"no"}}'),
    ]
    assert texts(build_context(path).messages) == ["a"]


def test_a_failed_answer_stays_out_and_an_aborted_one_goes_in() -> None:
    path = chain(user("a"), answer("half", stop="error"), answer("cut", stop="aborted"), answer("end", stop="length"))

    assert texts(build_context(path).messages) == ["a", "cut", "end"]


def test_a_hidden_command_and_a_system_prompt_stay_out() -> None:
    shown = BashExecutionMessage(command="ls", output="x")
    hidden = BashExecutionMessage(command="pw", output="y", exclude_from_context=True)
    path = chain(SystemMessage(content="rules"), shown, hidden)

    assert build_context(path).messages == (shown,)


@pytest.mark.parametrize(
    ("replacement", "shown"),
    [
        (None, ["b"]),
        ({"content": "new"}, ["new", "b"]),
        ({"content": [{"type": "text", "text": "new"}]}, ["new", "b"]),
        ({"role": "user", "content": "whole", "timestamp": 5}, ["whole", "b"]),
    ],
)
def test_a_context_edit_takes_away_or_changes_its_target(replacement: Any, shown: list[str]) -> None:
    path = chain(user("a"), answer("b"), entries.ContextEditEntry(target_id="00000001", replacement=replacement))

    assert texts(build_context(path).messages) == shown


def test_a_context_edit_keeps_the_rest_of_an_answer_and_reaches_custom_messages() -> None:
    edit = entries.ContextEditEntry(target_id="00000001", replacement={"content": [{"type": "text", "text": "new"}]})
    other = entries.ContextEditEntry(target_id="00000002", replacement={"content": "new"})
    custom = entries.CustomMessageEntry(custom_type="t", content="old", display=True)
    changed, told = build_context(chain(answer("old"), custom, edit, other)).messages

    assert isinstance(changed, AssistantMessage)
    assert (changed.text, changed.timestamp, changed.stop_reason) == ("new", 17, "stop")
    assert isinstance(told, CustomMessage)
    assert (told.content, told.custom_type) == ("new", "t")


def test_the_last_edit_of_a_target_counts_and_an_edit_of_nothing_does_nothing() -> None:
    def edit(target: str, replacement: Any) -> entries.ContextEditEntry:
        return entries.ContextEditEntry(target_id=target, replacement=replacement)

    path = chain(user("a"), edit("00000001", {"content": "b"}), edit("00000001", {"content": "c"}), edit("lost", None))
    assert texts(build_context(path).messages) == ["c"]
    assert texts(
        build_context(chain(user("a"), edit("00000001", None), edit("00000001", {"content": "c"}))).messages
    ) == ["c"]


def test_a_session_that_pi_retried_shows_no_failed_answer() -> None:
    lines = (DATA / "pi.retry_500_exhausted_openai.session.jsonl").read_bytes().split(b"\n")[1:-1]
    path = EntryTree.of([read_record(line) for line in lines]).path()

    assert texts(build_context(path).messages) == ["[[500:99#c]] hello"]
    last = last_assistant(path)
    assert last is not None
    assert last.stop_reason == "error"


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_results_in_the_order_of_their_completion_are_sent_in_the_order_of_the_calls() -> None:
    sent = for_model([user("u"), answer("a", "x", "y", "z"), result("z", "3"), result("x", "1"), result("y", "2")])

    assert texts(sent) == ["u", "a+x+y+z", "x=1", "y=2", "z=3"]


def test_what_came_between_a_call_and_its_result_is_sent_after_the_results() -> None:
    sent = for_model([answer("a", "x", "y"), user("steer"), result("y", "2"), user("more"), result("x", "1")])

    assert texts(sent) == ["a+x+y", "x=1", "y=2", "steer", "more"]


def test_a_result_goes_to_the_call_of_the_answer_before_it_however_often_an_id_is_used() -> None:
    sent = for_model(
        [answer("a", "1"), result("1", "first"), answer("b", "1"), result("1", "second"), answer("c", "1")]
    )

    assert texts(sent) == ["a+1", "1=first", "b+1", "1=second", "c+1", f"1={INTERRUPTED}"]


def test_a_call_that_was_never_answered_gets_an_error_result_that_says_so() -> None:
    _, made = for_model([answer("", "x", stop="aborted")])

    assert isinstance(made, ToolResultMessage)
    assert made.is_error
    assert "unknown" in INTERRUPTED
    assert made == interrupted(ToolCall(id="x", name="t"), 17)


def test_an_answer_without_content_is_not_sent() -> None:
    assert texts(for_model([user("a"), answer("", stop="aborted"), user("b")])) == ["a", "b"]


def test_the_other_roles_are_sent_as_what_a_person_says() -> None:
    path = chain(
        user("a"),
        compaction("lost", "what was"),
        entries.BranchSummaryEntry(from_id="x", summary="the other way"),
        entries.CustomMessageEntry(custom_type="t", content="told", display=True),
        BashExecutionMessage(command="make", output="oops", exit_code=2),
    )
    sent = for_model(build_context(path).messages)

    assert {type(message) for message in sent} == {UserMessage}
    assert [want in text for want, text in zip(["what was", "the other way", "told", "make"], texts(sent), strict=True)]
    assert "oops" in texts(sent)[3]
    assert "2" in texts(sent)[3]


call_ids = st.sampled_from(["1", "2", "3"])
items: Any = st.one_of(
    st.builds(user, st.sampled_from("uv")),
    st.builds(
        lambda ids, stop: answer("a", *ids, stop=stop),
        st.lists(call_ids, max_size=3, unique=True),
        st.sampled_from([None, "toolUse", "stop", "aborted", "error", "length"]),
    ),
    st.builds(result, call_ids, st.text("0123456789", min_size=1, max_size=4)),
    st.builds(result, call_ids, st.text("0123456789", min_size=1, max_size=4)),
    st.just(entries.CustomMessageEntry(custom_type="t", content="c", display=True)),
    st.just(BashExecutionMessage(command="ls", output="")),
    st.builds(compaction, st.integers(0, 20).map(lambda number: f"{number:08x}")),
    st.builds(
        entries.ContextEditEntry,
        target_id=st.integers(0, 20).map(lambda number: f"{number:08x}"),
        replacement=st.sampled_from([None, {"content": "e"}, {"content": []}]),
    ),
)
conversations = st.lists(items, max_size=20)


def assert_calls_and_results_belong_together(sent: Sequence[Message]) -> None:
    owed: list[str] = []
    for message in sent:
        if isinstance(message, ToolResultMessage):
            assert owed, "a result without a call before it"
            assert message.tool_call_id == owed.pop(0)
        else:
            assert not owed, "a call without its result behind it"
            owed = [call.id for call in message.calls] if isinstance(message, AssistantMessage) else []
    assert not owed


@given(conversations)
def test_every_call_is_followed_by_its_result_and_no_result_stands_alone(bodies: list[Any]) -> None:
    assert_calls_and_results_belong_together(for_model(build_context(chain(*bodies)).messages))


@given(conversations, st.integers(0, 20), st.integers(0, 20))
def test_so_it_is_for_every_cut_of_a_conversation(bodies: list[Any], start: int, end: int) -> None:
    messages = build_context(chain(*bodies)).messages

    assert_calls_and_results_belong_together(for_model(messages[start:end]))


@given(conversations)
def test_what_was_recorded_is_sent_and_nothing_is_made_up_beside_it(bodies: list[Any]) -> None:
    messages = build_context(chain(*bodies)).messages
    sent = for_model(messages)
    owners: list[set[str]] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            owners.append({call.id for call in message.calls})
        elif isinstance(message, ToolResultMessage) and owners and message.tool_call_id in owners[-1]:
            assert message in sent
            owners[-1] -= {message.tool_call_id}
    made_up = sum(isinstance(message, ToolResultMessage) and message not in messages for message in sent)
    assert made_up == sum(len(left) for left in owners)


@given(st.lists(call_ids, min_size=1, max_size=3, unique=True), st.randoms())
def test_the_order_in_which_tools_end_does_not_show(ids: list[str], chance: Any) -> None:
    results = [result(call, f"of {call}") for call in ids]
    mixed = list(results)
    chance.shuffle(mixed)

    assert for_model([answer("a", *ids), *mixed]) == for_model([answer("a", *ids), *results])


# --- dangling calls --------------------------------------------------------------------------------------------------


def open_ids(path: Sequence[Record]) -> list[str]:
    return [call.id for call, _ in dangling_calls(path)]


@pytest.mark.parametrize(
    ("bodies", "left"),
    [
        ([answer("", "x", "y"), result("x")], ["y"]),
        ([answer("", "x", "y"), result("y")], ["x"]),
        ([answer("", "x", "y")], ["x", "y"]),
        ([answer("", "x"), result("x"), answer("", "x")], ["x"]),
        ([answer("", "x"), result("x"), result("x")], []),
        ([result("x"), answer("", "x")], ["x"]),
        ([answer("", "x", stop="error")], []),
        ([answer("", "x", stop="aborted")], ["x"]),
        ([answer("a"), user("b")], []),
        ([], []),
    ],
)
def test_calls_that_have_no_result_yet(bodies: list[Any], left: list[str]) -> None:
    assert open_ids(chain(*bodies)) == left


@given(conversations)
def test_an_error_result_for_each_dangling_call_leaves_none(bodies: list[Any]) -> None:
    added = [interrupted(call, timestamp) for call, timestamp in dangling_calls(chain(*bodies))]

    assert dangling_calls(chain(*bodies, *added)) == []
    assert_calls_and_results_belong_together(for_model(build_context(chain(*bodies, *added)).messages))


def test_the_last_answer_is_found_also_when_it_failed() -> None:
    found = last_assistant(chain(answer("a"), answer("b", stop="error"), user("c")))
    assert found is not None
    assert found.text == "b"
    assert last_assistant(chain(user("a"))) is None
