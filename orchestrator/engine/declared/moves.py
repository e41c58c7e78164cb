"""What a session with declared children does before its own model is asked: a pure function of its journal and the plan."""

from collections.abc import Sequence
from typing import Literal

import attrs

from actors.protocol.rules.batch import NOT_RUN
from actors.protocol.rules.delivery import notice_text
from actors.protocol.rules.family import RUN_ENDING
from actors.protocol.tools import TOOL_ABORTED
from orchestrator.engine.declared.plan import ANSWER_OF, SPAWN, PlannedNode, TreePlan
from store.context import INTERRUPTED
from store.entries import ChildSettledEntry, MessageEntry
from store.errors import BadRecord
from store.messages import AssistantMessage, ToolResultMessage, decode_message, text_of
from store.records import Record
from store.repair import children_of, runs

_SHOWN = 3
# Results of a call that say nothing about whether there will be a child: it is asked for again.
_NOT_DECIDED = frozenset({INTERRUPTED, NOT_RUN, TOOL_ABORTED, f"{SPAWN} was refused: {RUN_ENDING}"})


@attrs.frozen
class Standing:
    """How a declared child stands. `text` is its answer, or why it is not started."""

    status: Literal["open", "running", "ended", "refused", "skipped"]
    outcome: str = ""
    text: str = ""
    error_message: str | None = None

    @property
    def is_over(self) -> bool:
        return self.status not in {"open", "running"}

    @property
    def is_good(self) -> bool:
        return self.outcome == "completed"


@attrs.frozen
class Start:
    """These are started, each with its whole prompt."""

    nodes: tuple[tuple[PlannedNode, str], ...]
    text: str


@attrs.frozen
class Rest:
    """Somebody is at work: nothing to do until one has ended."""

    text: str


@attrs.frozen
class Conclude:
    """All is over and nobody asks the root anything. `failure` None: every one has completed."""

    text: str
    failure: str | None


Move = Start | Rest | Conclude


def next_move(node: PlannedNode | TreePlan, records: Sequence[Record]) -> Move | None:
    """What the session does now. None: its own model goes on."""
    stand = standings(node.children, records)
    ready = [child for child in node.children if stand[child.name].status == "open" and _may_start(child, stand)]
    if ready:
        started = tuple((child, prompt_of(child, stand)) for child in ready)
        is_first = all(standing.status == "open" for standing in stand.values())
        names = ", ".join(child.name for child in ready)
        return Start(started, _outline(node.children) if is_first else f"Next, as declared: {names}.")
    working = [name for name, standing in stand.items() if standing.status == "running"]
    if working:
        return Rest(f"At work: {_few(working)}.")
    if isinstance(node, TreePlan) and node.prompt is None and not _is_asked_more(records):
        return _conclusion(stand)
    return None


def _few(names: Sequence[str]) -> str:
    """Not all of many: it is said again whenever one has ended, and stays in the context of the session's own model."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _is_asked_more(records: Sequence[Record]) -> bool:
    """Whether somebody wants more of the root than that it carries out its tree: then its model answers."""
    asked = sum(1 for record in records if record.type == "message" and b'"role":"user"' in record.raw)
    waiting = any(record.type == "mail" and b'"from":"user"' in record.raw for record in records)
    return asked > 1 or waiting or bool(runs([*records]))


def standings(children: Sequence[PlannedNode], records: Sequence[Record]) -> dict[str, Standing]:
    """How each of them stands, by name."""
    spawned = {child.name: child.child_session_id for child in children_of([*records])}
    ended = _ends(records)
    refused = _refusals(records)
    found: dict[str, Standing] = {}
    for child in children:
        end = ended.get(spawned.get(child.name, ""))
        if end is not None:
            found[child.name] = Standing("ended", end.outcome, end.text, end.error_message)
        elif child.name in spawned:
            found[child.name] = Standing("running")
        elif child.name in refused:
            found[child.name] = Standing("refused", text=refused[child.name])
        else:
            found[child.name] = Standing("open")
    while left_out := [child for child in children if found[child.name].status == "open" and _blocked_by(child, found)]:
        for child in left_out:
            text = f"it comes after {_blocked_by(child, found)[0]}, which has not completed"
            found[child.name] = Standing("skipped", text=text)
    return found


def _ends(records: Sequence[Record]) -> dict[str, ChildSettledEntry]:
    """How the last run of each child has ended, by session."""
    bodies = (record.body() for record in records if record.type == "child_settled")
    return {body.child_session_id: body for body in bodies if isinstance(body, ChildSettledEntry)}


def _refusals(records: Sequence[Record]) -> dict[str, str]:
    """Which names were asked for in vain, and why."""
    asked: dict[str, str] = {}
    refused: dict[str, str] = {}
    for record in records:
        if record.type != "message" or SPAWN.encode() not in record.raw:
            continue
        body = record.body()
        try:
            message = decode_message(body.message) if isinstance(body, MessageEntry) else None
        except BadRecord:
            continue
        if isinstance(message, AssistantMessage):
            asked |= {call.id: str(call.checked_arguments.get("name")) for call in message.calls if call.name == SPAWN}
        elif isinstance(message, ToolResultMessage) and message.is_error and message.tool_call_id in asked:
            text = text_of(message.content)
            if text not in _NOT_DECIDED:
                refused[asked[message.tool_call_id]] = text
    return refused


def _blocked_by(node: PlannedNode, stand: dict[str, Standing]) -> list[str]:
    return [name for name in node.after if stand[name].is_over and not stand[name].is_good]


def _may_start(node: PlannedNode, stand: dict[str, Standing]) -> bool:
    return all(stand[name].is_good for name in node.after)


def prompt_of(node: PlannedNode, stand: dict[str, Standing]) -> str:
    """The prompt with the answers of those before it: where `{{child.NAME}}` stands, else in front."""
    placed = set(ANSWER_OF.findall(node.prompt))
    front = [
        notice_text(name, stand[name].outcome, stand[name].text, None) for name in node.after if name not in placed
    ]
    return "\n\n".join([*front, ANSWER_OF.sub(lambda match: stand[match[1]].text, node.prompt)])


def _outline(children: Sequence[PlannedNode]) -> str:
    lines = [f"- {child.name}{' after ' + ', '.join(child.after) if child.after else ''}" for child in children]
    return "\n".join(
        ["These agents are declared; one that comes after others is started once all of them have completed:", *lines]
    )


def _conclusion(stand: dict[str, Standing]) -> Conclude:
    parts = [
        notice_text(name, one.outcome, one.text, one.error_message)
        if one.status == "ended"
        else f"## {name}: not started\n{one.text}"
        for name, one in stand.items()
    ]
    bad = [f"{name} ({one.outcome or 'not started'})" for name, one in stand.items() if not one.is_good]
    failure = f"{len(bad)} of {len(stand)} declared agents did not complete: {_few(bad)}" if bad else None
    return Conclude("\n\n".join(parts), failure)
