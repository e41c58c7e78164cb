"""One fold: in rows, reports and JSON a parent is always its own part and its children, to the last unit."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.views.bills import bills
from orchestrator.views.grid import Look
from orchestrator.views.live import LiveTree
from orchestrator.views.money import exact_money, money
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from orchestrator.views.text import cells
from orchestrator.views.usage_report import UsageNode, UsageReport, usage_report
from orchestrator.views.usage_table import HEADS, Row, part_lines, part_rows, parted, session_rows
from store.entries import CompactionEntry, UsageEntry
from store.replay import replay_lines
from store.usage import Price, Spend, Usage, add_up, priced, spend_of
from tests.orchestrator.views.drawn import listed, texts, usage_text
from tests.stored import PRICE, Forest, StoredSession, read, sample

FREE = Price()
PRICES: list[Price | None] = [PRICE, None, FREE, Price(input=3_333_333, output=7)]

counts = st.tuples(*[st.integers(0, 500_000)] * 4)
steps = st.lists(
    st.tuples(
        st.sampled_from(["spawn", "answer", "answer", "late", "settle"]), st.integers(0, 30), counts, st.integers(0, 3)
    ),
    max_size=24,
)


def grow(forest: Forest, script: list[tuple[str, int, tuple[int, ...], int]]) -> StoredSession:
    """A tree after these steps. `late`: billed, and its attributions were not written yet."""
    root = forest.root()
    root.prompt()
    for kind, where, tokens, price in script:
        session = list(forest.sessions.values())[where % len(forest.sessions)]
        if kind == "spawn":
            session.child(f"child-{forest.count}").prompt()
        elif kind == "settle":
            session.settle()
        else:
            session.is_billed_alone = kind == "late"
            session.answer(tokens=tokens, model=f"test/model-{price}", price=PRICES[price])
    return root


def spend(usage: Usage | None) -> Spend:
    assert usage is not None
    return spend_of(usage)


def assert_sums(nodes: list[AgentRow] | tuple[UsageNode, ...]) -> None:
    for node in nodes:
        below = add_up(spend(other.total) for other in nodes if other.parent_session_id == node.session_id)
        assert spend(node.total) == spend(node.own) + below
        assert node.unpriced_models == tuple(sorted(spend(node.total).unpriced))


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from(["alive", "dead", "elsewhere"]))
def test_a_parent_is_its_own_part_and_its_children(
    script: list[tuple[str, int, tuple[int, ...], int]], owner: str
) -> None:
    """M3, M5, M7."""
    with tempfile.TemporaryDirectory() as folder:
        forest = Forest.at(Path(folder) / "home")
        root = grow(forest, script)
        if owner == "alive":
            forest.own(root)
        elif owner == "elsewhere":
            forest.owned_elsewhere(root)
        stored = read(forest, root)
        rows = tree_rows(stored, forest.now)
        assert len(rows) == len(forest.sessions)
        assert_sums(rows)
        assert_the_stream_tells_the_same(stored, rows)
        for session in forest.sessions:
            report = usage_report(stored, session)
            assert report.verified
            assert_sums(report.nodes)
            written = msgspec.json.decode(msgspec.json.encode(report), type=UsageReport)
            assert spend(written.total) == add_up(spend(node.own) for node in written.nodes)
            assert written.total == next(row.total for row in rows if row.session_id == session)
        assert_unknown_stays_unknown(rows)
        assert_table_sums(stored, rows[0])
        forest.close()


def assert_the_stream_tells_the_same(stored: Stored, rows: list[AgentRow]) -> None:
    """Live is as after a reload."""
    fold = LiveTree()
    for line in replay_lines(stored.nodes, stored.root_id):
        fold.take_line(line)
    told = {row.session_id: row for row in fold.rows()}
    for row in rows:
        shown = told[row.session_id]
        assert (spend(shown.own), spend(shown.total)) == (spend(row.own), spend(row.total))
        assert (shown.message_count, shown.turns, shown.name) == (row.message_count, row.turns, row.name)


def assert_unknown_stays_unknown(rows: list[AgentRow]) -> None:
    by_id = {row.session_id: row for row in rows}
    for row in rows:
        if not spend(row.own).unpriced:
            continue
        above: AgentRow | None = row
        while above is not None:
            assert spend(row.own).unpriced <= set(above.unpriced_models)
            assert money(above.total).startswith(("?", "≥ "))
            assert exact_money(above.total).startswith(("?", "≥ "))
            above = by_id.get(above.parent_session_id or "")


def assert_table_sums(stored: Stored, top: AgentRow) -> None:
    report, total = usage_report(stored), spend(top.total)
    assert_rows_sum([dict(zip(HEADS["session"], row, strict=True)) for row in session_table(stored)], total)
    for by in ("model", "day"):
        found = parted(bills(stored, report), [report], by)  # type: ignore[arg-type]
        assert found.verified
        assert spend(found.total) == total
        assert_rows_sum([dict(zip(HEADS[found.by], row, strict=True)) for row in part_rows(found)], total)


def session_table(stored: Stored) -> list[Row]:
    return list(session_rows(bills(stored, usage_report(stored))))


def assert_rows_sum(table: list[dict[str, str]], total: Spend) -> None:
    assert sum(int(row["input"]) for row in table) == total.input
    assert sum(int(row["cacheWrite"]) for row in table) == total.cache_write
    assert sum(int(row["costUsd"].replace(".", "") or 0) for row in table) == total.total_pico
    if table and "model" in table[0]:
        assert {row["model"] for row in table if row["priceKnown"] == "no"} == set(total.unpriced)
    assert any(row["priceKnown"] == "no" for row in table) == bool(total.unpriced)


@pytest.fixture
def forest(tmp_path: Path) -> Forest:
    return Forest.at(tmp_path / "home")


def test_a_report_is_what_programs_rely_on(forest: Forest) -> None:
    root = sample(forest)

    report = msgspec.json.decode(msgspec.json.encode(usage_report(read(forest, root))))

    assert list(report) == ["rootSessionId", "nodes", "total", "verified", "unrepaired"]
    assert list(report["nodes"][0]) == (
        ["sessionId", "parentSessionId", "name", "depth", "model", "outcome", "own", "total", "unpricedModels"]
    )
    assert list(report["total"]) == ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"]
    assert [node["outcome"] for node in report["nodes"]] == ["completed", "completed", "completed", "failed"]
    assert report["nodes"][0]["parentSessionId"] is None
    assert report["verified"] is True
    assert report["unrepaired"] == 0


def test_summaries_and_calls_that_left_nothing_else_count(forest: Forest) -> None:
    root = forest.root()
    root.uses("test/opus")
    kept = root.prompt()
    usage = priced(Usage(input=1_000, output=10, total_tokens=1_010), PRICE, "test/opus")
    root.add(CompactionEntry(summary="s", first_kept_entry_id=kept, tokens_before=9, usage=usage))
    root.add(UsageEntry(kind="status", provider="test", model="haiku", usage=usage))

    stored = read(forest, root)

    assert usage_report(stored).nodes[0].own == Usage(
        input=2_000,
        output=20,
        total_tokens=2_020,
        cost=msgspec.structs.replace(usage.cost, input=0.002, output=0.0002, total=0.0022),
    )
    assert [row[HEADS["session"].index("model")] for row in session_table(stored)] == ["test/opus", "test/haiku"]


def test_a_report_of_a_child_stands_for_itself(forest: Forest) -> None:
    root = sample(forest)
    stored = read(forest, root)
    invoices = next(session for session in stored.nodes if stored.nodes[session].header.name == "invoices")

    report = usage_report(stored, invoices)

    assert report.root_session_id == root.id
    assert [(node.name, node.depth) for node in report.nodes] == [("invoices", 1), ("tax-rounding", 2)]
    assert report.verified
    assert usage_text(report)[1].startswith("invoices ")


def test_nobody_has_a_report_of_a_stranger(forest: Forest) -> None:
    with pytest.raises(KeyError):
        usage_report(read(forest, sample(forest)), "0198f0aa-stranger")


def test_what_a_crash_left_out_is_counted_and_told(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    child = root.child("child")
    child.prompt()
    child.is_billed_alone = True
    child.answer()

    report = usage_report(read(forest, root))

    assert report.verified
    assert report.total == report.nodes[1].own
    assert report.unrepaired > 0
    assert "opening the session again writes them" in usage_text(report)[-2]


def test_spend_that_no_journal_bears_out_is_not_verified(forest: Forest) -> None:
    root = sample(forest)
    shim = next(session for session in forest.sessions.values() if session.header.name == "legacy-shim")
    shim.bill_ancestors("00000099", Spend(input=1_200, input_pico=1_200_000_000, total_pico=1_200_000_000))

    report = usage_report(read(forest, root))

    assert not report.verified
    assert usage_text(report)[-1] == (
        "4 sessions, own sums to total: NOT verified, differs by $0.0012: run sapwood sessions check"
    )


def test_a_damaged_journal_is_never_verified(forest: Forest) -> None:
    root = sample(forest)
    next(session for session in forest.sessions.values() if session.header.name == "invoices").damage()

    report = usage_report(read(forest, root))

    assert not report.verified
    assert "NOT verified" in usage_text(report)[-1]


def test_a_child_that_was_taken_away_keeps_what_came_through_it(forest: Forest) -> None:
    root = sample(forest)
    shim = next(session for session in forest.sessions.values() if session.header.name == "legacy-shim")
    shim.path.unlink()

    stored = read(forest, root)
    row = next(row for row in tree_rows(stored, forest.now) if row.name == "legacy-shim")

    assert row.own is None
    assert spend(row.total).input == 900
    assert row.outcome == "failed"
    assert "differs by $0.0009" in usage_text(usage_report(stored))[-1]


def test_the_report_as_text(forest: Forest) -> None:
    lines = usage_text(usage_report(read(forest, sample(forest))))

    assert lines == [
        "Name              Model   Outcome      Input  Output  Cached      Own      Total",
        "port-billing      opus    ✓ completed   3.2k     140    1.0k  $0.0047  ≥ $0.0464",
        "  invoices        sonnet  ✓ completed    30k     900     13k  $0.0408  ≥ $0.0408",
        "    tax-rounding  qwen    ✓ completed    58k      12       0        ?          ?",
        "  legacy-shim     haiku   ✗ failed       900       0       0  $0.0009    $0.0009",
        "",
        "no price for local/qwen (58k tokens), so ≥ is a lower bound",
        "4 sessions, own sums to total: verified",
    ]
    assert all(line.isascii() for line in usage_text(usage_report(read(forest, sample(forest))), is_ascii=True))


@pytest.mark.parametrize(("width", "heads"), [(80, 8), (72, 7), (64, 6), (56, 5), (40, 3), (24, 3), (10, 3)])
def test_a_narrow_terminal_does_without_some_columns_of_the_report(forest: Forest, width: int, heads: int) -> None:
    lines = usage_text(usage_report(read(forest, sample(forest))), width)

    assert all(cells(line) <= width for line in lines)
    if width > 24:
        assert len(lines[0].split()) == heads
        assert lines[1].endswith("≥ $0.0464")


def test_the_tree_as_text_is_never_wider_than_the_terminal(forest: Forest) -> None:
    root = sample(forest)
    rows = tree_rows(read(forest, root), forest.now)

    assert listed(rows, 80) == [
        " Name                  Status        Doing               Total  Ctx   Time Below",
        " ▾ port-billing        ✓ completed   Billing is port…  ≥ $0.05 3.1k    23s   0/3",
        " ├ ▾ invoices          ✓ completed   Ported, 14 call…  ≥ $0.04  43k    10s   0/1",
        " │ └ tax-rounding      ✓ completed   Half even.              ?  58k     4s",
        " └ legacy-shim         ✗ failed      invalid_request…   <$0.01    4     3s",
    ]
    assert all(line.isascii() for line in listed(rows, 120, is_ascii=True))


def test_by_model_and_by_day_as_text(forest: Forest) -> None:
    stored = read(forest, sample(forest))
    report = usage_report(stored)

    by_model = texts(part_lines(parted(bills(stored, report), [report], "model"), [report], Look(100, 0.0)))
    by_day = texts(part_lines(parted(bills(stored, report), [report], "day"), [report], Look(44, 0.0)))

    assert by_model == [
        "Model        Sessions  Calls  Input  Output  Cached       Cost",
        "test/sonnet         1      1    30k     900     13k    $0.0408",
        "test/opus           1      2   3.2k     140    1.0k    $0.0047",
        "test/haiku          1      1    900       0       0    $0.0009",
        "local/qwen          1      1    58k      12       0          ?",
        "Total               4      5    92k    1.1k     14k  ≥ $0.0464",
        "",
        "no price for local/qwen (58k tokens), so ≥ is a lower bound",
        "parts sum to total: verified",
    ]
    assert by_day[0].split() == ["Day", "Sessions", "Calls", "Cost"]
    assert by_day[2].endswith("≥ $0.0464")
    assert "parts sum to total: verified" in by_day


def test_parts_of_a_tree_that_does_not_add_up_are_not_verified(forest: Forest) -> None:
    root = sample(forest)
    shim = next(session for session in forest.sessions.values() if session.header.name == "legacy-shim")
    shim.bill_ancestors("00000099", Spend(input=1_200, input_pico=1_200_000_000, total_pico=1_200_000_000))
    stored = read(forest, root)
    report = usage_report(stored)

    found = parted(bills(stored, report), [report], "model")

    assert not found.verified
    assert "NOT verified" in texts(part_lines(found, [report], Look(100, 0.0)))[-1]
