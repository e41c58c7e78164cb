"""A tree file among the options of `run`."""

from pathlib import Path
from typing import Any

import msgspec

from orchestrator.engine.declared.plan import TreePlan, read_plan
from orchestrator.engine.declared.speaker import TASK
from orchestrator.engine.prompt import readable


def as_declared(
    file: Path, options: dict[str, Any], words: tuple[str, ...], piped: str
) -> tuple[TreePlan, dict[str, Any], tuple[str, ...]]:
    """The plan, the options with those of the file where none was given, and the words of the root's prompt.

    The command line's prompt wins over that of the file. Raises WrongUsage.
    """
    plan = read_plan(file)
    given = {name: value for name, value in options.items() if value is not None}
    asked = " ".join(map(readable, words)) or plan.prompt or piped or None
    if not words:
        prompt = plan.prompt or ("" if piped else TASK)
        words = (f"@{prompt}" if prompt.startswith("@") else prompt,)
    return msgspec.structs.replace(plan, prompt=asked), {**options, **plan.options(), **given}, words
