"""Rows out of stored trees: what each session is, whatever its owner and its journal have come to."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from store.entries import (
    AgentStatusEntry,
    CompactionEntry,
    CustomMessageEntry,
    ForkedFrom,
    Header,
    MailEntry,
    SessionInfoEntry,
    SessionStateEntry,
)
from store.messages import BashExecutionMessage, ToolCall
from store.repair import Node
from store.tree import EntryTree
from tests.stored import Forest, StoredSession, read, sample


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


def rows(forest: Forest, root: StoredSession, later_s: float = 0) -> dict[str, AgentRow]:
    """The tree's rows by name."""
    return {row.name or "": row for row in tree_rows(read(forest, root), forest.now + later_s)}


BASH = ToolCall(id="call-1", name="bash", arguments={"command": "pytest -q tests", "timeout_s": 5})


def test_a_settled_tree_in_the_order_of_spawning(forest: Forest) -> None:
    root = sample(forest)

    found = tree_rows(read(forest, root), forest.now)

    assert [(row.name, row.depth, row.state.word) for row in found] == [
        ("port-billing", 0, "completed"),
        ("invoices", 1, "completed"),
        ("tax-rounding", 2, "completed"),
        ("legacy-shim", 1, "failed"),
    ]
    top, invoices, tax, shim = found
    assert (top.descendants, top.working, top.issues) == (3, 0, 1)
    assert (invoices.parent_session_id, tax.parent_session_id) == (top.session_id, invoices.session_id)
    assert {row.root_session_id for row in found} == {top.session_id}
    assert shim.activity is not None
    assert (shim.activity.kind, shim.activity.label) == ("error", "invalid_request: tools.0 is not allowed")
    assert (top.message_count, top.turns, top.model, top.cwd) == (3, 2, "test/opus", "/work")
    assert top.path == str(root.path)
    assert top.host_pid is None


def test_a_row_has_the_members_that_programs_rely_on(forest: Forest) -> None:
    row = tree_rows(read(forest, sample(forest)), forest.now)[0]

    members = msgspec.json.decode(msgspec.json.encode(row))
    assert " ".join(members) == (
        "sessionId parentSessionId rootSessionId name depth status outcome model cwd created modified elapsedMs "
        "lastEventAt messageCount contextTokens contextWindow own total unpricedModels summary taskState activity retry "
        "queued turns working descendants issues hostPid path"
    )
    assert row.context_window is None


