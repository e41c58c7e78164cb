"""Fifteen states: each has its word and its signs, and none passes for another."""

import pytest

from orchestrator.views.states import STATES, state
from store.entries import OUTCOMES


def test_words_glyphs_and_ascii_signs_all_differ() -> None:
    assert len(STATES) == 15
    assert len({each.glyph for each in STATES.values()}) == 15
    assert len({each.ascii for each in STATES.values()}) == 15
    assert len({each.short for each in STATES.values()}) == 15
    assert all(each.ascii.isascii() and len(each.ascii) == 1 for each in STATES.values())


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_own_state(outcome: str) -> None:
    assert state("idle", outcome).word == outcome.replace("_", " ")


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome != "completed"])
def test_what_went_wrong_is_never_shown_as_needs_input(outcome: str) -> None:
    assert state("idle", outcome, "needs_input").word == outcome.replace("_", " ")


@pytest.mark.parametrize("outcome", [None, "completed"])
def test_a_question_goes_before_a_good_end(outcome: str | None) -> None:
    assert state("idle", outcome, "needs_input").word == "needs input"


@pytest.mark.parametrize(("status", "outcome"), [("idle", "exploded"), ("stalled", None), ("", "completed")])
def test_a_word_that_nobody_knows_is_neither_work_nor_success(status: str, outcome: str | None) -> None:
    found = state(status, outcome)

    assert found.word == "unknown"
    assert not found.is_working


def test_what_needs_somebody() -> None:
    assert {word for word, each in STATES.items() if each.is_issue} == {
        "needs input",
        "failed",
        "timed out",
        "limit reached",
        "lost",
        "damaged",
    }
    assert {word for word, each in STATES.items() if each.is_working} == {
        "running",
        "waiting",
        "retrying",
        "compacting",
    }
