"""A session begun with a path of another one: what forks, and branches that become sessions of their own, are made of."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from store.disk.drawn import new_id
from store.disk.fork import fork_header
from store.disk.history import Capture
from store.entries import VERSION, Header, Known, LabelEntry
from store.ids import entry_id
from store.records import Draft, Record
from store.times import iso
from store.tree import EntryTree, leaf_after

Clock = Callable[[], float]
WALL: Clock = time.time


def new_header(clock: Clock, cwd: str, name: str | None = None, parent_session: str | None = None) -> Header:
    """The header of a session that begins now."""
    now = clock()
    return Header(
        version=VERSION, id=new_id(now), timestamp=iso(now), cwd=cwd, parent_session=parent_session, name=name
    )


def extracted(
    source: Header,
    source_file: Path | None,
    capture: Capture,
    leaf_id: str | None,
    cwd: str,
    name: str | None,
    now: float,
) -> tuple[Header, list[Record]]:
    """Header and records of a new session: the path to `leaf_id` (None: to the leaf), and the labels on it."""
    path, labels = capture.branch(leaf_id), capture.labels()
    at = iso(now)
    header = fork_header(source, path, new_id(now), at, cwd, str(source_file or ""), name)
    tree = EntryTree.of(list(path))
    for record in path:
        if record.id in labels:
            body = LabelEntry(target_id=record.id, label=labels[record.id])
            tree.add(record_of(body, int(tree.next_ids(1)[0], 16), tree.leaf_id, at))
    return header, tree.records


def record_of(body: Known, number: int, parent: str | None, at: str) -> Record:
    """The entry with this number, hanging on `parent`."""
    return Draft.of(body).record(entry_id(number), parent, at)


def chained(
    bodies: Sequence[Known], numbers: Sequence[int], leaf: str | None, at: str
) -> tuple[list[Record], str | None]:
    """These entries one behind the other from `leaf` on, and the leaf behind them."""
    records: list[Record] = []
    for body, number in zip(bodies, numbers, strict=True):
        records.append(record_of(body, number, leaf, at))
        leaf = leaf_after(records[-1], leaf)
    return records, leaf
