"""All agents in one line."""

from collections.abc import Sequence

from orchestrator.views.money import money, tokens
from orchestrator.views.outline import Forest
from orchestrator.views.rows import AgentRow
from orchestrator.views.text import count
from store.usage import add_up, spend_of, usage_of


def summary_line(rows: Sequence[AgentRow]) -> str:
    """How many, in which states, and what all trees among `rows` have spent: roots hold the sum of what is below."""
    spend = add_up(spend_of(row.total) for row in Forest.of(rows).roots if row.total)
    words = [row.state.word for row in rows]
    issues = sum(row.state.is_issue for row in rows)
    parts = [
        count(len(rows), "agent"),
        *(f"{words.count(word)} {word}" for word in ("running", "waiting") if word in words),
        *([count(issues, "issue")] if issues else []),
        f"{tokens(spend.tokens)} tok",
        money(usage_of(spend)),
    ]
    return " · ".join(parts)
