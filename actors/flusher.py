"""Durability: one flusher per host flushes what all its sessions have written, in groups, in worker threads."""

from typing import Literal, Protocol

import attrs
import trio

from store.errors import JournalPoisoned, StoreError

# What "acknowledged" means: written, so that it survives the process; or on the disk, by a shared flush or by one of its own.
Durability = Literal["write", "group", "full"]
FLUSH_EVERY_S = 1.0


class JournalLike(Protocol):
    """What actors need of a journal. `seq`: records written; `durable`: leading records known to be durable."""

    seq: int
    durable: int
    is_poisoned: bool

    def append(self, bodies: list[bytes]) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Flushing(Protocol):
    def note(self, journal: JournalLike) -> None: ...

    async def durable(self, journal: JournalLike) -> None: ...


@attrs.define
class InlineFlusher:
    """Flushes in the caller. For tests with virtual time: the clock would jump while a worker thread is in a system call."""

    def note(self, journal: JournalLike) -> None:
        """Nothing to remember."""

    async def durable(self, journal: JournalLike) -> None:
        await trio.lowlevel.checkpoint()
        if journal.durable < journal.seq:
            journal.sync()


@attrs.define(eq=False)
class Flusher:
    """At once when idle; what is written meanwhile is the next group. Stands outside all trees and is never cancelled.

    With `write` nobody waits for it, and with `full` everybody who waits flushes alone: then the groups, which hold what
    nobody waits for, are a second apart.
    """

    threads: int = 32
    level: Durability = "group"
    _dirty: dict[int, JournalLike] = attrs.field(factory=dict)
    _wake: trio.Event = attrs.field(factory=trio.Event)
    _flushed: trio.Event = attrs.field(factory=trio.Event)
    _ending: trio.Event = attrs.field(factory=trio.Event)
    _limiter: trio.CapacityLimiter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(self.threads)

    def note(self, journal: JournalLike) -> None:
        """`journal` has grown."""
        self._dirty[id(journal)] = journal
        self._wake.set()

    async def durable(self, journal: JournalLike) -> None:
        """Return when all that `journal` holds now is as durable as `level` says. Raises JournalPoisoned when a flush failed."""
        wanted = journal.seq
        while journal.durable < wanted:
            if journal.is_poisoned:
                raise JournalPoisoned("expected a flush to succeed; it failed, so what the disk holds is unknown")
            if self.level == "full":
                await self._sync(journal)
                continue
            self.note(journal)
            if self.level == "write":
                await trio.lowlevel.checkpoint()
                return
            await self._flushed.wait()

    async def run(self) -> None:
        """Flush until `end` was called and nothing is dirty."""
        with trio.CancelScope(shield=True):
            while self._dirty or not self._ending.is_set():
                if not self._dirty:
                    self._wake = trio.Event()
                    await self._wake.wait()
                if self.level != "group":
                    with trio.move_on_after(FLUSH_EVERY_S):
                        await self._ending.wait()
                group, self._dirty = list(self._dirty.values()), {}
                await self._flush(group)
                flushed, self._flushed = self._flushed, trio.Event()
                flushed.set()

    def end(self) -> None:
        """Let `run` return once everything is flushed."""
        self._ending.set()
        self._wake.set()

    async def _flush(self, group: list[JournalLike]) -> None:
        behind = [journal for journal in group if journal.durable < journal.seq and not journal.is_poisoned]
        if len(behind) == 1:
            await self._sync(behind[0])
            return
        async with trio.open_nursery() as nursery:
            for journal in behind:
                nursery.start_soon(self._sync, journal)

    async def _sync(self, journal: JournalLike) -> None:
        try:
            await trio.to_thread.run_sync(journal.sync, limiter=self._limiter)
        except (OSError, StoreError):
            # Whoever waits for it, or appends next, is told; the session reopens it.
            journal.is_poisoned = True
