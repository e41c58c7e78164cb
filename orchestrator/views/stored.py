"""A stored tree in plain values: what the views are made from."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeVar

import attrs

from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.folding import first_line, summarized
from store.repair import Node, own_children
from store.summary import LINE_CHARS, Summary

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


def summary_of(member: Member, root_id: str) -> Summary:
    """What its journal says of a session; where that is silent, what its parent's says. Its place is the one in this tree."""
    spawned, settled = member.spawned, member.settled
    if member.node is not None:
        found, _ = summarized(member.node)
        found.root_id, found.parent_id, found.depth = root_id, member.parent_id, member.depth
    else:
        found = Summary(member.session_id, root_id, member.parent_id, member.depth, cwd="", created="")
        if settled is not None:
            found.outcome, found.run_error = settled.outcome, settled.error_message
            found.answer = first_line(settled.text)
    if spawned is not None:
        found.name, found.model = found.name or spawned.name, found.model or spawned.model
        found.first_prompt = found.first_prompt or spawned.prompt[:LINE_CHARS]
    return found


class Placed(Protocol):
    """One of a tree, in a list that has parents before their children."""

    @property
    def session_id(self) -> str: ...

    @property
    def depth(self) -> int: ...


T = TypeVar("T", bound=Placed)


def subtree(tree: Sequence[T], session_id: str) -> list[T]:
    """`session_id` and what is below it; empty if it is not in the tree."""
    for place, top in enumerate(tree):
        if top.session_id == session_id:
            end = place + 1
            while end < len(tree) and tree[end].depth > top.depth:
                end += 1
            return list(tree[place:end])
    return []
