"""What the calls of a cell are given, looked at before it goes to the host: a mistake is told where it was made."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any


def name_of(agent: Any) -> str:
    """Whatever names an agent: every call takes a handle, a row of a list, a result or a name."""
    name = getattr(agent, "name", agent)
    if not isinstance(name, str) or not name:
        raise TypeError(f"expected the name or handle of an agent, found {agent!r}")
    return name


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def is_period(value: Any) -> bool:
    return is_amount(value) and bool(value > 0)


def checked(option: str, value: Any, wanted: str, is_right: Callable[[Any], bool]) -> Any:
    """None stands for an option that is not given."""
    if (value is None and option != "prompt") or is_right(value):
        return value
    raise TypeError(f"expected {wanted} as {option}, found {value!r}")


def unknown_option(option: str, known: list[str]) -> str:
    near = difflib.get_close_matches(option, known, n=1)
    return f"rlm() has no option {option}=; " + (
        f"did you mean {near[0]}=?" if near else f"known are {', '.join(known)}"
    )
