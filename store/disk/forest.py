"""Stored trees as a reader sees them: no lock, nothing repaired on disk, damage reported and worked around."""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import msgspec

from store.disk.fs import Fs, open_own
from store.disk.home import Home
from store.disk.journal import read_journal
from store.disk.ownership import Liveness, liveness
from store.disk.scan import Scan
from store.entries import Header
from store.errors import StoreError
from store.frame import body
from store.index import quick_record
from store.records import Record
from store.recovery import Recovery
from store.repair import Fix, Node, children_of, repair_plan, with_fixes
from store.tree import EntryTree

_FIRST_READ_BYTES = 16 * 1024
_header: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)


@attrs.define
class StoredTree:
    """A root and what is below it, as stored. `nodes` hold what a repair would add, in memory; `unrepaired` counts it.

    `troubles`: what is wrong with the journal of a session that cannot be read whole, by session id.
    """

    root_id: str
    nodes: dict[str, Node]
    troubles: dict[str, str]
    liveness: Liveness
    unrepaired: int = 0


def read_header(fs: Fs, home: Home, session_id: str) -> Header | None:
    """The header of a journal, from its first bytes; None where there is none that can be read. Raises OSError."""
    try:
        fd, found = open_own(fs, home.journal_path(session_id), os.O_RDONLY)
    except StoreError:
        return None
    try:
        data = fs.read_at(fd, min(_FIRST_READ_BYTES, found.size), 0)
    finally:
        fs.close(fd)
    line = data.partition(b"\n")[0]
    try:
        return _header.decode(body(line + b"\n"))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None


def read_node(fs: Fs, home: Home, session_id: str) -> tuple[Node | None, str | None]:
    """One journal, and what is wrong with it, if anything is. None: it is not there, or nothing in it can be read."""
    path = home.journal_path(session_id)
    try:
        node = _sound_node(fs, path, session_id)
        if node is not None:
            return node, None
        recovery = read_journal(fs, path, session_id)
    except FileNotFoundError:
        return None, "its journal is missing"
    except (OSError, StoreError) as error:
        return None, str(error)
    return node_of(recovery), recovery.trouble


def _sound_node(fs: Fs, path: Path, session_id: str) -> Node | None:
    """One journal in a single pass that keeps no more than the records; None where that finds anything wrong."""
    fd, found = open_own(fs, path, os.O_RDONLY)
    try:
        scan = Scan(session_id)
        records = list(scan.records(fs, fd, found.size))
    finally:
        fs.close(fd)
    if scan.trouble or scan.header is None:
        return None
    return Node(scan.header, EntryTree.of(records, scan.header))


def node_of(recovery: Recovery) -> Node | None:
    """The session that a journal holds; None where its header cannot be read."""
    if recovery.header is None:
        return None
    return Node(recovery.header, EntryTree.of(list(decoded(recovery.records)), recovery.header))


def decoded(lines: tuple[bytes, ...]) -> Iterator[Record]:
    """The records of intact lines. A line that checks itself and is no entry cannot be ours; it is passed over."""
    return (record for record in map(quick_record, lines) if record is not None)


def read_tree(fs: Fs, home: Home, root_id: str) -> StoredTree:
    """The whole tree below `root_id`; without any node where the root's own journal cannot be read at all."""
    nodes: dict[str, Node] = {}
    troubles: dict[str, str] = {}
    waiting = [root_id]
    while waiting:
        session_id = waiting.pop()
        node, trouble = read_node(fs, home, session_id)
        if trouble is not None:
            troubles[session_id] = trouble
        if node is None:
            continue
        nodes[session_id] = node
        waiting += [
            child.child_session_id for child in children_of(node.records) if child.child_session_id not in nodes
        ]
    state = liveness(fs, home, root_id)
    plan: list[Fix] = repair_plan(nodes, root_id) if state.state == "dead" and nodes else []
    return StoredTree(root_id, with_fixes(nodes, plan), troubles, state, len(plan))


class NoSuchSession(StoreError):
    """No session, or more than one, has that name. The text says which there are."""
