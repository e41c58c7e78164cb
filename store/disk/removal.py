"""Deleting a session, and all below it, once its ancestors hold what it has spent."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from store.disk.forest import read_header, read_tree
from store.disk.home import Home
from store.disk.ownership import TreeLock, liveness
from store.disk.trash import NoTrash, Trash
from store.entries import ChildSettledEntry, ChildUsageAttributedEntry, Header
from store.errors import JournalRefused, OwnedElsewhere, StoreError
from store.repair import Fix, Node, own_children, repair_plan


class SpendMissing(StoreError):
    """An ancestor does not hold yet what the session, or one below it, has spent."""


class Removed(msgspec.Struct, frozen=True):
    """`session_ids`: children before their parents. `trashed`: where their files are now; empty if they are gone for good."""

    session_ids: tuple[str, ...]
    trashed: tuple[str, ...]


def remove(
    home: Home, session_id: str, trash: Trash | None, since: str, deleted_at: str, is_forced: bool = False
) -> Removed:
    """Move the files of a session and of all below it to the trash, or, forced, delete them where there is none.

    Forced it also takes a session whose header, owner or ancestors cannot be looked at. The lock of the tree stays: ids never
    come again, and its epoch holds should the files be put back.
    Raises OwnedElsewhere, SpendMissing, NoTrash, JournalRefused; FileNotFoundError (no such session), other OSError.
    """
    if trash is None and not is_forced:
        raise NoTrash("there is no trash to move it to; --force deletes it for good")
    header = read_header(home.fs, home, session_id)
    if header is None and not is_forced:
        raise JournalRefused(
            f"session {session_id}: its header cannot be read, so nobody can tell who counts its spend"
        )
    root_id = header.root_id if header is not None else session_id
    if liveness(home.fs, home, root_id).state == "unknown" and not is_forced:
        raise OwnedElsewhere(f"session tree {root_id}: it cannot be told whether its owner is alive")
    lock = TreeLock.acquire(home.fs, home, root_id, since)
    try:
        going = _going(home, session_id, header, is_forced)
        trashed: list[str] = []
        for each in going:
            trashed += _taken(home, each, trash, deleted_at)
        home.fs.sync_dir(home.sessions)
    finally:
        with suppress(OSError):
            lock.release()
    return Removed(tuple(going), tuple(trashed))


def _going(home: Home, session_id: str, header: Header | None, is_forced: bool) -> list[str]:
    """The session and all below it, children first. Raises SpendMissing, JournalRefused."""
    if header is None:
        return [session_id]
    if header.root_id == session_id:  # a root owes nobody anything, whatever it holds
        return _below(_nodes(home, session_id), session_id)
    nodes, troubles = _whole(home, header.root_id)
    if session_id not in nodes:
        if is_forced:
            return _below(_nodes(home, session_id), session_id)
        raise JournalRefused(
            f"session {session_id}: its root {header.root_id} does not lead to it, so who counts its spend?"
        )
    going, ancestors = _below(nodes, session_id), _above(nodes, session_id)
    unread = [each for each in (*ancestors, *going) if each in troubles]
    if unread and not is_forced:
        raise JournalRefused(f"session {unread[0]}: {troubles[unread[0]]}. What was spent there cannot be compared")
    missing = [
        fix for fix in repair_plan(nodes, header.root_id) if fix.session_id in ancestors and _is_about(fix, going)
    ]
    if missing:
        raise SpendMissing(
            f"session {session_id}: expected what it spent, and how it ended, in the journals above it, found {len(missing)} "
            f"entries missing there. Going on with the tree writes them: sapwood run -r {header.root_id}"
        )
    return going


def _nodes(home: Home, root_id: str) -> Mapping[str, Node]:
    return _whole(home, root_id)[0]


def _whole(home: Home, root_id: str) -> tuple[Mapping[str, Node], Mapping[str, str]]:
    """The tree as it is stored: it is ours now, so nothing was added in memory."""
    tree = read_tree(home.fs, home, root_id)
    return tree.nodes, tree.troubles


def _is_about(fix: Fix, going: Sequence[str]) -> bool:
    match fix.body:
        case ChildUsageAttributedEntry(origin_session_id=origin):
            return origin in going
        case ChildSettledEntry(child_session_id=child):
            return child in going
    return False


def _below(nodes: Mapping[str, Node], session_id: str) -> list[str]:
    found = [session_id]
    for each in found:
        node = nodes.get(each)
        if node is not None:
            found += [child.child_session_id for child in own_children(node) if child.child_session_id not in found]
    return found[::-1]


def _above(nodes: Mapping[str, Node], session_id: str) -> list[str]:
    found: list[str] = []
    node = nodes.get(session_id)
    while node is not None and node.header.parent_session_id not in {None, *found}:
        found.append(str(node.header.parent_session_id))
        node = nodes.get(found[-1])
    return found


def _taken(home: Home, session_id: str, trash: Trash | None, deleted_at: str) -> list[str]:
    """Where the files of one session are now; an index, or what was left of writing one, is only deleted."""
    journal = home.journal_path(session_id)
    names = home.fs.listdir(home.sessions)
    beside = [home.sessions / name for name in names if name.startswith(f"{journal.name}.")]
    files = [path for path in (home.artifact_dir(session_id), *beside, journal) if _is_there(home, path)]
    trashed = []
    for path in files:
        if trash is not None:
            trashed.append(str(trash.take(path, deleted_at)))
        elif home.fs.lstat(path).is_folder:
            shutil.rmtree(path)
        else:
            home.fs.unlink(path)
    for name in names:
        if name.startswith(home.index_path(session_id).name):
            with suppress(OSError):
                home.fs.unlink(home.sessions / name)
    return trashed


def _is_there(home: Home, path: Path) -> bool:
    try:
        home.fs.lstat(path)
    except OSError:
        return False
    return True
