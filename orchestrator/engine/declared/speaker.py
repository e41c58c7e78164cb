"""Who plays the moves of a declared tree in place of a session's model."""

from collections.abc import Sequence
from contextlib import suppress

import attrs
import msgspec

from actors.directory import Row
from actors.protocol.model import (
    BlockEnded,
    CallArguments,
    CallStarted,
    Hear,
    Model,
    ModelFailure,
    ModelRequest,
    ReplyEnd,
    TextChunk,
)
from orchestrator.engine.declared.moves import Conclude, Move, Start, next_move
from orchestrator.engine.declared.plan import SPAWN, PlannedNode, TreePlan
from store.entries import CustomEntry
from store.records import Record
from store.wire import encode

PLAN_MARK = "sapwood.tree"
TASK = "Carry out the declared tree."
"""What the root is asked where the file has no prompt for it."""


@attrs.frozen
class Declared:
    """A declared tree: its sessions start their children, by the tools that models have for it, before they are asked."""

    plan: TreePlan

    @property
    def entry(self) -> CustomEntry:
        """How the root's journal keeps the plan, so that an interrupted tree can go on with it."""
        return CustomEntry(custom_type=PLAN_MARK, data=msgspec.to_builtins(self.plan))

    def speaker(self, row: Row) -> Model | None:
        """Who speaks for the session now; None: its own model."""
        names = [row.name, *(ancestor.name for ancestor, _ in row.ancestors())][:-1]
        node = self.plan.at(names[::-1])
        if node is None or not node.children or row.outbox is None:
            return None
        move = next_move(node, row.outbox.tree.own_records)
        return None if move is None else _Played(move)


def declared_in(records: Sequence[Record]) -> Declared | None:
    """The plan that a root's journal keeps, if any. One that a newer sapwood wrote, and that cannot be read here, is not played."""
    for record in records:
        body = record.body() if record.type == "custom" else None
        if isinstance(body, CustomEntry) and body.custom_type == PLAN_MARK:
            with suppress(msgspec.ValidationError):
                return Declared(msgspec.convert(body.data, TreePlan))
    return None


@attrs.frozen
class _Played:
    """One answer, as if a model had given it. It costs nothing."""

    move: Move

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        await hear(TextChunk(0, self.move.text))
        await hear(BlockEnded(0))
        if isinstance(self.move, Conclude) and self.move.failure is not None:
            return ModelFailure("invalid_request", self.move.failure)
        if not isinstance(self.move, Start):
            return ReplyEnd("stop")
        for place, (node, prompt) in enumerate(self.move.nodes, start=1):
            await hear(CallStarted(place, f"declared_{request.call}_{place}", SPAWN))
            await hear(CallArguments(place, encode(_arguments(node, prompt)).decode()))
            await hear(BlockEnded(place))
        return ReplyEnd("toolUse")


def _arguments(node: PlannedNode, prompt: str) -> dict[str, object]:
    own = {"name": node.name, "prompt": prompt, "model": node.model, "thinking": node.thinking, "tools": node.tools}
    given = {**own, **msgspec.structs.asdict(node.limits)}
    return {name: value for name, value in given.items() if value is not None}
