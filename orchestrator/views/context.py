"""How full a context is."""

from collections.abc import Callable, Sequence

import msgspec

from orchestrator.views.money import ABSENT, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import Signs
from store.size import reserve_tokens


def percent(row: AgentRow) -> int | None:
    """Of the model's window, rounded down; None where either is not known."""
    if row.context_tokens is None or not row.context_window:
        return None
    return row.context_tokens * 100 // row.context_window


def is_full(row: AgentRow) -> bool:
    """Whether a summary is made before the next request."""
    window, held = row.context_window, row.context_tokens
    return bool(window) and held is not None and held > (window or 0) - reserve_tokens(window or 0)


def context_text(row: AgentRow) -> str:
    """`61%`, `93%!` at the threshold of a summary; tokens where the window is not known."""
    found = percent(row)
    if found is None:
        return ABSENT if row.context_tokens is None else tokens(row.context_tokens)
    return f"{found}%{'!' if is_full(row) else ''}"


def bar(part: float, size: int, drawn: Signs) -> str:
    """`size` cells of which `part` (0 to 1) is full; a cell that is begun counts."""
    full = min(size, max(0, round(part * size)))
    return drawn.full * full + drawn.empty * (size - full)


def with_windows(rows: Sequence[AgentRow], window: Callable[[str], int | None]) -> list[AgentRow]:
    """The rows with the windows of their models. `window(model)`: tokens, None where it is not known."""
    known: dict[str, int | None] = {}
    found: list[AgentRow] = []
    for row in rows:
        model = row.model
        if model is not None and row.context_window is None:
            if model not in known:
                known[model] = window(model)
            if known[model]:
                row = msgspec.structs.replace(row, context_window=known[model])
        found.append(row)
    return found
