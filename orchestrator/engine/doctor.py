"""What is wrong with a home: what is left of processes that are gone, and what cannot be read. Looking changes nothing."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import attrs

from orchestrator.engine.config import load_config
from orchestrator.engine.control.endpoint import abandoned, clean
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.opening import OwnedTree
from orchestrator.views.text import count
from store.disk import catalog_file
from store.disk.catalog import Catalog
from store.disk.folder import JOURNAL, LOCK, stamps
from store.disk.forest import read_tree
from store.disk.fs import FOLDER_MODE
from store.disk.home import Home
from store.disk.ownership import TreeLock, liveness
from store.disk.schedules import Schedules
from store.errors import StoreError
from store.ids import short
from store.times import iso


@attrs.frozen
class Ailment:
    """Something that is wrong. `part`: of the home. `mend`, where a program may: raises EngineError, StoreError, OSError."""

    part: str
    text: str
    advice: str
    mend: Callable[[], None] | None = None


def ailments(home: Home, cwd: Path, clock: Callable[[], float]) -> Iterator[Ailment]:
    """All that is wrong, one after the other: what is found later may be so because of what was found before."""
    try:
        home.fs.lstat(home.root)
    except FileNotFoundError:
        return
    yield from _folders(home)
    yield from _configuration(home, cwd)
    found = catalog_file.trouble(home)
    if found is not None:
        text = f"the catalog is of no use: {found}"
        yield Ailment(
            "catalog", text, "it is an index, and is made anew from the journals", partial(_new_catalog, home)
        )
    yield from _sockets(home)
    yield from _trees(home, clock)
    yield from _schedules(home)
    if found is None:
        yield from _journals(home)


def _folders(home: Home) -> Iterator[Ailment]:
    for folder in (home.root, home.sessions):
        try:
            found = home.fs.lstat(folder)
        except FileNotFoundError:
            continue
        if not found.is_folder:
            yield Ailment("home", f"{folder}: expected a folder, found something else", "move it out of the way")
        elif found.uid != os.geteuid():
            yield Ailment(
                "home", f"{folder}: belongs to user {found.uid}, not to you ({os.geteuid()})", "name another home"
            )
        elif found.mode & ~FOLDER_MODE & 0o777 and folder.is_relative_to(home.root):
            text = f"{folder}: others may look into it (mode {found.mode & 0o777:o})"
            yield Ailment("home", text, f"expected mode {FOLDER_MODE:o}", partial(home.make_folder, folder))


def _configuration(home: Home, cwd: Path) -> Iterator[Ailment]:
    try:
        load_config(home.config_path, cwd)
    except WrongUsage as error:
        yield Ailment("configuration", str(error), "mend the file by hand; `sapwood config` shows what is set")


def _sockets(home: Home) -> Iterator[Ailment]:
    try:
        gone = abandoned(home)
    except OSError as error:
        yield Ailment("sockets", f"the folder of sockets cannot be read: {error}", "no other terminal can reach a run")
        return
    if gone:
        names = ", ".join(place.socket.name for place in gone[:3]) + (" …" if len(gone) > 3 else "")
        text = f"{count(len(gone), 'socket')} of hosts that are gone: {names}"
        yield Ailment("sockets", text, "the next host takes them away, too", partial(_clean, home))


def _trees(home: Home, clock: Callable[[], float]) -> Iterator[Ailment]:
    """Trees whose owner has not let go: it lives, or it has left something."""
    found = stamps(home.fs, home.sessions, (JOURNAL, LOCK))
    left: list[str] = []
    for root_id in sorted(found[LOCK]):
        owner = liveness(home.fs, home, root_id)
        name = f"tree {short(root_id)}"
        if owner.state == "unknown":
            where = (
                "its lock cannot be read" if owner.pid is None else f"process {owner.pid} of another host or container"
            )
            text = f"{name}: it cannot be told whether its owner is alive ({where})"
            mend = partial(_take_and_let_go, home, [root_id], clock) if owner.pid is None else None
            yield Ailment("locks", text, "until then nobody can say whether it runs", mend)
        elif owner.state == "dead" and not owner.has_let_go and root_id in found[JOURNAL]:
            missing = _missing(home, root_id)
            if missing:
                text = f"{name} is lost: process {owner.pid} was killed, and {count(missing, 'record')} of its end are missing"
                advice = f"`sapwood run -r {root_id}` goes on with it; mended, it is closed as lost"
                yield Ailment("sessions", text, advice, partial(_close, home, root_id, clock))
            elif missing is not None:
                left.append(root_id)
    if left:
        text = f"{count(len(left), 'lock')} of processes that are gone: {', '.join(map(short, left[:3]))}"
        yield Ailment("locks", text, "the next run takes them over", partial(_take_and_let_go, home, left, clock))


def _schedules(home: Home) -> Iterator[Ailment]:
    schedules = Schedules(home)
    try:
        found, troubles = schedules.all()
    except (StoreError, OSError) as error:
        yield Ailment("schedules", f"they cannot be read: {error}", "nothing comes due")
        return
    for id, trouble in troubles.items():
        yield Ailment("schedules", trouble, f"`sapwood schedule cancel {id}` takes it away")
    there = set(home.session_ids())
    gone = {each.session_id for each in found} - there
    if gone:
        names = ", ".join(map(short, sorted(gone)[:3]))
        text = (
            f"schedules for {count(len(gone), 'session')} that {'is' if len(gone) == 1 else 'are'} not there: {names}"
        )
        yield Ailment("schedules", text, "mended, they are cancelled", partial(_cancel, schedules, gone))


def _cancel(schedules: Schedules, sessions: set[str]) -> None:
    schedules.cancel_of(sessions)


def _missing(home: Home, root_id: str) -> int | None:
    """How many records a crash has left out; None where the tree cannot be read, which is found elsewhere."""
    try:
        return read_tree(home.fs, home, root_id).unrepaired
    except (StoreError, OSError):
        return None


def _journals(home: Home) -> Iterator[Ailment]:
    with Catalog.open(home) as catalog:
        for summary in catalog.sessions():
            if summary.trouble:
                name = short(summary.session_id)
                advice = f"look: sapwood sessions check {name}; then: sapwood sessions repair {name}"
                yield Ailment("journals", f"session {name} is damaged: {summary.trouble}", advice)


def _new_catalog(home: Home) -> None:
    catalog_file.remove(home)
    with Catalog.open(home) as catalog:
        catalog.sessions()
    if (found := catalog_file.trouble(home)) is not None:
        raise StoreError(f"{home.catalog_path}: {found}")


def _clean(home: Home) -> None:
    clean(home)


def _take_and_let_go(home: Home, root_ids: list[str], clock: Callable[[], float]) -> None:
    for root_id in root_ids:
        TreeLock.acquire(home.fs, home, root_id, iso(clock())).release()


def _close(home: Home, root_id: str, clock: Callable[[], float]) -> None:
    """Write what the crash has left out."""
    owned = OwnedTree.acquire(home.fs, home, root_id, clock)
    try:
        owned.load()
    finally:
        owned.close()
