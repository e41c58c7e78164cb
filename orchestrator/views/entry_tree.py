"""The entries of one session as a tree: plain values, and lines for people."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import attrs
import msgspec

from orchestrator.views.doing import first_argument
from orchestrator.views.signs import signs
from orchestrator.views.text import cells, cut, one_line
from store.entries import (
    MOVES_LEAF,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    LabelEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
)
from store.messages import AssistantMessage, BashExecutionMessage, text_of
from store.records import Record, message_in

_TEXT_CHARS = 200
_KIND_CELLS = 12


class EntryRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry. `kind`: who says it, else its type. `level`: how often the tree has parted on the way to it.

    `isCurrent`: it is on the way from the root to the leaf.
    """

    id: str
    parent_id: str | None
    type: str
    kind: str
    text: str
    timestamp: str
    label: str | None
    level: int
    is_current: bool
    is_leaf: bool


class Branching(Protocol):
    """An entry, what hangs on it, and its label."""

    @property
    def entry(self) -> Record: ...

    @property
    def children(self) -> "Sequence[Branching]": ...

    @property
    def label(self) -> str | None: ...


@attrs.frozen
class Placed:
    """A row and where it is drawn: for every branch that it is in, whether that is the last of its parting."""

    row: EntryRow
    branches: tuple[bool, ...]
    begins_branch: bool


def entry_tree(roots: Sequence[Branching], path: Sequence[str], everything: bool = False) -> list[Placed]:
    """The tree from its roots down, branches in the order of the file. `path`: ids from the root to the leaf.

    Without `everything` only what moves the leaf, or has a label: what one would go back to.
    """
    current, leaf = set(path), path[-1] if path else None
    found: list[Placed] = []
    waiting: list[tuple[Branching, tuple[bool, ...], bool]] = [(node, (), False) for node in _shown(roots, everything)]
    waiting.reverse()
    while waiting:
        node, branches, begins = waiting.pop()
        found.append(
            Placed(_row(node, len(branches), node.entry.id in current, node.entry.id == leaf), branches, begins)
        )
        below = _shown(node.children, everything)
        ways = [each for each in below if _leads_on(each)]
        for each in reversed(below):
            begins = len(ways) > 1 and _leads_on(each)
            waiting.append((each, (*branches, each is ways[-1]), True) if begins else (each, branches, False))
    return found


def _leads_on(node: Branching) -> bool:
    return bool(node.children) or node.entry.type in MOVES_LEAF


def _shown(nodes: Sequence[Branching], everything: bool) -> list[Branching]:
    """What is shown of these; of what is not, what hangs on it."""
    found: list[Branching] = []
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if everything or node.entry.type in MOVES_LEAF or node.label is not None:
            found.append(node)
        else:
            waiting += reversed(node.children)
    return found


def entry_lines(placed: Sequence[Placed], width: int, ascii: bool = False) -> Iterator[str]:
    """One line per entry, none wider than `width`, safe for a terminal."""
    drawn = signs(ascii=ascii)
    for each in placed:
        row = each.row
        guide = "".join("  " if is_last else drawn.through for is_last in each.branches[:-1])
        if each.branches:
            is_last = each.branches[-1]
            begin = drawn.last if is_last else drawn.branch
            guide += begin if each.begins_branch else "  " if is_last else drawn.through
        end = f"  [{one_line(row.label, 60)}]" if row.label is not None else ""
        end += ("  <- leaf" if ascii else "  ◀ leaf") if row.is_leaf else ""
        mark = "*" if row.is_current else " "
        line = f"{one_line(row.id, 40)} {mark} {guide}{one_line(row.kind, 40):<{_KIND_CELLS}} {one_line(row.text)}"
        yield cut(cut(line.rstrip(), max(1, width - cells(end)), drawn.cut) + end, width, drawn.cut)


def _row(node: Branching, level: int, is_current: bool, is_leaf: bool) -> EntryRow:
    record = node.entry
    kind, text = _said(record)
    return EntryRow(
        id=record.id,
        parent_id=record.parent_id,
        type=record.type,
        kind=kind,
        text=text[:_TEXT_CHARS],
        timestamp=record.timestamp,
        label=node.label,
        level=level,
        is_current=is_current,
        is_leaf=is_leaf,
    )


def _said(record: Record) -> tuple[str, str]:
    """Who says it, or what it is, and the beginning of what it says."""
    if record.type == "message":
        return _message(record)
    match record.body():
        case CustomMessageEntry(custom_type=kind, content=content):
            return kind, text_of(content)
        case CompactionEntry(summary=text) | BranchSummaryEntry(summary=text):
            return record.type, text
        case ModelChangeEntry(provider=provider, model_id=model):
            return record.type, f"{provider}/{model}"
        case ThinkingLevelChangeEntry(thinking_level=level):
            return record.type, level
        case LabelEntry(target_id=target, label=label):
            return record.type, f"{target} {'cleared' if label is None else label}"
        case SessionInfoEntry(name=name):
            return record.type, name or ""
    return record.type, ""


def _message(record: Record) -> tuple[str, str]:
    message = message_in(record)
    match message:
        case None:
            return "message", "(it cannot be read)"
        case AssistantMessage():
            calls = [f"→ {call.name} {first_argument(call.checked_arguments)}".strip() for call in message.calls]
            error = (
                [message.error_message or message.stop_reason] if message.stop_reason in {"error", "aborted"} else []
            )
            return "assistant", " ".join([message.text, *calls, *error]).strip()
        case BashExecutionMessage(command=command):
            return "bash", command
    content = getattr(message, "content", None) or getattr(message, "summary", "")
    text = text_of(content) if isinstance(content, str | tuple) else ""
    role = type(message).__name__.removesuffix("Message")
    return role[:1].lower() + role[1:], text
