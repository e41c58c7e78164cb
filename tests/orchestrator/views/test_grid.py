"""The grid: columns by width, rows as the samples have them, states that can be told apart however they are drawn."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.views.columns import columns, too_small
from orchestrator.views.grid import Look, grid, list_lines
from orchestrator.views.outline import Folding, outline
from orchestrator.views.rows import AgentRow
from orchestrator.views.spans import line_cells, line_text, sgr
from orchestrator.views.states import STATES
from tests.orchestrator.views.billing import billing_rows
from tests.orchestrator.views.drawn import texts
from tests.orchestrator.views.events import Stream

SETS = {
    80: "Name 21, Status 13, Doing 16, Total 8, Ctx 4, Time 6, Below 5",
    120: "Name 22, Status 15, Doing 23, Model 8, Own 6, Total 8, Tokens 6, Context 9, Time 7, Agents 6",
    200: "Name 30, Status 15, Doing 51, Model 14, Own 7, Total 9, Tokens 7, Own tok 7, Context 10, Turns 5, Retry 5, "
    "Queue 5, Last 6, Time 7, Agents 7",
}


@pytest.mark.parametrize("width", SETS)
def test_each_set_of_columns_has_its_cells(width: int) -> None:
    assert ", ".join(f"{column.head} {column.cells}" for column in columns(width)) == SETS[width]


@pytest.mark.parametrize("width", range(40, 320))
def test_columns_fill_every_width(width: int) -> None:
    shown = columns(width)

    assert 1 + sum(column.cells for column in shown) + len(shown) - 1 == width
    assert all(column.cells <= 60 for column in shown if column.name == "doing")


def test_what_is_left_goes_to_doing_and_then_to_the_name() -> None:
    by_name = {width: {column.name: column.cells for column in columns(width)} for width in (119, 130, 199, 260)}

    assert (by_name[119]["doing"], by_name[119]["name"]) == (55, 21)
    assert (by_name[130]["doing"], by_name[130]["name"]) == (33, 22)
    assert (by_name[199]["doing"], by_name[199]["name"]) == (60, 64)
    assert (by_name[260]["doing"], by_name[260]["name"]) == (60, 81)


def test_the_sample_at_80_columns() -> None:
    rows, now = billing_rows()
    items = outline(rows)

    lines = texts(grid(items, Look(80, now), selected=items[2].key))

    assert lines == [
        " Name                  Status        Doing               Total  Ctx   Time Below",
        " ▾ port-billing        ◌ waiting     [1q] for 2 of 5…  ≥ $0.49  61%  4m43s  8/32",
        " ├ survey-api          ✓ completed   14 call sites; …    $0.08  38%     6s",
        "▌├ ▸ invoices !1       ● running     edit src/billin…    $0.18  74%  4m29s   2/3",
        " ├ webhooks            ❯ needs input Which signing s…   <$0.01   0%     6s",
        " ├ ▸ fuzz-amounts !1   ● running     wait_agents · 2… ≥ <$0.01  58k  3m52s  4/24",
        " └ docs                ⇥ limit       cost limit $0.2…   <$0.01   0%     7s",
    ]


def test_the_sample_at_120_columns() -> None:
    rows, now = billing_rows()
    fuzz = next(row.session_id for row in rows if row.name == "fuzz-amounts")
    items = outline(rows, Folding().set(fuzz, is_open=True))

    lines = texts(grid(items, Look(120, now + 7)))

    assert lines == [
        " Name                   Status          Doing                   Model       Own    Total Tokens   Context    Time Agents",
        " ▾ port-billing         ◌ waiting       [1q] for 2 of 5 childr… opus      $0.23  ≥ $0.49   426k ━━╌╌  61%   4m43s   8/32",
        " ├ survey-api           ✓ completed     14 call sites; v3 drop… sonnet    $0.08    $0.08    76k ━━╌╌  38%      6s",
        " ├ ▸ invoices !1        ● running       edit src/billing/invoi… sonnet    $0.16    $0.18   167k ━━━╌  74%   4m29s    2/3",
        " ├ webhooks             ❯ needs input   Which signing secret s… sonnet   <$0.01   <$0.01    110 ╌╌╌╌   0%      6s",
        " ├ ▾ fuzz-amounts       ● running       wait_agents · 20 of 24… qwen          ? ≥ <$0.01    60k       58k   3m52s   4/24",
        " │ ├ case-08            ✗ failed        tool error: rounding d… haiku    <$0.01   <$0.01    110 ╌╌╌╌   0%      7s",
        " │ ├ case-20            ● running       thinking · 32s          haiku     $0.00    $0.00      0 ╌╌╌╌   0%     26s",
        " │ ├ case-21            ● running       thinking · 28s          haiku     $0.00    $0.00      0 ╌╌╌╌   0%     22s",
        " │ ├ case-22            ● running       thinking · 24s          haiku     $0.00    $0.00      0 ╌╌╌╌   0%     18s",
        " │ ├ case-23            ● running       thinking · 20s          haiku     $0.00    $0.00      0 ╌╌╌╌   0%     14s",
        " │ └ ▸ 19 completed     ✓ completed     folded together         haiku             <$0.01   2.1k",
        " └ docs                 ⇥ limit reached cost limit $0.25 reach… haiku    <$0.01   <$0.01    110 ╌╌╌╌   0%      7s",
    ]


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 120, 160, 200, 250])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_every_line_fills_the_terminal_and_figures_end_where_their_column_does(width: int, is_ascii: bool) -> None:
    rows, now = billing_rows()

    lines = grid(outline(rows, Folding(depth=None)), Look(width, now, is_ascii), selected=rows[3].session_id)

    assert {line_cells(line) for line in lines} == {width}
    shown = columns(width)
    end = 1 + shown[0].cells
    for column in shown[1:]:
        end += 1 + column.cells
        if column.name in {"total", "own", "time"}:
            assert all(line_text(line)[end - 1] != " " or "folded" in line_text(line) for line in lines[1:3])
    assert not is_ascii or all(line_text(line).isascii() for line in lines)


def test_what_does_not_fit_is_said() -> None:
    assert too_small(32, 20) == "sapwood agents needs 40 columns and 8 lines; this terminal has 32 × 20."
    assert too_small(40, 7)
    assert not too_small(40, 8)


def in_state(word: str) -> AgentRow:
    stream = Stream()
    stream.root("agent").begins()
    status, outcome, task_state = "idle", None, None
    if word in {"running", "waiting", "retrying", "compacting", "lost", "unknown", "damaged", "archived"}:
        status = word
    elif word == "needs input":
        task_state = "needs_input"
    elif word != "idle":
        outcome = word.replace(" ", "_")
    return msgspec.structs.replace(
        stream.rows()[0], status=status, outcome=outcome, task_state=task_state, session_id=f"session-{word}"
    )


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_all_states_differ_without_colour_and_each_has_its_own_style_with_it(width: int, is_ascii: bool) -> None:
    look = Look(width, 0.0, is_ascii)
    drawn = {word: list_lines([in_state(word)], look)[1] for word in STATES}

    assert len({line_text(line) for line in drawn.values()}) == 15
    for word, line in drawn.items():
        shown = STATES[word]
        mark = shown.mark(ascii=is_ascii)
        text = f"{mark} {shown.word if width >= 120 else shown.short}" if width >= 80 else mark
        assert text in line_text(line)
        assert shown.style in {style for piece, style in line if mark in piece}
        assert "\x1b[" in sgr(line, has_colour=True)
        assert not any(f"\x1b[{code}" in sgr(line, has_colour=False) for code in range(30, 38))


def test_a_failed_child_is_never_shown_as_done_or_as_a_question() -> None:
    failed = msgspec.structs.replace(in_state("failed"), task_state="needs_input")

    for width in (80, 120, 200):
        text = line_text(list_lines([failed], Look(width, 0.0))[1])
        assert "✗ failed" in text
        assert "completed" not in text
        assert "needs input" not in text


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[red]x[/]",
    "\x1b]0;x\x07",
    "\u202egnp.exe",
    "x" * 1_000_000,
    "界" * 90,
    "a\nb",
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_names_and_tools_of_any_kind_are_shown_literally_in_their_cells(hostile: str) -> None:
    stream = Stream()
    root = stream.root("root").begins(hostile)
    root.spawns(hostile, hostile, f"test/{hostile}").begins().calls_tool(hostile, command=hostile)
    root.answers("", error=hostile).settles("failed", hostile)

    for width in (40, 80, 120, 200):
        for line in grid(outline(stream.rows()), Look(width, stream.now)):
            assert line_cells(line) == width
            assert not any(char < " " or "\x7f" <= char <= "\x9f" or char == "\u202e" for char in line_text(line))
    named = line_text(grid(outline(stream.rows()), Look(200, stream.now))[2])
    assert hostile[:8].replace("\x1b", "·").replace("\u202e", "·").replace("\n", " ")[:3] in named


@settings(max_examples=40)
@given(st.text(max_size=30), st.integers(40, 210), st.booleans())
def test_any_name_fits_any_width(name: str, width: int, is_ascii: bool) -> None:
    stream = Stream()
    stream.root(name).begins(name)

    assert {line_cells(line) for line in list_lines(stream.rows(), Look(width, stream.now, is_ascii))} == {width}


def test_a_selected_row_is_nowhere_dim() -> None:
    rows, now = billing_rows()
    line = grid(outline(rows), Look(120, now), selected=rows[1].session_id)[2]

    assert line[0] == ("▌", "bold yellow")
    assert all("dim" not in style.split() for _, style in line)
