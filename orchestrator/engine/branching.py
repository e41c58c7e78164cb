"""A summary by the model of a branch that is left."""

from collections.abc import Sequence
from typing import Any

import attrs
import trio

from actors.clock import Clock
from actors.protocol.compaction import CompactionPolicy, branch_cut
from actors.protocol.model import ModelFailure, ModelRequest, ReplyEnd
from actors.protocol.retry import RetryPolicy
from actors.reply import Reply
from actors.summary import Summariser, details_of, with_files
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.models import Models
from store.context import build_context
from store.entries import UsageEntry
from store.records import Record
from store.size import context_tokens
from store.usage import Usage, usage_of


@attrs.frozen
class BranchSummary:
    """What the model says of the branch, and what that cost."""

    text: str
    details: dict[str, Any]
    usage: Usage


class NoSummary(EngineError):
    """There is none, and why; `billed` is what the calls cost all the same."""

    def __init__(self, reason: str, billed: UsageEntry | None) -> None:
        super().__init__(f"the branch could not be summarised, and nothing was changed: {reason}")
        self.billed = billed


def summarised_branch(
    current: Sequence[Record],
    kept: Sequence[Record],
    models: Models,
    session: tuple[str, str],
    compaction: CompactionPolicy,
    retry: RetryPolicy,
) -> BranchSummary:
    """Ask the session's own model about what stands on `current` and not on `kept`. Raises WrongUsage, NoSummary."""
    shared = {record.id for record in kept}
    left = [record for record in current if record.id not in shared]
    cut = branch_cut(left, context_tokens(current) or 0)
    named = build_context(current).model
    if cut is None:
        raise WrongUsage("nothing was said on the branch that is left, so there is nothing to summarise")
    if named is None:
        raise WrongUsage("the session names no model; say yourself what the branch held: --summary TEXT")
    model, info = models.get("/".join(named))

    async def call(request: ModelRequest, reply: Reply) -> ReplyEnd | ModelFailure:
        return await model.call(request, reply.hear)

    summariser = Summariser(info, (*session, 0), call, Clock(), compaction, retry)

    async def asked() -> tuple[str | None, str]:
        try:
            return await summariser.text(cut)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2):
                await models.aclose()

    text, reason = trio.run(asked)
    if text is None:
        raise NoSummary(reason, summariser.billed("branch_summary"))
    return BranchSummary(with_files(text, cut), details_of(cut), usage_of(summariser.spent))
