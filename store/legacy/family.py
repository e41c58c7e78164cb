"""Which of several session files is whose child, and which began as a copy of another."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import attrs

from store.entries import CustomMessageEntry, Header
from store.legacy.read import Legacy
from store.records import Record

_ID = re.compile(r"[0-9a-z][0-9a-z-]{7,63}")


@attrs.frozen
class Source:
    """A file that was read and not refused. `digest` tells its bytes from all others.

    sender  the session that gave this one its task, where an entry says so
    legacy  what is in it; None while nobody needs it, as thousands of files would not fit into memory
    """

    path: str
    header: Header
    digest: str
    sender: str | None
    legacy: Legacy | None

    @classmethod
    def of(cls, path: str, legacy: Legacy, digest: str) -> "Source":
        """Raises ValueError for a file that was refused."""
        if legacy.header is None:
            raise ValueError(f"{path}: expected a file that was read, found a refused one")
        return cls(path, legacy.header, digest, _sender(legacy.records), legacy)

    @property
    def whole(self) -> Legacy:
        if self.legacy is None:
            raise ValueError(f"{self.path}: expected a file in memory")
        return self.legacy

    @property
    def records(self) -> tuple[Record, ...]:
        return self.whole.records


def parents(sources: Sequence[Source]) -> list[int | None]:
    """For each source the place of its parent among them. A fork has none: it is a session of its own.

    What a header of ours says counts first. In Prime Agent's files the header names the parent's file, and the task that
    the child begins with names the parent's id.
    """
    places: dict[str, int] = {}
    for place, source in enumerate(sources):
        for name in (source.header.id, source.path, *_names(source.path)):
            places.setdefault(name, place)
    found: list[int | None] = []
    for place, source in enumerate(sources):
        named = (places[name] for name in _parent_names(source) if name in places)
        parent = next((each for each in named if each != place), None)
        found.append(parent)
    for place in range(len(found)):
        if _is_in_circle(found, place):
            found[place] = None
    return found


def _parent_names(source: Source) -> Iterator[str]:
    header = source.header
    if header.parent_session_id is not None:
        yield header.parent_session_id
    elif header.depth > 0:
        if header.parent_session:
            yield header.parent_session
            yield from _names(header.parent_session)
        if source.sender is not None:
            yield source.sender


def _is_in_circle(found: Sequence[int | None], place: int) -> bool:
    at, steps = found[place], 0
    while at is not None and at != place and steps < len(found):
        at, steps = found[at], steps + 1
    return at == place


def _names(path: str) -> tuple[str, ...]:
    """What a file's name says of its session: pi's are `<time>_<id>.jsonl`, Prime Agent's `<id>.jsonl`."""
    name = PurePosixPath(path.replace("\\", "/")).name
    stem = name.removesuffix(".jsonl")
    return tuple(each for each in (name, stem, stem.rpartition("_")[2]) if _ID.fullmatch(each.removesuffix(".jsonl")))


def id_in_name(path: str) -> str | None:
    """The session id that a file's name ends with, if it does."""
    stem = PurePosixPath(path.replace("\\", "/")).name.removesuffix(".jsonl").rpartition("_")[2]
    return stem if _ID.fullmatch(stem) else None


def _sender(records: Sequence[Record]) -> str | None:
    task = task_of(records)
    sender = task.get("from") if task is not None else None
    name = sender.get("sessionId") if isinstance(sender, dict) else None
    return name if isinstance(name, str) else None


def task_of(records: Sequence[Record]) -> dict[str, Any] | None:
    """The details of the message with which Prime Agent gives a child its task."""
    for record in records:
        if record.type == "custom_message" and b'"agent_message"' in record.raw:
            body = record.body()
            if isinstance(body, CustomMessageEntry) and isinstance(body.details, dict):
                return body.details if body.details.get("fromRelationship") == "parent" else None
    return None


def origin_id(header: Header) -> str | None:
    """The id of the session that a fork's header names, as far as the name of that file tells it."""
    return id_in_name(header.parent_session) if header.parent_session and header.depth == 0 else None


def copied(records: Sequence[Record], of: Sequence[Record]) -> int:
    """How many leading records are copies of records in `of`: the same id, type and time."""
    there = {(record.id, record.type, record.timestamp) for record in of}
    count = 0
    for record in records:
        if (record.id, record.type, record.timestamp) not in there:
            break
        count += 1
    return count


def in_order(sources: Sequence[Source]) -> list[int]:
    """The places of sources so that a fork comes behind what it was forked from; else as they are."""
    places = {source.header.id: place for place, source in enumerate(sources)}
    done: dict[int, None] = {}
    for start in range(len(sources)):
        chain: list[int] = []
        at: int | None = start
        while at is not None and at not in done and at not in chain:
            chain.append(at)
            origin = origin_id(sources[at].header)
            at = places.get(origin) if origin is not None else None
        done.update(dict.fromkeys(reversed(chain)))
    return list(done)
