"""Any history of the store, on a disk that loses power: what `journal.md` promises of journals, forks, spend and lists.

Sessions are appended to, in batches or one by one, flushed, branched, forked, spawned, folded, deleted; processes die and
power fails at any point between; a second handle reads along.
"""

import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from store.attribution import account
from store.disk import index, owned
from store.disk.backward import last_entries
from store.disk.catalog import Catalog
from store.disk.forest import read_node, read_tree
from store.disk.home import Home
from store.disk.journal import read_journal
from store.disk.manager import SessionManager
from store.disk.owned import OwnedSource, take
from store.disk.removal import remove
from store.entries import ChildSpawnedEntry, Header, Known, LabelEntry, ModelChangeEntry
from store.errors import OwnedElsewhere
from store.folding import summarized
from store.ids import entry_id
from store.messages import AssistantMessage, TextContent, user_text
from store.records import read_record
from store.repair import Node, post_order, repair_plan, with_fixes
from store.tree import EntryTree
from store.usage import NOTHING, Price, Usage, add_up, priced
from tests.faulty_fs import FaultyFs

PRICE = Price(1_000_000, 3_000_000)


@attrs.define(eq=False)
class Session:
    """What was asked of a session, and what it has acknowledged. `is_there`: it has a file that no crash can take."""

    header: Header
    manager: SessionManager
    parent: "Session | None" = None
    batches: list[list[bytes]] = attrs.field(factory=list)
    durable: int = 0
    is_there: bool = False

    @property
    def records(self) -> list[bytes]:
        return [raw for batch in self.batches for raw in batch]

    @property
    def root(self) -> "Session":
        return self if self.parent is None else self.parent.root

    @property
    def above(self) -> "list[Session]":
        return [] if self.parent is None else [self.parent, *self.parent.above]


