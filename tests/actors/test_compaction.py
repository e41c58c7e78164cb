"""Compaction: at the threshold, after an overflow, on demand; and every way that it must not go wrong."""

from typing import Any

import msgspec
import pytest
import trio

from actors.protocol.compaction import CompactionPolicy
from actors.protocol.mail import Abort, CompactNow
from actors.protocol.model import ModelFailure, ModelRequest
from actors.protocol.retry import RetryPolicy
from actors.protocol.tools import ToolContext, ToolResult, text_result
from actors.testing import ROOT, Bench, FunctionModel, FunctionTool, bench
from orchestrator.views.live import LiveTree
from store.attribution import account
from store.lines import read_line
from store.messages import AssistantMessage, ToolResultMessage
from store.stream import check_stream
from store.usage import Usage

SMALL = CompactionPolicy(reserve_tokens=500, keep_recent_tokens=300)
NO_RETRY = RetryPolicy(max_retries=0)


def is_summary(request: ModelRequest) -> bool:
    return request.system.startswith("You write the memory")


def grown(request: ModelRequest) -> Usage:
    """What a provider would report: four characters a token."""
    chars = sum(len(msgspec.json.encode(message)) for message in request.messages)
    return Usage(input=chars // 4, output=20)


class Sized(FunctionModel):
    """Reports the size of what it is sent."""

    async def call(self, request: ModelRequest, hear: Any) -> Any:
        self.usage = grown(request)
        return await super().call(request, hear)


async def long_text(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return text_result("word " * 200)


def working(rounds: int, summary: Any = "what happened") -> Sized:
    """Calls a tool with a long result so many times, then says it is done."""

    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return summary() if callable(summary) else summary
        return [("look", {"path": f"file-{request.call}"})] if request.call <= rounds else "done"

    return Sized(answer)


def tree(model: Sized, window: int = 2000, **options: Any) -> Bench:
    tools = {"look": FunctionTool("look", long_text)}
    return bench(model, tools, retry=NO_RETRY, window=window, compaction=SMALL, **options)


def kinds(tested: Bench) -> list[str]:
    return [event["type"] for event in tested.events()]


def ends(tested: Bench) -> list[dict[str, Any]]:
    return [event for event in tested.events() if event["type"] == "compaction_end"]


async def test_a_context_that_fills_up_within_a_run_is_summarised_and_the_task_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = working(12)
    tested = tree(model)

    await tested.run()

    assert tested.root.outcome == "completed"
    assert len(ends(tested)) >= 2
    assert all(end["reason"] == "threshold" and not end["aborted"] and end["result"] for end in ends(tested))
    sizes = [grown(request).input for request in model.requests if not is_summary(request)]
    assert max(sizes) <= 2000
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_no_request_parts_a_call_from_its_result_and_the_earlier_summary_is_carried_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = working(12)
    tested = tree(model)

    await tested.run()

    for request in model.requests:
        open_calls: list[str] = []
        for message in request.messages:
            if isinstance(message, AssistantMessage):
                assert not open_calls
                open_calls = [call.id for call in message.calls]
            elif isinstance(message, ToolResultMessage):
                assert open_calls.pop(0) == message.tool_call_id
            else:
                assert not open_calls
    asked = [request for request in model.requests if is_summary(request)]
    assert "The memory so far" not in str(asked[0].messages[0].content)
    assert "what happened" in str(asked[-1].messages[0].content)


async def test_what_summaries_cost_is_in_the_total_and_a_total_never_falls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """M2."""
    model = working(12)
    tested = tree(model)

    await tested.run()

    tokens = sum(grown(request).input + 20 for request in model.requests)
    assert tested.root.total.tokens == tokens
    records = tested.store.read(ROOT).records
    assert account(tested.store.headers[ROOT], records).own.tokens == tokens


@pytest.mark.parametrize("bad", ["", "   \n", ModelFailure("server", "down")], ids=["empty", "blank", "failed"])
async def test_a_summary_that_is_none_leaves_the_history_as_it_was_and_says_so(
    bad: Any, autojump_clock: trio.testing.MockClock
) -> None:
    model = working(7, bad)
    tested = tree(model)

    await tested.run()

    assert "compaction" not in tested.store.types(ROOT)
    assert [end["errorMessage"] for end in ends(tested)]
    assert len(ends(tested)) == 1, "no second try within the same prompt"
    assert tested.root.outcome == "completed"
    assert not check_stream(tested.outlet.lines)


async def test_an_overflow_is_summarised_away_once_and_the_call_made_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failed = []

    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return "short"
        if request.call == 4 and not failed:
            failed.append(request)
            return ModelFailure("overflow", "maximum context length is 100 tokens")
        return [("look", {})] if request.call < 4 else "done"

    tested = tree(Sized(answer), window=0)

    await tested.run()

    assert tested.root.outcome == "completed"
    assert [(end["reason"], end["willRetry"]) for end in ends(tested)] == [("overflow", True)]
    assert not check_stream(tested.outlet.lines, exit_status=0)


async def test_an_overflow_that_stays_ends_the_run_with_its_error_and_without_a_loop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return "short"
        return [("look", {})] if request.call < 4 else ModelFailure("overflow", "maximum context length")

    tested = tree(Sized(answer), window=0)

    await tested.run()

    assert tested.root.outcome == "failed"
    assert len(ends(tested)) == 1
    assert not check_stream(tested.outlet.lines, exit_status=1)


async def test_instructions_that_alone_are_too_long_end_with_a_clear_error_after_two_summaries(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # From the third answer on the provider counts 5,000 tokens that no summary can take away.
    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return "short"
        return [("look", {})] if request.call <= 8 else "done"

    class Heavy(Sized):
        async def call(self, request: ModelRequest, hear: Any) -> Any:
            self.usage = Usage(input=5000, output=10) if request.call > 2 else grown(request)
            return await FunctionModel.call(self, request, hear)

    model = Heavy(answer)
    tested = tree(model)

    await tested.run()

    assert tested.root.outcome == "failed"
    assert len([end for end in ends(tested) if "result" in end]) == 2
    assert [event["limit"] for event in tested.events() if event["type"] == "limit_reached"] == ["context"]
    assert not check_stream(tested.outlet.lines)


async def test_summaries_that_help_are_no_loop_however_many_they_are(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # Each batch of results fills the context anew, and each summary makes room for the next.
    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return "what happened"
        calls = [("look", {"path": f"{number}"}) for number in range(2)]
        return calls if request.call <= 8 else "done"

    model = Sized(answer)
    tested = tree(model)

    await tested.run()

    assert tested.root.outcome == "completed"
    assert len([end for end in ends(tested) if "result" in end]) > 2


async def test_a_summary_request_that_is_too_large_all_the_same_is_cut_smaller_and_not_sent_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            size = len(msgspec.json.encode(request.messages))
            return ModelFailure(kind="overflow", message="too long") if size > 3500 else "what happened"
        return [("look", {"path": f"file-{request.call}"})] if request.call <= 16 else "done"

    model = Sized(answer)
    tested = tree(model, window=4000)

    await tested.run()

    asked = [msgspec.json.encode(request.messages[0].content) for request in model.requests if is_summary(request)]
    assert tested.root.outcome == "completed"
    assert len(set(asked)) == len(asked) > 1
    assert ends(tested)[0]["result"]["summary"].startswith("what happened")


async def test_an_abort_during_a_summary_leaves_the_history_and_settles_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def never() -> str:
        await trio.sleep_forever()
        return ""

    model = working(6, never)
    tested = tree(model)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.run)
        await trio.testing.wait_all_tasks_blocked()
        assert kinds(tested)[-1] == "compaction_start"
        tested.tree.tell(Abort("enough"))

    assert tested.root.outcome == "aborted"
    assert [end["aborted"] for end in ends(tested)] == [True]
    assert "compaction" not in tested.store.types(ROOT)
    assert not check_stream(tested.outlet.lines)


async def test_a_person_may_ask_for_a_summary_of_an_idle_session_and_nothing_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = working(5)
    tested = tree(model, window=100_000)
    await tested.run()

    await tested.tree.run(CompactNow("mind the names"))

    assert tested.store.types(ROOT).count("run_settled") == 1
    assert tested.store.types(ROOT).count("compaction") == 1
    assert [end["reason"] for end in ends(tested)] == ["manual"]
    assert "mind the names" in str(model.requests[-1].messages[0].content)


async def test_what_is_asked_for_in_a_run_is_done_before_the_next_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tested: Bench

    async def asks(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        tested.root.mailbox.put(CompactNow("mind the names"))
        return text_result("word " * 400)

    def answer(request: ModelRequest) -> Any:
        if is_summary(request):
            return "short"
        return [("look", {})] if request.call <= 3 else "done"

    model = Sized(answer)
    tools = {"look": FunctionTool("look", asks)}
    tested = bench(model, tools, retry=NO_RETRY, window=100_000, compaction=CompactionPolicy(keep_recent_tokens=100))

    await tested.run()

    assert tested.root.outcome == "completed"
    assert {end["reason"] for end in ends(tested)} == {"manual"}
    asked = [str(request.messages[0].content) for request in model.requests if is_summary(request)]
    assert asked
    assert all("mind the names" in prompt for prompt in asked)
    assert not check_stream(tested.outlet.lines, exit_status=0)


@pytest.mark.parametrize("summary", ["what happened", ""], ids=["good", "blank"])
async def test_the_stream_alone_tells_what_was_spent_also_on_summaries(
    summary: str, autojump_clock: trio.testing.MockClock
) -> None:
    tested = tree(working(8, summary))
    fold = LiveTree()
    tested.tree.supervisor.sink.watchers.append(fold.take)

    await tested.run()

    (row,) = fold.rows(0.0)
    assert row.total is not None
    assert row.total.total_tokens == tested.root.total.tokens
    replayed = LiveTree()
    for line in tested.outlet.lines:
        _, event = read_line(line)
        replayed.take(tested.root.place, event, 0.0)
    assert replayed.rows(0.0)[0].total == row.total


async def test_who_watches_is_told_that_a_summary_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    answers = [ModelFailure("overloaded", "busy"), *["what happened"] * 9]
    tools = {"look": FunctionTool("look", long_text)}
    tested = bench(working(6, lambda: answers.pop(0)), tools, retry=RetryPolicy(), window=2000, compaction=SMALL)

    await tested.run()

    (told,) = [event for event in tested.events() if event["type"] == "diagnostic"]
    assert (told["level"], told["code"]) == ("info", "retry")
    assert "busy" in told["text"]
    assert tested.root.outcome == "completed"
    assert not check_stream(tested.outlet.lines, exit_status=0)
