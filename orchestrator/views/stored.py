"""A stored tree in plain values: what the views are made from."""

from collections.abc import Mapping
from typing import Literal

import attrs

from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.repair import Node, own_children

OwnerState = Literal["alive", "dead", "unknown"]


@attrs.frozen
class Stored:
    """The sessions of one tree, and what is known of its owner.

    troubles    what is wrong with a journal that is there and cannot be read whole, by session id
    pid         of the owner, dead or alive
    unrepaired  how many entries of `nodes` stand in memory only
    folder      where the journals lie
    """

    root_id: str
    nodes: Mapping[str, Node]
    owner: OwnerState
    pid: int | None = None
    troubles: Mapping[str, str] = attrs.field(factory=dict)
    unrepaired: int = 0
    folder: str = ""


@attrs.frozen
class Member:
    """One session of the tree. `node` None: its journal is missing or nothing in it can be read.

    `spawned` and `settled` are what its parent's journal says of it: its birth, and the end of its latest run.
    """

    session_id: str
    parent_id: str | None
    depth: int
    node: Node | None
    spawned: ChildSpawnedEntry | None = None
    settled: ChildSettledEntry | None = None


def members(stored: Stored) -> list[Member]:
    """The tree in the order of spawning, parents before their children, each session once."""
    found: list[Member] = []
    seen = {stored.root_id}
    waiting = [Member(stored.root_id, None, 0, stored.nodes.get(stored.root_id))]
    while waiting:
        member = waiting.pop()
        found.append(member)
        if member.node is None:
            continue
        ends = {
            body.child_session_id: body
            for record in member.node.records
            if record.type == "child_settled" and isinstance(body := record.body(), ChildSettledEntry)
        }
        born = [child for child in own_children(member.node) if child.child_session_id not in seen]
        seen.update(child.child_session_id for child in born)
        waiting += [
            Member(
                child.child_session_id,
                member.session_id,
                member.depth + 1,
                stored.nodes.get(child.child_session_id),
                child,
                ends.get(child.child_session_id),
            )
            for child in reversed(born)
        ]
    return found


def subtree(all_members: list[Member], session_id: str) -> list[Member]:
    """`session_id` and what is below it; empty if it is not in the tree."""
    for place, member in enumerate(all_members):
        if member.session_id == session_id:
            end = place + 1
            while end < len(all_members) and all_members[end].depth > member.depth:
                end += 1
            return all_members[place:end]
    return []
