"""The connection to one host: a snapshot, then its lines, folded as they come; and on from where they were left."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import attrs
import msgspec
import trio

from orchestrator.engine.client import Client, CommandFailed, HostGone
from orchestrator.engine.control.answers import GAP, LEFT, OPENED, SNAPSHOT
from orchestrator.views.live import LiveTree
from orchestrator.views.rows import AgentRow
from store.events import Event
from store.lines import Tags

BEAT_S = 5.0
DEAD_AFTER_S = 11.0
"""A view says so within 12 s."""

Heard = Callable[[Tags, Event, bytes], None]


class _Head(msgspec.Struct, rename="camel"):
    type: str
    root_session_id: str | None = None
    row: AgentRow | None = None
    missed: int = 0
    seq: int = 0
    rows: int = 0


class _Hello(msgspec.Struct):
    pid: int


class _Subscribed(msgspec.Struct):
    generation: str
    seqs: dict[str, int]
    rows: int


_head: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


@attrs.frozen
class Gap:
    """Lines that never came: since we were too slow, or were away for `away_s`. Rows came anew from a snapshot."""

    missed: int
    away_s: float | None = None


@attrs.define(eq=False)
class Link:
    """`state`: `lost` while the host does not answer; then `since` (Unix seconds) is when its clocks stood still.

    `gaps`: what this reader has missed, in order. `changed` is called when rows may be others.
    """

    socket: Path
    changed: Callable[[], None]
    heard: Callable[[Tags, Event, bytes], None]
    state: Literal["joining", "live", "lost"] = "joining"
    pid: int | None = None
    since: float = 0.0
    tries: int = 0
    next_try: float = 0.0
    gaps: list[Gap] = attrs.field(factory=list)
    client: Client | None = None
    fold: LiveTree = attrs.field(factory=LiveTree)
    hurry: trio.Event = attrs.field(factory=trio.Event)
    _generation: str | None = None
    _seqs: dict[str, int] = attrs.field(factory=dict)
    _snapshots: list[AgentRow] = attrs.field(factory=list)
    _expected: int = 0
    _stale: int = 0

    @property
    def roots(self) -> list[str]:
        return list(dict.fromkeys(session.place.root_id for session in self.fold.sessions.values()))

    def rows(self, now: float | None) -> list[AgentRow]:
        return self.fold.rows(self.since if self.state == "lost" else now)

    async def follow(self, client: Client) -> None:
        """Until the connection ends. Raises HostGone, CommandFailed, msgspec.DecodeError."""
        with trio.move_on_after(DEAD_AFTER_S) as joining:
            self.pid = msgspec.convert(await client.call({"type": "hello"}), _Hello).pid
            await self._subscribe(client)
        if joining.cancelled_caught:
            raise HostGone("the host does not answer")
        self.client = client
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat, client, nursery.cancel_scope)
                async for line in client.lines():
                    await self._take(client, line)
                nursery.cancel_scope.cancel()
        except* (HostGone, CommandFailed, msgspec.DecodeError):
            pass  # it ended while it was asked something

    def leave(self, now: float) -> None:
        """The connection has ended."""
        if self.state != "lost":
            self.since = now
        self.client, self.state = None, "lost"
        self.tries += 1

    async def _subscribe(self, client: Client) -> None:
        known = self._seqs
        since = {"generation": self._generation, "seqs": known} if self._generation is not None else None
        answer = await client.call({"type": "subscribe", **({"since": since} if since is not None else {})})
        data = msgspec.convert(answer, _Subscribed)
        is_new = self._generation != data.generation
        self._generation, self._seqs = data.generation, data.seqs
        self._expected, self._stale, self._snapshots = data.rows, 0, []
        for root_id in set(self.roots) - set(self._seqs):  # let go of while we were away
            self.fold.forget(root_id)
        missed = 0 if is_new else sum(seq - known[root_id] for root_id, seq in self._seqs.items() if root_id in known)
        if self._expected and self.state == "lost" and missed > 0:
            self.gaps.append(Gap(missed, time.time() - self.since))
        if not self._expected:
            self._joined()

    def _joined(self) -> None:
        self.state, self.tries = "live", 0
        self.changed()

    async def _take(self, client: Client, line: bytes) -> None:
        if line.startswith(SNAPSHOT):
            self._snapshot(_head.decode(line).row)
        elif line.startswith(GAP):
            self.gaps.append(Gap(_head.decode(line).missed))
            self._generation = None
            await self._subscribe(client)
        elif line.startswith(OPENED):
            self._opened(_head.decode(line))
        elif line.startswith(LEFT):
            self._leave_tree(_head.decode(line).root_session_id or "")
        elif not self._expected:  # else it is older than the snapshot that is on its way
            taken = self.fold.take_line(line)
            if taken is not None:
                tags, event = taken
                self._seqs[self.fold.sessions[tags.session_id].place.root_id] = tags.seq
                self.heard(tags, event, line)
                self.changed()

    def _leave_tree(self, root_id: str) -> None:
        """The host has let go of it: from now on it is what lies on the disk."""
        self._seqs.pop(root_id, None)
        self.fold.forget(root_id)
        self.changed()

    def _opened(self, head: _Head) -> None:
        """Snapshots of one tree follow. Those of a subscription come in one piece, so what stands before them is older."""
        if self._expected:
            self._stale += head.rows
            return
        self._seqs[head.root_session_id or ""] = head.seq
        self._expected, self._snapshots = head.rows, []

    def _snapshot(self, row: AgentRow | None) -> None:
        if self._stale:
            self._stale -= 1
            return
        if row is not None:
            self._snapshots.append(row)
        self._expected -= 1
        if self._expected == 0:
            rows, self._snapshots = self._snapshots, []
            self.fold.seed(rows)
            self._joined()

    async def _beat(self, client: Client, connection: trio.CancelScope) -> None:
        """A host that says nothing for long is asked whether it is there."""
        while True:
            await trio.sleep(BEAT_S)
            with trio.move_on_after(DEAD_AFTER_S - BEAT_S) as waiting:
                await client.call({"type": "hello"})
            if waiting.cancelled_caught:
                connection.cancel()
                return
