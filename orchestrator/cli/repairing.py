"""The repair of a tree: damaged journals first, then what a crash left out."""

from collections.abc import Callable

import attrs

from orchestrator.engine.errors import NotOurs
from orchestrator.engine.opening import OwnedTree
from orchestrator.views.findings import RepairRow
from store.disk.home import Home
from store.disk.ownership import TreeLock
from store.disk.repairing import Repaired, repair_journal, root_of_damaged
from store.errors import OwnedElsewhere, StoreError
from store.repair import children_of
from store.times import iso


@attrs.frozen
class Done:
    """`written`: entries that a crash had left out. `trouble`: why those could not be written."""

    rows: list[RepairRow]
    written: int = 0
    trouble: str | None = None


def repair_session(home: Home, session_id: str, clock: Callable[[], float]) -> Done:
    """Repair a session and all below it. Raises NotOurs."""
    try:
        root = root_of_damaged(home.fs, home, session_id)
        lock = TreeLock.acquire(home.fs, home, root, iso(clock()))
        try:
            rows = _journals(home, session_id, lock, iso(clock()))
        finally:
            lock.release()
    except (OwnedElsewhere, StoreError, OSError) as error:
        raise NotOurs(str(error)) from error
    try:
        owned = OwnedTree.acquire(home.fs, home, root, clock)
        try:
            owned.load()
        finally:
            owned.close()
    except (NotOurs, StoreError, OSError) as error:
        return Done(rows, trouble=f"the rest of the tree could not be repaired: {error}")
    return Done(rows, written=len(owned.repaired))


def _journals(home: Home, session_id: str, lock: TreeLock, since: str) -> list[RepairRow]:
    rows: list[RepairRow] = []
    seen = {session_id}
    waiting = [session_id]
    for session in waiting:
        try:
            done = repair_journal(home.fs, home, session, lock, since)
        except FileNotFoundError:
            if session == session_id:
                raise
            continue
        rows.append(_row(home, done))
        for child in children_of(list(done.check.records)):
            if child.child_session_id not in seen:
                seen.add(child.child_session_id)
                waiting.append(child.child_session_id)
    return rows


def _row(home: Home, done: Repaired) -> RepairRow:
    return RepairRow(
        session_id=done.session_id,
        entries=len(done.check.records),
        skipped=done.check.gaps,
        salvaged=done.check.salvaged,
        path=str(home.journal_path(done.session_id)),
        kept=str(done.kept) if done.kept else None,
    )
