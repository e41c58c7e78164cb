"""Trees of other programs become trees of ours: links, exact totals, and all of it or nothing."""

import errno
import itertools
import os
from collections import Counter
from pathlib import Path

import attrs
import msgspec
import pytest

from store.attribution import account
from store.disk.forest import StoredTree, read_tree
from store.disk.fs import Fs, RealFs
from store.disk.home import Home
from store.disk.importing import Imported, header_line
from store.disk.journal import Journal, read_journal
from store.disk.ownership import TreeLock
from store.entries import ChildSettledEntry, ChildSpawnedEntry
from store.legacy.family import Source
from store.legacy.imports import imported_from
from store.legacy.read import read_legacy
from store.wire import encode
from tests.faulty_fs import FaultyFs, PowerLoss
from tests.imported import NESTED, SINCE, bring, exported, file, stored, text
from tests.plain import HEADER, SESSION, A, B, C


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", tmp_path / "home" / "sessions", RealFs())


# --- trees ------------------------------------------------------------------------------------------------------------


def tree_of(home: Home, imported: list[Imported]) -> StoredTree:
    return read_tree(home.fs, home, imported[0].session_id)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_children_of_prime_agent_come_under_their_parents(order: tuple[int, ...], home: Home) -> None:
    sources = [file(NESTED[place]) for place in order]

    imported = bring(home, *sources)

    tree = tree_of(home, imported)
    assert (tree.unrepaired, tree.troubles) == (0, {})
    assert [node.header.depth for node in tree.nodes.values()] == [0, 1, 2]
    root, child, grandchild = tree.nodes.values()
    assert child.header.parent_session_id == root.header.id
    assert grandchild.header.parent_session_id == child.header.id
    assert {node.header.root_id for node in tree.nodes.values()} == {root.header.id}
    assert child.header.parent_session == str(home.journal_path(root.header.id))
    born = next(each for record in root.records if isinstance(each := record.body(), ChildSpawnedEntry))
    assert (born.name, born.prompt, born.model, born.tool_call_id) == ("c0", "nest c0", "fake/fake-1", "call_12")


def test_totals_of_a_tree_of_prime_agent_are_exact_although_its_own_were_not(home: Home) -> None:
    """Its root never heard of the grandchild: 3 answers of its own, 3 of the child, 1 of the grandchild, 100 tokens each."""
    tree = tree_of(home, bring(home, *(file(name) for name in NESTED)))

    totals = [account(node.header, node.records) for node in tree.nodes.values()]
    assert [found.own.input for found in totals] == [300, 300, 100]
    assert [found.total.input for found in totals] == [700, 400, 100]


def test_children_that_are_missing_stay_in_the_total(home: Home) -> None:
    """32 children were attributed, two of them are here."""
    names = [f"prime.replies_lost_32.{name}.session.jsonl" for name in ("parent", "child0.depth1", "child1.depth1")]
    alone = account(file(names[0]).header, file(names[0]).records).total

    tree = tree_of(home, bring(home, *(file(name) for name in names)))

    root = tree.nodes[tree.root_id]
    assert account(root.header, root.records).total == alone


def test_children_whose_end_nobody_knows_are_lost(home: Home) -> None:
    spawned = (
        '{"type":"child_spawned","id":"s","parentId":"b","timestamp":"t","childSessionId":"01a229ab-child","name":"c",'
        '"childDepth":1,"prompt":"p","model":"m","limits":{}}'
    )

    (imported,) = bring(home, text(HEADER, A, B, spawned))

    bodies = [record.body() for record in stored(home, imported.session_id)]
    ends = [(each.child_session_id, each.outcome) for each in bodies if isinstance(each, ChildSettledEntry)]
    assert ends == [("01a229ab-child", "lost")]
    assert read_tree(home.fs, home, imported.session_id).unrepaired == 0


