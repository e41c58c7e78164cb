"""Which sessions of an interrupted tree have something left to do: a pure function of its journals."""

from collections.abc import Collection, Mapping

from actors.protocol.restore import waits_for_a_run
from store.attribution import own_records
from store.entries import ChildSettledEntry, ChildSpawnedEntry, MessageEntry
from store.messages import AssistantMessage, decode_message
from store.repair import Node, admitting_entry, before_spawn, is_bounded, is_run_open, next_run, own_children


def unfinished(nodes: Mapping[str, Node], root_id: str, unreadable: Collection[str] = ()) -> dict[str, str | None]:
    """The sessions that go on, parents before their children, each with its task if it has not heard that yet.

    A run is gone on with where it stands, unless its parent was told that it has ended. A child that was never begun begins, if
    its task is known: the journal of its parent holds a long one only where a tool call did. Else it is lost, as are those whose
    journal is there and cannot be read.
    """
    found: dict[str, str | None] = {}
    root = nodes.get(root_id)
    if root is not None and _has_work(root):
        found[root_id] = None
    waiting, seen = [root_id], {root_id}
    while waiting:
        parent = nodes.get(waiting.pop(0))
        if parent is None:
            continue
        told = _told(parent)
        for child in own_children(parent):
            session = child.child_session_id
            if session in seen:
                continue
            seen.add(session)
            waiting.append(session)
            node = nodes.get(session)
            if session in unreadable or (session, 1 if node is None else next_run(node.tree.own_records)) in told:
                continue
            if node is None or _has_not_begun(node):
                task = task_of(child, parent)
                if task is not None:
                    found[session] = task
            elif _has_work(node):
                found[session] = None
    return found


def _told(parent: Node) -> set[tuple[str, int]]:
    """Which runs of its children a session was told of."""
    bodies = (record.body() for record in own_records(parent.header, parent.records) if record.type == "child_settled")
    return {(body.child_session_id, body.run) for body in bodies if isinstance(body, ChildSettledEntry)}


def _has_work(node: Node) -> bool:
    return is_run_open(node.tree.own_records) or waits_for_a_run(node.tree.own_records)


def _has_not_begun(node: Node) -> bool:
    """No message and no end of a run: its task never reached it."""
    return not any(record.type in {"message", "custom_message", "run_settled"} for record in node.tree.own_records)


def task_of(child: ChildSpawnedEntry, parent: Node) -> str | None:
    """The whole prompt of a child; None where no journal holds it."""
    if not is_bounded(child.prompt):
        return child.prompt
    record = admitting_entry(before_spawn(parent.records, child), child.tool_call_id)
    body = None if record is None else record.body()
    message = decode_message(body.message) if isinstance(body, MessageEntry) else None
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    for call in calls:
        prompt = call.checked_arguments.get("prompt") if call.id == child.tool_call_id else None
        if isinstance(prompt, str):
            return prompt
    return None
