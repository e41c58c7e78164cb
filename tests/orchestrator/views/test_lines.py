"""Every plain view: no line wider than the terminal, nothing that harms it, whatever models and tools said."""

from pathlib import Path

import pytest

from orchestrator.views.conversation import conversation, spoken
from orchestrator.views.grid import Look, list_lines
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.session_text import session_head, session_list
from orchestrator.views.spans import line_cells
from orchestrator.views.states import STATES
from orchestrator.views.summary_line import summary_line
from orchestrator.views.text import cells
from orchestrator.views.usage_report import usage_report
from store.entries import BranchSummaryEntry, CompactionEntry, CustomMessageEntry
from store.messages import BashExecutionMessage, ImageContent, TextContent, ToolCall, ToolResultMessage, UserMessage
from tests.orchestrator.views.drawn import listed, usage_text
from tests.stored import Forest, read, sample

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[red]x[/]",
    "\x1b]0;x\x07",
    "\u202egnp.exe",
    "\x9b2J",
    "a\nb\r\nc\td",
    "界" * 300,
    "👨\u200d👩\u200d👧" * 40,
    "x" * 1_000_000,
    "",
]


@pytest.fixture
def forest(tmp_path: Path) -> Forest:
    return Forest.at(tmp_path / "home")


def assert_harmless(lines: list[str]) -> None:
    for line in lines:
        assert not any(char < " " or "\x7f" <= char <= "\x9f" or "\u202a" <= char <= "\u202e" for char in line)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_prompts_answers_models_and_errors(forest: Forest, hostile: str) -> None:
    root = forest.root(hostile, cwd=f"/{hostile[:500]}")
    root.prompt(hostile)
    root.answer(hostile, model=f"local/{hostile[:500]}", price=None)
    child = root.child(hostile, hostile)
    child.prompt(hostile)
    child.answer("", stop_reason="error", error=hostile)
    child.settle("failed", hostile)
    call = ToolCall(id="call-1", name=hostile[:200] or "tool", arguments={"command": hostile})
    root.answer(hostile, calls=(call,))
    root.result("call-1", hostile)
    root.message(BashExecutionMessage(command=hostile, output=hostile, exit_code=1))
    root.add(CustomMessageEntry(custom_type=hostile[:200], content=hostile, display=True))
    stored = read(forest, root)
    rows = tree_rows(stored, forest.now)

    for width in (20, 40, 60, 79, 80, 100, 120, 200):
        for ascii in (False, True):
            lines = [*listed(rows, width, ascii), *session_list(rows, forest.now, width, ascii)]
            assert_harmless(lines)
            assert all(cells(line) <= width for line in lines)
    assert_harmless([summary_line(rows), *usage_text(usage_report(stored))])
    node = stored.nodes[root.id]
    text = [*session_head(rows[0], node), *conversation(spoken(node.tree.path()))]
    assert_harmless(text)
    assert sum(len(line) for line in text) < 60_000


def test_no_rows_are_no_reason_to_fail() -> None:
    assert listed([]) == [" Name                  Status        Doing               Total  Ctx   Time Below"]
    assert summary_line([]) == "0 agents · 0 tok · $0.00"


def row_in(forest: Forest, word: str) -> AgentRow:
    [row] = tree_rows(read(forest, forest.root(word)), forest.now)
    status, outcome, task_state = "idle", None, None
    if word in {"running", "waiting", "retrying", "compacting", "lost", "unknown", "damaged", "archived"}:
        status = word
    elif word == "needs input":
        task_state = "needs_input"
    elif word != "idle":
        outcome = word.replace(" ", "_")
    changes = {"status": status, "outcome": outcome, "task_state": task_state, "name": "agent"}
    return type(row)(**{name: changes.get(name, getattr(row, name)) for name in row.__struct_fields__})


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_states_can_be_told_apart_in_every_width(forest: Forest, ascii: bool, width: int) -> None:
    rows = [row_in(forest, word) for word in STATES]

    lines = listed(rows, width, ascii)[1:]

    assert len(set(lines)) == len(STATES)
    for line, state in zip(lines, STATES.values(), strict=True):
        assert state.mark(ascii=ascii) in line
        assert width < 80 or state.short in line


def test_names_that_are_too_long_leave_room_for_figures(forest: Forest) -> None:
    root = sample(forest)
    root.child("n" * 200).prompt()
    rows = tree_rows(read(forest, root), forest.now)

    for line in list_lines(rows, Look(80, 0.0)):
        assert line_cells(line) == 80
    assert listed(rows)[-1][68:74].strip() == "0s"


def test_a_conversation_folds_tools_and_bounds_long_texts(forest: Forest) -> None:
    root = forest.root()
    image = ImageContent(data="QUJD", mime_type="image/png")
    kept = root.message(UserMessage(content=(TextContent(text="Look at this"), image)))
    call = ToolCall(id="call-1", name="bash", arguments={"command": "seq 100\necho done"})
    root.answer("\n".join(f"line {n}" for n in range(1, 101)), model="test/opus", calls=(call,))
    root.result("call-1", "1\n2\n3")
    root.message(
        ToolResultMessage(tool_call_id="call-2", tool_name="read", content=(TextContent(text="no"),), is_error=True)
    )
    root.message(BashExecutionMessage(command="false", output="", exit_code=1))
    root.add(BranchSummaryEntry(from_id=kept, summary="another way"))
    root.add(CompactionEntry(summary="so far so good", first_kept_entry_id=kept, tokens_before=148))
    root.answer("", stop_reason="error", error="overloaded")

    lines = conversation(spoken(root.tree.path()))

    assert lines[:5] == ["user [1 image]", "  Look at this", "", "assistant (opus)", "  line 1"]
    assert "  line 40" in lines
    assert "  line 41" not in lines
    assert "  [… 60 more lines]" in lines
    assert "  → bash seq 100 echo done" in lines
    assert "  ← bash: 1 2 3" in lines
    assert "  ✗ read: no" in lines
    assert "user ran: false (exit status 1)" in lines
    assert lines[-8:] == [
        "summary of another branch",
        "  another way",
        "",
        "summary of 148 tokens before",
        "  so far so good",
        "",
        "assistant (model)",
        "  error: overloaded",
    ]
