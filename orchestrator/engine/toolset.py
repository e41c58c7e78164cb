"""Which tools a run gives to its agents."""

from actors.protocol.tools import Tool
from orchestrator.engine.errors import WrongUsage
from orchestrator.tools.ipython import IpythonTool
from orchestrator.tools.kernel.kernels import Kernels
from orchestrator.tools.registry import builtin_tools


def all_tools(kernels: Kernels) -> dict[str, Tool]:
    """By name, in the order in which models are told of them. Kernels start when they are first used."""
    return {"ipython": IpythonTool(kernels), **builtin_tools()}


def chosen_tools(listed: str | None) -> tuple[str, ...] | None:
    """The tools of a comma-separated list; None: all. Raises WrongUsage for one that there is not."""
    if listed is None:
        return None
    known = ("ipython", *builtin_tools())
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise WrongUsage(f"no tool is named {', '.join(unknown)}; tools: {', '.join(known)}")
    return names
