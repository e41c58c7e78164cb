"""Stored trees for tests of what reads them: real journals in a real folder, written the way an owner writes them."""

import os
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from orchestrator.cli.common import as_stored
from orchestrator.views.stored import Stored
from store.aggregates import Aggregates
from store.disk.forest import read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal
from store.disk.ownership import Owner, TreeLock
from store.entries import (
    VERSION,
    ChildSpawnedEntry,
    Header,
    Known,
    MessageEntry,
    ModelChangeEntry,
    RunSettledEntry,
)
from store.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, user_text
from store.records import Draft
from store.repair import child_settled
from store.times import iso
from store.tree import EntryTree
from store.usage import Price, Spend, Usage, priced, spend_of
from store.wire import encode

BEGIN_S = 1_800_000_000.0
PRICE = Price(input=1_000_000, output=10_000_000, cache_read=100_000, cache_write=1_250_000)


@attrs.define
class Forest:
    """A home with trees in it. `now` moves on by a second with every entry."""

    home: Home
    now: float = BEGIN_S
    count: int = 0
    sessions: dict[str, "StoredSession"] = attrs.field(factory=dict)
    locks: list[TreeLock] = attrs.field(factory=list)

    @classmethod
    def at(cls, root: Path) -> "Forest":
        home = Home(root, root / "sessions", RealFs())
        home.create()
        return cls(home)

    def root(self, name: str | None = "root", cwd: str = "/work") -> "StoredSession":
        return self._session(name, cwd, None, None)

    def _session(
        self, name: str | None, cwd: str, parent: "StoredSession | None", call_id: str | None
    ) -> "StoredSession":
        self.count += 1
        session_id = f"0198f0aa-0000-7000-8000-{self.count:012d}"
        header = Header(
            version=VERSION,
            id=session_id,
            timestamp=iso(self.now),
            cwd=cwd,
            parent_session_id=parent.id if parent else None,
            root_session_id=parent.header.root_id if parent else None,
            rlm_depth=parent.header.depth + 1 if parent else 0,
            name=name,
        )
        journal = Journal.create(RealFs(), self.home.journal_path(session_id), header, epoch=1)
        session = StoredSession(self, header, journal, parent, call_id)
        self.sessions[session_id] = session
        return session

    def own(self, root: "StoredSession") -> None:
        """This process becomes the owner, alive."""
        self.locks.append(TreeLock.acquire(RealFs(), self.home, root.id, iso(self.now)))

    def owned_elsewhere(self, root: "StoredSession") -> None:
        """An owner on a host that nobody here can look at."""
        owner = Owner(pid=4242, host="elsewhere", since=iso(self.now), epoch=1)
        self.home.lock_path(root.id).write_bytes(encode(owner) + b"\n")
        os.chmod(self.home.lock_path(root.id), 0o600)

    def close(self) -> None:
        for lock in self.locks:
            lock.release()
        for session in self.sessions.values():
            session.journal.close()


