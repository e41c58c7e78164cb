"""Out of a journal that ends anywhere: nothing undelivered is lost, nothing delivered comes again, and the run comes to its end."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.effects import AppendEntry, Effect, SettleRun
from actors.protocol.mail import Emptied
from actors.protocol.restore import delivered, restore
from actors.protocol.rules.calling import CUT_AT_LIMIT
from actors.protocol.state import Phase, Queued, TurnState
from actors.protocol.trial import CONTINUATION_MARK, GATE_MARK, Trial
from store.context import INTERRUPTED, build_context, dangling_calls, for_model
from store.entries import (
    ChildSettledEntry,
    ChildSpawnedEntry,
    CustomMessageEntry,
    Header,
    Known,
    MailEntry,
    MessageEntry,
    RunSettledEntry,
)
from store.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
    user_text,
)
from store.records import Draft
from store.repair import Node, is_run_open, repair_plan, runs, with_fixes
from store.tree import EntryTree
from tests.actors.protocol.play import Child, World, answer, raw, result

seeds = st.integers(0, 2**32)


def journal(*bodies: Known | Message) -> EntryTree:
    tree = EntryTree()
    for body in bodies:
        written = body if isinstance(body, Known) else MessageEntry(message=raw(body))
        tree.add(Draft.of(written).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z"))
    return tree


def restored(tree: EntryTree, *live: str, **more: object) -> tuple[TurnState, list[Effect]]:
    return restore("session-1", tree, live, 5_000, is_root=True, **more)  # type: ignore[arg-type]


def written(effects: Iterable[Effect]) -> list[Message]:
    return [
        decode_message(effect.body.message)
        for effect in effects
        if isinstance(effect, AppendEntry) and isinstance(effect.body, MessageEntry)
    ]


def spawned(name: str) -> ChildSpawnedEntry:
    return ChildSpawnedEntry(child_session_id=f"id-{name}", name=name, child_depth=1, prompt="p", model="m", limits={})


def child_end(name: str, run: int = 1) -> ChildSettledEntry:
    return ChildSettledEntry(child_session_id=f"id-{name}", run=run, outcome="completed", text="text")


def mail(name: str, mode: str = "steer") -> MailEntry:
    return MailEntry(message_id=name, sender="user", mode=mode, content=name)


def told(*names: str) -> CustomMessageEntry:
    return CustomMessageEntry(custom_type="x", content="x", display=True, details={"delivers": list(names)})


ASKED = user_text("do it", 1)
DONE = RunSettledEntry(run=1, outcome="completed")

# --- tables -----------------------------------------------------------------------------------------------------------

PLACES: dict[str, tuple[list[Known | Message], str, int, bool, str | None]] = {
    "an empty journal": ([], "idle", 0, False, None),
    "a run that has ended": ([ASKED, answer("done"), DONE], "idle", 1, False, None),
    "a prompt": ([ASKED], "ready", 1, True, None),
    "an answer": ([ASKED, answer("done")], "ready", 1, False, "completed"),
    "an answer without text": ([ASKED, answer("")], "ready", 1, False, "completed"),
    "an answer that was cut before any text": ([ASKED, answer("", (), "length")], "ready", 1, False, "failed"),
    "a failed answer": ([ASKED, answer("half", (), "error")], "ready", 1, True, None),
    "a call without a result": ([ASKED, answer("", ["c"])], "ready", 1, True, None),
    "a call with its result": ([ASKED, answer("", ["c"]), result("c")], "ready", 1, True, None),
    "an aborted answer": ([ASKED, answer("half", (), "aborted")], "ready", 1, False, "aborted"),
    "an aborted answer with results": (
        [ASKED, answer("half", ["c"], "aborted"), result("c")],
        "ready",
        1,
        False,
        "aborted",
    ),
    "an aborted answer without its result": ([ASKED, answer("half", ["c"], "aborted")], "ready", 1, False, "aborted"),
    "an aborted answer in the run before": (
        [ASKED, answer("half", (), "aborted"), RunSettledEntry(run=1, outcome="aborted"), ASKED],
        "ready",
        2,
        True,
        None,
    ),
    "a second run": ([ASKED, answer("done"), DONE, ASKED], "ready", 2, True, None),
    "notices behind a run": ([ASKED, answer("done"), DONE, spawned("a"), child_end("a")], "idle", 1, False, None),
    "mail that no run has read": ([ASKED, answer("done"), DONE, mail("m1")], "idle", 1, False, None),
}


@pytest.mark.parametrize("place", PLACES)
def test_where_a_session_stands_is_read_from_the_last_that_was_said(place: str) -> None:
    bodies, phase, run, needs_call, outcome = PLACES[place]

    state, _ = restored(journal(*bodies))

    assert (state.phase, state.run, state.needs_call) == (phase, run, needs_call)
    assert (state.ending.outcome if state.ending else None) == outcome
    assert state.is_aborted is (outcome == "aborted")
    assert state.is_loop_open is (place in {"a call without a result", "an aborted answer without its result"})
    assert not state.is_turn_open
    assert state.number == 5_000


def test_a_run_that_ended_at_the_token_limit_says_why() -> None:
    state, _ = restored(journal(ASKED, answer("", (), "length")))

    assert state.ending is not None
    assert state.ending.error_message == CUT_AT_LIMIT


def test_of_two_calls_the_unanswered_one_gets_one_error_result_that_says_interrupted() -> None:
    """J14."""
    tree = journal(ASKED, answer("", ["c1", "c2"]), result("c1", "fine"))

    state, effects = restored(tree)

    (repaired,) = written(effects)
    assert isinstance(repaired, ToolResultMessage)
    assert (repaired.tool_call_id, repaired.is_error) == ("c2", True)
    assert repaired.content == (TextContent(text=INTERRUPTED),)
    assert state.needs_call
    again = journal(ASKED, answer("", ["c1", "c2"]), result("c1", "fine"), repaired)
    assert [type(effect).__name__ for effect in effects] == ["StartLoop", "StartTurn", "AppendEntry", "EndTurn"]
    assert restored(again) == (state.with_(is_loop_open=False), [])
    sent = for_model(build_context(again.path()).messages)
    assert [type(message).__name__ for message in sent][-3:] == [
        "AssistantMessage",
        "ToolResultMessage",
        "ToolResultMessage",
    ]


def test_calls_of_an_answer_that_failed_get_no_result_as_they_are_in_no_context() -> None:
    state, effects = restored(journal(ASKED, answer("", ["c1"], "error")))

    assert effects == []
    assert state.needs_call


def test_undelivered_mail_and_notices_wait_again_in_their_order_and_delivered_ones_do_not() -> None:
    tree = journal(
        ASKED,
        answer("", ["c"]),
        spawned("a"),
        spawned("b"),
        result("c"),
        mail("m1", "follow_up"),
        mail("m2"),
        child_end("a"),
        mail("m3", "prompt"),
        child_end("b"),
        told("m2", "id-a/1"),
        answer("more", ["d"]),
        ToolResultMessage(tool_call_id="d", tool_name="wait_agents", details={"delivers": ["id-b/1"]}),
    )

    state, _ = restored(tree)

    assert [(queued.message_id, queued.mode, queued.is_recorded) for queued in state.queue] == [
        ("m1", "follow_up", True),
        ("m3", "prompt", True),
    ]
    assert state.notices == ()
    assert set(delivered(tree.records)) == {"m2", "id-a/1", "id-b/1"}


def test_a_user_message_that_names_what_it_delivers_delivers_it() -> None:
    said = UserMessage(content=(TextContent(text="m1"),), details={"delivers": ["m1"]})

    state, _ = restored(journal(ASKED, mail("m1"), said))

    assert state.queue == ()


@pytest.mark.parametrize("details", [None, {"delivers": "m1"}, {"delivers": [1, None]}, ["m1"], {"delivers": {}}])
def test_odd_details_deliver_nothing_and_break_nothing(details: object) -> None:
    odd = CustomMessageEntry(custom_type="x", content="x", display=True, details=details)

    state, _ = restored(journal(ASKED, mail("m1"), odd))

    assert [queued.message_id for queued in state.queue] == ["m1"]


def test_mail_of_an_unknown_mode_is_read_as_auto() -> None:
    state, _ = restored(journal(ASKED, mail("m1", "shout")))

    assert state.queue[0].mode == "auto"


def test_children_that_are_not_alive_are_not_waited_for() -> None:
    tree = journal(ASKED, answer("", ["c"]), spawned("a"), spawned("b"), result("c"))

    state, _ = restored(tree, "id-b")

    assert [(kin.name, kin.is_running) for kin in state.kin] == [("a", False), ("b", True)]


def test_notices_of_each_run_of_a_child_wait_for_themselves() -> None:
    state, _ = restored(
        journal(ASKED, spawned("a"), child_end("a"), told("id-a/1"), child_end("a", 2), child_end("a", 2))
    )

    assert [notice.id for notice in state.notices] == ["id-a/2"]


def test_what_was_heard_and_not_written_when_a_session_crashed_begins_its_run_again() -> None:
    queue = (Queued("m1", "prompt", "user", "m1", False), Queued("m2", "steer", "user", "m2", True))
    before = journal(ASKED, answer("done"), DONE, mail("m2"))

    for in_hand in (hand(queue, "idle", 1), hand(queue, "asking", 2)):
        state, _ = restored(before, in_hand=in_hand)

        assert [queued.message_id for queued in state.queue] == ["m2", "m1"]
        assert state.will_run


def hand(queue: tuple[Queued, ...], phase: Phase, run: int) -> TurnState:
    return TurnState("session-1", phase=phase, run=run, queue=queue, is_woken=True)


def test_what_began_a_run_that_is_in_the_journal_does_not_begin_it_twice() -> None:
    queue = (Queued("m1", "prompt", "user", "m1", False),)
    open_run = [user_text("m1", 1)]
    ended = [*open_run, RunSettledEntry(run=1, outcome="aborted")]

    for bodies in (open_run, ended):
        for in_hand in (hand(queue, "idle", 0), hand(queue, "asking", 1)):
            state, _ = restored(journal(*bodies), in_hand=in_hand)

            assert state.queue == ()


def test_an_end_that_was_written_and_not_told_is_told() -> None:
    tree = journal(ASKED, answer("half", (), "aborted"), RunSettledEntry(run=1, outcome="aborted", error_message="why"))

    assert restored(tree, told_run=0)[1] == [SettleRun(1, "aborted", True, None, "why")]
    assert restored(tree, told_run=1)[1] == []
    assert restored(tree)[1] == []


def test_model_calls_are_counted_on_over_a_restart() -> None:
    state, _ = restored(journal(ASKED, answer("half", (), "error"), answer("", ["c"]), result("c")))

    assert state.call == 2


# --- properties -------------------------------------------------------------------------------------------------------


def life(seed: int, steps: int) -> World:
    world = World.of()
    world.wander(Random(seed), steps)
    return world


def goes_on(tree: EntryTree, random: Random) -> World:
    """A new life out of this journal: its children are lost, whatever they were about. Played to its end."""
    state, effects = restored(tree)
    world = World(state, journal=tree, highest=5_000)
    world.delivered = sorted(delivered(tree.records))
    ended = runs(tree.records)
    world.settled = [run.run for run in ended]
    world.written_runs = [run.run for run in ended]
    world.unanswered = [call.id for call, _ in dangling_calls(tree.path())] if is_run_open(tree.records) else []
    world.children = {kin.session_id: Child(kin.name, 9, False) for kin in state.kin}
    for effect in effects:
        world._carry_out(effect)
    world.finish(random)
    return world


@given(seeds, st.integers(0, 80), st.integers(0, 400))
@settings(max_examples=300, deadline=None)
def test_a_crash_behind_any_entry_is_gone_on_from_and_comes_to_its_end(seed: int, steps: int, cut: int) -> None:
    records = life(seed, steps).journal.records
    records = records[: cut % (len(records) + 1)]
    is_open = is_run_open(records)
    before = len(runs(records))

    world = goes_on(EntryTree.of(list(records)), Random(seed))

    assert len(world.settled) >= before + is_open
    ends = [run.run for run in runs(world.journal.records)]
    assert ends == list(range(1, len(ends) + 1))
    assert dangling_calls(world.journal.path()) == []
    mail_ids = world.recorded()
    assert set(mail_ids) <= {*world.delivered, *world.queued()}
    assert not set(world.queued()) & set(world.delivered)


@given(seeds, st.integers(0, 80), st.integers(0, 400))
@settings(max_examples=200, deadline=None)
def test_to_restore_twice_is_to_restore_once(seed: int, steps: int, cut: int) -> None:
    records = life(seed, steps).journal.records
    tree = EntryTree.of(list(records[: cut % (len(records) + 1)]))
    state, effects = restored(tree)
    for effect in effects:
        if isinstance(effect, AppendEntry):
            tree.add(Draft.of(effect.body).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z"))

    again, nothing = restored(tree)

    assert nothing == []
    assert again == state.with_(is_loop_open=False)


@given(seeds, st.integers(0, 80))
@settings(max_examples=200, deadline=None)
def test_the_journal_of_a_session_at_rest_needs_nothing(seed: int, steps: int) -> None:
    world = life(seed, steps)
    world.finish(Random(seed))

    state, effects = restored(world.journal)

    assert effects == []
    assert state.phase == "idle"
    assert state.run == len(world.settled)
    assert {queued.message_id for queued in state.queue} == {queued.message_id for queued in world.state.queue}
    assert {notice.id for notice in state.notices} == {notice.id for notice in world.state.notices}


@given(seeds, st.integers(0, 80), st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_an_owner_that_repairs_instead_of_going_on_leaves_an_idle_session(seed: int, steps: int, cut: int) -> None:
    records = life(seed, steps).journal.records
    tree = EntryTree.of(list(records[: cut % (len(records) + 1)]))
    header = Header(version=3, id="session-1", timestamp="2026-01-01T00:00:00.000Z", cwd="/")
    nodes = {"session-1": Node(header, tree)}

    fixed = with_fixes(nodes, repair_plan(nodes, "session-1"))
    state, effects = restored(fixed["session-1"].tree)

    assert (state.phase, effects) == ("idle", [])
    assert repair_plan(fixed, "session-1") == []


def test_an_answer_is_not_asked_for_again_when_it_is_there() -> None:
    said: AssistantMessage = answer("done")
    state, _ = restored(journal(ASKED, said))
    world = World(state, journal=journal(ASKED, said), highest=5_000)

    effects = world.hear(Emptied())

    assert [type(question).__name__ for question in world.questions.values()] == ["MaySettle"]
    assert [type(effect).__name__ for effect in effects] == ["Consult"]


def test_what_an_open_run_was_told_by_gates_is_counted_again_and_what_passed_is_not() -> None:
    def ours(kind: str) -> CustomMessageEntry:
        return CustomMessageEntry(custom_type=kind, content="x", display=True, details={"delivers": [f"{kind}/1"]})

    before: list[Known | Message] = [ASKED, answer("done"), ours(GATE_MARK), answer("again"), DONE]
    since: list[Known | Message] = [
        ASKED,
        answer("a"),
        ours(GATE_MARK),
        answer("b"),
        ours(CONTINUATION_MARK),
        ours(GATE_MARK),
    ]

    assert restored(journal(*before))[0].trial == Trial()
    assert restored(journal(*before, *since))[0].trial == Trial(passed=0, failures=2, continuations=1)


def test_a_call_of_another_answer_with_the_same_id_is_another_call() -> None:
    """Some servers count the calls of each answer from 1."""
    tree = journal(ASKED, answer("", ["call_1"]), result("call_1"), answer("", ["call_1"]))

    (repaired,) = written(restored(tree)[1])

    assert isinstance(repaired, ToolResultMessage)
    assert [call.id for call, _ in dangling_calls(tree.path())] == ["call_1"]
    assert ToolCall(id="call_1", name="tool") in said_calls(tree)


def said_calls(tree: EntryTree) -> list[ToolCall]:
    messages = build_context(tree.path()).messages
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
