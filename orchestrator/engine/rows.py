"""From the journals of a stored tree to the rows and counters that its actors go on with."""

from collections.abc import Mapping

import msgspec

from actors.directory import Row
from actors.mailbox import Mailbox
from actors.protocol.supervision import Member
from actors.run_time import RunTime
from actors.tree import Tree
from store.aggregates import aggregates
from store.attribution import account
from store.context import build_context
from store.entries import (
    MOVES_LEAF,
    ChildSettledEntry,
    ChildSpawnedEntry,
    Entry,
    ModelChangeEntry,
    RunSettledEntry,
    ServiceTierChangeEntry,
    SessionStateEntry,
    ThinkingLevelChangeEntry,
)
from store.events import Place
from store.folding import ARCHIVED
from store.origins import RunOrigin, first_origin
from store.records import name_given
from store.repair import Node, admitting_entry, is_run_open, next_run, own_children, runs
from store.times import unix_s

_SETTINGS = frozenset({"model_change", "thinking_level_change", "service_tier_change"})


def plant(tree: Tree, nodes: dict[str, Node]) -> None:
    """Give the tree a row for every stored session, the root's first. Limits count what was spawned before."""
    root = nodes[tree.root.id]
    fill(tree.root, root)
    if (name := name_of(root)) is not None:
        tree.root.name, tree.root.is_named = name, True
    waiting = [tree.root]
    while waiting:
        parent = waiting.pop(0)
        node = nodes.get(parent.id)
        if node is None:
            continue
        spawned = own_children(node)
        names = frozenset(child.name for child in spawned)
        supervisor = tree.supervisor
        member = msgspec.structs.replace(supervisor.state.members[parent.id], children=names)
        state = supervisor.state.with_member(parent.id, member)
        for child in spawned:
            row = _child(tree, parent, node, child, nodes.get(child.child_session_id))
            state = state.with_member(row.id, Member(child.child_depth, row.model))
            waiting.append(row)
        supervisor.state = msgspec.structs.replace(state, children=state.children + len(spawned))


def _child(tree: Tree, parent: Row, parent_node: Node, spawned: ChildSpawnedEntry, node: Node | None) -> Row:
    place = Place(spawned.child_session_id, tree.root.id, parent.id, spawned.child_depth)
    row = Row(place, spawned.name, spawned.model, parent, Mailbox(tree.supervisor.clock))
    row.mailbox.close()
    tools, thinking = spawned.limits.get("tools"), spawned.limits.get("thinking")
    row.tools = tuple(map(str, tools)) if isinstance(tools, list) else parent.tools
    row.thinking = thinking if isinstance(thinking, str) else parent.thinking
    admitting = admitting_entry(parent_node.records, spawned.tool_call_id)
    row.limits = {name: float(value) for name, value in spawned.limits.items() if isinstance(value, int | float)}
    row.target_id = None if admitting is None else admitting.id
    row.origin = RunOrigin(first_origin(spawned.tool_call_id))
    tree.supervisor.directory.add(row)
    if node is None:
        # It cannot be read. What its parent was told of it holds.
        row.runs, row.outcome = told_of(parent_node, row.id)
    else:
        fill(row, node)
        row.time = run_time(row.limits, node)
    return row


def run_time(limits: Mapping[str, float], node: Node) -> RunTime | None:
    """The time that a run of the session may take, less what its last runs worked if they were interrupted; None: no limit."""
    if "timeout_s" not in limits:
        return None
    time = RunTime(limits["timeout_s"])
    if (worked_s := interrupted_s(node)) > 0:
        time.left_s = max(0.0, time.limit_s - worked_s)
    return time


def interrupted_s(node: Node) -> float:
    """How long the session worked in its last runs that were interrupted, one after the other; while nobody did does not count."""
    worked_s = 0.0
    began = last = unix_s(node.header.timestamp)
    for record in node.records:
        body = record.body() if record.type == "run_settled" else None
        if isinstance(body, RunSettledEntry):
            span_s = last - began if began is not None and last is not None else 0.0
            worked_s = worked_s + span_s if body.outcome == "lost" else 0.0
            began = last = None
        elif record.type in MOVES_LEAF:
            last = unix_s(record.timestamp)
            began = last if began is None else began
    # One that is still open: whoever worked on it is gone.
    return worked_s + (last - began if began is not None and last is not None and is_run_open(node.records) else 0.0)


def told_of(parent: Node, session_id: str) -> tuple[int, str]:
    """The last run of a child that its parent was told of, and how that ended."""
    last = 0, "lost"
    for record in parent.records:
        body = record.body() if record.type == "child_settled" else None
        if isinstance(body, ChildSettledEntry) and body.child_session_id == session_id and body.run > last[0]:
            last = body.run, body.outcome
    return last


def fill(row: Row, node: Node) -> None:
    """What a journal says of its session."""
    spent = account(node.header, node.records)
    ended = runs(node.records)
    row.own, row.below = spent.own, spent.children
    row.aggregates = aggregates(node.header, node.records)
    for record in node.tree.own_records:
        row.origin.take(record)
    row.runs, row.outcome = next_run(node.records) - 1, ended[-1].outcome if ended else ""
    row.turns = sum(1 for record in node.records if record.type == "message" and b'"role":"assistant"' in record.raw)
    row.is_stored = True
    row.is_gone = _is_archived(node)
    for setting in _settings(node):
        match setting:
            case ModelChangeEntry() if row.parent is not None:
                row.model = f"{setting.provider}/{setting.model_id}"
            case ThinkingLevelChangeEntry() if row.parent is not None or not row.thinking:
                row.thinking = setting.thinking_level
            case ServiceTierChangeEntry():
                row.service_tier = setting.service_tier


def _settings(node: Node) -> list[Entry]:
    """What the session worked by last: one of each kind, from its own branch."""
    last = {record.type: record for record in node.tree.path() if record.type in _SETTINGS}
    return [record.body() for record in last.values()]


def _is_archived(node: Node) -> bool:
    """What the last state of the session says."""
    states = [record.body() for record in node.tree.own_records if record.type == "session_state"][-1:]
    return any(isinstance(body, SessionStateEntry) and body.state.get("status") in ARCHIVED for body in states)


def name_of(node: Node) -> str | None:
    """What the session is called now."""
    infos = (record for record in reversed(node.records) if record.type == "session_info")
    return name_given(node.header, next(infos, None))


def model_of(node: Node) -> str | None:
    """`provider/id` of the model that the session uses."""
    model = build_context(node.tree.path()).model
    return None if model is None else f"{model[0]}/{model[1]}"
