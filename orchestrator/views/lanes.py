"""The timeline: a lane per session on one clock, out of what the journals say when things began and how long they took."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from orchestrator.views.called import Called, called
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from orchestrator.views.stored import Member, Stored, members, subtree
from store.entries import ChildSpawnedEntry, RunSettledEntry
from store.messages import AssistantMessage
from store.records import Record, message_in
from store.times import unix_s

MAX_LANES = 200
BarKind = Literal["model", "tool", "retry", "compaction", "waiting"]


class Bar(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Unix milliseconds. `label`: the model, or the tool and its first argument. `isOpen`: it has not ended.

    `firstMs`: when a call of the model gave its first piece, where somebody saw it.
    """

    kind: BarKind
    start_ms: int
    end_ms: int
    first_ms: int | None = None
    label: str = ""
    is_open: bool = False


class Spawn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    at_ms: int
    child: str


class Lane(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`endMs`: when its last run was settled; None while one is open. `word`: how it stands."""

    session_id: str
    parent: str | None
    name: str
    depth: int
    word: str
    begin_ms: int
    end_ms: int | None
    bars: tuple[Bar, ...]
    spawns: tuple[Spawn, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    lanes: tuple[Lane, ...]
    left_out: int


def timeline(
    stored: Stored,
    session_id: str,
    rows: Sequence[AgentRow],
    now_ms: int,
    begun: Mapping[str, Sequence[int]] = {},
) -> Timeline:
    """Lanes of a session and what is below it, in spawn order. `rows` are the tree's. Raises KeyError.

    `begun`: by session, when answers gave their first piece, Unix milliseconds.
    """
    part = subtree(members(stored), session_id)
    if not part:
        raise KeyError(session_id)
    by_id = {row.session_id: row for row in rows}
    lanes = [
        _lane(member, by_id[member.session_id], session_id, now_ms, begun.get(member.session_id, ()))
        for member in part[:MAX_LANES]
        if member.session_id in by_id
    ]
    return Timeline(lanes=tuple(lanes), left_out=max(0, len(part) - MAX_LANES))


# What an open lane is at when nothing of it is open that says so itself: a model call says nothing before it has ended.
_AT: dict[str, BarKind] = {"running": "model", "retrying": "retry", "compacting": "compaction"}


def _lane(member: Member, row: AgentRow, top: str, now_ms: int, begun: Sequence[int]) -> Lane:
    records = member.node.records if member.node else []
    begin = _ms(member.node.header.timestamp if member.node else None) or now_ms
    is_open = row.state.is_working
    ends = [_ms(record.timestamp) or begin for record in records if record.type == "run_settled"]
    last = now_ms if is_open else (ends[-1] if ends else begin)
    bars = _with_gaps(sorted(_bars(records, last, is_open=is_open), key=lambda bar: bar.start_ms), records)
    if is_open:
        reached = max((bar.end_ms for bar in bars), default=begin)
        kind = _AT.get(row.state.word, "waiting")
        bars += [Bar(kind=kind, start_ms=reached, end_ms=now_ms, is_open=True)] if now_ms > reached else []
    return Lane(
        session_id=member.session_id,
        parent=None if member.session_id == top else member.parent_id,
        name=title(row),
        depth=member.depth,
        word=row.state.word,
        begin_ms=begin,
        end_ms=None if is_open or not ends else ends[-1],
        bars=tuple(_with_first(bar, begun) if bar.kind == "model" else bar for bar in bars),
        spawns=tuple(_spawns(records)),
    )


def _with_first(bar: Bar, begun: Sequence[int]) -> Bar:
    first = next((at for at in begun if bar.start_ms <= at <= bar.end_ms), None)
    return bar if first is None else msgspec.structs.replace(bar, first_ms=first)


def _bars(records: Sequence[Record], last_ms: int, *, is_open: bool) -> Iterator[Bar]:
    """What took time and says so: calls of the model, tools, summaries."""
    for record in records:
        message = message_in(record)
        if isinstance(message, AssistantMessage) and message.duration_ms is not None:
            begin = message.timestamp
            yield Bar(kind="model", start_ms=begin, end_ms=begin + message.duration_ms, label=message.model[:80])
        elif record.type == "compaction" and (at := _ms(record.timestamp)) is not None:
            yield Bar(kind="compaction", start_ms=at, end_ms=at)
    for call in called(records):
        yield _tool_bar(call, last_ms, is_open=is_open)


def _tool_bar(call: Called, last_ms: int, *, is_open: bool) -> Bar:
    unended = call.duration_ms is None
    end = max(call.start_ms, last_ms) if unended else call.start_ms + (call.duration_ms or 0)
    label = f"{call.name} {call.argument}".strip()
    return Bar(kind="tool", start_ms=call.start_ms, end_ms=end, label=label, is_open=unended and is_open)


def _with_gaps(bars: Sequence[Bar], records: Sequence[Record]) -> list[Bar]:
    """Between what took time: a pause before a try, or a wait, as long as a run was open."""
    failed = {message.timestamp + (message.duration_ms or 0) for message in _failures(records)}
    found: list[Bar] = []
    reached: int | None = None
    for bar in bars:
        if reached is not None and bar.start_ms > reached:
            kind: BarKind = "retry" if reached in failed else "waiting"
            found += _while_open(Bar(kind=kind, start_ms=reached, end_ms=bar.start_ms), records)
        found.append(bar)
        reached = max(reached or 0, bar.end_ms)
    return found


def _while_open(gap: Bar, records: Sequence[Record]) -> list[Bar]:
    """A gap ends where the run was settled: the session was idle then."""
    for record in records:
        if record.type != "run_settled" or not isinstance(record.body(), RunSettledEntry):
            continue
        at = _ms(record.timestamp)
        if at is not None and gap.start_ms <= at < gap.end_ms:
            return [msgspec.structs.replace(gap, end_ms=at)] if at > gap.start_ms else []
    return [gap]


def _failures(records: Sequence[Record]) -> Iterator[AssistantMessage]:
    for record in records:
        message = message_in(record)
        if isinstance(message, AssistantMessage) and message.stop_reason == "error":
            yield message


def _spawns(records: Sequence[Record]) -> Iterator[Spawn]:
    for record in records:
        if record.type == "child_spawned" and isinstance(body := record.body(), ChildSpawnedEntry):
            yield Spawn(at_ms=_ms(record.timestamp) or 0, child=body.child_session_id)


def _ms(text: str | None) -> int | None:
    at = unix_s(text) if text else None
    return None if at is None else round(at * 1000)