def test_an_open_run_is_running_while_its_owner_lives(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()

    row = rows(forest, root, later_s=30)["root"]

    assert (row.status, row.outcome) == ("running", None)
    assert row.elapsed_ms == 30_000
    assert row.activity is not None
    assert (row.activity.kind, row.activity.since) == ("thinking", row.last_event_at)
    assert row.host_pid is not None


def test_an_open_tool_is_named_with_its_first_argument(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    root.answer(calls=(BASH, ToolCall(id="call-2", name="read", arguments={"path": "a"})))

    row = rows(forest, root)["root"]

    assert row.status == "running"
    assert row.activity is not None
    assert (row.activity.kind, row.activity.label) == ("tool", "bash pytest -q tests · +1")


def test_who_has_answered_and_has_children_at_work_waits_for_them(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    first, second = root.child("first"), root.child("second")
    first.prompt()
    second.prompt()
    second.answer()
    second.settle()
    root.answer("They work.")

    found = rows(forest, root)

    assert [found[name].status for name in ("root", "first", "second")] == ["waiting", "running", "idle"]
    assert found["second"].outcome == "completed"
    assert found["root"].activity is not None
    assert found["root"].activity.label == "for 1 of 2 children"
    assert (found["root"].working, found["root"].descendants) == (1, 2)


def test_a_child_without_a_journal_waits_for_a_slot_or_is_lost(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    root.announce("third", model="test/haiku")

    waiting = rows(forest, root)["third"]
    forest.locks[0].release()
    lost = rows(forest, root)["third"]
    forest.owned_elsewhere(root)
    unknown = rows(forest, root)["third"]

    assert [row.status for row in (waiting, lost, unknown)] == ["waiting", "lost", "unknown"]
    assert (waiting.outcome, lost.outcome, unknown.outcome) == (None, "lost", None)
    for row in (waiting, lost, unknown):
        assert (row.own, row.total, row.message_count, row.context_tokens, row.cwd) == (None,) * 5
        assert (row.model, row.summary) == ("test/haiku", "look")


def test_an_open_run_whose_owner_is_dead_is_lost_in_every_session(forest: Forest) -> None:
    root = sample(forest, ends="open")

    found = rows(forest, root, later_s=1000)

    assert (found["port-billing"].status, found["port-billing"].outcome) == ("lost", "lost")
    assert found["port-billing"].state.word == "lost"
    assert found["invoices"].state.word == "completed"
    assert found["port-billing"].issues == 2
    assert found["port-billing"].elapsed_ms is not None
    assert found["port-billing"].elapsed_ms < 60_000  # a dead one works no longer


def test_lost_is_lost_also_where_no_repair_was_planned(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    node = Node(root.header, EntryTree.of(list(root.tree.records)))

    [row] = tree_rows(Stored(root.id, {root.id: node}, "dead", pid=77), forest.now)

    assert (row.status, row.outcome, row.host_pid) == ("lost", "lost", None)
    assert row.activity is not None
    assert row.activity.label == "its host (pid 77) ended"


def test_a_run_that_was_lost_under_an_earlier_owner_is_not_blamed_on_the_present_one(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.settle("lost")
    node = Node(root.header, EntryTree.of(list(root.tree.records)))

    [row] = tree_rows(Stored(root.id, {root.id: node}, "dead", pid=77), forest.now)

    assert row.activity is not None
    assert row.activity.label == "its host ended"


def test_an_owner_that_cannot_be_looked_at_leaves_an_open_run_unknown(forest: Forest) -> None:
    root = sample(forest, ends="open")
    forest.owned_elsewhere(root)

    found = rows(forest, root)

    assert (found["port-billing"].status, found["port-billing"].outcome) == ("unknown", None)
    assert found["port-billing"].activity is not None
    assert found["port-billing"].activity.label == "host does not answer"
    assert found["port-billing"].host_pid == 4242
    assert found["invoices"].state.word == "completed"
    assert not found["port-billing"].state.is_working


def test_damage_is_shown_on_its_session_alone(forest: Forest) -> None:
    root = sample(forest)
    invoices = next(session for session in forest.sessions.values() if session.header.name == "invoices")
    invoices.damage()

    found = rows(forest, root)

    assert found["invoices"].state.word == "damaged"
    assert found["invoices"].activity is not None
    assert "damage at bytes" in found["invoices"].activity.label
    assert found["port-billing"].state.word == "completed"
    assert found["port-billing"].issues == 2


def test_a_root_that_nothing_can_be_read_of_is_one_damaged_row() -> None:
    [row] = tree_rows(Stored("0198f0aa-root", {}, "dead", troubles={"0198f0aa-root": "it has no header"}), 0.0)

    assert (row.status, row.own, row.total, row.message_count) == ("damaged", None, None, None)
    assert (row.created, row.elapsed_ms, row.path) == (None, None, None)


@pytest.mark.parametrize("outcome", ["completed", "failed", "aborted", "timed_out", "limit_reached"])
@pytest.mark.parametrize("owner", ["alive", "dead", "elsewhere"])
def test_an_outcome_stays_what_it_is_whoever_owns_the_tree(forest: Forest, outcome: str, owner: str) -> None:
    root = forest.root()
    if owner == "alive":
        forest.own(root)
    root.prompt()
    child = root.child("child")
    child.prompt()
    child.answer("")
    child.settle(outcome)
    root.answer()
    root.settle(outcome)
    if owner == "elsewhere":
        forest.owned_elsewhere(root)

    found = rows(forest, root)

    for row in found.values():
        assert (row.status, row.outcome, row.state.word) == ("idle", outcome, outcome.replace("_", " "))


def test_an_empty_answer_of_a_failed_child_is_no_success(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.answer("", stop_reason="error", error="overloaded")
    root.settle("failed")

    row = rows(forest, root)["root"]

    assert row.state.word == "failed"
    assert row.activity is not None
    assert (row.activity.kind, row.activity.label) == ("error", "overloaded")


def test_a_session_that_goes_on_after_an_outcome_is_running_again(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    root.answer()
    root.settle("failed")
    forest.now += 3600
    root.prompt("once more")

    row = rows(forest, root, later_s=5)["root"]

    assert (row.status, row.outcome) == ("running", None)
    assert row.elapsed_ms == 2_000 + 5_000  # the hour between the runs is nobody's work


def test_a_command_of_the_person_begins_no_run(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.answer()
    root.settle()
    root.message(BashExecutionMessage(command="ls", output="a"))

    row = rows(forest, root)["root"]

    assert (row.status, row.outcome, row.message_count) == ("idle", "completed", 3)


def test_what_was_said_of_the_work_holds_until_the_next_message(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.answer("Which secret?")
    root.settle()
    status = {"summary": "asks for the secret", "taskState": "needs_input", "basedOnMessageCount": 2}
    root.add(AgentStatusEntry(status=status))

    asks = rows(forest, root)["root"]
    root.prompt("This one.")
    root.answer("Thanks.")
    root.settle()
    answered = rows(forest, root)["root"]

    assert (asks.status, asks.state.word, asks.issues) == ("idle", "needs input", 1)
    assert asks.activity is not None
    assert (asks.activity.kind, asks.activity.label) == ("question", "asks for the secret")
    assert (answered.state.word, answered.summary) == ("completed", "asks for the secret")


def test_archived_and_back(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.answer()
    root.settle()
    root.add(SessionStateEntry(state={"status": "archived"}))
    archived = rows(forest, root)["root"]
    root.add(SessionStateEntry(state={"status": "active"}))
    active = rows(forest, root)["root"]

    assert (archived.status, archived.outcome) == ("archived", "completed")
    assert active.status == "idle"


def test_mail_waits_until_a_message_delivers_it(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    for number in (1, 2):
        root.add(MailEntry(message_id=f"m{number}", sender="user", mode="steer", content="also this"))
    before = rows(forest, root)["root"]
    root.add(CustomMessageEntry(custom_type="mail", content="also this", display=True, details={"delivers": ["m1"]}))
    after = rows(forest, root)["root"]

    assert (before.queued, after.queued) == (2, 1)


def test_names_prompts_and_models_as_the_journal_has_them(forest: Forest) -> None:
    root = forest.root(None)
    root.prompt("Port the billing module to v3")
    root.answer(model="local/qwen")
    unnamed = tree_rows(read(forest, root), forest.now)[0]
    root.add(SessionInfoEntry(name="renamed"))
    root.uses("test/opus")
    named = tree_rows(read(forest, root), forest.now)[0]

    assert (unnamed.name, unnamed.summary, unnamed.model) == (None, "Port the billing module to v3", "local/qwen")
    assert (named.name, named.model) == ("renamed", "test/opus")


def test_the_size_of_the_context_is_the_last_bill_and_a_guess_at_what_came_after(forest: Forest) -> None:
    root = forest.root()
    nothing = tree_rows(read(forest, root), forest.now)[0]
    root.prompt("x" * 400)
    guessed = tree_rows(read(forest, root), forest.now)[0]
    root.answer("ok", (1_000, 50, 200, 30), calls=(BASH,))
    child = root.child("child")
    child.prompt()
    child.answer("", (500_000, 9, 0, 0))
    root.result("call-1", "y" * 4_000)
    billed = rows(forest, root)["root"]
    root.answer("", (9, 0, 0, 0), stop_reason="error", error="overloaded")
    after_error = rows(forest, root)["root"]

    assert nothing.context_tokens is None
    assert guessed.context_tokens == 100
    assert billed.context_tokens == 1_280 + 1_000
    assert after_error.context_tokens == billed.context_tokens


def test_after_a_compaction_the_old_bill_says_nothing(forest: Forest) -> None:
    root = forest.root()
    root.prompt("old " * 1000)
    root.answer("ok", (100_000, 50, 0, 0))
    kept = root.prompt("z" * 80)
    root.add(CompactionEntry(summary="s" * 40, first_kept_entry_id=kept, tokens_before=100_050))

    assert rows(forest, root)["root"].context_tokens == (80 + 40) // 4


def test_a_fork_has_the_past_of_its_source_and_none_of_its_runs_or_bills(forest: Forest) -> None:
    root = sample(forest)
    records = list(root.tree.records)
    header = Header(
        id="0198f0aa-fork-0000",
        timestamp="2027-02-01T00:00:00.000Z",
        cwd="/work",
        forked_from=ForkedFrom(session_id=root.id, entry_id=records[-1].id, records=len(records)),
    )

    found = tree_rows(Stored(header.id, {header.id: Node(header, EntryTree.of(records, header))}, "dead"), forest.now)

    assert len(found) == 1  # the children are its source's
    row = found[0]
    assert (row.status, row.outcome, row.message_count, row.turns) == ("idle", None, 3, 0)
    assert row.elapsed_ms is None
    assert row.own is not None
    assert (row.own.input, row.own.cost.total) == (0, 0.0)
    assert row.total == row.own


def test_odd_entries_change_no_row_into_a_crash(forest: Forest) -> None:
    root = forest.root()
    root.journal.append(
        (
            b'{"type":"message","id":"00000001","parentId":null,"timestamp":"never","message":{"role":7}}',
            b'{"type":"message","id":"00000002","parentId":"00000001","timestamp":"","message":5}',
            b'{"type":"run_settled","id":"00000003","parentId":null,"timestamp":"x"}',
            b'{"type":"session_state","id":"00000004","parentId":null,"timestamp":"x","state":5}',
            b'{"type":"of the future","id":"00000005","parentId":null,"timestamp":"x"}',
            b'{"type":"custom_message","id":"00000006","parentId":null,"timestamp":"x","customType":"a","content":"b",'
            b'"display":true,"details":{"delivers":{"a":1}}}',
        )
    )

    [row] = tree_rows(read(forest, root), forest.now)

    assert (row.status, row.message_count) == ("lost", 2)