def test_a_child_alone_is_a_root_with_another_id(home: Home) -> None:
    source = file(NESTED[1])

    (imported,) = bring(home, source)

    header = read_tree(home.fs, home, imported.session_id).nodes[imported.session_id].header
    assert imported.session_id != source.header.id
    assert (header.parent_session_id, header.root_session_id, header.depth) == (None, None, 0)
    origin = imported_from(header_line(home.fs, home, imported.session_id))
    assert origin is not None
    assert (origin.session_id, origin.rlm_depth) == (source.header.id, 1)


class Overtaken(RealFs):
    """Another import ends, and gives its file a name, just before we get the lock on it."""

    is_over = False

    def lock(self, fd: int) -> bool:
        aside = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if not self.is_over and aside.name.endswith(".importing"):
            self.is_over = True
            aside.write_bytes(b"of another import\n")
            aside.rename(aside.with_name(aside.name.removesuffix(".importing")))
        return super().lock(fd)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc to find the file by")
def test_a_file_that_got_its_name_meanwhile_is_not_written_over(home: Home) -> None:
    overtaken = attrs.evolve(home, fs=Overtaken())

    (imported,) = bring(overtaken, text(HEADER, A))

    assert imported.session_id != SESSION
    assert home.journal_path(SESSION).read_bytes() == b"of another import\n"
    assert len(stored(home, imported.session_id)) >= 1


def test_where_a_child_alone_stood_in_its_tree_is_kept(home: Home) -> None:
    place = {"parentSessionId": "0198f0aa-above", "rootSessionId": "0198f0aa-top", "rlmDepth": 2}
    head = {"type": "session", "version": 3, "id": "0198f0aa-child", "timestamp": "", "cwd": "/w", **place}

    (imported,) = bring(home, text(encode(head).decode()))

    header = header_line(home.fs, home, imported.session_id)
    assert msgspec.json.decode(header)["importedFrom"].items() >= place.items()
    assert msgspec.json.decode(header)["rlmDepth"] == 0


def test_a_tree_of_ours_comes_back_under_new_ids_and_owns_no_session_of_another(tmp_path: Path, home: Home) -> None:
    """Its parent names children by id: those mean the copies, not the sessions that are here."""
    first = bring(home, *(file(name) for name in NESTED))
    files = [
        Source.of(f"/x/{one.session_id}.jsonl", read_legacy(exported(home, one.session_id)), str(n))
        for n, one in enumerate(first)
    ]

    second = bring(home, *files)

    mine = {one.session_id for one in first}
    copies = read_tree(home.fs, home, second[0].session_id)
    assert mine.isdisjoint(copies.nodes)
    other = Home(tmp_path / "other", tmp_path / "other" / "sessions", RealFs())
    there = bring(other, *files)
    assert {one.session_id for one in there} == mine
    totals = {
        session: account(node.header, node.records).total
        for session, node in read_tree(other.fs, other, there[0].session_id).nodes.items()
    }
    assert [found.input for found in totals.values()] == [700, 400, 100]


def test_a_parent_alone_never_gets_the_children_of_another_tree(home: Home) -> None:
    first = bring(home, *(file(name) for name in NESTED))
    root = exported(home, first[0].session_id)
    lines = root.splitlines()
    # The same parent, told anew: no entry is a copy of one that is here.
    changed = [line.replace(b'"timestamp":"2026-', b'"timestamp":"2025-') for line in lines]
    source = Source.of("/x.jsonl", read_legacy(b"\n".join(changed) + b"\n"), "new")

    (imported,) = bring(home, source)

    tree = read_tree(home.fs, home, imported.session_id)
    assert list(tree.nodes) == [imported.session_id]


# --- all or nothing ---------------------------------------------------------------------------------------------------


def faulty() -> tuple[FaultyFs, Home]:
    fs = FaultyFs.holding("/s/sessions")
    return fs, Home.from_env({"SAPWOOD_HOME": "/s"}, fs)


