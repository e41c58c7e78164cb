"""Which tools a run gives to its agents."""

from orchestrator.engine.errors import WrongUsage
from orchestrator.tools.registry import builtin_tools


def chosen_tools(listed: str | None) -> tuple[str, ...] | None:
    """The tools of a comma-separated list; None: all. Raises WrongUsage for one that there is not."""
    if listed is None:
        return None
    known = builtin_tools()
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise WrongUsage(f"no tool is named {', '.join(unknown)}; tools: {', '.join(known)}")
    return names
