"""What one invocation is to do, and how it ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import attrs

from actors.flusher import Durability
from actors.protocol.compaction import CompactionPolicy
from actors.protocol.limits import Limits
from actors.protocol.retry import RetryPolicy
from actors.protocol.trial import AutonomyPolicy, GatePolicy
from orchestrator.dialects.projection import NATIVE, Projection
from orchestrator.engine.declared.plan import TreePlan
from store.messages import Visible

DURABILITY: tuple[str, ...] = get_args(Durability)


@attrs.frozen
class Job:
    """`session`: a stored session to go on with; `fork`: one to copy and go on with the copy; neither: a new one.

    `prompt` empty: the tree waits for what it is told; None: a stored one that was interrupted goes on where it was.
    `budgets`: `max_cost` in dollars and `max_tokens` for the whole tree, `timeout_s` for this run of it.
    `stream`: how the stream is told, where it is asked for (`is_json`).
    `tree`: what is declared of its children. `terms`: what its journal keeps of it, for one that
    goes on after an interruption; None: what is kept there already.
    `model` None with a stored session: the one that it had. `tools` None: all. `is_kept` False: nothing is written to disk.
    """

    prompt: str | tuple[Visible, ...] | None
    model: str | None
    cwd: Path
    environ: Mapping[str, str]
    limits: Limits = attrs.field(factory=Limits)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)
    compaction: CompactionPolicy = attrs.field(factory=CompactionPolicy)
    fallback_model: str | None = None
    waits_for_reset: bool = False
    gates: GatePolicy = attrs.field(factory=GatePolicy)
    autonomy: AutonomyPolicy = attrs.field(factory=AutonomyPolicy)
    budgets: Mapping[str, float] = attrs.field(factory=dict)
    timeout_s: float | None = None
    session: str | None = None
    fork: str | None = None
    name: str | None = None
    tree: TreePlan | None = None
    terms: Mapping[str, Any] | None = None
    tools: tuple[str, ...] | None = None
    thinking: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    has_context_files: bool = True
    is_kept: bool = True
    durability: Durability = "group"
    is_json: bool = False
    stream: Projection = NATIVE


@attrs.frozen
class Ended:
    """How it ended. `answer`: text of the root's last message; `error`: why it did not end well."""

    status: int
    outcome: str
    root_id: str
    answer: str = ""
    error: str | None = None

    @property
    def has_answer(self) -> bool:
        """It ended well, or a limit ended it and what it had was handed back."""
        return self.status == 0 or (self.status == 3 and self.outcome == "limit_reached" and bool(self.answer))
