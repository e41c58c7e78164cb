"""What a tree of journals lacks after a crash: a plan, as a pure function. Owners write it, readers apply it in memory.

Nothing is changed and nothing is taken away; a second plan after the first was carried out is empty.
"""

from collections.abc import Collection, Iterator, Mapping

import attrs
import msgspec

from store.aggregates import aggregates
from store.attribution import account, billed, own_records
from store.context import last_assistant
from store.entries import (
    ChildSettledEntry,
    ChildSpawnedEntry,
    Header,
    Known,
    MessageEntry,
    RunSettledEntry,
)
from store.errors import BadRecord, BadUsage
from store.interruption import interrupted_results
from store.messages import AssistantMessage, BashExecutionMessage, decode_message
from store.origins import origins
from store.records import Draft, Record
from store.tree import EntryTree
from store.usage import spend_of
from store.wire import encode

SETTLED_TEXT_BYTES = 48 * 1024


class Fix(msgspec.Struct, frozen=True):
    """One entry that is to be appended to the journal of `session_id`, at its leaf."""

    session_id: str
    body: Known


@attrs.define
class Node:
    """One session of the tree, as its journal has it."""

    header: Header
    tree: EntryTree

    @property
    def records(self) -> list[Record]:
        return self.tree.records


def repair_plan(nodes: Mapping[str, Node], root_id: str, going_on: Collection[str] = ()) -> list[Fix]:
    """The entries that are missing, children before their parents. Sessions whose file is missing are not in `nodes`.

    `going_on`: sessions whose run is taken up again, so that it is not over.
    """
    plan: list[Fix] = []
    outcomes: dict[str, list[RunSettledEntry]] = {}
    told = _told(nodes)
    for session, node in post_order(nodes, root_id):
        closing = [] if session in going_on else _closing(node, session != root_id, told.get(session, {}))
        plan += [Fix(session, body) for body in closing]
        outcomes[session] = runs(node.records) + [body for body in closing if isinstance(body, RunSettledEntry)]
        plan += [Fix(session, body) for body in _missing_notices(node, nodes, outcomes, going_on)]
        plan += [Fix(session, body) for body in _missing_attributions(session, node, nodes)]
    return plan


def _told(nodes: Mapping[str, Node]) -> dict[str, dict[int, ChildSettledEntry]]:
    """What parents' journals say of how runs of their children ended, by child and run."""
    found: dict[str, dict[int, ChildSettledEntry]] = {}
    for node in nodes.values():
        for record in own_records(node.header, node.records):
            if record.type == "child_settled" and isinstance(body := record.body(), ChildSettledEntry):
                found.setdefault(body.child_session_id, {}).setdefault(body.run, body)
    return found


def with_fixes(nodes: Mapping[str, Node], plan: list[Fix]) -> dict[str, Node]:
    """The tree as it is once `plan` is carried out, in memory. `nodes` stays as it is."""
    fixed = dict(nodes)
    for session in {fix.session_id for fix in plan}:
        fixed[session] = Node(nodes[session].header, EntryTree.of(list(nodes[session].records), nodes[session].header))
    for fix in plan:
        tree = fixed[fix.session_id].tree
        last = tree.records[-1].timestamp if tree.records else ""
        tree.add(Draft.of(fix.body).record(tree.next_ids(1)[0], tree.leaf_id, last))
    return fixed


def post_order(nodes: Mapping[str, Node], root_id: str) -> Iterator[tuple[str, Node]]:
    """Sessions below and with `root_id`, children first, each once, however deep the tree is."""
    seen = {root_id}
    stack = [(root_id, False)]
    while stack:
        session, is_expanded = stack.pop()
        node = nodes.get(session)
        if node is None:
            continue
        if is_expanded:
            yield session, node
            continue
        stack.append((session, True))
        for child in reversed(own_children(node)):
            if child.child_session_id not in seen:
                seen.add(child.child_session_id)
                stack.append((child.child_session_id, False))


def children_of(records: list[Record]) -> list[ChildSpawnedEntry]:
    """The children that a journal names, in the order of their spawn, each once."""
    found: dict[str, ChildSpawnedEntry] = {}
    for record in records:
        if record.type == "child_spawned" and isinstance(body := record.body(), ChildSpawnedEntry):
            found.setdefault(body.child_session_id, body)
    return list(found.values())


def own_children(node: Node) -> list[ChildSpawnedEntry]:
    """The children that a session itself spawned: those in what a fork copied are its source's."""
    return children_of(list(own_records(node.header, node.records)))


def runs(records: list[Record]) -> list[RunSettledEntry]:
    """The runs of a session that have ended."""
    bodies = (record.body() for record in records if record.type == "run_settled")
    return [body for body in bodies if isinstance(body, RunSettledEntry)]


def next_run(records: list[Record]) -> int:
    """The number of the run that is open, or that comes next. A lost `run_settled` must not make a number come twice."""
    return max((run.run for run in runs(records)), default=0) + 1


def is_run_open(records: list[Record]) -> bool:
    """Whether a message stands after the last `run_settled`: then a run was going on."""
    for record in reversed(records):
        if record.type == "run_settled":
            return False
        if record.type == "custom_message" or (record.type == "message" and not _is_bash(record)):
            return True
    return False


