"""Trees on disk for their owner: the lock, the journals, and the repair of what a crash left out."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

import attrs

from actors.flusher import JournalLike
from actors.protocol.resume import unfinished
from orchestrator.engine.errors import NothingLeft, NotOurs, WrongUsage
from orchestrator.engine.job import Job
from store.disk.drawn import new_id
from store.disk.forest import decoded, read_header
from store.disk.fs import Fs
from store.disk.home import Home
from store.disk.manager import SessionManager
from store.disk.owned_journals import EMPTY, MISSING, OwnedJournals
from store.disk.ownership import TreeLock
from store.entries import Header
from store.errors import BadId, OwnedElsewhere, StoreError
from store.memory import MemoryJournal
from store.repair import Fix, Node
from store.times import iso
from store.tree import EntryTree


class Ground(Protocol):
    """Where the journals of a tree are. `nodes` and `repaired` tell what was there before.

    `unfinished`: the sessions of an interrupted tree that go on, with their tasks where they have not heard them.
    """

    root_id: str
    nodes: dict[str, Node]
    troubles: dict[str, str]
    repaired: list[Fix]
    unfinished: dict[str, str | None]

    def create(self, header: Header) -> JournalLike: ...

    def open(self, session_id: str) -> tuple[JournalLike, EntryTree]: ...

    def read(self, session_id: str) -> EntryTree: ...

    def path(self, session_id: str) -> str | None: ...

    def artifact_dir(self, session_id: str) -> str: ...

    def close(self) -> None: ...


@attrs.define(eq=False)
class MemoryGround:
    """Nothing is kept: the journals live and end with the process."""

    root_id: str
    nodes: dict[str, Node] = attrs.field(factory=dict)
    troubles: dict[str, str] = attrs.field(factory=dict)
    repaired: list[Fix] = attrs.field(factory=list)
    unfinished: dict[str, str | None] = attrs.field(factory=dict)
    _journals: dict[str, MemoryJournal] = attrs.field(factory=dict)
    _scratch: str | None = None

    def create(self, header: Header) -> JournalLike:
        self._journals[header.id] = MemoryJournal()
        return self._journals[header.id]

    def open(self, session_id: str) -> tuple[JournalLike, EntryTree]:
        return self._journals[session_id], self.read(session_id)

    def read(self, session_id: str) -> EntryTree:
        return EntryTree.of(list(decoded(tuple(self._journals[session_id].lines))))

    def path(self, session_id: str) -> str | None:
        return None

    def artifact_dir(self, session_id: str) -> str:
        """A model may read the whole of a long output as long as the run lasts."""
        self._scratch = self._scratch or tempfile.mkdtemp(prefix="sapwood-")
        return f"{self._scratch}/{session_id}"

    def close(self) -> None:
        self._journals.clear()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


@attrs.define(eq=False)
class OwnedTree(OwnedJournals):
    """A tree on disk that this process owns and runs."""

    unfinished: dict[str, str | None] = attrs.field(factory=dict)

    @classmethod
    def acquire(cls, fs: Fs, home: Home, root_id: str, clock: Callable[[], float]) -> Self:
        """Own a tree, new or stored. Raises NotOurs; StoreError, OSError."""
        try:
            return cls(fs, home, root_id, TreeLock.acquire(fs, home, root_id, iso(clock())), clock)
        except OwnedElsewhere as error:
            raise NotOurs(str(error)) from error

    def load(self, *, goes_on: bool = False) -> None:
        """Open the root and all below it, and write what a crash left out. Raises NotOurs; OSError.

        `goes_on`: what was interrupted is taken up again; else it is lost.
        """
        try:
            self.open_all()
        except FileNotFoundError as error:
            raise NotOurs(f"session {self.root_id} cannot be opened: {MISSING}") from error
        except StoreError as error:
            raise NotOurs(f"session {self.root_id} cannot be opened: {error}") from error
        if goes_on:
            self._take_up()
        self.repair(self.unfinished)

    def _take_up(self) -> None:
        """Find what is unfinished. A child whose journal holds nothing, not even a whole header, begins anew."""
        unreadable = [session for session, trouble in self.troubles.items() if trouble not in {MISSING, EMPTY}]
        self.unfinished = unfinished(self.nodes, self.root_id, unreadable)
        for session in self.unfinished:
            if self.troubles.pop(session, None) == EMPTY:
                self.discard(session)

    def path(self, session_id: str) -> str | None:
        return str(self.home.journal_path(session_id))

    def artifact_dir(self, session_id: str) -> str:
        return str(self.home.artifact_dir(session_id))


def open_ground(job: Job, home: Home, clock: Callable[[], float]) -> Ground:
    """The ground for a job: a new tree, a stored one with all that a crash left out written, or a fork of one.

    Raises WrongUsage, NotOurs; StoreError, OSError.
    """
    if job.session is None and job.fork is None:
        root_id = new_id(clock())
        return OwnedTree.acquire(home.fs, home, root_id, clock) if job.is_kept else MemoryGround(root_id)
    name = job.session or _forked(job, home, clock)
    root_id = root_of(home.fs, home, name)
    if root_id != name:
        raise WrongUsage(f"session {name} is a child; go on with its root: sapwood run -r {root_id}")
    owned = OwnedTree.acquire(home.fs, home, root_id, clock)
    with closed_on_error(owned):
        owned.load(goes_on=job.prompt is None)
        if job.prompt is None and not owned.unfinished:
            raise NothingLeft(f"session {name} was not interrupted, so that nothing is left to do; give it a prompt")
    return owned


def _forked(job: Job, home: Home, clock: Callable[[], float]) -> str:
    """The id of the fork that the job wants. Raises NotOurs where the source is damaged; OSError."""
    path = home.journal_path(str(job.fork))
    try:
        with SessionManager.fork_from(path, job.cwd, name=job.name, home=home, clock=clock) as fork:
            return fork.id
    except StoreError as error:
        raise NotOurs(f"session {job.fork} cannot be forked: {error}") from error


@contextmanager
def closed_on_error(owned: OwnedTree) -> Iterator[None]:
    """Let go of a tree that could not be opened."""
    try:
        yield
    except BaseException:
        owned.close()
        raise


def root_of(fs: Fs, home: Home, session_id: str) -> str:
    """The root of the tree that a stored session belongs to. Raises WrongUsage, NotOurs."""
    try:
        home.journal_path(session_id)
        header = read_header(fs, home, session_id)
    except (BadId, FileNotFoundError) as error:
        raise WrongUsage(f"there is no session {session_id}; `sapwood sessions list` shows those there are") from error
    except (OSError, StoreError) as error:
        raise NotOurs(f"session {session_id} cannot be read: {error}") from error
    if header is None:
        raise NotOurs(f"session {session_id} has no header that can be read; see `sapwood sessions check`")
    return header.root_id
