"""Whether an answer waits for somebody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.describing import question_in, status_of

ASKING = {
    "Which signing secret should v3 use?": "Which signing secret should v3 use?",
    "I ported it. Which secret should v3 use?": "Which secret should v3 use?",
    "Two ways are open:\n1. fast\n2. safe\n\n**Which one do you want?**": "Which one do you want?",
    'Done so far.\n> Should I delete the old table?"': "Should I delete the old table?",
    "どちらにしますか？": "どちらにしますか？",
    "- a\n- or b?": "or b?",
}
NOT_ASKING = [
    "",
    "All is ported.",
    "Why did it fail? The shim was missing.",
    "Is it safe?\nYes: all tests pass.",
    "Done. Is there anything else I can help with?",
    "Ported. Anything else?",
    "`a ? b : c`",
]


@pytest.mark.parametrize("answer", ASKING)
def test_a_question_at_the_end_is_what_it_waits_for(answer: str) -> None:
    assert question_in(answer) == ASKING[answer]
    assert status_of(answer, 7) == {
        "summary": ASKING[answer],
        "taskState": "needs_input",
        "basedOnMessageCount": 7,
    }


@pytest.mark.parametrize("answer", NOT_ASKING)
def test_other_answers_wait_for_nobody(answer: str) -> None:
    assert question_in(answer) is None
    assert status_of(answer, 7) is None


@given(st.text())
def test_any_answer_is_looked_at_and_no_line_grows_long(answer: str) -> None:
    question = question_in(answer + "?")
    assert question is None or len(question) <= 200
