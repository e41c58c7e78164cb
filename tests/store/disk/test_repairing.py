"""A damaged journal is looked at, and written anew from what is intact; nothing is destroyed."""

import errno
import json
from pathlib import Path

import pytest

from store.disk.forest import read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal
from store.disk.ownership import TreeLock
from store.disk.repairing import Repaired, read_check, repair_journal, root_of_damaged
from store.errors import JournalRefused, OwnedElsewhere
from tests.faulty_fs import FaultyFs, PowerLoss
from tests.stored import Forest, StoredSession

SINCE = "2026-12-01T00:00:00.000Z"


@pytest.fixture
def forest(tmp_path: Path) -> Forest:
    return Forest.at(tmp_path / "home")


def talk(session: StoredSession) -> None:
    """Two turns and the end of a run, durable: five records behind the header; then a third, not yet."""
    for text in ("one", "two"):
        session.prompt(text)
        session.answer(text)
    session.settle()
    session.journal.sync()
    session.prompt("three")
    session.settle()


def repair(home: Home, session: str) -> Repaired:
    lock = TreeLock.acquire(home.fs, home, root_of_damaged(home.fs, home, session), SINCE)
    try:
        return repair_journal(home.fs, home, session, lock, SINCE)
    finally:
        lock.release()


def damage(home: Home, session: str, line: int) -> bytes:
    """One byte of a line (the header is line 1) flips; what the file is then."""
    path = home.journal_path(session)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"t', b'"T', 1)
    path.write_bytes(b"".join(lines))
    return path.read_bytes()


