"""A session as a plain file of version 3: JSON lines that pi, Prime Agent and Base Context open, list and continue.

They take the last line for the place where the session stands, whatever type it has, and know no name but that of a
`session_info`. Types that only we know they pass over.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence

import msgspec

from store.entries import LEAF_MARK, CustomEntry, Header, Known, SessionInfoEntry
from store.legacy.links import leaf_of_plain
from store.legacy.members import with_members
from store.records import Draft, Record
from store.tree import EntryTree
from store.wire import encode

EPOCH = "1970-01-01T00:00:00.000Z"

_APART = re.compile(r"[/\\:\x00-\x1f]")
_TIME = re.compile(r"[^0-9A-Za-z-]")
# What may stand between quotes as it is: the times of others may be any text.
_PLAIN_TIME = re.compile(r"[0-9TZ:.+-]{4,40}")


def plain_lines(header: bytes, records: Sequence[Record]) -> Iterator[bytes]:
    """The lines of the file, newline included. `header`: the JSON object of the journal's record 0.

    Everything stays as it is but the parent of an entry whose own is lost: there others would cut the history off. Added
    is what they need to stand where we stand, and to show the name.
    """
    yield with_members(header, {"framing": None}) + b"\n"
    tree = EntryTree()
    known = {record.id for record in records}
    for record in records:
        if record.parent_id is not None and record.parent_id not in known:
            before = tree.records[-1].id if tree.records else None
            record = msgspec.structs.replace(
                record, parent_id=before, raw=with_members(record.raw, {"parentId": encode(before)})
            )
        tree.add(record)
        yield record.raw + b"\n"
    for extra in _added(msgspec.json.decode(header, type=Header), tree):
        yield extra.raw + b"\n"


def _added(header: Header, tree: EntryTree) -> Iterator[Record]:
    if header.name and not any(record.type == "session_info" for record in tree.records):
        yield hung(SessionInfoEntry(name=header.name), header, tree)
    if leaf_of_plain(tree.records) != tree.leaf_id:
        yield hung(CustomEntry(custom_type=LEAF_MARK), header, tree)


def hung(body: Known, header: Header, tree: EntryTree) -> Record:
    """A new entry at the leaf of `tree`, of the time of the last one."""
    record = Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, last_time(header, tree))
    tree.add(record)
    return record


def last_time(header: Header, tree: EntryTree) -> str:
    """The time of the last entry, or of the session, that can be written as it is."""
    times = (tree.records[-1].timestamp if tree.records else "", header.timestamp, EPOCH)
    return next(time for time in times if _PLAIN_TIME.fullmatch(time))


def pi_folder(cwd: str) -> str:
    """The name of pi's folder for sessions of `cwd`. Source: pi 1.6, `getDefaultSessionDirPath`."""
    whole = posixpath.normpath(cwd) if cwd.startswith("/") else cwd
    return f"--{_APART.sub('-', whole[1:] if whole[:1] in {'/', chr(92)} else whole)}--"


def pi_file(header: Header) -> str:
    """The name of pi's file: its time, with what no file name may hold as `-`, and the id. Source: pi 1.6, `newSession`."""
    return f"{_TIME.sub('-', header.timestamp)}_{header.id}.jsonl"
