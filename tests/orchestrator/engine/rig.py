"""Hosts that run scripted trees in this process, and what their streams and journals say of who spent what."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from actors.flusher import Flusher, JournalLike
from actors.sink import Outlet
from actors.testing import RecordingOutlet
from actors.tree import Tree
from orchestrator.engine.config import Config
from orchestrator.engine.host import Host
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.one_shot import OneShot
from orchestrator.engine.planted import Planted
from store.attribution import account
from store.disk.fs import RealFs
from store.disk.home import Home
from store.repair import Node
from store.stream import check_stream
from store.usage import NOTHING, Spend, Usage, spend_of

SCRIPTS = Path(__file__).resolve().parents[2] / "data" / "scripts"
PATIENCE_S = 20.0
"""Nothing here takes a tenth of it; what does not end by then never will."""


@attrs.define(eq=False)
class Flushes(Flusher):
    """Flushes in the loop, in the order in which the journals were written: so that call n of a run is always the same."""

    async def _sync(self, journal: JournalLike) -> None:
        if journal.durable < journal.seq and not journal.is_poisoned:
            try:
                journal.sync()
            except Exception:
                journal.is_poisoned = True
        await trio.lowlevel.checkpoint()


def script(name: str) -> str:
    return (SCRIPTS / name).read_text("utf-8")


def home_at(root: Path) -> Home:
    return Home(root, root / "sessions", RealFs())


@attrs.define(eq=False, kw_only=True)
class WatchedHost(Host):
    """A host whose streams go to `outlet`."""

    outlet: RecordingOutlet

    def plant(self, job: Job, models: Models, outlets: Sequence[Outlet] = ()) -> Planted:
        return super().plant(job, models, (self.outlet, *outlets))


@attrs.define(eq=False, kw_only=True)
class Listener(RecordingOutlet):
    """Keeps the lines, and shows each to the test."""

    hear: Callable[[bytes], None]

    def offer(self, line: bytes) -> None:
        super().offer(line)
        self.hear(line)


@attrs.define(eq=False)
class Rig:
    """One place to run jobs in, one after the other, all with the script `text`. `hear` is shown each line of the stream."""

    home: Home
    cwd: Path
    text: str
    make_flusher: Callable[[], Flusher] = Flusher
    hear: Callable[[bytes], None] = lambda line: None
    one_shot: OneShot | None = None
    tree: Tree | None = None
    listener: Listener = attrs.field(factory=lambda: Listener(hear=lambda line: None))

    @property
    def lines(self) -> list[bytes]:
        return self.listener.lines

    def job(self, prompt: str | None = "go", **members: Any) -> Job:
        return Job(prompt, members.pop("model", "scripted/script"), self.cwd, {"PATH": "/usr/bin:/bin"}, **members)

    def run(self, prompt: str | None = "go", **members: Any) -> Ended:
        """Run a job to its end. `lines` then hold its stream, `tree` what was in memory."""
        return trio.run(self.run_in_loop, self.job(prompt, **members))

    async def run_in_loop(self, job: Job) -> Ended:
        models = Models(Config(), {}, self.cwd)
        models.add_script("script", self.text)
        self.listener = Listener(hear=self.hear)

        host = WatchedHost(self.home, flusher=self.make_flusher(), outlet=self.listener)
        one_shot = self.one_shot = OneShot(job, host, models)
        try:
            with trio.fail_after(PATIENCE_S):
                return await one_shot.run()
        finally:
            self.tree = None if one_shot.planted is None else one_shot.planted.tree

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    def faults(self, ended: Ended) -> list[str]:
        """What is wrong with the stream of the last run."""
        return [
            f"{found.line} {found.rule}: {found.text}" for found in check_stream(self.lines, exit_status=ended.status)
        ]


@attrs.frozen
class Sums:
    """Own and total spend per session."""

    own: dict[str, Spend]
    total: dict[str, Spend]


def sums_of_stream(events: Iterable[Mapping[str, Any]]) -> Sums:
    """As somebody sees it who has nothing but the stream."""
    own: dict[str, Spend] = {}
    below: dict[str, Spend] = {}
    for event in events:
        session = event["sessionId"]
        own.setdefault(session, NOTHING)
        below.setdefault(session, NOTHING)
        if event["type"] == "message_end" and event["message"]["role"] == "assistant":
            own[session] = own[session] + _spend(event["message"]["usage"])
        elif event["type"] == "child_usage_attributed":
            below[session] = below[session] + _spend(event["childUsage"])
    return Sums(own, {session: own[session] + below[session] for session in own})


def sums_of_rows(tree: Tree) -> Sums:
    rows = tree.supervisor.directory.rows
    return Sums({name: row.own for name, row in rows.items()}, {name: row.total for name, row in rows.items()})


def sums_of_journals(nodes: Mapping[str, Node]) -> Sums:
    accounts = {session: account(node.header, node.records) for session, node in nodes.items()}
    return Sums(
        {session: each.own for session, each in accounts.items()},
        {session: each.total for session, each in accounts.items()},
    )


def _spend(usage: object) -> Spend:
    return spend_of(msgspec.convert(usage, Usage))


def by_name(tree: Tree) -> dict[str, str]:
    """Session ids by the names of the sessions."""
    return {row.name: session for session, row in tree.supervisor.directory.rows.items()}
