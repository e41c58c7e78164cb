"""What is known of one session beside its work: names, places, limits, where it came from."""

from collections.abc import Mapping

import msgspec

from orchestrator.views.called import shown_text
from orchestrator.views.money import dollars, money, spent_tokens, tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.stored import Stored, members
from orchestrator.views.text import one_line
from store.entries import TERMS_MARK, ChildSpawnedEntry, GitStateEntry
from store.messages import UserMessage, text_of
from store.records import last_marked, message_in
from store.repair import Node
from store.usage import PICO_PER_USD

_LIMITS = (
    "max_cost",
    "max_tokens",
    "max_turns",
    "max_depth",
    "max_children",
    "max_live_children",
    "timeout",
    "timeout_s",
)


class Facts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Label and text, in the order in which they are shown. `prompt`: the first one. `entries`: those that can be read.

    `maxCost`: dollars that it and all below it may spend, where that was said.
    """

    facts: tuple[tuple[str, str], ...]
    prompt: str
    entries: int
    max_cost: float | None


def facts(stored: Stored, session_id: str, row: AgentRow) -> Facts:
    """Of a session of the tree. Raises KeyError."""
    member = next((each for each in members(stored) if each.session_id == session_id), None)
    if member is None:
        raise KeyError(session_id)
    node = member.node
    limits = _limits(node, member.spawned)
    found = {
        "Session": session_id,
        "Parent": member.parent_id,
        "Root": stored.root_id,
        "Model": row.model,
        "Folder": row.cwd,
        "Journal": row.path,
        "Created": row.created,
        "Last event": row.last_event_at,
        "Host": f"pid {row.host_pid}" if row.host_pid is not None else None,
        "Messages": None if row.message_count is None else str(row.message_count),
        "Origin": _origin(member.spawned),
        "Limits": " · ".join(_used(name, value, row) for name, value in limits.items()),
        "Git": _git(node),
        "Unrepaired": f"{stored.unrepaired} entries that a crash left out" if stored.unrepaired else None,
    }
    prompt = _prompt(node) or (member.spawned.prompt if member.spawned else "")
    return Facts(
        facts=tuple((label, one_line(text, 1_000)) for label, text in found.items() if text),
        prompt=shown_text(prompt),
        entries=len(node.records) if node else 0,
        max_cost=limits.get("max_cost"),
    )


def _origin(spawned: ChildSpawnedEntry | None) -> str:
    if spawned is None:
        return "a prompt of a person"
    return (
        f"spawned by its parent, tool call {spawned.tool_call_id}" if spawned.tool_call_id else "spawned by its parent"
    )


def _limits(node: Node | None, spawned: ChildSpawnedEntry | None) -> dict[str, float]:
    """What was set for a child at its spawn, and for a root when its run began."""
    terms = last_marked(node.records, TERMS_MARK) if node else None
    found: Mapping[str, object] = terms if terms is not None else spawned.limits if spawned else {}
    return {name: value for name, value in found.items() if name in _LIMITS and isinstance(value, int | float)}


def _used(name: str, limit: float, row: AgentRow) -> str:
    """A limit, and how much of it is used up where the row knows."""
    match name:
        case "max_cost":
            return f"{money(row.total)} of {dollars(round(limit * PICO_PER_USD))}"
        case "max_tokens":
            return f"{tokens(spent_tokens(row.total))} of {tokens(int(limit))} tokens"
        case "max_children":
            return f"{row.descendants} of {limit:g} children"
        case "max_turns":
            return f"{row.turns or 0} of {limit:g} turns"
        case "max_depth":
            return f"{limit:g} levels of children"
    return f"{name.replace('_', ' ')} {limit:g}"


def _git(node: Node | None) -> str | None:
    if node is None:
        return None
    told = [body.git for record in node.records if isinstance(body := record.body(), GitStateEntry)]
    git = told[-1] if told else node.header.git
    if not isinstance(git, dict):
        return None
    return " · ".join(str(git[name]) for name in ("branch", "commit", "repoUrl") if git.get(name)) or None


def _prompt(node: Node | None) -> str:
    for record in node.records if node else ():
        message = message_in(record)
        if isinstance(message, UserMessage):
            return text_of(message.content)
    return ""
