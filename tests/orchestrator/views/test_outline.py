"""Folding, ordering and filters: what is seen changes, figures and what needs somebody do not."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.views.outline import (
    MANY_CHILDREN,
    ORDERS,
    Folding,
    Forest,
    Item,
    next_issue,
    opened_to,
    outline,
    ranks,
    still_holds,
)
from orchestrator.views.query import parse_query
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from store.usage import Spend, add_up, spend_of
from tests.orchestrator.views.billing import billing_rows
from tests.orchestrator.views.events import Stream
from tests.orchestrator.views.test_live import Script, played, scripts


def names(items: list[Item]) -> list[str]:
    return [title(item.row) if item.row else f"{len(item.group.rows)} {item.state.word}" for item in items if item]  # type: ignore[union-attr]


def crowd(count: int = 30) -> list[AgentRow]:
    """A root with many children: every tenth failed, every tenth still works, the others are done."""
    stream = Stream()
    root = stream.root().begins()
    for number in range(count):
        child = root.spawns(f"case-{number:04d}").begins()
        if number % 10 == 0:
            child.answers("", error="no").settles("failed", "no")
        elif number % 10 != 1:
            child.answers("ok").settles()
    return stream.rows()


def test_at_first_the_children_of_roots_are_seen_and_what_needs_somebody_is_counted_on_folded_rows() -> None:
    rows, _ = billing_rows()

    items = outline(rows)

    assert names(items) == ["port-billing", "survey-api", "invoices", "webhooks", "fuzz-amounts", "docs"]
    assert [item.hidden_issues for item in items] == [0, 0, 1, 0, 1, 0]
    assert [item.is_open for item in items] == [True, None, False, None, False, None]


def test_many_children_show_issues_first_then_work_then_one_line_per_outcome() -> None:
    rows = crowd()

    items = outline(rows)

    assert names(items) == [
        "root",
        *(f"case-{number:04d}" for number in (0, 10, 20)),
        *(f"case-{number:04d}" for number in (1, 11, 21)),
        "24 completed",
    ]
    group = items[-1].group
    assert group is not None
    assert group.total == add_up(spend_of(row.total) for row in group.rows if row.total)
    opened = outline(rows, Folding().set(items[-1].key, is_open=True))
    assert len(opened) == 1 + 3 + 3 + 1 + 24
    assert opened[-1].level == 2


def test_a_child_that_is_done_and_has_an_issue_below_it_is_in_no_group() -> None:
    stream = Stream()
    root = stream.root().begins()
    for number in range(MANY_CHILDREN + 1):
        child = root.spawns(f"case-{number}").begins()
        if number == 5:
            child.spawns("below").begins().settles("failed", "no")
        child.answers("ok").settles()

    items = outline(stream.rows())

    assert names(items)[1] == "case-5"
    assert items[1].hidden_issues == 1


def test_folding_to_a_depth_and_by_hand() -> None:
    rows, _ = billing_rows()
    everything = outline(rows, Folding(depth=None, many=None))
    invoices = next(row.session_id for row in rows if row.name == "invoices")

    assert len(everything) == len(rows)
    assert names(outline(rows, Folding(depth=0))) == ["port-billing"]
    assert "invoice-tests" in names(outline(rows, Folding().set(invoices, is_open=True)))
    folded = Folding(depth=None).set(invoices, is_open=False)
    assert "invoice-tests" not in names(outline(rows, folded))
    assert "invoice-tests" in names(outline(rows, folded.set(invoices, is_open=True)))


@pytest.mark.parametrize("count", [1_000])
def test_the_first_screen_holds_every_issue_or_a_count_for_it(count: int) -> None:
    rows = crowd(count)
    items = outline(rows)

    seen = {item.key for item in items if item.row is not None and item.state.is_issue}
    counted = sum(item.hidden_issues for item in items)
    assert len(seen) + counted == rows[0].issues == count // 10


def test_an_order_is_applied_once_among_siblings_and_new_rows_come_last() -> None:
    rows, _ = billing_rows()
    by_total = ranks(rows, "total")

    ordered = names(outline(rows, known=by_total))
    assert ordered == ["port-billing", "invoices", "survey-api", "fuzz-amounts", "webhooks", "docs"]
    newest = msgspec.structs.replace(rows[1], session_id="0198f0aa-new", name="newest")
    assert names(outline([*rows, newest], known=by_total))[-1] == "newest"
    assert still_holds(Forest.of(rows), "total", by_total)
    spent_more = msgspec.structs.replace(rows[1], total=rows[0].total)
    assert not still_holds(Forest.of([rows[0], spent_more, *rows[2:]]), "total", by_total)
    assert names(outline(rows, known=ranks(rows, "name")))[1:] == sorted(names(outline(rows))[1:])
    assert ranks(rows, "spawned") == {}


def test_jumping_to_issues_goes_round_and_opens_what_hides_them() -> None:
    rows, _ = billing_rows()
    found, folding, selected = [], Folding(), None
    for _ in range(6):
        selected = next_issue(rows, {}, selected, 1)
        assert selected is not None
        folding = opened_to(rows, folding, selected)
        assert selected in {item.key for item in outline(rows, folding)}
        found.append(next(title(row) for row in rows if row.session_id == selected))

    assert found == ["legacy-shim", "webhooks", "case-08", "docs", "legacy-shim", "webhooks"]
    assert next_issue(rows, {}, rows[0].session_id, -1) == next(row.session_id for row in rows if row.name == "docs")
    assert next_issue(rows[:2], {}, None, 1) is None


def test_a_session_in_a_group_is_opened_with_its_group() -> None:
    rows = crowd()
    done = next(row for row in rows if row.state.word == "completed")

    folding = opened_to(rows, Folding(depth=0), done.session_id)

    assert done.session_id in {item.key for item in outline(rows, folding)}


def test_ancestors_of_a_hit_stay_and_are_dimmed() -> None:
    rows, now = billing_rows()
    query = parse_query("status:retrying")
    hits = frozenset(row.session_id for row in rows if query.meets(row, now))

    items = outline(rows, Folding(depth=0), hits=hits)

    assert names(items) == ["port-billing", "invoices", "tax-rounding"]
    assert [item.is_dim for item in items] == [True, True, False]


@settings(max_examples=60)
@given(
    scripts,
    st.sampled_from(ORDERS),
    st.integers(0, 4),
    st.sets(st.integers(0, 30), max_size=6),
    st.sampled_from(["", "status:failed", "model-1", "cost>0.1"]),
)
def test_no_fold_order_or_filter_changes_a_figure(
    script: Script, order: str, depth: int, toggled: set[int], text: str
) -> None:
    rows = played(script).rows()
    folding = Folding(depth=depth, many=3)
    for place in toggled:
        row = rows[place % len(rows)]
        folding = folding.set(row.session_id, is_open=place % 2 == 0)
    query = parse_query(text)
    hits = frozenset(row.session_id for row in rows if query.meets(row, 0.0)) if text else None

    items = outline(rows, folding, ranks(rows, order), hits)  # type: ignore[arg-type]

    known = {row.session_id: row for row in rows}
    assert all(item.row is known[item.key] for item in items if item.row is not None)
    assert len({item.key for item in items}) == len(items)
    for place, item in enumerate(items):
        if item.row is not None and item.is_open and hits is None:
            below = spend_of(item.row.own) if item.row.own else Spend()
            for other in items[place + 1 :]:
                if other.level <= item.level:
                    break
                if other.level == item.level + 1:
                    below += other.group.total if other.group else spend_of(other.row.total)  # type: ignore[union-attr, arg-type]
            assert below == spend_of(item.row.total)  # type: ignore[arg-type]
    if hits is None:
        for item in items:
            if item.row is not None and item.is_open is False:
                assert item.hidden_issues == item.row.issues - item.row.state.is_issue


HITS = {
    "": 32 + 1,
    "status:failed": 2,
    "status:needs_input": 1,
    "status:needs": 1,
    "model:haiku": 24 + 3,
    "depth:2": 27,
    "depth>1 model:sonnet": 1,
    "cost>0.1": 2,
    "cost>$0.1 depth>0": 1,
    "tokens>100k": 2,
    "tokens<=110 status:completed": 19,
    "ctx>70": 1,
    "ctx>=61% status:waiting": 1,
    "quiet>2m": 3,
    "tool:bash": 1,
    "name:case": 24,
    "signing SECRET": 1,
    "pytest billing": 1,
    "nothing-of-this-kind": 0,
}


@pytest.mark.parametrize("text", HITS)
def test_words_and_terms_are_joined_by_and(text: str) -> None:
    rows, now = billing_rows()
    query = parse_query(text)

    assert query.problem == ""
    assert sum(query.meets(row, now) for row in rows) == HITS[text]


@pytest.mark.parametrize("text", ["cost>much", "quiet>2x", "tokens:", "depth:2k", "status>failed", "model:"])
def test_a_term_that_is_none_says_what_was_expected_and_hides_nothing(text: str) -> None:
    rows, now = billing_rows()
    query = parse_query(text)

    assert query.problem.startswith("expected ")
    assert all(query.meets(row, now) for row in rows)