def test_what_is_damaged_is_named_by_line_and_byte(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    data = damage(forest.home, root.id, 3)

    check = read_check(RealFs(), forest.home, root.id)

    start = data.index(b"\n", data.index(b"\n") + 1) + 1
    assert [(gap.line, gap.offset, gap.end) for gap in check.gaps] == [(3, start, data.index(b"\n", start) + 1)]
    assert len(check.records) == 6
    assert [(note.line, note.what) for note in check.salvaged if "is not there" in getattr(note, "what", "")] == [
        (4, "its parent '00000002' is not there: attached to entry 00000001")
    ]


def test_a_sound_journal_is_left_alone(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    before = forest.home.journal_path(root.id).read_bytes()

    done = repair(forest.home, root.id)

    assert (done.kept, done.check.gaps, done.check.salvaged, done.check.torn) == (None, (), (), None)
    assert forest.home.journal_path(root.id).read_bytes() == before


@pytest.mark.parametrize("line", range(1, 7))
def test_all_that_is_intact_is_in_the_new_file_and_the_old_one_beside_it(line: int, forest: Forest) -> None:
    root = forest.root()
    talk(root)
    old = damage(forest.home, root.id, line)
    before = read_check(RealFs(), forest.home, root.id)

    done = repair(forest.home, root.id)

    assert done.kept is not None
    assert done.kept.read_bytes() == old
    assert done.kept.name == f"{root.id}.jsonl.damaged-1"
    after = read_check(RealFs(), forest.home, root.id)
    assert (after.gaps, after.salvaged, after.torn, after.recovery.refusal) == ((), (), None, None)
    assert [record.raw for record in after.records[:-1]] == [record.raw for record in before.records]
    assert after.recovery.header is not None
    assert after.recovery.header.id == root.id
    assert (done.check.recovery.header is None) == (line == 1)
    note = json.loads(after.records[-1].raw)
    assert note["customType"] == "sapwood.repaired"
    assert note["data"]["kept"] == done.kept.name
    assert [(lost["offset"], lost["end"]) for lost in note["data"]["lost"]] == [
        (gap.offset, gap.end) for gap in before.gaps
    ]


def test_a_repaired_journal_opens_for_writing_with_a_higher_epoch(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    damage(forest.home, root.id, 3)
    epoch = read_check(RealFs(), forest.home, root.id).recovery.epoch

    repair(forest.home, root.id)

    lock = TreeLock.acquire(RealFs(), forest.home, root.id, SINCE)
    journal, recovery = Journal.open(RealFs(), forest.home.journal_path(root.id), root.id, lock.epoch)
    journal.close()
    lock.release()
    assert epoch < recovery.epoch < lock.epoch


def test_a_second_repair_has_nothing_to_do_and_a_second_damage_gets_a_second_copy(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    damage(forest.home, root.id, 3)

    first, second = repair(forest.home, root.id), repair(forest.home, root.id)
    damage(forest.home, root.id, 2)
    third = repair(forest.home, root.id)

    assert first.kept is not None
    assert second.kept is None
    assert third.kept is not None
    assert third.kept.name.endswith(".damaged-2")


def test_nothing_is_left_of_an_index_or_of_a_repair_that_was_killed(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    damage(forest.home, root.id, 3)
    path = forest.home.journal_path(root.id)
    for left in (forest.home.index_path(root.id), path.with_name(f"{path.name}.repairing")):
        left.write_bytes(b"left " * 1000)
        left.chmod(0o600)

    repair(forest.home, root.id)

    assert read_check(RealFs(), forest.home, root.id).gaps == ()
    assert {each.name for each in forest.home.sessions.iterdir()} == {
        path.name,
        f"{path.name}.damaged-1",
        forest.home.lock_path(root.id).name,
    }


def test_a_child_whose_header_is_gone_gets_one_from_its_parent(forest: Forest) -> None:
    root = forest.root("root", cwd="/elsewhere/here")
    root.prompt("go")
    child = root.child("helper")
    talk(child)
    root.journal.sync()
    damage(forest.home, child.id, 1)

    assert root_of_damaged(RealFs(), forest.home, child.id) == root.id
    repair(forest.home, child.id)

    header = read_tree(RealFs(), forest.home, root.id).nodes[child.id].header
    assert (header.parent_session_id, header.root_session_id, header.depth) == (root.id, root.id, 1)
    assert header.cwd == "/elsewhere/here"


def test_a_tree_that_is_owned_is_not_repaired(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    before = damage(forest.home, root.id, 3)
    forest.own(root)

    with pytest.raises(OwnedElsewhere):
        repair(forest.home, root.id)

    assert forest.home.journal_path(root.id).read_bytes() == before
    assert [path.name for path in forest.home.sessions.glob("*.damaged-*")] == []


def test_lines_of_another_program_are_for_import_not_for_repair(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    with forest.home.journal_path(root.id).open("ab") as file:
        file.write(b'{"type":"message","id":"x","parentId":null,"timestamp":"t","message":{}}\n')

    with pytest.raises(JournalRefused, match="import"):
        repair(forest.home, root.id)


def plant(forest: Forest) -> tuple[FaultyFs, Home, str, bytes]:
    """A damaged journal on a file system that fails on demand."""
    root = forest.root()
    talk(root)
    data = damage(forest.home, root.id, 3)
    fs = FaultyFs.holding("/s/sessions")
    home = Home.from_env({"SAPWOOD_HOME": "/s"}, fs)
    fs.plant(home.journal_path(root.id), data)
    return fs, home, root.id, data


def test_an_error_or_a_crash_at_any_call_destroys_nothing(forest: Forest) -> None:
    fs, home, session, old = plant(forest)
    repair(home, session)
    calls, new = fs.calls, fs.content(home.journal_path(session))
    for call in range(1, calls + 1):
        for loses_power in (False, True):
            fs = FaultyFs.holding("/s/sessions")
            home = Home.from_env({"SAPWOOD_HOME": "/s"}, fs)
            fs.plant(home.journal_path(session), old)
            if loses_power:
                fs.power_fails_at = call
            else:
                fs.errors[call] = errno.EIO
            try:
                repair(home, session)
            except (OSError, PowerLoss):
                pass
            for keeps_names in (False, True):
                left = fs.after_power_loss(keeps_names=keeps_names)
                content = left.content(home.journal_path(session))
                assert content in (old, new)
                if content == new:
                    copies = [left.content(path) for path in left.names if ".damaged-" in path.name]
                    assert copies == [old]


def test_a_torn_tail_is_no_damage(forest: Forest) -> None:
    root = forest.root()
    talk(root)
    path = forest.home.journal_path(root.id)
    path.write_bytes(path.read_bytes()[:-20])

    done = repair(forest.home, root.id)

    assert (done.kept, done.check.gaps) == (None, ())
    assert done.check.torn is not None
    assert done.check.torn.line == 8
