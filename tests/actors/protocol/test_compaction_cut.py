"""Where a context is cut: over random histories, never between a call and its result, never losing a message."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.compaction import CompactionPolicy, Cut, choose_cut, summary_windows
from store.context import build_context, for_model
from store.entries import CompactionEntry, ContextEditEntry, CustomMessageEntry, Known, MessageEntry, RunSettledEntry
from store.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from store.records import Draft, Record
from store.size import context_tokens
from store.tree import EntryTree
from store.wire import encode


def entry(message: Any) -> MessageEntry:
    return MessageEntry(message=msgspec.Raw(encode(message)))


def grown(bodies: list[Known]) -> EntryTree:
    tree = EntryTree()
    for body in bodies:
        add(tree, body)
    return tree


def add(tree: EntryTree, body: Known) -> Record:
    record = Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z")
    tree.add(record)
    return record


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Known]:
    """One turn: maybe something said, an answer with some calls, their results in any order, some of them missing."""
    said: list[Known] = []
    kind = draw(st.sampled_from(["user", "custom", "none"]))
    if kind == "user":
        said.append(entry(UserMessage(content=f"question {number} " + "q" * draw(st.integers(0, 900)))))
    elif kind == "custom":
        said.append(CustomMessageEntry(custom_type="note", content=f"note {number}", display=True))
    calls = [
        ToolCall(id=f"call_{place}", name="look", arguments={"path": f"f{number}"})
        for place in range(draw(st.integers(0, 3)))
    ]
    stop = draw(st.sampled_from(["toolUse" if calls else "stop", "aborted", "error"]))
    answer = AssistantMessage(content=(TextContent(text=f"answer {number}"), *calls), stop_reason=stop)
    said.append(entry(answer))
    # The calls of an answer that failed are never run.
    for call in draw(st.permutations(calls)) if stop != "error" else ():
        if draw(st.integers(0, 9)):
            text = f"result {number} {call.id} " + "r" * draw(st.integers(0, 1500))
            said.append(
                entry(ToolResultMessage(tool_call_id=call.id, tool_name="look", content=(TextContent(text=text),)))
            )
        if not draw(st.integers(0, 4)):  # other programs write what is said where it was said
            said.append(CustomMessageEntry(custom_type="note", content=f"meanwhile {number} {call.id}", display=True))
    if draw(st.booleans()):
        said.append(RunSettledEntry(run=number, outcome="completed"))
    return said


histories = (
    st.integers(1, 12)
    .flatmap(lambda count: st.tuples(*(turns(number) for number in range(count))))
    .map(lambda parts: [body for part in parts for body in part])
)


def sent(tree: EntryTree) -> list[Any]:
    return list(for_model(build_context(tree.path()).messages))


def check_pairs(messages: list[Any]) -> None:
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert open_calls, "a result without its call"
            assert open_calls.pop(0) == message.tool_call_id
            continue
        assert not open_calls, "a call without its result"
        if isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]
    assert not open_calls


def compacted(tree: EntryTree, cut: Cut, summary: str) -> None:
    add(
        tree,
        CompactionEntry(summary=summary, first_kept_entry_id=cut.first_kept_entry_id, tokens_before=cut.tokens_before),
    )


@given(histories, st.integers(0, 1500))
def test_a_cut_parts_no_call_from_its_result_and_loses_no_message(bodies: list[Known], keep: int) -> None:
    tree = grown(bodies)
    before = sent(tree)
    cut = choose_cut(tree.path(), keep, context_tokens(tree.path()) or 0)
    if cut is None:
        return

    compacted(tree, cut, "the past")

    after = sent(tree)
    check_pairs(list(cut.summarised))
    check_pairs(after)
    assert isinstance(build_context(tree.path()).messages[0], CompactionSummaryMessage)
    assert [*cut.summarised, *after[1:]] == before


@given(histories, st.lists(st.tuples(histories, st.integers(0, 800)), min_size=1, max_size=4))
def test_every_further_cut_carries_the_earlier_summary_on_and_goes_forward(
    bodies: list[Known], rounds: list[tuple[list[Known], int]]
) -> None:
    tree = grown(bodies)
    summary: str | None = None
    summarised = 0
    for number, (more, keep) in enumerate(rounds):
        for body in more:
            add(tree, body)
        cut = choose_cut(tree.path(), keep, context_tokens(tree.path()) or 0)
        if cut is None:
            continue
        assert cut.previous_summary == summary
        assert cut.summarised, "a cut that summarises nothing would never end"
        summarised += len(cut.summarised)
        summary = f"summary {number}"
        compacted(tree, cut, summary)
        check_pairs(sent(tree))
    whole = grown(bodies + [body for more, _ in rounds for body in more])
    rest = sent(tree)
    assert summarised + len(rest) - (summary is not None) == len(sent(whole))


def test_what_was_taken_out_of_the_context_is_not_told_to_the_summariser() -> None:
    tree = grown(
        [entry(UserMessage(content="the secret")), entry(AssistantMessage(content=(TextContent(text="yes"),)))]
    )
    secret = tree.path()[0]
    add(tree, entry(UserMessage(content="more " * 100)))
    add(tree, ContextEditEntry(target_id=secret.id, replacement=None))

    cut = choose_cut(tree.path(), 10, 1000)

    assert cut is not None
    assert [type(message) for message in cut.summarised] == [AssistantMessage]


@given(histories)
def test_with_nothing_new_behind_the_first_message_there_is_no_cut(bodies: list[Known]) -> None:
    tree = grown([entry(UserMessage(content="only this"))])
    assert choose_cut(tree.path(), 0, 10) is None


@given(histories, st.integers(0, 500), st.integers(600, 20_000))
def test_what_the_summariser_is_sent_fits_into_its_window_and_holds_every_word_said(
    bodies: list[Known], keep: int, window: int
) -> None:
    tree = grown(bodies)
    cut = choose_cut(tree.path(), keep, 1000)
    if cut is None:
        return
    policy = CompactionPolicy()
    pieces = summary_windows(cut, window, policy.reserve(window))
    assert pieces
    assert all(len(piece) <= max(2_000, (window - 2 * policy.reserve(window)) * 2) + 1 for piece in pieces)
    joined = "".join(pieces)
    for message in cut.summarised:
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            assert message.content[:11] in joined


@given(st.integers(0, 2_000_000), st.integers(1, 1_000_000))
def test_what_is_kept_and_reserved_leaves_room_for_what_comes(tokens: int, window: int) -> None:
    policy = CompactionPolicy()
    assert policy.keep(window) + policy.reserve(window) <= window
    assert policy.is_full(tokens, window) == (tokens > window - policy.reserve(window))
    assert not policy.is_full(tokens, 0)
