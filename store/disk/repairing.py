"""A damaged journal is written anew from what is intact, under the lock of its tree; the old file stays beside it."""

import os
from pathlib import Path

import attrs
import msgspec

from store.checks import Check, check_journal
from store.disk.forest import decoded
from store.disk.fs import Fs, kept_beside, open_own, read_whole
from store.disk.home import Home
from store.disk.journal import read_journal
from store.disk.landing import write_journal
from store.disk.ownership import TreeLock
from store.entries import FRAMING, VERSION, CustomEntry, Header
from store.errors import JournalRefused, StoreError
from store.plain import EPOCH
from store.records import Draft, Record
from store.repair import children_of
from store.tree import EntryTree
from store.wire import encode

NOTE = "sapwood.repaired"


@attrs.frozen
class Repaired:
    """`kept`: where the old file is now; None where nothing was damaged, and so nothing done."""

    session_id: str
    check: Check
    kept: Path | None = None


def read_check(fs: Fs, home: Home, session_id: str) -> Check:
    """A journal, looked at whole. Raises StoreError for what is no file of ours, OSError."""
    fd, found = open_own(fs, home.journal_path(session_id), os.O_RDONLY)
    try:
        return check_journal(read_whole(fs, fd, found.size), session_id)
    finally:
        fs.close(fd)


def repair_journal(fs: Fs, home: Home, session_id: str, lock: TreeLock, since: str) -> Repaired:
    """Write the journal anew if it is damaged. `lock`: of its tree. `since`: the time now.

    Raises JournalRefused where it is not ours to write; StoreError, OSError: then the journal is as it was.
    """
    path = home.journal_path(session_id)
    fd, found = open_own(fs, path, os.O_RDONLY)
    try:
        data = read_whole(fs, fd, found.size)
    finally:
        fs.close(fd)
    check = check_journal(data, session_id)
    if check.recovery.refusal is not None:
        raise JournalRefused(f"{path}: {check.recovery.refusal}. Nothing was changed")
    if not check.gaps:
        return Repaired(session_id, check)
    header = check.header or encode(_made_header(fs, home, session_id, check.records))
    epoch = lock.raise_epoch(check.recovery.epoch + 1)
    kept = kept_beside(fs, path, "damaged", data)
    note = _note(header, check, kept, since)
    aside = path.with_name(f"{path.name}.repairing")
    fd, _ = open_own(fs, aside, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        fs.truncate(fd, 0)  # what an earlier repair left that was killed
        write_journal(fs, fd, session_id, header, (*check.records, note), epoch)
        fs.fdatasync(fd)
    finally:
        fs.close(fd)
    fs.rename(aside, path)
    try:
        fs.unlink(home.index_path(session_id))
    except FileNotFoundError:
        pass
    fs.sync_dir(path.parent)
    return Repaired(session_id, check, kept)


def root_of_damaged(fs: Fs, home: Home, session_id: str) -> str:
    """The root of the tree of a session whose header may be gone. Raises StoreError, OSError."""
    header = read_check(fs, home, session_id).recovery.header
    while header is None:
        parent = _parent(fs, home, session_id)
        if parent is None:
            return session_id
        session_id, header = parent.id, parent
    return header.root_id


def _made_header(fs: Fs, home: Home, session_id: str, records: tuple[Record, ...]) -> Header:
    """A header in the place of one that is gone; what the parent's journal says of the session is in it."""
    parent = _parent(fs, home, session_id)
    return Header(
        version=VERSION,
        id=session_id,
        timestamp=records[0].timestamp if records else EPOCH,
        cwd=parent.cwd if parent else "",
        parent_session=str(home.journal_path(parent.id)) if parent else None,
        parent_session_id=parent.id if parent else None,
        root_session_id=parent.root_id if parent else None,
        rlm_depth=parent.depth + 1 if parent else 0,
        framing=FRAMING,
    )


def _parent(fs: Fs, home: Home, session_id: str) -> Header | None:
    """The header of the session whose journal names this one as its child. Every journal may have to be read."""
    for other in home.session_ids():
        if other == session_id:
            continue
        try:
            recovery = read_journal(fs, home.journal_path(other), other)
        except (OSError, StoreError):
            continue
        children = children_of(list(decoded(recovery.records)))
        if recovery.header is not None and any(child.child_session_id == session_id for child in children):
            return recovery.header
    return None


def _note(header: bytes, check: Check, kept: Path, since: str) -> Record:
    """An entry that tells later readers what is missing, and where the old file is."""
    tree = EntryTree.of(list(check.records), msgspec.json.decode(header, type=Header))
    lost = [{"offset": gap.offset, "end": gap.end, "reason": gap.reason} for gap in check.gaps]
    body = CustomEntry(custom_type=NOTE, data={"kept": kept.name, "lost": lost})
    return Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, since)
