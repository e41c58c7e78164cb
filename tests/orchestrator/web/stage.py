"""A dashboard on a scripted forest: rows and events that a test makes, journals in a folder, hands that only remember."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import msgspec
import trio

from orchestrator.views.doing import Activity
from orchestrator.views.feed import FeedLine
from orchestrator.views.pulse import Pulse
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from orchestrator.web.dashboard import Dashboard
from orchestrator.web.door import Door
from orchestrator.web.ports import News, Order, Refused, Told
from orchestrator.web.server import Server
from store.times import iso
from store.usage import Cost, Usage
from tests.stored import Forest as Home
from tests.stored import read

BEGIN_S = 1_800_000_000.0


def usage(cents: float, tokens: int = 0, unpriced: tuple[str, ...] = ()) -> Usage:
    cost = Cost(total=cents / 100, unpriced=unpriced) if unpriced else Cost(total=cents / 100)
    return Usage(input=tokens, total_tokens=tokens, cost=cost)


def row(session: str, parent: AgentRow | None = None, /, **members: Any) -> AgentRow:
    """A running agent that costs ten cents; `members` say what is different."""
    own = members.pop("own", usage(10, 1_000))
    given: dict[str, Any] = {
        "session_id": session,
        "parent_session_id": parent.session_id if parent else None,
        "root_session_id": parent.root_session_id if parent else session,
        "name": session,
        "depth": parent.depth + 1 if parent else 0,
        "status": "running",
        "outcome": None,
        "model": "test/haiku",
        "cwd": "/work",
        "created": iso(BEGIN_S),
        "modified": iso(BEGIN_S),
        "elapsed_ms": 60_000,
        "last_event_at": iso(time.time()),
        "message_count": 3,
        "context_tokens": 20_000,
        "context_window": 100_000,
        "own": own,
        "total": own,
        "unpriced_models": own.cost.unpriced or () if own else (),
        "summary": None,
        "task_state": None,
        "activity": Activity(kind="tool", label="bash pytest -q", since=iso(time.time())),
        "retry": None,
        "queued": 0,
        "turns": 2,
        "working": 0,
        "descendants": 0,
        "issues": 0,
        "host_pid": 4242,
        "path": None,
        "pulse": Pulse(as_of_ms=round(time.time() * 1000)),
    } | members
    return AgentRow(**given)


def settled(session: str, parent: AgentRow | None = None, outcome: str = "completed", **members: Any) -> AgentRow:
    given = {"status": "idle", "outcome": outcome, "activity": None, "pulse": msgspec.UNSET} | members
    return row(session, parent, **given)


def summed(rows: Sequence[AgentRow]) -> list[AgentRow]:
    """The rows with the sums that belong to them: totals, working, descendants, issues."""
    done: dict[str, AgentRow] = {}
    below: dict[str, list[AgentRow]] = {}
    for each in reversed(rows):
        kids = below.pop(each.session_id, [])
        own = each.own or Usage()
        total = Usage(
            input=own.input + sum(kid.total.input for kid in kids if kid.total),
            cost=Cost(total=round(own.cost.total + sum(kid.total.cost.total for kid in kids if kid.total), 12)),
        )
        models = {*each.unpriced_models, *(name for kid in kids for name in kid.unpriced_models)}
        if models:
            total = msgspec.structs.replace(
                total, cost=msgspec.structs.replace(total.cost, unpriced=tuple(sorted(models)))
            )
        done[each.session_id] = msgspec.structs.replace(
            each,
            total=total,
            unpriced_models=tuple(sorted(models)),
            working=sum(kid.working + kid.state.is_working for kid in kids),
            descendants=sum(kid.descendants + 1 for kid in kids),
            issues=sum(kid.issues for kid in kids) + each.state.is_issue,
        )
        if each.parent_session_id is not None:
            below.setdefault(each.parent_session_id, []).append(done[each.session_id])
    return [done[each.session_id] for each in rows]


def sample_rows() -> list[AgentRow]:
    """One tree with something of everything."""
    root = row("root-000", name="port-billing", status="waiting", queued=1, activity=_doing("children", "for 4 of 9"))
    invoices = row("invoices", root, own=usage(52, 200_000))
    shim = settled(
        "shim-000", invoices, "failed", name="legacy-shim", activity=_doing("error", "invalid_request: tools")
    )
    tests = row("tests-00", invoices, name="invoice-tests")
    hook = settled(
        "hooks-00", root, name="webhooks", task_state="needs_input", activity=_doing("question", "Which secret?")
    )
    fuzz = row("fuzz-000", root, name="fuzz-amounts", own=usage(0, 58_000, ("local/qwen",)), model="local/qwen")
    cases = [settled(f"case-{n:03}", fuzz, own=usage(1.9, 13_000)) for n in range(19)]
    docs = settled("docs-000", root, "limit_reached", name="docs", activity=_doing("error", "cost limit $0.25"))
    return summed([root, invoices, shim, tests, hook, fuzz, *cases, docs])


def _doing(kind: Any, label: str) -> Activity:
    return Activity(kind=kind, label=label, since=iso(time.time()))


def many_rows(count: int) -> list[AgentRow]:
    """A root, a hundred children, the others below them."""
    root = row("root-000", name="big")
    rows = [root]
    parents = [row(f"group-{n:05}", root) for n in range(min(100, count - 1))]
    per_parent = -(-(count - 1 - len(parents)) // max(1, len(parents)))
    left = count - 1 - len(parents)
    for place, parent in enumerate(parents):
        rows.append(parent)
        mine = min(per_parent, left)
        left -= mine
        rows += [row(f"leaf-{place:03}-{n:05}", parent) for n in range(mine)]
    return summed(rows)


@attrs.define(eq=False)
class ScriptedForest:
    """The port, played by a test: `show` sets rows, `tell` sends news. `others` ended long ago."""

    shown: Sequence[AgentRow] = ()
    others: Sequence[AgentRow] = ()
    shows_all: bool = False
    _send: trio.MemorySendChannel[Sequence[News]] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[Sequence[News]] = attrs.field(init=False)
    _seq: int = 0

    def __attrs_post_init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Sequence[News]](100_000)

    @property
    def left_out(self) -> int:
        return 0 if self.shows_all else len(self.others)

    def rows(self) -> Sequence[AgentRow]:
        return [*self.others, *self.shown] if self.shows_all else self.shown

    def show_all(self) -> None:
        self.shows_all = True
        self.tell()

    async def news(self) -> AsyncIterator[Sequence[News]]:
        async for batch in self._receive:
            yield batch

    def show(self, rows: Sequence[AgentRow]) -> None:
        self.shown = rows
        self._send.send_nowait([])

    def change(self, session: str, **members: Any) -> None:
        self.show(
            [msgspec.structs.replace(each, **members) if each.session_id == session else each for each in self.shown]
        )

    def tell(self, *news: News) -> None:
        self._send.send_nowait(news)

    def line(self, session: str, text: str, type: Any = "tools", kind: str = "bash", word: str = "running") -> None:
        self._seq += 1
        told = FeedLine(type=type, kind=kind, word=word, text=text)
        self.tell(Told(session, self._seq, time.time(), told))


@attrs.define(eq=False)
class StoredJournals:
    """The journals of a folder; without one, none."""

    home: Home | None = None

    async def session(self, session_id: str) -> Stored:
        tree = await self.tree(session_id)
        return Stored(session_id, {session_id: tree.nodes[session_id]}, tree.owner)

    async def tree(self, session_id: str) -> Stored:
        if self.home is None or session_id not in self.home.sessions:
            raise KeyError(session_id)
        found = self.home.sessions[session_id]
        while found.parent is not None:
            found = found.parent
        return read(self.home, found)

    def rows(self) -> list[AgentRow]:
        assert self.home is not None
        roots = [session for session in self.home.sessions.values() if session.parent is None]
        return [each for root in roots for each in tree_rows(read(self.home, root), self.home.now)]


@attrs.define(eq=False)
class RememberingHands:
    """Does nothing and says yes, or no. While `gate` is not set it takes its time."""

    orders: list[Order] = attrs.field(factory=list)
    refusal: str | None = None
    gate: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.gate.set()

    async def do(self, order: Order) -> None:
        self.orders.append(order)
        await self.gate.wait()
        if self.refusal is not None:
            raise Refused(self.refusal)


@attrs.define(eq=False)
class Stage:
    """A dashboard that is up. `port`: where it listens."""

    server: Server
    port: int
    forest: ScriptedForest
    journals: StoredJournals
    hands: RememberingHands
    stop: trio.Event

    @property
    def address(self) -> str:
        return self.server.door.address

    @property
    def origin(self) -> str:
        return self.server.door.origin


@asynccontextmanager
async def stage(
    rows: Sequence[AgentRow] = (),
    home: Home | None = None,
    *,
    shown_port: int | None = None,
    is_read_only: bool = False,
    others: Sequence[AgentRow] = (),
) -> AsyncIterator[Stage]:
    """Up within this block. `shown_port`: the one that the browser knows, where something stands in between."""
    forest, journals, hands, stop = ScriptedForest(rows, others), StoredJournals(home), RememberingHands(), trio.Event()
    dashboard = Dashboard(forest, journals, None if is_read_only else hands)
    server = Server.bound(dashboard)
    port = server.door.port
    if shown_port is not None:
        server.door = Door(shown_port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, stop.wait)
        try:
            yield Stage(server, port, forest, journals, hands, stop)
        finally:
            stop.set()


async def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)
