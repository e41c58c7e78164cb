"""What the detail pane shows of a session: pages, calls, issues, costs, lanes, facts, all out of its journals."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.views.called import called, shown_text
from orchestrator.views.costs import costs
from orchestrator.views.facts import facts
from orchestrator.views.lanes import timeline
from orchestrator.views.pages import PAGE_ENTRIES, page
from orchestrator.views.rows import tree_rows
from orchestrator.views.trouble import issues
from store.entries import CompactionEntry, CustomEntry, CustomMessageEntry
from store.messages import AssistantMessage, BashExecutionMessage, TextContent, ToolCall, ToolResultMessage
from store.usage import spend_of
from tests.stored import Forest, read, sample


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


def call(name: str, id: str, **arguments: object) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


# --- conversation -----------------------------------------------------------------------------------------------------


def test_a_page_folds_results_into_the_answers_that_asked_for_them(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt("look")
    root.answer("I look.", calls=(call("bash", "a", command="ls"), call("read", "b", path="x")))
    root.result("a", "one\ntwo")
    root.answer("And then?")

    found = page(read(forest, root).nodes[root.id].tree.path())

    assert [(each.who, each.text) for each in found.entries] == [
        ("user", "look"),
        ("assistant", "I look."),
        ("assistant", "And then?"),
    ]
    assert [(each.name, each.argument, each.state, each.output) for each in found.entries[1].calls] == [
        ("bash", "ls", "ok", "one\ntwo"),
        ("read", "x", "open", ""),
    ]


def test_everything_that_is_said_has_its_kind(forest: Forest) -> None:
    root = forest.root()
    first = root.prompt("go")
    root.answer("", stop_reason="error", error="overloaded")
    root.add(CustomMessageEntry(custom_type="notice", content="a child ended", display=True))
    root.add(CompactionEntry(summary="so far", first_kept_entry_id=first, tokens_before=1234))
    root.message(BashExecutionMessage(command="false", output="no", exit_code=1))

    found = page(read(forest, root).nodes[root.id].tree.path()).entries

    assert [(each.who, each.name) for each in found] == [
        ("user", "you"),
        ("assistant", "model"),
        ("note", "notice"),
        ("summary", "summary of 1234 tokens before"),
        ("bash", "you ran false (exit status 1)"),
    ]
    assert found[1].error == "error: overloaded"


def test_pages_of_two_hundred_meet_without_a_gap(forest: Forest) -> None:
    root = forest.root()
    entries = [root.prompt(f"{number}") for number in range(2 * PAGE_ENTRIES + 30)]
    path = read(forest, root).nodes[root.id].tree.path()

    last = page(path)
    middle = page(path, before=last.entries[0].id)
    first = page(path, before=middle.entries[0].id)

    assert [each.id for part in (first, middle, last) for each in part.entries] == entries
    assert (len(last.entries), last.before, first.before) == (PAGE_ENTRIES, PAGE_ENTRIES + 30, 0)
    assert [each.id for each in page(path, after=entries[-3]).entries] == entries[-2:]
    assert page(path, after=entries[-1]).entries == ()
    assert len(page(path, after=entries[0]).entries) == PAGE_ENTRIES
    with pytest.raises(ValueError, match="expected an entry of this conversation"):
        page(path, before="ffffffff")


def test_long_and_hostile_text_is_cut_and_harmless() -> None:
    assert shown_text("a" * 30, 10) == "a" * 10 + "\n[… 20 more characters]"
    assert shown_text("a\x1b[31m\tb\r\n\u202ec") == "a·[31m  b\n·c"


# --- tools ------------------------------------------------------------------------------------------------------------


def test_a_call_says_how_long_it_took_and_where_all_of_its_output_is(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    root.answer("", calls=(call("bash", "a", command="yes"), call("bash", "b", command="false")))
    root.message(
        ToolResultMessage(
            tool_call_id="a",
            tool_name="bash",
            content=(TextContent(text="y" * 50),),
            details={"durationMs": 400, "fullOutputPath": "/tmp/spill"},
            timestamp=int(forest.now * 1000) + 400,
        )
    )
    root.message(ToolResultMessage(tool_call_id="b", tool_name="bash", is_error=True, timestamp=int(forest.now * 1000)))

    first, second = called(read(forest, root).nodes[root.id].tree.path())

    assert (first.state, first.duration_ms, first.output_chars, first.spill) == ("ok", 400, 50, "/tmp/spill")
    assert (second.state, second.spill) == ("failed", None)


def test_an_id_that_is_used_twice_belongs_to_the_latest_answer_before_its_result(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    for output in ("one", "two"):
        root.answer("", calls=(call("bash", "same", command=output),))
        root.result("same", output)

    assert [each.output for each in called(read(forest, root).nodes[root.id].tree.path())] == ["one", "two"]


# --- issues -----------------------------------------------------------------------------------------------------------


def test_issues_are_all_at_and_below_with_the_whole_text(forest: Forest) -> None:
    root = sample(forest)
    stored = read(forest, root)
    rows = tree_rows(stored, forest.now)

    [found] = issues(stored, root.id, rows)

    assert (found.name, found.word, found.tries) == ("legacy-shim", "failed", 1)
    assert found.text == "invalid_request: tools.0 is not allowed"
    assert issues(stored, next(row.session_id for row in rows if row.name == "invoices"), rows) == []
    with pytest.raises(KeyError):
        issues(stored, "nobody-00", rows)


# --- cost -------------------------------------------------------------------------------------------------------------


def test_costs_are_the_figures_of_the_report_with_calls_and_origins(forest: Forest) -> None:
    root = sample(forest)

    found = costs(read(forest, root), root.id)

    assert [(node.name, node.calls, node.origins) for node in found.nodes] == [
        ("port-billing", 2, ()),
        ("invoices", 1, ("spawn_task",)),
        ("tax-rounding", 1, ("spawn_task",)),
        ("legacy-shim", 1, ("spawn_task",)),
    ]
    assert found.verified
    for node in found.nodes:
        below = [kid for kid in found.nodes if kid.parent == node.session_id]
        assert node.total is not None
        assert node.own is not None
        parts = [spend_of(node.own), *(spend_of(kid.total) for kid in below if kid.total)]
        assert sum(part.total_pico for part in parts) == spend_of(node.total).total_pico


# --- timeline ---------------------------------------------------------------------------------------------------------


def test_bars_are_as_long_as_what_took_time_says(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    begin = int(forest.now * 1000)
    root.message(
        AssistantMessage(
            content=(call("bash", "a", command="ls"),),
            model="haiku",
            stop_reason="toolUse",
            timestamp=begin,
            duration_ms=2_000,
        )
    )
    root.message(
        ToolResultMessage(tool_call_id="a", tool_name="bash", details={"durationMs": 700}, timestamp=begin + 2_700)
    )
    root.message(
        AssistantMessage(content=(), stop_reason="error", error_message="x", timestamp=begin + 2_700, duration_ms=100)
    )
    root.message(
        AssistantMessage(content=(TextContent(text="ok"),), model="haiku", timestamp=begin + 3_800, duration_ms=50)
    )
    root.settle()
    stored = read(forest, root)

    [lane] = timeline(stored, root.id, tree_rows(stored, forest.now), begin + 60_000).lanes

    assert [(bar.kind, bar.start_ms - begin, bar.end_ms - begin) for bar in lane.bars] == [
        ("model", 0, 2_000),
        ("tool", 2_000, 2_700),
        ("model", 2_700, 2_800),
        ("retry", 2_800, 3_800),
        ("model", 3_800, 3_850),
    ]
    assert lane.bars[1].label == "bash ls"
    assert lane.word == "completed"
    assert lane.end_ms is not None


def test_every_settled_lane_has_its_end_and_every_child_its_tick(forest: Forest) -> None:
    root = sample(forest)
    stored = read(forest, root)

    found = timeline(stored, root.id, tree_rows(stored, forest.now), 0)

    assert [lane.end_ms is not None for lane in found.lanes] == [True] * 4
    assert {spawn.child for lane in found.lanes for spawn in lane.spawns} == {
        lane.session_id for lane in found.lanes if lane.parent
    }
    assert found.left_out == 0


def test_what_runs_has_no_end_and_its_open_tool_reaches_to_now(forest: Forest) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    begin = int(forest.now * 1000)
    answer = AssistantMessage(
        content=(call("bash", "a", command="sleep"),), stop_reason="toolUse", timestamp=begin, duration_ms=0
    )
    root.message(answer)
    stored = read(forest, root)

    [lane] = timeline(stored, root.id, tree_rows(stored, forest.now), begin + 9_000).lanes

    assert lane.end_ms is None
    assert [(bar.kind, bar.end_ms - begin, bar.is_open) for bar in lane.bars if bar.kind == "tool"] == [
        ("tool", 9_000, True)
    ]


@pytest.mark.parametrize(("answers", "kind"), [(0, "model"), (1, "retry")])
def test_what_an_open_lane_is_at_goes_on_to_now(forest: Forest, answers: int, kind: str) -> None:
    root = forest.root()
    forest.own(root)
    root.prompt()
    begin = int(forest.now * 1000)
    for _ in range(answers):
        root.answer("", stop_reason="error", error="overloaded")
    stored = read(forest, root)
    status = "retrying" if answers else "running"
    rows = [msgspec.structs.replace(each, status=status) for each in tree_rows(stored, forest.now)]

    [lane] = timeline(stored, root.id, rows, begin + 9_000).lanes

    assert [(bar.kind, bar.end_ms - begin, bar.is_open) for bar in lane.bars] == [(kind, 9_000, True)]


# --- info -------------------------------------------------------------------------------------------------------------


def test_facts_name_where_a_session_came_from(forest: Forest) -> None:
    root = sample(forest)
    stored = read(forest, root)
    rows = {row.name: row for row in tree_rows(stored, forest.now)}
    shim = rows["legacy-shim"]

    top, child = facts(stored, root.id, rows["port-billing"]), facts(stored, shim.session_id, shim)

    assert dict(top.facts)["Origin"] == "a prompt of a person"
    assert top.prompt == "Port the billing module"
    assert dict(child.facts)["Origin"] == "spawned by its parent"
    assert dict(child.facts)["Parent"] == root.id
    assert child.prompt == "Remove the shim"
    assert all(text for _, text in (*top.facts, *child.facts))


def test_limits_are_told_with_what_is_used_of_them(forest: Forest) -> None:
    root = forest.root()
    root.add(CustomEntry(custom_type="sapwood.terms", data={"max_cost": 10, "max_children": 128, "gates": ["true"]}))
    root.prompt()
    root.answer("done", (1_000_000, 10_000, 0, 0))
    stored = read(forest, root)
    [row] = tree_rows(stored, forest.now)

    found = facts(stored, root.id, row)

    assert found.max_cost == 10
    assert dict(found.facts)["Limits"] == "$1.10 of $10.00 · 0 of 128 children"


def test_all_of_it_can_be_sent(forest: Forest) -> None:
    root = sample(forest)
    stored = read(forest, root)
    rows = tree_rows(stored, forest.now)

    for found in (
        page(stored.nodes[root.id].tree.path()),
        costs(stored, root.id),
        timeline(stored, root.id, rows, 0),
        facts(stored, root.id, rows[0]),
        issues(stored, root.id, rows),
    ):
        assert msgspec.json.decode(msgspec.json.encode(found))