class Store(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fs = FaultyFs.holding("/home")
        self.home = Home(Path("/home/s"), Path("/home/s/sessions"), self.fs)
        self.now = 1.8e9
        self.count = 0
        self.sessions: dict[str, Session] = {}
        self.open: set[str] = set()
        """Ids of the roots whose trees this process owns."""
        self.catalog = Catalog.open(self.home)
        self.readers: dict[str, SessionManager] = {}
        """Second handles that stay open."""

    def teardown(self) -> None:
        self.catalog.close()

    # What is done

    def clock(self) -> float:
        self.now += 1
        return self.now

    def pick(self, data: st.DataObject, is_open: bool) -> Session:
        found = [each for each in self.sessions.values() if (each.root.header.id in self.open) is is_open]
        return found[data.draw(st.integers(0, len(found) - 1))]

    def written(self, session: Session, ids: list[str]) -> None:
        """The session told that it has appended entries of these ids."""
        records = [session.manager.read_entry(entry) for entry in ids]
        session.batches.append([record.raw for record in records if record is not None])
        assert len(session.batches[-1]) == len(ids)

    def flushed(self, session: Session) -> None:
        session.manager.flush()
        session.durable, session.is_there = len(session.records), True

    def answer(self, tokens: int) -> AssistantMessage:
        usage = priced(Usage(input=tokens, output=1, total_tokens=tokens + 1), PRICE, "p/m")
        return AssistantMessage(content=(TextContent(text=f"answer {tokens}"),), provider="p", model="m", usage=usage)

    @initialize()
    def begin(self) -> None:
        self.create()

    @rule()
    def create(self) -> None:
        manager = SessionManager.create("/work", name=f"s{self.count}", home=self.home, clock=self.clock)
        self.count += 1
        session = Session(manager.header, manager)
        self.written(session, [manager.append_message(user_text("begin", self.count))])
        self.sessions[manager.id] = session
        self.open.add(manager.id)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 99))
    def append(self, data: st.DataObject, tokens: int) -> None:
        session = self.pick(data, is_open=True)
        message = self.answer(tokens) if tokens % 2 else user_text(f"prompt {tokens}", tokens)
        self.written(session, [session.manager.append_message(message)])

    @precondition(lambda self: self.open)
    @rule(data=st.data(), size=st.integers(1, 4))
    def batch(self, data: st.DataObject, size: int) -> None:
        session = self.pick(data, is_open=True)
        bodies: list[Known] = [ModelChangeEntry(provider="p", model_id=str(number)) for number in range(size - 1)]
        bodies.append(LabelEntry(target_id=entry_id(1), label=f"l{size}"))
        self.written(session, session.manager.append_batch(bodies))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self.flushed(self.pick(data, is_open=True))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), place=st.none() | st.integers(0, 30))
    def branch(self, data: st.DataObject, place: int | None) -> None:
        session = self.pick(data, is_open=True)
        records = session.records
        target = None if place is None or not records else read_record(records[place % len(records)]).id
        self.written(session, [session.manager.branch_to(target)])
        assert session.manager.leaf_id == target

    @rule(data=st.data(), place=st.none() | st.integers(0, 30))
    def fork(self, data: st.DataObject, place: int | None) -> None:
        source = (
            list(self.sessions.values())[data.draw(st.integers(0, len(self.sessions) - 1))] if self.sessions else None
        )
        if source is None or not source.records:
            return
        target = None if place is None else read_record(source.records[place % len(source.records)]).id
        path = self.home.journal_path(source.header.id)
        before = self.fs.content(path)

        manager = SessionManager.fork_from(path, "/fork", from_id=target, home=self.home, clock=self.clock)

        assert self.fs.content(path) == before
        fork = Session(manager.header, manager)
        copied = [record.raw for record in manager.read_entries()]
        expected = EntryTree.of([read_record(raw) for raw in source.records]).path(target)
        assert copied[: len(expected)] == [record.raw for record in expected]
        assert manager.header.forked_from is not None
        assert manager.header.forked_from.records == len(expected)
        fork.batches = [copied] if copied else []
        fork.durable, fork.is_there = len(copied), True
        self.sessions[manager.id] = fork
        self.open.add(manager.id)
        assert account(manager.header, manager.read_entries()).total == NOTHING

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def spawn(self, data: st.DataObject) -> None:
        parent = self.pick(data, is_open=True)
        header = Header(
            version=3,
            id=f"0198f0aa-child-{self.count}",
            timestamp="t",
            cwd="/work",
            parent_session_id=parent.header.id,
            root_session_id=parent.root.header.id,
            rlm_depth=parent.header.depth + 1,
        )
        self.count += 1
        spawned = ChildSpawnedEntry(child_session_id=header.id, name="c", child_depth=1, prompt="p", model="m")
        self.written(parent, [parent.manager.append_child_spawned(spawned)])
        self.flushed(parent)
        lock = source_of(parent.root.manager).lock
        manager = SessionManager(header, self.home, self.clock, source=OwnedSource.create(self.home, header, [], lock))
        child = self.sessions[header.id] = Session(header, manager, parent)
        self.written(child, [manager.append_message(user_text("look", 1))])

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(1, 99), times=st.sampled_from([0, 1, 1, 2]))
    def fold(self, data: st.DataObject, tokens: int, times: int) -> None:
        """A billed answer, and its attributions above: not yet, when a crash comes first, once, or delivered twice."""
        session = self.pick(data, is_open=True)
        entry = session.manager.append_message(self.answer(tokens))
        self.written(session, [entry])
        self.flushed(session)
        child = session
        for ancestor in session.above:
            usage = self.answer(tokens).usage
            key = {"origin_session_id": session.header.id, "origin_entry_id": entry}
            for _ in range(times):
                attributed = ancestor.manager.append_child_usage_attribution(
                    None, usage, child_session_id=child.header.id, origin="spawn_task", **key
                )
                self.written(ancestor, [attributed])
            child = ancestor

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.close_tree(self.pick(data, is_open=True).root)

    def close_tree(self, root: Session) -> None:
        tree = [each for each in self.sessions.values() if each.root is root]
        for session in sorted(tree, key=lambda each: -each.header.depth):
            source_of(session.manager).close(keeps_lock=session is not root)
            session.durable, session.is_there = len(session.records), True
        self.open.discard(root.header.id)

    @precondition(lambda self: len(self.open) < len({each.root.header.id for each in self.sessions.values()}))
    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        self.open_tree(self.pick(data, is_open=False).root)

    def open_tree(self, root: Session) -> None:
        lock = take(self.home, root.header.id, "t")
        tree = [each for each in self.sessions.values() if each.root is root]
        for session in sorted(tree, key=lambda each: each.header.depth):
            source = OwnedSource.open(self.home, session.header.id, lock, "/work", "t")
            session.manager = SessionManager(source.header, self.home, self.clock, source=source)
            session.manager._leaf_id = session.manager._read_leaf_id()
            found = [record.raw for record in session.manager.read_entries()]
            assert found == session.records  # as a reader saw it before
            session.durable, session.is_there = len(found), True
        self.open.add(root.header.id)
        with pytest.raises(OwnedElsewhere):
            SessionManager.open(self.home.journal_path(root.header.id), home=self.home)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        root = list(self.sessions.values())[data.draw(st.integers(0, len(self.sessions) - 1))].root
        tree = {each.header.id for each in self.sessions.values() if each.root is root}
        if root.header.id in self.open:
            with pytest.raises(OwnedElsewhere):
                remove(self.home, root.header.id, None, "t", "t", is_forced=True)
            assert tree <= set(self.home.session_ids())
            return
        removed = remove(self.home, root.header.id, None, "t", "t", is_forced=True)
        assert set(removed.session_ids) >= tree
        for session_id in tree:
            del self.sessions[session_id]
            self.readers.pop(session_id, None)
        assert not tree & set(self.home.session_ids())

    @rule()
    def restart(self) -> None:
        """All trees are closed, and opened again by the next process."""
        for root_id in sorted(self.open):
            self.close_tree(self.sessions[root_id])
        for root in [each for each in self.sessions.values() if each.parent is None]:
            self.open_tree(root)

    # What goes wrong

    @rule(kept_bytes=st.integers(0, 900))
    def crash_and_restart(self, kept_bytes: int) -> None:
        self.power_loss(kept_bytes, "cut", keeps_names=True)
        self.restart()

    @rule()
    def kill(self) -> None:
        """The process dies. All that it wrote stays."""
        self.fs.kill()
        self.open.clear()
        for session in self.sessions.values():
            self.recovered(session)

    @rule(kept_bytes=st.integers(0, 900), loss=st.sampled_from(["cut", "zeros"]), keeps_names=st.booleans())
    def power_loss(self, kept_bytes: int, loss: Any, keeps_names: bool) -> None:
        self.fs = self.fs.after_power_loss(lambda unsynced: min(unsynced, kept_bytes), loss, keeps_names)
        self.home = attrs.evolve(self.home, fs=self.fs)
        self.catalog.close()  # an older catalog, or one that knows more than the disk: see the next `look`
        self.catalog = Catalog.open(self.home)
        self.open.clear()
        self.readers.clear()
        for session in [*self.sessions.values()]:
            path = self.home.journal_path(session.header.id)
            if path in self.fs.names and read_journal(self.fs, path, session.header.id).header is not None:
                self.recovered(session)
                continue
            assert not session.is_there  # the crash came before its first flush
            for each in [each for each in self.sessions.values() if session in (each, *each.above)]:
                self.sessions.pop(each.header.id, None)
        for session_id in set(self.home.session_ids()) - set(self.sessions):
            self.fs.unlink(self.home.journal_path(session_id))  # of no session, or a child's whose parent is gone

    def recovered(self, session: Session) -> None:
        """What a reader finds now is a prefix of what was appended, whole batches, and all that was acknowledged."""
        if session.header.id not in self.sessions:
            return
        found = read_journal(self.fs, self.home.journal_path(session.header.id), session.header.id)
        assert (found.damage, found.refusal) == ((), None)
        kept, allowed = list(found.records), [0]
        for batch in session.batches:
            allowed.append(allowed[-1] + len(batch))
        assert kept == session.records[: len(kept)]
        assert len(kept) in allowed
        assert len(kept) >= session.durable
        session.batches = session.batches[: allowed.index(len(kept))]

    # What others see

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), count=st.integers(0, 6))
    def read_along(self, data: st.DataObject, count: int) -> None:
        """A second handle, which takes no lock and changes nothing, sees every append that has returned."""
        session = list(self.sessions.values())[data.draw(st.integers(0, len(self.sessions) - 1))]
        path = self.home.journal_path(session.header.id)
        if not self.fs.content(path):
            return  # a crash during `create`
        before = self.fs.content(path)
        records = [read_record(raw) for raw in session.records]
        if read_journal(self.fs, path, session.header.id).header is None:
            return

        reader = self.readers.get(session.header.id) or SessionManager.open_read_only(path, home=self.home)
        self.readers[session.header.id] = reader

        tree = EntryTree.of(records)
        assert reader.read_last_entries(count) == (records[-count:] if count else [])
        assert reader.read_entries() == records
        assert reader.read_branch() == tree.path()
        assert reader.leaf_id == (tree.get(tree.leaf_id).id if tree.leaf_id and tree.get(tree.leaf_id) else None)  # type: ignore[union-attr]
        assert list(last_entries(self.fs, path, session.header.id, count).records) == (
            records[-count:] if count else []
        )
        assert reader.trouble == ""
        assert self.fs.content(path) == before

    @rule()
    def totals(self) -> None:
        """No total exceeds the truth; once repaired, each is the sum of what is below it, and a second repair is empty."""
        for root in [each for each in self.sessions.values() if each.parent is None]:
            nodes: dict[str, Node] = {}
            for session in self.sessions.values():
                node, trouble = read_node(self.fs, self.home, session.header.id)
                if session.root is root and node is not None:
                    assert trouble is None
                    nodes[session.header.id] = node
            if root.header.id not in nodes:
                continue
            before = {session: account(node.header, node.records).total for session, node in nodes.items()}
            fixed = with_fixes(nodes, repair_plan(nodes, root.header.id))
            assert repair_plan(fixed, root.header.id) == []
            for session in nodes:
                below = [node for _, node in post_order(fixed, session)]
                truth = add_up(account(node.header, node.records).own for node in below)
                assert account(fixed[session].header, fixed[session].records).total == truth
                assert before[session].total_pico <= truth.total_pico

    @rule()
    def look(self) -> None:
        """A list is what the journals hold, however it was kept up to date."""
        found = {summary.session_id: summary for summary in self.catalog.sessions()}
        expected = {}
        for session_id in self.home.session_ids():
            node, _ = read_node(self.fs, self.home, session_id)
            if node is not None:
                expected[session_id] = summarized(node)[0]
        assert {name for name, summary in found.items() if summary.created} == set(expected)
        for name, summary in expected.items():
            for member in ("answer", "answer_error", "context_tokens"):
                if getattr(found[name], member) is None:
                    setattr(summary, member, None)
            assert found[name] == summary
        for root_id in self.open:
            assert set(read_tree(self.fs, self.home, root_id).nodes) <= set(expected)


def source_of(manager: SessionManager) -> OwnedSource:
    source = manager._source
    assert isinstance(source, OwnedSource)
    return source


@pytest.fixture(autouse=True)
def small_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are saved of small journals, too."""
    monkeypatch.setattr(index, "WORTH_BYTES", 600)
    monkeypatch.setattr(owned, "WORTH_BYTES", 600)


TestStore = Store.TestCase
TestStore.settings = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
