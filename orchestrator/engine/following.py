"""The streams of live hosts as one: hosts come and go by themselves, each tree's lines keep their order."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from orchestrator.dialects.projection import NATIVE, Projection, project
from orchestrator.engine.client import Client, CommandFailed, HostGone
from orchestrator.engine.control.answers import LEFT, OPENED, SNAPSHOT, gap
from orchestrator.engine.control.endpoint import answering
from store.disk.home import Home
from store.lines import parted

PERIOD_S = 0.2
"""So often one looks for new hosts."""


async def each_host(
    home: Home,
    meet: Callable[[Path, bool], Awaitable[None]],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """`meet(path, is_new)` every host that there is and every one that comes, once and in a task of its own. Until cancelled.

    HostGone and CommandFailed from `meet` are the end of that one. Raises OSError where the folder cannot be read.
    """
    there = set(answering(home))
    task_status.started()

    async def guarded(path: Path, is_new: bool) -> None:
        with suppress(HostGone, CommandFailed):
            await meet(path, is_new)

    async with trio.open_nursery() as nursery:
        met: set[Path] = set()
        is_new = False
        while True:
            for path in sorted(there - met):
                nursery.start_soon(guarded, path, is_new)
            met, is_new = there, True
            await trio.sleep(PERIOD_S)
            with suppress(OSError):
                there = set(answering(home, known=met))


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    root_session_id: str


class _Snapshot(msgspec.Struct, frozen=True):
    row: _Row


_snapshot: msgspec.json.Decoder[_Snapshot] = msgspec.json.Decoder(_Snapshot)
_header: msgspec.json.Decoder[_Row] = msgspec.json.Decoder(_Row)


@attrs.define(eq=False)
class Following:
    """`say` takes a line and returns when there is room for more. `projection`: how each tree is told.

    `since`: a number of the one tree that is followed; what the host does not remember any more is told as a gap.
    """

    say: Callable[[bytes], Awaitable[None]]
    projection: Projection = NATIVE
    since: int | None = None

    async def host(self, path: Path, is_new: bool) -> None:
        """All trees of this host until it ends, with what one that is new has told already. Raises HostGone."""
        await self._follow(path, None, 0 if is_new else None)

    async def session(self, path: Path, session_id: str) -> None:
        """One session and what is below it until its host ends. Raises HostGone, CommandFailed."""
        await self._follow(path, session_id, self.since)

    async def _follow(self, path: Path, top_id: str | None, since: int | None) -> None:
        async with await Client.connect(path) as client:
            hello = await client.call({"type": "hello"})
            told = _Told(self.projection, top_id)
            rows = msgspec.convert(await client.rows(), list[_Row])
            told.learn(rows)
            request = self._subscription(top_id)
            if since is not None:
                seqs = {row.root_session_id: since for row in rows}
                request["since"] = {"generation": hello["generation"], "seqs": seqs}
            answer = await client.call(request)
            for root_id, seq in answer["seqs"].items() if since is not None and answer["rows"] else ():
                if seq > since:
                    await self.say(gap(root_id, seq - since))
            async for line in client.lines():
                if out := told.line(line):
                    await self.say(out)

    def _subscription(self, top_id: str | None) -> dict[str, Any]:
        request: dict[str, Any] = {"type": "subscribe"} | ({} if top_id is None else {"sessionId": top_id})
        if self.projection.types and self.projection.dialect.is_native:
            # The others tell some lines by what came before, so they have to see all. Headers say which tree a session is in.
            request["types"] = sorted({*self.projection.types, "session"})
        return request


@attrs.define(eq=False)
class _Told:
    """The lines of one connection, each tree in its projection."""

    first: Projection
    top_id: str | None
    _roots: dict[str, str] = attrs.field(factory=dict)
    _trees: dict[str, Projection] = attrs.field(factory=dict)

    def learn(self, rows: Iterable[_Row]) -> None:
        self._roots |= {row.session_id: row.root_session_id for row in rows}

    def line(self, line: bytes) -> bytes:
        """What is shown of a line; nothing of those that tell how trees stand, which are no events."""
        if line.startswith(SNAPSHOT):
            self.learn((_snapshot.decode(line).row,))
            return b""
        if line.startswith((OPENED, LEFT)):
            return b""
        parts = None if self.first.changes_nothing else parted(line)
        if parts is None:
            return line
        if parts.kind == "session":
            self.learn((_header.decode(line),))
        root_id = self._roots.get(parts.session_id, parts.session_id)
        state = self._trees.get(root_id) or msgspec.structs.replace(self.first, root=self.top_id or root_id)
        self._trees[root_id], out = project(state, line)
        return out
