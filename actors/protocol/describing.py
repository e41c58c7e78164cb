"""What a session says of itself when its run has ended well: whether it waits for somebody, and for what."""

import re
from typing import Any

_LINE_CHARS = 200
# Behind the last sentence may stand quotes, brackets and marks of emphasis.
_CLOSING = " \t*_`\"'”’»)]}"
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|^[#>\-*\d.)\s]+")
# Said out of politeness: nothing waits for an answer.
_POLITE = re.compile(r"\b(anything else|something else|else I can|can I help|be of help)\b", re.IGNORECASE)


def question_in(answer: str) -> str | None:
    """The question that an answer ends with; None where it ends with none, or with a polite one."""
    lines = [line for line in answer.strip().split("\n") if line.strip()]
    if not lines or not lines[-1].rstrip(_CLOSING).endswith(("?", "？")):
        return None
    sentence = [part for part in _SENTENCE.split(lines[-1].strip()) if part][-1].strip(_CLOSING)
    return None if _POLITE.search(sentence) else sentence[:_LINE_CHARS]


def status_of(answer: str, messages: int) -> dict[str, Any] | None:
    """The `status` of an `agent_status` after a run that ended well, without asking a model.

    Only a question is worth an entry: what else there is to say stands in the outcome and in the answer's first line.
    """
    question = question_in(answer)
    if question is None:
        return None
    return {"summary": question, "taskState": "needs_input", "basedOnMessageCount": messages}