@attrs.define(eq=False)
class StoredSession:
    """One journal, open for writing. What it is billed goes to all its ancestors, unless `is_billed_alone`."""

    forest: Forest
    header: Header
    journal: Journal
    parent: "StoredSession | None"
    call_id: str | None = None
    tree: EntryTree = attrs.field(factory=EntryTree)
    sums: Aggregates = attrs.field(factory=Aggregates)
    runs: int = 0
    is_billed_alone: bool = False

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def path(self) -> Path:
        return self.journal.path

    def add(self, body: Known) -> str:
        """Append an entry at the leaf; its id."""
        self.forest.now += 1
        entry = self.tree.next_ids(1)[0]
        record = Draft.of(body).record(entry, self.tree.leaf_id, iso(self.forest.now))
        self.journal.append((record.raw,))
        self.tree.add(record)
        return entry

    def message(self, message: Any) -> str:
        return self.add(MessageEntry(message=msgspec.Raw(encode(message))))

    def prompt(self, text: str = "go") -> str:
        return self.message(user_text(text, int(self.forest.now * 1000)))

    def uses(self, model: str) -> str:
        provider, _, name = model.partition("/")
        return self.add(ModelChangeEntry(provider=provider, model_id=name))

    def answer(
        self,
        text: str = "done",
        tokens: tuple[int, ...] = (100, 10, 0, 0),
        model: str = "test/model",
        price: Price | None = PRICE,
        calls: tuple[ToolCall, ...] = (),
        stop_reason: str = "",
        error: str | None = None,
    ) -> str:
        """An assistant message, priced and billed all the way up."""
        counts = Usage(
            input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3], total_tokens=sum(tokens)
        )
        usage = priced(counts, price, model)
        provider, _, name = model.partition("/")
        message = AssistantMessage(
            content=((TextContent(text=text),) if text else ()) + calls,
            provider=provider,
            model=name,
            usage=usage,
            stop_reason=stop_reason or ("toolUse" if calls else "stop"),
            error_message=error,
            timestamp=int(self.forest.now * 1000),
        )
        entry = self.message(message)
        self.sums.own[entry] = (spend_of(usage), usage.total_tokens)
        if not self.is_billed_alone:
            self.bill_ancestors(entry, spend_of(usage))
        return entry

    def bill_ancestors(self, entry: str, spend: Spend) -> None:
        child, above = self, self.parent
        while above is not None:
            target = next(iter(above.sums.own), None)
            above.add(above.sums.attribution(target, spend, (self.id, entry), child.id, "spawn_task"))
            child, above = above, above.parent

    def result(self, call_id: str, text: str = "ok") -> str:
        message = ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=(TextContent(text=text),))
        return self.message(message)

    def announce(self, name: str, prompt: str = "look", model: str = "test/model", session_id: str = "") -> str:
        """`child_spawned` alone: the child has no file."""
        self.forest.count += not session_id
        child = session_id or f"0198f0aa-0000-7000-8000-{self.forest.count:012d}"
        self.add(
            ChildSpawnedEntry(
                child_session_id=child, name=name, child_depth=self.header.depth + 1, prompt=prompt, model=model
            )
        )
        return child

    def child(self, name: str, prompt: str = "look") -> "StoredSession":
        child = self.forest._session(name, self.header.cwd, self, None)
        self.announce(name, prompt, session_id=child.id)
        return child

    def settle(self, outcome: str = "completed", error: str | None = None, text: str = "") -> None:
        """The run ends, and the parent is told."""
        self.runs += 1
        ended = RunSettledEntry(run=self.runs, outcome=outcome, error_message=error)
        self.add(ended)
        if self.parent is not None:
            self.parent.add(child_settled(self.id, ended, text))

    def damage(self) -> None:
        """Flip a bit in the middle of what was acknowledged."""
        self.journal.sync()
        self.add(ModelChangeEntry(provider="test", model_id="after"))
        data = bytearray(self.path.read_bytes())
        lines = data.split(b"\n")
        place = len(lines[0]) + 1 + len(lines[1]) // 2
        data[place] ^= 0x01
        self.path.write_bytes(data)


def sample(forest: Forest, *, ends: Literal["settled", "open"] = "settled") -> StoredSession:
    """A root with two children, one of which failed, and a grandchild without a price."""
    root = forest.root("port-billing")
    root.uses("test/opus")
    root.prompt("Port the billing module")
    root.answer("I start two agents.", (1200, 80, 0, 0), "test/opus")
    invoices = root.child("invoices", "Port the invoices")
    invoices.uses("test/sonnet")
    invoices.prompt("Port the invoices")
    tax = invoices.child("tax-rounding")
    tax.prompt("Look at rounding")
    tax.answer("Half even.", (58_000, 12, 0, 0), "local/qwen", None)
    tax.settle(text="Half even.")
    invoices.answer("Ported, 14 call sites.", (30_000, 900, 12_000, 500), "test/sonnet")
    invoices.settle(text="Ported, 14 call sites.")
    shim = root.child("legacy-shim")
    shim.prompt("Remove the shim")
    shim.answer("", (900, 0, 0, 0), "test/haiku", stop_reason="error", error="invalid_request: tools.0 is not allowed")
    shim.settle("failed", "invalid_request: tools.0 is not allowed")
    if ends == "settled":
        root.answer("Billing is ported; the shim is left.", (2_000, 60, 1_000, 0), "test/opus")
        root.settle()
    return root


def read(forest: Forest, root: StoredSession) -> Stored:
    """The tree as the commands read it."""
    return as_stored(forest.home, read_tree(forest.home.fs, forest.home, root.id))
