"""The live view: what is seen, what keys do, and what stays where it is while everything else moves."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.cli.watching import gap_text
from orchestrator.engine.link import Gap
from orchestrator.views.feed import FeedLine
from orchestrator.views.live import LiveTree
from orchestrator.views.live_session import HostFacts
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.details import Detail
from orchestrator.views.screen.effects import Copy, Do, Examine, Quit, ShowEnded, Suspend, TryNow
from orchestrator.views.screen.pane import KEPT, Fed
from orchestrator.views.screen.state import Known, Lost, Screen
from orchestrator.views.screen.step import Answered, Key, Resized, Said, Seen, Told, step
from orchestrator.views.signs import title
from store.usage import spend_of
from tests.orchestrator.views.billing import billing, billing_rows
from tests.orchestrator.views.events import Stream
from tests.orchestrator.views.screen.played import Played, empty, played
from tests.orchestrator.views.test_grid import HOSTILE
from tests.orchestrator.views.test_live import Script, scripts
from tests.orchestrator.views.test_live import played as streamed


def test_the_head_at_120_columns() -> None:
    assert played().lines[:2] == [
        " sapwood  port-billing  ● 8 running  ◌ 1 waiting  ! 4 issues  ✓ 23 ended                1 tree · order: spawned · ● live",
        " ≥ $0.49 · $0.10/min · 426k tokens · no price: local/qwen                                                          4m43s",
    ]


def test_the_head_at_80_columns() -> None:
    assert played(80, 24).lines[:2] == [
        " sapwood  port-billing ● 8 running ◌ 1 waiting ! 4 issues ✓ 23            ● live",
        " ≥ $0.49 · $0.10/min · 426k tok                                            4m43s",
    ]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, " ≥ $0.49 of $2.00 ━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ $0.10/min · 426k tokens · no price: local/qwen"),
        (80, " ≥ $0.49 of $2.00 ━━━╌╌╌╌╌╌╌╌╌╌ $0.10/min · 426k tok"),
    ],
)
def test_what_is_left_of_a_limit_on_money_is_a_bar(width: int, line: str) -> None:
    stream = billing()
    fold = LiveTree(HostFacts(max_cost_usd=2.0))
    for event in stream.events:
        fold.take(*event)
    view = Played(Screen(width, 20, now=stream.now)).see(fold.rows(stream.now))
    assert view.lines[1].startswith(line)


def test_the_last_line_names_as_many_keys_as_there_is_room_for() -> None:
    assert played().lines[-1] == (
        " ↑↓ move  ←→ fold  ⏎ open  space peek  m message  s steer  x abort  / filter  n next issue  o order  e events  ? keys"
    )
    assert played(80).lines[-1] == " ↑↓ move  ←→ fold  ⏎ open  space peek  m message  s steer  x abort  / filter"


@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("size", [(40, 8), (60, 20), (80, 24), (120, 37), (200, 50), (300, 12)])
def test_every_frame_fits_whatever_is_open(size: tuple[int, int], is_ascii: bool) -> None:
    view = played(*size, is_ascii=is_ascii)
    for keys in ("", "0", " ", "e", "p", "\x1b", "x", "y", "m", "abc", "/", "?", "n", "f", "o"):
        view.press(*({"\x1b": "esc", " ": "space"}.get(key, key) for key in keys))
        assert view.lines
        assert not is_ascii or view.text.isascii()
    view.press("esc", "enter")
    for tab in "1234567":
        view.press(tab)
        assert view.lines


def test_a_resize_is_answered_by_the_next_frame() -> None:
    view = played(120, 30)
    view.happen(Resized(80, 24))
    assert len(view.lines) == 24
    view.happen(Resized(32, 20))
    assert "sapwood agents needs 40 columns and 8" in view.text.replace("\n", " ")


def test_moving_folding_and_opening() -> None:
    view = played()
    assert "port-billing" in view.selected
    view.press("down", "down")
    assert "▸ invoices !1" in view.selected
    view.press("right")
    assert "▾ invoices" in view.selected
    assert "legacy-shim" in view.text
    view.press("right")
    assert "legacy-shim" in view.selected
    view.press("left")
    assert "invoices" in view.selected
    view.press("left", "left")
    assert "port-billing" in view.selected
    view.press("G")
    assert "docs" in view.selected
    view.press("g", "k")
    assert "port-billing" in view.selected
    view.press("0")
    assert len([line for line in view.lines if "case-" in line]) > 15
    view.press("1")
    assert "case-" not in view.text


def test_what_needs_somebody_is_found_with_n() -> None:
    view = played()
    found = []
    for _ in range(5):
        view.press("n")
        found.append(title(view.screen.selected_row))  # type: ignore[arg-type]
    assert found == ["legacy-shim", "webhooks", "case-08", "docs", "legacy-shim"]
    assert "legacy-shim" in view.press("n", "N").selected
    calm = empty().see([Stream().root().begins().stream.rows()[0]]).press("n")
    assert "Nothing needs you." in calm.lines[-1]


def test_a_filter_is_seen_while_it_is_typed_and_goes_with_escape() -> None:
    view = played().press("/").type("status:retrying")
    assert view.lines[-1].startswith(" /status:retrying")
    assert "1 of 33" in view.lines[-1]
    assert "tax-rounding" in view.text
    assert "docs" not in view.text
    view.press("enter")
    assert "/status:retrying" in view.lines[0]
    view.press("esc")
    assert "docs" in view.text


def test_a_filter_that_meets_nothing_says_so() -> None:
    view = played().press("/").type("status:lost").press("enter")
    assert ' No agent matches "status:lost". 33 are hidden. Esc clears the filter.' in view.lines


def test_a_filter_that_is_none_says_what_was_expected() -> None:
    view = played().press("/").type("cost>much")
    assert "expected a number in cost>much, such as cost>0.5" in view.lines[-1]
    assert "docs" in view.text


def test_chips_go_round_and_the_chosen_one_is_marked() -> None:
    view = played()
    seen = []
    for _ in range(6):
        view.press("f")
        seen.append(view.screen.chip)
    assert seen == ["running", "waiting", "issues", "ended", "costly", None]
    view.press("f", "f", "f")
    assert {title(item.row) for item in view.screen.items if item.row and not item.is_dim} == {
        "legacy-shim",
        "webhooks",
        "case-08",
        "docs",
    }


def test_an_order_stays_until_it_is_asked_for_again() -> None:
    view = played().press("o")
    assert "order: total ▾" in view.lines[0]
    names = [title(item.row) for item in view.screen.items if item.row]
    assert names[1] == "invoices"
    rows = list(view.screen.rows)
    richer = [msgspec.structs.replace(row, total=rows[0].total) if row.name == "docs" else row for row in rows]
    view.see(richer)
    assert [title(item.row) for item in view.screen.items if item.row] == names
    assert "order: total ▾ (changed, o to redo)" in view.lines[0]
    view.press("o")
    assert [title(item.row) for item in view.screen.items if item.row][1] == "docs"
    assert "changed" not in view.lines[0]


def grown(rows: list[AgentRow], count: int) -> list[AgentRow]:
    """With more children of the root in front of all others, some of them settled and priced."""
    more = [
        msgspec.structs.replace(rows[1], session_id=f"0198f0aa-1111-7000-8000-{number:012d}", name=f"new-{number}")
        for number in range(count)
    ]
    return [rows[0], *more, *rows[1:]]


@pytest.mark.parametrize("height", [10, 16, 30])
def test_the_selected_row_stays_on_its_line_while_rows_come_and_settle_above_it(height: int) -> None:
    view = played(120, height).press("down", "down", "down")
    rows, _ = billing_rows()
    line, name = view.selected_at, title(view.screen.selected_row)  # type: ignore[arg-type]
    for count in range(1, 8):
        settled = [
            msgspec.structs.replace(row, status="idle", outcome="completed", total=rows[0].total)
            if row.depth == 1
            else row
            for row in grown(rows, count)
        ]
        view.see(grown(rows, count)).see(settled)
        assert title(view.screen.selected_row) == name  # type: ignore[arg-type]
        assert view.selected_at == line


def test_what_was_selected_and_is_gone_leaves_the_selection_where_it_was() -> None:
    view = played().press("down", "down")
    rows, _ = billing_rows()
    view.see([row for row in rows if row.name != "invoices" and row.parent_session_id != rows[2].session_id])
    assert "webhooks" in view.selected
    view.see([])
    assert view.screen.selected is None


def test_folding_over_the_selection_selects_what_hides_it() -> None:
    view = played().press("0", "/").type("tax-rounding").press("enter", "G", "esc")
    assert "tax-rounding" in view.selected
    view.press("1")
    assert "invoices" in view.selected


# What is done to agents


def test_abort_asks_and_the_focus_is_on_keeping() -> None:
    view = played().press("down", "down", "x")
    assert "Abort invoices and 2 agents below it?" in view.text
    said = " ".join(line.strip(" │") for line in view.lines)
    assert "Their current turns end now, including running tools. What they wrote and spent ($0.18) is kept." in said
    assert "Each can be continued later." in said
    assert "runs now: edit src/billing/invoice.py" in view.text
    assert "[Keep running]  [Abort 3 agents]" in view.text
    view.press("enter")
    assert view.screen.confirm is None
    assert [effect for effect in view.asked if isinstance(effect, Do)] == []


@pytest.mark.parametrize("keys", [["esc"], ["n"], ["tab", "tab", "enter"], ["tab", "esc"]])
def test_what_is_not_confirmed_changes_nothing(keys: list[str]) -> None:
    view = played().press("down", "down", "x", *keys)
    assert view.screen.confirm is None
    assert not any(isinstance(effect, Do) for effect in view.asked)
    assert view.screen.pending == {}


@pytest.mark.parametrize("keys", [["tab", "enter"], ["right", "enter"], ["y"]])
def test_what_is_confirmed_ends_that_session_and_is_shown_when_the_host_has_done_it(keys: list[str]) -> None:
    view = played().press("down", "down", "x", *keys)
    row = view.screen.selected_row
    assert row is not None
    assert [effect for effect in view.asked if isinstance(effect, Do)] == [Do(row.session_id, "abort")]
    assert "aborting…" in view.selected
    assert "● running" in view.selected
    view.happen(Answered(row.session_id, "abort"))
    assert "aborting…" not in view.text


def test_a_refusal_is_shown_with_its_text() -> None:
    view = played().press("down", "down", "x", "y")
    session_id = view.screen.selected or ""
    view.happen(Answered(session_id, "abort", "the session is [red]busy[/]\x1b]0;x\x07"))
    assert "Could not abort: the session is [red]busy[/]·]0;x·" in view.lines[-1]
    assert "aborting…" not in view.text


def test_with_many_agents_their_number_has_to_be_typed() -> None:
    stream = Stream()
    root = stream.root("many").begins()
    for number in range(14):
        root.spawns(f"case-{number}").begins()
    view = empty(100, 24).see(stream.rows()).press("x")
    assert "Abort many and 14 agents below it?" in view.text
    assert "Type 15 and Enter" in view.text
    view.press("y", "tab", "1", "4", "enter")
    assert not any(isinstance(effect, Do) for effect in view.asked)
    view.press("x").press("1", "4", "backspace", "5", "enter")
    assert [effect for effect in view.asked if isinstance(effect, Do)] == [Do(root.place.session_id, "abort")]


def test_one_agent_alone_is_asked_about_in_the_singular() -> None:
    view = played().press("0", "/").type("name:invoice-tests").press("enter", "G", "x")
    assert "Abort invoice-tests?" in view.text
    assert "Its current turn ends now, including running tools." in view.text
    assert "[Abort 1 agent]" in view.text
    view.press("esc", "esc", "g", "down", "x")
    assert "survey-api does not run." in view.lines[-1]
    view.press("X")
    assert "Stop survey-api?" in view.text


def test_what_is_typed_goes_to_the_agent() -> None:
    view = played().press("down", "down", "m").type("look at the tests")
    assert view.lines[-1].startswith(" Message to invoices: look at the tests")
    view.press("ctrl-w", "backspace").type("s twice").press("enter")
    view.press("s").press("paste:use v3\nnow", "enter")
    view.press("r", "ctrl-u").type("billing").press("enter")
    view.press("A")
    session_id = view.screen.selected or ""
    assert [effect for effect in view.asked if isinstance(effect, Do)] == [
        Do(session_id, "message", "look at ths twice"),
        Do(session_id, "steer", "use v3\nnow"),
        Do(session_id, "rename", "billing"),
        Do(session_id, "archive"),
    ]
    view.press("m", "enter", "m", "esc")
    assert len(view.asked) == 4


def test_a_question_is_answered() -> None:
    view = played().press("down", "down", "down", "m")
    assert view.lines[-1].startswith(" Answer to webhooks:")
    view.type("the old one").press("enter")
    assert Do(view.screen.selected or "", "answer", "the old one") in view.asked


def test_what_was_archived_can_be_brought_back_for_ten_seconds() -> None:
    view = played().press("down", "A")
    session_id = view.screen.selected or ""
    view.happen(Answered(session_id, "archive"))
    assert "Archived. Undo (u)" in view.lines[-1]
    assert view.press("u").asked[-1] == Do(session_id, "unarchive")
    view.happen(Answered(session_id, "archive")).later(11).press("u")
    assert len([effect for effect in view.asked if isinstance(effect, Do)]) == 2


def test_leaving_copying_suspending_and_ended_trees() -> None:
    view = played().press("y", "ctrl-z", "a", "q", "ctrl-c")
    assert view.asked == [Copy(view.screen.rows[0].session_id), Suspend(), ShowEnded(True), Quit(), Quit()]


def test_keys_are_told_on_a_page_of_their_own() -> None:
    view = played().press("?")
    assert " Keys" in view.lines
    assert "copy the id" in view.text
    assert "port-billing" in view.press("x").text
    assert view.screen.confirm is None


# What is looked at more closely


def test_peeking_and_opening_ask_for_the_session_again_when_it_has_changed() -> None:
    view = played().press("down", "down", "space")
    session_id = view.screen.selected or ""
    assert view.asked == [Examine(session_id)]
    assert "── invoices ● running" in view.text
    assert "Reading…" in view.text
    rows, _ = billing_rows()
    view.see(rows)
    assert view.asked == [Examine(session_id)]
    view.see([msgspec.structs.replace(row, last_event_at="2027-01-15T09:00:00.000Z") for row in rows])
    assert view.asked == [Examine(session_id)] * 2
    view.press("down")
    assert view.asked[-1] == Examine(view.screen.selected or "")
    view.press("space", "enter")
    assert view.screen.mode == "detail"
    assert "1 Overview" in view.lines[1]
    view.press("esc")
    assert view.screen.mode == "list"


def test_on_a_group_there_is_nothing_to_peek_at() -> None:
    stream = Stream()
    root = stream.root().begins()
    for number in range(20):
        root.spawns(f"case-{number}").begins().answers("ok").settles()
    view = empty(100, 30).see(stream.rows()).press("space", "G")
    assert view.screen.selected_row is None
    assert " Select an agent to see its conversation, timeline and cost." in view.lines


# Events


def line(number: int, kind: str = "turns", session: str = "a") -> Fed:
    told = FeedLine(type=kind, kind="turn", word="running", text=f"event {number}")  # type: ignore[arg-type]
    return Fed(1_800_000_000.0 + number, number, session, "agent", told)


def test_the_pane_holds_still_counts_and_goes_on_with_the_newest() -> None:
    view = played().press("e").happen(Told([line(number) for number in range(5)]))
    assert "event 4" in view.text
    view.press("p")
    before = view.lines
    for start in range(0, 1_000, 100):
        view.happen(Told([line(5 + start + number) for number in range(100)]))
    assert [text for text in view.lines if "paused" not in text] == [text for text in before if "paused" not in text]
    assert "paused · 1000 new" in view.text
    view.press("p")
    assert "event 1004" in view.text
    assert [one.seq for one in view.screen.pane.shown] == list(range(1005))
    view.happen(Told([line(number) for number in range(KEPT + 10)]))
    assert len(view.screen.pane.fed) == KEPT


def test_each_switch_hides_exactly_its_rows() -> None:
    kinds = ("turns", "tools", "children", "messages", "money", "trouble")
    view = played().press("e").happen(Told([line(number, kind) for number, kind in enumerate(kinds)]))
    for number, kind in enumerate(kinds, start=1):
        view.press(str(number))
        assert {one.line.type for one in view.screen.pane.shown} == set(kinds) - {kind}
        view.press(str(number))
    view.press(*"123456")
    assert " No events of these types yet." in view.lines


def test_the_pane_shows_one_sub_tree_and_leads_to_the_agent_of_a_line() -> None:
    view = played().press("down", "down", "e")
    inside, other = view.screen.rows[3].session_id, view.screen.rows[1].session_id
    view.happen(Told([line(1, session=other), line(2, session=inside)])).press("w")
    assert [one.seq for one in view.screen.pane.shown] == [2]
    view.press("w")
    assert len(view.screen.pane.shown) == 2
    view.press("enter")
    assert view.screen.selected == inside
    assert not view.screen.is_pane_open


def test_scrolling_back_in_the_pane_stays_there() -> None:
    view = played(120, 20).press("e").happen(Told([line(number) for number in range(50)]))
    view.press("up", "up", "pageup")
    back = view.screen.pane.back
    shown = [text for text in view.lines if "event " in text]
    view.happen(Told([line(number) for number in range(50, 60)]))
    assert view.screen.pane.back == back + 10
    assert [text for text in view.lines if "event " in text] == shown
    assert view.press("G").screen.pane.back == 0


# What there is to say when there is nothing to show, or not the truth


def test_nothing_runs() -> None:
    view = empty().see([], ended=12)
    assert [text for text in view.lines if text][:-1][-4:] == [
        " No agents are running.",
        " Start one here or in a terminal; it appears by itself.",
        ' sapwood run "…"    or    sapwood demo',
        " Ended trees: 12 · Show ended (a)",
    ]


def test_reading_takes_two_seconds_before_it_is_told() -> None:
    view = empty()
    assert "Reading" not in view.text
    view.later(3).see([], is_read=False)
    assert "Reading 1 tree…" in view.text
    assert "Reading 3 trees…" in view.happen(Seen(Known((), False, 3))).text


def test_a_lost_connection_is_told_with_its_age_and_the_next_try() -> None:
    view = played()
    now = view.screen.now
    view.see(view.screen.rows, lost=Lost(now - 9, 3, now + 4))
    assert (
        " ↯ Connection lost 9s ago. Showing the last known state; times are frozen. Trying again in 4s. [t: try now]"
        in view.lines
    )
    assert view.press("t").asked == [TryNow()]
    doing = [text for text in view.lines if "edit src" in text]
    assert [text for text in view.later(60).lines if "edit src" in text] == doing
    assert view.lines[0].endswith("○ reconnecting · try 3")
    view.see(view.screen.rows)
    assert view.lines[0].endswith("● live")


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (Gap(42, 9.3), "42 events missed while disconnected (9s). Rows were refreshed from a snapshot."),
        (Gap(1), "1 event missed because this view was slow. Rows were refreshed from a snapshot."),
    ],
)
def test_a_gap_stands_in_the_pane(gap: Gap, text: str) -> None:
    told = FeedLine(type="trouble", kind="↯ gap", word="retrying", text=gap_text(gap))
    view = played().press("e").happen(Told([Fed(0.0, 0, "", "", told)]))
    assert f" ↯ gap: {text}" in view.lines


def test_a_damaged_journal_is_told_with_what_to_look_at_it_with() -> None:
    view = played(110, 30).press("down", "enter")
    view.happen(Detail(view.screen.selected or "", trouble="line 2,114 is not JSON", entries=2_113))
    said = " ".join(line.strip() for line in view.lines)
    assert (
        "! survey-api is damaged: line 2,114 is not JSON. Opened read-only, nothing was changed. "
        "2,113 entries are readable." in said
    )
    assert "  sapwood sessions check survey-api" in view.lines


def test_a_host_that_ended_is_told_for_a_while() -> None:
    text = "The host (pid 5210) ended at 14:13. 9 agents are lost. They can be continued: sapwood run -r port-billing"
    view = played().happen(Said(text))
    assert view.lines[-1] == f" {text}"
    view.later(11)
    assert "5210" not in view.text


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_literally_wherever_it_stands(hostile: str) -> None:
    stream = Stream()
    root = stream.root(hostile).begins(hostile)
    child = root.spawns(hostile).begins().calls_tool(hostile, command=hostile)
    view = empty(100, 30).see(stream.rows())
    fed = FeedLine(type="turns", kind="turn", word="running", text="x")
    view.happen(Told([Fed(0.0, 1, child.place.session_id, hostile[:100], fed)]), Said(hostile))
    for keys in (["e"], ["esc", "x"], ["esc", "m"], ["esc", "space"], ["esc", "enter"]):
        view.press(*keys)
        for text in view.lines:
            assert not any(char < " " or "\x7f" <= char <= "\x9f" or char == "\u202e" for char in text)


@settings(max_examples=40, deadline=None)
@given(
    scripts, st.lists(st.sampled_from([*"jkgGnNfo0123e /", "left", "right", "enter", "space", "esc", "tab", "x", "p"]))
)
def test_any_keys_on_any_tree_leave_a_whole_screen_and_change_no_figure(script: Script, keys: list[str]) -> None:
    stream = streamed(script)
    rows = stream.rows()
    view = Played(played(90, 18).screen)
    view.see(rows)
    for key in keys:
        view.screen, _ = step(view.screen, Key("space" if key == " " else key))
        assert len(view.lines) == 18
    assert list(view.screen.rows) == rows
    items = view.screen.items
    assert all(spend_of(item.row.total) is not None for item in items if item.row and item.row.total)
    assert view.screen.selected is None or view.screen.selected in {item.key for item in items}
