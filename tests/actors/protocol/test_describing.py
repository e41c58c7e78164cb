"""Whether an answer waits for somebody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.describing import Description, description_prompt, question_in, read_description, status_of

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


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("COMPLETED: the invoices are ported", Description("the invoices are ported", "completed")),
        ("Sure!\n**NEEDS_INPUT**: which secret?", Description("which secret?", "needs_input")),
        ("completed: x" + "y" * 500, Description("x" + "y" * 199, "completed")),
        ("It is completed.", None),
        ("COMPLETED:", None),
        ("", None),
    ],
)
def test_a_model_is_believed_only_in_the_form_that_it_was_asked_for(said: str, found: Description | None) -> None:
    assert read_description(said) == found


def test_of_a_long_answer_the_model_is_shown_the_end() -> None:
    prompt = description_prompt("a" * 100_000 + " the end")

    assert prompt.endswith(" the end\n</answer>")
    assert len(prompt) < 9_000


def test_what_a_model_said_goes_before_the_question() -> None:
    assert status_of("Which one?", 3, Description("done", "completed")) == {
        "summary": "done",
        "taskState": "completed",
        "basedOnMessageCount": 3,
    }
    assert status_of("Which one?", 3, Description()) == status_of("Which one?", 3)