def _is_bash(record: Record) -> bool:
    """Whether the message is a command of the person, which begins no run."""
    body = record.body() if b"bashExecution" in record.raw else None
    try:
        return isinstance(body, MessageEntry) and isinstance(decode_message(body.message), BashExecutionMessage)
    except BadRecord:
        return False


def _closing(node: Node, is_child: bool, told: Mapping[int, ChildSettledEntry]) -> list[Known]:
    """Error results for calls that a crash cut off, and `run_settled` for each run that nobody goes on with.

    Calls without a result on the path of an idle session are no crash: somebody went back to them, and context building
    answers them. A child that never ended a run lost it before its first message. Where the parent was told how a run ended (its
    journal may be durable before the child's is), that is how it ended, also if nothing else is left of it: without its
    `run_settled` the next run would have the same number, and the notice of that would be taken for one that was given.
    """
    is_open = is_run_open(node.tree.own_records)
    first = next_run(node.records)
    ended = {run for run in told if run >= first}
    if is_open or (is_child and first == 1):
        ended.add(first)
    results = interrupted_results(node.tree) if is_open else []
    return [*results, *(_as_told(told.get(run), run) for run in sorted(ended))]


def _as_told(told: ChildSettledEntry | None, run: int) -> RunSettledEntry:
    if told is None:
        return RunSettledEntry(run=run, outcome="lost")
    return RunSettledEntry(
        run=run, outcome=told.outcome, stop_reason=told.stop_reason, error_message=told.error_message
    )


def _missing_notices(
    node: Node, nodes: Mapping[str, Node], outcomes: dict[str, list[RunSettledEntry]], going_on: Collection[str]
) -> list[Known]:
    told = {
        (body.child_session_id, body.run)
        for record in node.records
        if record.type == "child_settled" and isinstance(body := record.body(), ChildSettledEntry)
    }
    missing: list[Known] = []
    for child in own_children(node):
        session = child.child_session_id
        ended = outcomes.get(session) or ([] if session in going_on else [RunSettledEntry(run=1, outcome="lost")])
        records = nodes[session].tree.own_records if session in nodes else []
        missing += [
            child_settled(session, run, answer_of(records, run.run)) for run in ended if (session, run.run) not in told
        ]
    return missing


def child_settled(session: str, run: RunSettledEntry, text: str) -> ChildSettledEntry:
    """The notice of a run's end. A long text is cut, and says so: the whole stays in the child."""
    return ChildSettledEntry(
        child_session_id=session,
        run=run.run,
        outcome=run.outcome,
        stop_reason=run.stop_reason,
        error_message=run.error_message,
        text=bounded(text, SETTLED_TEXT_BYTES),
    )


def bounded(text: str, limit_bytes: int) -> str:
    """`text`, or as much of its beginning as fits, never cut inside a character."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return text
    kept = data[:limit_bytes].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: {len(data) - len(kept.encode())} bytes more in the session itself]"


def is_bounded(text: str) -> bool:
    """Whether `bounded` has cut it, as far as its end says."""
    return text.endswith(" bytes more in the session itself]")


def answer_of(records: list[Record], run: int) -> str:
    """The text of the last assistant message of a run: its answer, or what there is of it."""
    is_its = run >= next_run(records)
    for record in reversed(records):
        body = record.body() if record.type == "run_settled" else None
        if isinstance(body, RunSettledEntry):
            if body.run < run:
                break
            is_its = body.run == run
        elif is_its and record.type == "message" and (message := last_assistant([record])) is not None:
            return message.text
    return ""


def admitting_entry(records: list[Record], tool_call_id: str | None) -> Record | None:
    """The assistant message whose tool call has this id (the latest, as ids may repeat)."""
    if tool_call_id is None:
        return None
    needle = encode(tool_call_id)
    for record in reversed(records):
        if record.type == "message" and needle in record.raw and isinstance(body := record.body(), MessageEntry):
            try:
                message = decode_message(body.message)
            except BadRecord:
                continue
            if isinstance(message, AssistantMessage) and any(call.id == tool_call_id for call in message.calls):
                return record
    return None


def before_spawn(records: list[Record], child: ChildSpawnedEntry) -> list[Record]:
    """The records before `child_spawned`: a later answer may use the call's id again."""
    needle = encode(child.child_session_id)
    for place, record in enumerate(records):
        if record.type == "child_spawned" and needle in record.raw:
            return records[:place]
    return records


def _missing_attributions(session: str, node: Node, nodes: Mapping[str, Node]) -> list[Known]:
    """What descendants were billed and this session's journal does not hold yet."""
    known = set(account(node.header, node.records).keys)
    sums = aggregates(node.header, node.records)
    missing: list[Known] = []
    for child in own_children(node):
        target = admitting_entry(before_spawn(node.records, child), child.tool_call_id)
        target_id = None if target is None else target.id
        direct = nodes.get(child.child_session_id)
        whys, last = origins(child, [] if direct is None else direct.tree.own_records)
        for origin, below in post_order(nodes, child.child_session_id):
            for entry, usage in billed(below.header, below.records):
                if (origin, entry) in known or origin == session:
                    continue
                try:
                    spend = spend_of(usage)
                except BadUsage:
                    continue
                known.add((origin, entry))
                missing.append(
                    sums.attribution(
                        target_id,
                        spend,
                        origin=(origin, entry),
                        child_session_id=child.child_session_id,
                        why=whys.get((origin, entry), last),
                    )
                )
    return missing
