"""The progress of a run: a third of the screen at most, what needs somebody first, and what stays at the end."""

import pytest

from orchestrator.views.grid import Look
from orchestrator.views.progress import MAX_LINES, chosen, final_lines, progress_lines
from orchestrator.views.spans import line_cells, line_text
from store.usage import PICO_PER_USD
from tests.orchestrator.views.billing import billing, billing_rows
from tests.orchestrator.views.drawn import texts
from tests.orchestrator.views.events import Stream
from tests.orchestrator.views.test_grid import HOSTILE


def test_the_sample() -> None:
    rows, now = billing_rows()

    lines = texts(progress_lines(rows, Look(79, now), 30, 10 * PICO_PER_USD))

    assert lines == [
        "◌ port-billing                 [1q] waiting for 2 of 5 childr…  ≥ $0.49   4m43s",
        "├ ● invoices                   edit src/billing/invoice.py · …    $0.18   4m29s",
        "│ ├ ✗ legacy-shim              failed · invalid_request: tool…    $0.02      7s",
        "│ └ ● invoice-tests            bash pytest -q tests/billing ·…    $0.00   4m12s",
        "├ ❯ webhooks                   needs input · Which signing se…   <$0.01      6s",
        "├ ● fuzz-amounts               wait_agents · 20 of 24 done · … ≥ <$0.01   3m52s",
        "│ └ ✗ case-08                  failed · tool error: rounding …   <$0.01      7s",
        "├ ⇥ docs                       limit reached · cost limit $0.…   <$0.01      7s",
        "└ + 25 more: 4 running, 1 retrying, 20 ended",
        "33 agents · 8 running · 4 issues · 426k tok · ≥ $0.49 of $10.00 · 4m43s",
    ]


@pytest.mark.parametrize("height", [3, 8, 24, 30, 60, 200])
@pytest.mark.parametrize("width", [20, 39, 79, 119, 199])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_it_takes_a_third_of_the_screen_at_most_and_no_line_is_too_wide(
    width: int, height: int, is_ascii: bool
) -> None:
    rows, now = billing_rows()

    lines = progress_lines(rows, Look(width, now, is_ascii), height)

    assert 0 < len(lines) <= max(2, min(MAX_LINES, height // 3))
    assert all(line_cells(line) <= width for line in lines)
    assert not is_ascii or all(line_text(line).isascii() for line in lines)


def test_what_needs_somebody_and_what_works_is_kept_first() -> None:
    stream = Stream()
    root = stream.root().begins()
    for number in range(1_000):
        child = root.spawns(f"case-{number}").begins()
        if number == 900:
            child.settles("failed", "no")
        elif number != 950:
            child.answers("ok").settles()

    kept = {row.name for row in chosen(stream.rows(), 5)}

    assert {"root", "case-900", "case-950"} <= kept
    assert len(kept) == 4


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_in_its_line(hostile: str) -> None:
    stream = Stream()
    stream.root(hostile).begins().spawns(hostile).begins().calls_tool(hostile, command=hostile)

    for line in progress_lines(stream.rows(), Look(79, stream.now), 40):
        assert line_cells(line) <= 79
        assert not any(char < " " or "\x7f" <= char <= "\x9f" or char == "\u202e" for char in line_text(line))


def test_the_end_of_a_tree_that_went_well_in_two_lines() -> None:
    stream = Stream()
    root = stream.root().begins()
    root.spawns("child").begins().answers().settles()
    root.answers().settles()

    lines = texts(final_lines(stream.rows(), Look(79, stream.now)))

    assert lines == [
        "✓ completed · 2 agents · 14s · <$0.01 · 220 tok",
        f"  where it went: sapwood usage {root.place.root_id[-8:]}",
    ]


def test_the_end_of_a_tree_with_trouble_counts_outcomes_and_names_models_without_a_price() -> None:
    stream = billing()
    root = next(iter(stream.sessions.values()))
    root.answers("So far.").settles()

    lines = texts(final_lines(stream.rows(), Look(79, stream.now), 10 * PICO_PER_USD))

    assert lines[0] == "✓ completed · 33 agents · 4m46s · ≥ $0.49 of $10.00 · 426k tok"
    assert lines[1] == ("  7 running, 1 retrying, 1 needs input, 21 completed, 2 failed, 1 limit reached")
    assert lines[2] == "  price unknown: local/qwen (58k tok), so ≥ is a lower bound"
    assert lines[3].startswith("  where it went: sapwood usage ")


def test_without_rows_there_is_nothing_to_show() -> None:
    assert progress_lines([], Look(79, 0.0), 24) == final_lines([], Look(79, 0.0)) == []
