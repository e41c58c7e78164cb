"""What a tree, or a part of it, spent: the shape of `sapwood usage --json`."""

import msgspec

from orchestrator.views.spent import Spent, own_sum, spent
from orchestrator.views.stored import Member, Stored, members, subtree, summary_of
from store.usage import NOTHING, Spend, Usage, spend_of, usage_of


class UsageNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One session. `own` and `total` are None where its journal cannot be read and nothing was attributed."""

    session_id: str
    parent_session_id: str | None
    name: str | None
    depth: int
    model: str | None
    outcome: str | None
    own: Usage | None
    total: Usage | None
    unpriced_models: tuple[str, ...]


class UsageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The first node is the session that was asked for, `total` is its total.

    `verified`: that total is the sum of own over the nodes, to the last unit, and every journal was read whole.
    `unrepaired`: entries that a crash left out; they are counted here, and the next owner writes them.
    """

    root_session_id: str
    nodes: tuple[UsageNode, ...]
    total: Usage | None
    verified: bool
    unrepaired: int

    @property
    def difference(self) -> Spend:
        """How far total and sum of own are apart, in every count and in money: each as it is, without its sign."""
        counts = {
            name: abs(getattr(self._total, name) - getattr(self._own, name))
            for name in Spend.__struct_fields__
            if name != "unpriced"
        }
        return Spend(**counts)

    @property
    def _total(self) -> Spend:
        return NOTHING if self.total is None else spend_of(self.total)

    @property
    def _own(self) -> Spend:
        return own_sum([Spent(spend_of(node.own) if node.own else None, None) for node in self.nodes])


def usage_report(stored: Stored, session_id: str | None = None) -> UsageReport:
    """The report of the sub-tree under `session_id`, by default of the whole tree. Raises KeyError if it is not in it."""
    all_members = members(stored)
    part = subtree(all_members, session_id or stored.root_id)
    if not part:
        raise KeyError(session_id)
    spends = spent(all_members)
    shown = [spends[member.session_id] for member in part]
    total = shown[0].total
    is_whole = not any(member.session_id in stored.troubles for member in part)
    is_verified = is_whole and all(each.is_verifiable for each in shown) and total == own_sum(shown)
    return UsageReport(
        root_session_id=stored.root_id,
        nodes=tuple(_node(member, spends[member.session_id], stored.root_id) for member in part),
        total=None if total is None else usage_of(total),
        verified=is_verified,
        unrepaired=stored.unrepaired,
    )


def _node(member: Member, spend: Spent, root_id: str) -> UsageNode:
    found = summary_of(member, root_id)
    return UsageNode(
        session_id=member.session_id,
        parent_session_id=member.parent_id,
        name=found.name,
        depth=member.depth,
        model=found.model,
        outcome=None if found.is_open else found.outcome,
        own=None if spend.own is None else usage_of(spend.own),
        total=None if spend.total is None else usage_of(spend.total),
        unpriced_models=tuple(sorted(spend.total.unpriced)) if spend.total else (),
    )
