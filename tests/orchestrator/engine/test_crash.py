"""A scripted tree of three levels whose machine or process dies at every single call to the disk.

After each death: what was acknowledged is there, what was running is `lost`, a second repair finds nothing to do, every
fact stands once, and the tree can go on.
"""

import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from actors.flusher import Flusher
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.job import Ended
from orchestrator.engine.opening import OwnedTree, root_of
from store.attribution import billed
from store.disk.home import Home
from store.entries import ChildSettledEntry, ChildSpawnedEntry, ChildUsageAttributedEntry, RunSettledEntry
from store.repair import Fix, Node, children_of, is_run_open, post_order, runs
from store.usage import add_up
from tests.faulty_fs import FaultyFs, PowerLoss
from tests.orchestrator.engine.rig import Flushes, Rig, script, sums_of_journals, sums_of_rows

SINCE = 1_780_000_000.0
# What a crash leaves of the bytes that were not flushed, and whether names that were not flushed are there.
IMAGES: dict[str, Callable[[FaultyFs], FaultyFs]] = {
    "process killed": lambda fs: fs.after_power_loss(lambda count: count, "cut", keeps_names=True),
    "power lost": lambda fs: fs.after_power_loss(),
    "power lost, half of it written": lambda fs: fs.after_power_loss(lambda count: count // 2, "cut", keeps_names=True),
    "power lost, half of it zeros": lambda fs: fs.after_power_loss(lambda count: count // 2, "zeros", keeps_names=True),
}


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that failed is tried again at once: hundreds of runs have no time for the pauses of one."""
    monkeypatch.setattr("actors.session.RETRY_WRITE_S", (0.0, 0.001))


def home_on(fs: FaultyFs) -> Home:
    return Home.from_env({"SAPWOOD_HOME": "/s"}, fs)


def rig_on(fs: FaultyFs, cwd: Path) -> Rig:
    return Rig(home_on(fs), cwd, script("three_levels.toml"), Flushes)


@attrs.frozen
class Crash:
    """A run that died. `written` and `durable`: per journal, the bytes that its owner had written and knew to be durable."""

    fs: FaultyFs
    root_id: str | None
    written: dict[str, bytes]
    durable: dict[str, bytes]
    has_effect: bool


def crash_at(number: int, cwd: Path) -> Crash | None:
    """Run the tree until its call `number` to the disk; None where it ends before that."""
    fs = FaultyFs.holding("/s/sessions")
    fs.power_fails_at = number
    rig = rig_on(fs, cwd)
    if number % 5 == 0:
        rig.make_flusher = Flusher  # with its threads: where the calls come in another order each time
    effect = cwd / "written.txt"
    effect.unlink(missing_ok=True)
    try:
        rig.run()
    except BaseException as error:
        if not is_all(error, PowerLoss):
            raise
    if fs.calls < number:
        return None
    written: dict[str, bytes] = {}
    durable: dict[str, bytes] = {}
    for row in rig.tree.supervisor.directory.rows.values() if rig.tree else ():
        if row.outbox is not None:
            lines = bytes(fs.names[rig.home.journal_path(row.id)].data).splitlines(keepends=True)
            written[row.id] = b"".join(lines[: row.outbox.journal.seq])
            durable[row.id] = b"".join(lines[: row.outbox.journal.durable])
    return Crash(fs, rig.tree.root.id if rig.tree else None, written, durable, effect.exists())


def is_all(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether it is of that kind, or a group of nothing else."""
    return isinstance(error, kind) or (isinstance(error, BaseExceptionGroup) and error.split(kind)[1] is None)


def load(fs: FaultyFs, root_id: str) -> tuple[dict[str, Node], list[Fix]]:
    """Open the tree as its owner and let go of it again: its nodes, and what had to be repaired."""
    home = home_on(fs)
    owned = OwnedTree.acquire(fs, home, root_of(fs, home, root_id), lambda: SINCE)
    try:
        owned.load()
        assert owned.troubles.keys() == missing(owned.nodes)
        for session in owned.nodes:
            file = fs.names[home.journal_path(session)]
            assert file.durable == file.data, "what was repaired may be gone again, and somebody builds on it"
        return dict(owned.nodes), owned.repaired
    finally:
        owned.close()


def missing(nodes: dict[str, Node]) -> set[str]:
    """Children that were spawned and whose journal is not there."""
    spawned = {child.child_session_id for node in nodes.values() for child in children_of(node.records)}
    return spawned - nodes.keys()


def facts(nodes: dict[str, Node]) -> Counter[tuple[object, ...]]:
    """What the journals say has happened, each with how often they say it."""
    found: Counter[tuple[object, ...]] = Counter()
    for session, node in nodes.items():
        for record in node.records:
            found["entry", session, record.id] += 1
            match record.body():
                case RunSettledEntry() as body:
                    found["run", session, body.run, body.outcome] += 1
                case ChildSettledEntry() as body:
                    found["notice", session, body.child_session_id, body.run, body.outcome, body.text] += 1
                case ChildSpawnedEntry() as body:
                    found["child", session, body.child_session_id] += 1
                case ChildUsageAttributedEntry() as body:
                    found["usage", session, body.origin_session_id, body.origin_entry_id] += 1
    return found


def check_whole(nodes: dict[str, Node], root_id: str, is_power_lost: bool = False) -> None:
    """A tree at rest: all that was spent is folded, every run has ended, every fact stands once."""
    sums = sums_of_journals(nodes)
    for session in nodes:
        assert sums.total[session] == add_up(sums.own[below] for below, _ in post_order(nodes, session))
    counted = facts(nodes)
    assert counted.total() == len(counted)
    ends = Counter(fact[:3] for fact in counted if fact[0] == "run")
    notices = Counter(fact[:4] for fact in counted if fact[0] == "notice")
    assert ends.total() == len(ends)
    assert notices.total() == len(notices)
    for session, node in nodes.items():
        assert not is_run_open(node.records)
        for child in children_of(node.records):
            below = nodes.get(child.child_session_id)
            ended = [(run.run, run.outcome) for run in runs(below.records)] if below else [(1, "lost")]
            told = [(fact[3], fact[4]) for fact in counted if fact[:3] == ("notice", session, child.child_session_id)]
            # A parent's notice may have reached the disk before the child's own `run_settled`, which the power took.
            before = [
                (run, "lost" if is_power_lost and outcome != "lost" else outcome) for run, outcome in sorted(told)
            ]
            assert ended in (sorted(told), before), f"{session} was told {told} of {child.name}, which ended {ended}"
        assert len([*billed(node.header, node.records)]) == len(
            {entry for entry, _ in billed(node.header, node.records)}
        )
    assert {session for session, _ in post_order(nodes, root_id)} == nodes.keys()


def check_acknowledged(fs: FaultyFs, kept: dict[str, bytes], image: str) -> None:
    for session, data in kept.items():
        path = home_on(fs).journal_path(session)
        if data:
            assert fs.content(path).startswith(data), f"{image}: acknowledged records of {session} are gone"


def test_a_tree_that_dies_at_any_call_to_the_disk_loses_nothing_acknowledged_and_can_go_on(tmp_path: Path) -> None:
    number, died, went_on, lost = 0, 0, 0, 0
    while crash := crash_at(number := number + 1, tmp_path):
        for place, (image, restored) in enumerate(IMAGES.items()):
            fs = restored(crash.fs)
            if crash.root_id is None or not any(crash.written.values()):
                assert not any(crash.durable.values())
                continue
            died += 1
            kept = crash.written if image == "process killed" else crash.durable
            try:
                nodes, _ = load(fs, crash.root_id)
            except EngineError:
                assert not kept[crash.root_id], f"{image} at call {number}: the root cannot be opened"
                assert not any(crash.durable.values())
                continue
            check_acknowledged(fs, kept, image)
            check_whole(nodes, crash.root_id, is_power_lost=image != "process killed")
            orphans = set(home_on(fs).session_ids()) - nodes.keys() - missing(nodes)
            assert not orphans, f"{image} at call {number}: no parent knows of {orphans}"
            if crash.has_effect:
                calls = [record for node in nodes.values() for record in node.records if b"written.txt" in record.raw]
                assert calls, f"{image} at call {number}: a tool has run whose call is not in the journal"
            again, repairs = load(fs, crash.root_id)
            assert repairs == []
            assert facts(again) == facts(nodes)
            assert sums_of_journals(again) == sums_of_journals(nodes)
            lost += sum(run.outcome == "lost" for node in nodes.values() for run in runs(node.records))
            if (number + place) % len(IMAGES) == 0:
                check_goes_on(fs, crash.root_id, again, tmp_path)
                went_on += 1
    assert min(number, died // 4, went_on, lost // 4) > 100


def check_goes_on(fs: FaultyFs, root_id: str, before: dict[str, Node], cwd: Path) -> None:
    rig = rig_on(fs, cwd)

    ended = rig.run("go on", session=root_id, model="scripted/script")

    assert (ended.status, ended.answer) == (0, "went on")
    assert rig.faults(ended) == []
    after, repairs = load(fs, root_id)
    assert repairs == []
    check_whole(after, root_id, is_power_lost=True)
    assert rig.tree is not None
    assert sums_of_rows(rig.tree).total[root_id] == sums_of_journals(after).total[root_id]
    assert facts(before) <= facts(after)


def test_a_repair_that_dies_at_any_call_is_finished_by_the_next_one(tmp_path: Path) -> None:
    tried = 0
    number = 10
    while crash := crash_at(number := number + 13, tmp_path):
        if crash.root_id is None or not crash.durable.get(crash.root_id):
            continue
        whole, _ = load(IMAGES["process killed"](crash.fs), crash.root_id)
        call = 0
        while cut := _cut_load(crash, call := call + 1):
            for image in IMAGES.values():
                nodes, _ = load(image(cut), crash.root_id)
                check_whole(nodes, crash.root_id, is_power_lost=True)
                assert facts(nodes).keys() == facts(whole).keys()
                tried += 1
    assert tried > 500


def _cut_load(crash: Crash, call: int) -> FaultyFs | None:
    """The disk after a repair whose call `call` was its last; None where it ends before that."""
    fs = IMAGES["process killed"](crash.fs)
    fs.power_fails_at = call
    try:
        load(fs, str(crash.root_id))
    except PowerLoss:
        return fs
    return None


def test_a_session_that_never_was_is_wrong_usage(tmp_path: Path) -> None:
    fs = FaultyFs.holding("/s/sessions")
    with pytest.raises(WrongUsage, match="no session"):
        rig_on(fs, tmp_path).run(session="0198f0aa-nowhere")


def check_ended_well(rig: Rig, ended: Ended) -> None:
    """Whatever the disk did: the stream keeps the rules, nobody crashed, and what was spent is folded at the next open."""
    assert rig.tree is not None
    assert (ended.status, rig.faults(ended)) == (0, [])
    assert not [event for event in rig.events if event["type"] == "diagnostic" and event["code"] == "crash"]
    nodes, repairs = load(rig.home.fs, ended.root_id)
    # An ancestor whose journal did not take an attribution gets it from the repair.
    assert {type(fix.body) for fix in repairs} <= {ChildUsageAttributedEntry}
    check_whole(nodes, ended.root_id, is_power_lost=True)
    held, kept = sums_of_rows(rig.tree), sums_of_journals(nodes)
    assert {session: held.total[session] for session in nodes} == kept.total
    assert load(rig.home.fs, ended.root_id)[1] == []


@pytest.mark.usefixtures("short_pauses")
def test_a_call_to_the_disk_that_fails_once_ends_no_run_that_has_begun(tmp_path: Path) -> None:
    number, failed = 0, 0
    while True:
        fs = FaultyFs.holding("/s/sessions")
        fs.errors = {(number := number + 1): errno.EIO}
        rig = rig_on(fs, tmp_path)
        try:
            ended = rig.run()
        except OSError:
            assert rig.tree is None  # nothing had begun
            continue
        if fs.calls < number:
            break
        fs.errors = {}
        if rig.tree is not None and not rig.tree.root.is_stored:
            assert (ended.status, ended.error) == (1, "its journal cannot be used: [Errno 5] Input/output error")
            assert rig.faults(ended) == []
            continue
        failed += 1
        check_ended_well(rig, ended)
    assert failed > 100


@pytest.mark.usefixtures("short_pauses")
def test_a_disk_that_fills_up_at_any_moment_holds_the_tree_until_there_is_room(tmp_path: Path) -> None:
    held = 0
    for room_bytes in range(900, 30_000, 450):
        fs = FaultyFs.holding("/s/sessions")
        fs.room_bytes = room_bytes
        rig = rig_on(fs, tmp_path)

        def make_room(line: bytes, fs: FaultyFs = fs) -> None:
            if b'"type":"diagnostic"' in line:
                fs.room_bytes = None

        rig.hear = make_room
        check_ended_well(rig, rig.run())
        held += fs.room_bytes is None
    assert held > 40


@pytest.mark.usefixtures("short_pauses")
def test_a_disk_that_is_full_for_ever_keeps_nobody_from_stopping_the_tree(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for room_bytes in range(900, 21_000, 450):
        fs = FaultyFs.holding("/s/sessions")
        fs.room_bytes = room_bytes
        rig = rig_on(fs, tmp_path)

        def stop(line: bytes, rig: Rig = rig) -> None:
            if b'"type":"diagnostic"' in line and rig.one_shot is not None:
                rig.hear = rig.listener.hear = lambda line: None
                rig.one_shot.stop("enough")

        rig.hear = stop
        ended = rig.run()

        assert rig.faults(ended) == []
        assert (ended.status, bool(ended.error)) == (1, True)
        outcomes[ended.outcome] += 1
        fs.room_bytes = None
        if rig.tree is not None and rig.tree.root.is_stored:
            nodes, _ = load(fs, ended.root_id)
            check_whole(nodes, ended.root_id, is_power_lost=True)
            check_goes_on(fs, ended.root_id, nodes, tmp_path)
    assert outcomes.keys() <= {"aborted", "failed"}