def sessions_of(fs: Fs) -> set[str]:
    return {name for name in fs.listdir(Path("/s/sessions")) if not name.endswith(".lock")}


def calls() -> int:
    fs, home = faulty()
    bring(home, *(file(name) for name in NESTED))
    return fs.calls


WHOLE = {f"{file(name).header.id}.jsonl" for name in NESTED}


@pytest.mark.parametrize("call", range(1, calls() + 1))
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_at_any_call_leaves_nothing_or_all(call: int, code: int) -> None:
    fs, home = faulty()
    fs.errors[call] = code

    try:
        bring(home, *(file(name) for name in NESTED))
    except OSError:
        fs.errors.clear()
        left = {name for name in sessions_of(fs) if not name.endswith(".importing")}
        assert left in (set(), WHOLE)
        assert len(fs.fds) <= (fs.log[call - 1] == "close")
        bring(home, *(file(name) for name in NESTED))

    assert sessions_of(fs) >= WHOLE


@pytest.mark.parametrize("keeps_names", [False, True])
@pytest.mark.parametrize("call", range(1, calls() + 1))
def test_a_crash_at_any_call_leaves_no_half_session(call: int, keeps_names: bool) -> None:
    """A name stands for a whole journal, and the root's name, given last, for a whole tree."""
    fs, home = faulty()
    fs.power_fails_at = call
    try:
        bring(home, *(file(name) for name in NESTED))
    except PowerLoss:
        pass

    after = fs.after_power_loss(keeps_names=keeps_names)
    left = Home.from_env({"SAPWOOD_HOME": "/s"}, after)
    for session in left.session_ids():
        recovery = read_journal(after, left.journal_path(session), session)
        assert (recovery.damage, recovery.refusal, recovery.torn) == ((), None, None)
        assert len(recovery.records) >= 7
    imported = bring(left, *(file(name) for name in NESTED))
    tree = read_tree(after, left, imported[0].session_id)
    assert (len(tree.nodes), tree.troubles) == (3, {})


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_bit_that_flips_later_is_damage_also_in_the_last_line(line: int, home: Home) -> None:
    bring(home, text(HEADER, A, B))
    path = home.journal_path(SESSION)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"t', b'"T', 1)
    path.write_bytes(b"".join(lines))

    recovery = read_journal(home.fs, path, SESSION)

    assert len(lines) == 4
    assert (len(recovery.damage), recovery.torn) == (1, None)


def test_what_a_killed_import_left_is_written_over(home: Home) -> None:
    home.create()
    aside = home.journal_path(SESSION).with_name(f"{SESSION}.jsonl.importing")
    aside.write_bytes(b"half of a jour")

    (imported,) = bring(home, text(HEADER, A))

    assert imported.session_id == SESSION
    assert not aside.exists()
    assert [record.raw for record in stored(home, SESSION)][:1] == [A.encode()]


def test_an_import_that_is_at_work_keeps_its_id(home: Home) -> None:
    home.create()
    aside = home.journal_path(SESSION).with_name(f"{SESSION}.jsonl.importing")
    fd = RealFs().open(aside, 0o2 | 0o100)
    assert RealFs().lock(fd)

    (imported,) = bring(home, text(HEADER, A))

    assert imported.session_id == "0198f0aa-0000-7000-8000-000000000001"
    RealFs().close(fd)


def test_an_imported_session_goes_on_under_its_owner(home: Home) -> None:
    bring(home, text(HEADER, A, B))
    lock = TreeLock.acquire(home.fs, home, SESSION, SINCE)

    journal, recovery = Journal.open(home.fs, home.journal_path(SESSION), SESSION, lock.epoch)
    journal.append([C.encode()])
    journal.sync()
    journal.close()
    lock.release()

    assert (recovery.epoch, lock.epoch) == (1, 2)
    kinds = Counter(record.type for record in stored(home, SESSION))
    assert kinds == {"message": 3, "run_settled": 1}
