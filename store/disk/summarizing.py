"""The summary of a stored session: read from where the last one came to, or anew where that is not certain."""

import os

import attrs

from store.disk.folder import NO_STAMP, Stamp
from store.disk.forest import node_of
from store.disk.fs import Fs, Stat, open_own, read_whole
from store.disk.home import Home
from store.disk.scan import Scan
from store.errors import StoreError
from store.folding import Fold, Said, summarized
from store.frame import body
from store.index import quick_record
from store.recovery import examine
from store.summary import Rest, Summary
from store.times import iso


@attrs.define
class Known:
    """A summary, and what it is of: the file as `stamp` has it, up to where `scan` came.

    said      what was said there; of a summary that went on, only what is new
    is_whole  it was made anew, so what was known before is to be forgotten
    """

    stamp: Stamp
    scan: Scan
    summary: Summary
    rest: Rest
    inherited: int = 0
    said: list[Said] = attrs.field(factory=list)
    is_whole: bool = True


def summarize(home: Home, session_id: str, before: Known | None = None) -> Known | None:
    """The summary as of now; None if the journal is not there. What is wrong with it is in the summary."""
    fs = home.fs
    try:
        fd, found = open_own(fs, home.journal_path(session_id), os.O_RDONLY)
    except FileNotFoundError:
        return None
    except (OSError, StoreError) as error:
        return _unreadable(session_id, NO_STAMP, str(error))
    try:
        known = None
        if before is not None and _goes_on(fs, fd, found, before):
            known = _read(fs, fd, found, before)
        return known or _read(fs, fd, found, None, session_id) or _examined(fs, fd, found, session_id)
    except OSError as error:
        return _unreadable(session_id, NO_STAMP, str(error))
    finally:
        fs.close(fd)


def _goes_on(fs: Fs, fd: int, found: Stat, before: Known) -> bool:
    is_same = before.rest.can_go_on and not before.summary.trouble and before.stamp.inode == found.inode
    return is_same and before.scan.still_holds(fs, fd, found.size)


def _read(fs: Fs, fd: int, found: Stat, before: Known | None, session_id: str = "") -> Known | None:
    """From where `before` came to, else from the beginning; None where that cannot tell what the file holds."""
    if before is not None:
        scan, inherited = before.scan, before.inherited
        fold = Fold.going_on(before.summary, inherited, before.rest)
    else:
        scan, inherited, fold = Scan(session_id), 0, None
    for offset, line in scan.lines(fs, fd, found.size):
        if fold is None or not offset:
            if scan.header is None:
                return None
            fold = Fold.of(scan.header)
            inherited = fold.tally.inherited
            continue
        record = quick_record(body(line))
        if record is not None:  # else it checks itself and is no entry
            fold.add(record)
    if fold is None or fold.is_unsure or scan.trouble:
        return None
    summary, rest = fold.finished()
    stamp = Stamp(found.inode, found.size, found.mtime_ns)
    return Known(stamp, scan, summary, rest, inherited, fold.said, is_whole=before is None)


def _examined(fs: Fs, fd: int, found: Stat, session_id: str) -> Known:
    stamp = Stamp(found.inode, found.size, found.mtime_ns)
    recovery = examine(read_whole(fs, fd, found.size), session_id)
    trouble = recovery.trouble or ""
    node = node_of(recovery)
    if node is None:
        return _unreadable(session_id, stamp, trouble)
    summary, said = summarized(node, trouble)
    return Known(stamp, Scan(session_id), summary, Rest(can_go_on=False), said=said)


def _unreadable(session_id: str, stamp: Stamp, trouble: str) -> Known:
    summary = Summary(session_id, session_id, None, 0, cwd="", created="", trouble=trouble)
    summary.modified = iso(stamp.mtime_ns / 1e9) if stamp != NO_STAMP else None
    return Known(stamp, Scan(session_id), summary, Rest(can_go_on=False))
