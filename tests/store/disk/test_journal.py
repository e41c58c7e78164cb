"""The journal on a file system that fails, and on the kernel's."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk.descriptors import DescriptorCache
from store.disk.fs import RealFs
from store.disk.journal import RECORD_LIMIT_BYTES, Journal, read_journal
from store.entries import Header
from store.errors import JournalDamaged, JournalPoisoned, JournalRefused, StoreError
from store.recovery import examine
from tests.faulty_fs import LOSSES, FaultyFs, Loss, PowerLoss

REPOSITORY = Path(__file__).resolve().parents[3]
SESSION = "0198f0aa-session"
HEADER = Header(version=3, id=SESSION, timestamp="2026-01-01T00:00:00Z", cwd="/")
FOLDER = Path("/home/sessions")
PATH = FOLDER / f"{SESSION}.jsonl"

Script = list[int]
"""What an owner does: n > 0 appends a batch of n records, 0 flushes."""

scripts = st.lists(st.integers(0, 3), max_size=8)
cuts = st.tuples(st.integers(0, 400), st.sampled_from(LOSSES), st.booleans())


def body(number: int) -> bytes:
    return b'{"type":"message","id":"%08x","text":"%b"}' % (number, b"y" * (number * 7 % 31))


@attrs.define
class Told:
    """What the journal has told its user: what a recovery is measured against."""

    batches: list[tuple[bytes, ...]] = attrs.field(factory=list)
    """Appends that returned; a last one that was cut short by a loss of power is in `open_batch`."""
    open_batch: tuple[bytes, ...] = ()
    durable: int = 0
    """Records acknowledged as durable, with the header."""

    @property
    def records(self) -> tuple[bytes, ...]:
        return tuple(record for batch in self.batches for record in batch)


def play(fs: FaultyFs, script: Script, told: Told, journal: Journal | None = None) -> Journal:
    journal = journal or Journal.create(fs, PATH, HEADER, epoch=1)
    for count in script:
        if count:
            first = len(told.records) + 1
            told.open_batch = tuple(body(number) for number in range(first, first + count))
            journal.append(told.open_batch)
            told.batches.append(told.open_batch)
            told.open_batch = ()
        else:
            journal.sync()
            told.durable = journal.durable
    return journal


def assert_prefix(found: tuple[bytes, ...], told: Told) -> None:
    """Appended records from the first on, whole batches only, and at least what was acknowledged."""
    allowed = [0]
    for batch in (*told.batches, told.open_batch):
        allowed.append(allowed[-1] + len(batch))
    assert found == (told.records + told.open_batch)[: len(found)]
    assert len(found) in allowed
    assert len(found) + 1 >= told.durable


def test_what_is_appended_is_read_back_by_owner_and_reader() -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    play(fs, [1, 3, 0, 2], told).close()

    journal, found = Journal.open(fs, PATH, SESSION, epoch=2)

    assert found == read_journal(fs, PATH, SESSION)
    assert found.records == told.records
    assert found.header is not None
    assert found.header.framing == 1
    assert (journal.seq, journal.durable, journal.epoch) == (7, 7, 2)
    assert found.durable == 5


def test_each_append_is_one_write_and_creation_flushes_nothing() -> None:
    fs = FaultyFs.holding(str(FOLDER))

    journal = play(fs, [1, 3], Told())

    assert fs.log.count("write") == 3
    assert {"fdatasync", "sync_dir"}.isdisjoint(fs.log)
    journal.sync()
    journal.append([body(9)])
    journal.sync()
    assert (fs.log.count("fdatasync"), fs.log.count("sync_dir")) == (2, 1)


@pytest.mark.parametrize("keeps_names", [False, True])
@pytest.mark.parametrize("script", [[1, 0, 1, 2, 0, 3, 1], [2, 0, 0, 3, 0, 1], [1, 1, 1], [0, 1]])
def test_power_may_fail_at_any_call_and_any_byte_and_again_during_recovery(script: Script, keeps_names: bool) -> None:
    total = FaultyFs.holding(str(FOLDER))
    play(total, script, Told())
    for call in range(1, total.calls + 2):
        fs, told = FaultyFs.holding(str(FOLDER)), Told()
        fs.power_fails_at = call
        with pytest.raises(PowerLoss):
            play(fs, script, told).close()
        for survives in range(_unsynced(fs) + 1):
            disk = fs.after_power_loss(_first(survives), keeps_names=keeps_names)
            _recovers(disk, told)
            if survives % 7 == 0:
                _recovers_when_power_fails_again(disk, told, keeps_names)


def _first(survives: int) -> Callable[[int], int]:
    return lambda unsynced: min(survives, unsynced)


def _unsynced(fs: FaultyFs) -> int:
    return sum(len(part) for offset, part in fs.names[PATH].pending if part) if PATH in fs.names else 0


def _recovers(disk: FaultyFs, told: Told) -> None:
    """Nothing acknowledged is lost, nothing is damage, a second recovery changes nothing, and the journal goes on."""
    if PATH not in disk.names:
        assert told.durable == 0
        return
    disk = disk.after_power_loss()  # a copy
    journal, found = Journal.open(disk, PATH, SESSION, epoch=2)
    assert_prefix(found.records, told)
    assert disk.names[PATH].durable == disk.content(PATH)
    journal.close()
    again, found_again = Journal.open(disk, PATH, SESSION, epoch=3)
    assert (found_again.records, found_again.torn) == (found.records, None)
    if found_again.header is None:
        again.begin(HEADER)
    again.append([body(99)])
    assert read_journal(disk, PATH, SESSION).records == (*found.records, body(99))


def _recovers_when_power_fails_again(disk: FaultyFs, told: Told, keeps_names: bool) -> None:
    if PATH not in disk.names:
        return
    for call in range(1, 30):
        fs = disk.after_power_loss()
        fs.power_fails_at = call
        try:
            Journal.open(fs, PATH, SESSION, epoch=2)
            return
        except PowerLoss:
            again = fs.after_power_loss(_first(call * 3), keeps_names=keeps_names)
            assert_nothing_thrown_away(disk, again)
            _recovers(again, told)
    raise AssertionError("expected recovery to take fewer calls")


def assert_nothing_thrown_away(before: FaultyFs, after: FaultyFs) -> None:
    """What recovery was about to cut is still in the journal, or in a file beside it."""
    torn = before.content(PATH)[len(after.content(PATH)) :]
    assert not torn or torn in [data for name, data in _contents(after) if "torn-" in name]


def _contents(fs: FaultyFs) -> list[tuple[str, bytes]]:
    return [(path.name, bytes(node.data)) for path, node in fs.names.items()]


@settings(deadline=None, max_examples=200)
@given(scripts, st.integers(1, 40), cuts)
def test_a_lost_block_never_loses_what_was_acknowledged(script: Script, call: int, cut: tuple[int, Loss, bool]) -> None:
    """Such a file may be torn or damaged; what was acknowledged can be read in any case, and a refusal changes nothing."""
    survives, loss, keeps_names = cut
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    fs.power_fails_at = call
    try:
        play(fs, script, told)
    except PowerLoss:
        pass
    disk = fs.after_power_loss(_first(survives), loss, keeps_names)
    if PATH not in disk.names:
        assert told.durable == 0
        return
    before = disk.content(PATH)
    try:
        journal, found = Journal.open(disk, PATH, SESSION, epoch=2)
    except (JournalDamaged, JournalRefused):
        assert disk.content(PATH) == before
        found = read_journal(disk, PATH, SESSION)
        assert loss == "hole" or told.durable == 0
    else:
        assert_prefix(found.records, told)
        journal.append([body(99)] if found.header else [b'{"any":1}'])
    acknowledged = told.records[: max(0, told.durable - 1)]
    assert found.records[: len(acknowledged)] == acknowledged


@settings(deadline=None, max_examples=200)
@given(scripts, st.integers(1, 40), st.sampled_from([errno.EIO, errno.ENOSPC, errno.EMFILE]), st.integers(0, 90))
def test_an_error_at_any_call_leaves_the_journal_usable_or_poisoned(
    script: Script, call: int, code: int, short: int
) -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    fs.errors, fs.short_bytes = {call: code}, short or None
    journal = None
    for step in (None, *script, 0, 1, 0):
        try:
            if journal is None or journal.is_poisoned:
                journal = _opened_again(fs, told)
            if step is not None:
                play(fs, [step], told, journal)
        except (OSError, StoreError):
            told.open_batch = ()
    assert journal is not None
    fs.errors = {}
    found = read_journal(fs, PATH, SESSION)
    assert (found.records, found.torn, found.damage) == (told.records, None, ())
    if not journal.is_poisoned:
        assert journal.seq == len(found.records) + 1
        assert fs.after_power_loss().content(PATH) == fs.content(PATH)


def _opened_again(fs: FaultyFs, told: Told) -> Journal:
    if PATH not in fs.names:
        return Journal.create(fs, PATH, HEADER, epoch=1)
    journal, found = Journal.open(fs, PATH, SESSION, epoch=2)
    if found.header is None:
        journal.begin(HEADER)
    assert found.records == told.records
    return journal


def test_a_full_disk_costs_the_append_and_nothing_else() -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    journal = play(fs, [2, 0], told)
    size = len(fs.content(PATH))
    fs.room_bytes = size + 150

    with pytest.raises(OSError, match="No space left"):
        journal.append([body(3), body(4), body(5)])

    assert (len(fs.content(PATH)), journal.seq, journal.is_poisoned) == (size, 3, False)
    fs.room_bytes = None
    play(fs, [3, 0], told, journal)
    assert read_journal(fs, PATH, SESSION).records == told.records


def test_a_journal_that_cannot_be_begun_leaves_nothing_behind() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    fs.room_bytes = 40

    with pytest.raises(OSError, match="No space left"):
        Journal.create(fs, PATH, HEADER, epoch=1)

    assert PATH not in fs.names
    assert list(fs.fds) == []


def test_short_writes_are_written_on() -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    fs.short_bytes = 7

    play(fs, [3, 1], told)

    assert read_journal(fs, PATH, SESSION).records == told.records


class Deaf(FaultyFs):
    """Takes no byte, and raises nothing."""

    is_deaf = False

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return 0 if self.is_deaf else super().write(fd, data)


def test_a_file_that_takes_nothing_and_says_nothing_is_full() -> None:
    fs = Deaf.holding(str(FOLDER))
    journal = Journal.create(fs, PATH, HEADER, epoch=1)
    before = fs.content(PATH)
    fs.is_deaf = True

    with pytest.raises(OSError, match="the file took 0"):
        journal.append([b'{"type":"x"}'])

    assert fs.content(PATH) == before
    assert not journal.is_poisoned


def test_a_journal_whose_failed_append_cannot_be_taken_back_is_poisoned_until_it_is_opened_again() -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    journal = play(fs, [1, 0], told)
    fs.room_bytes = len(fs.content(PATH)) + 20
    fs.fails = {"truncate": errno.EIO}

    with pytest.raises(OSError, match="No space left"):
        journal.append([body(2)])

    fs.room_bytes, fs.fails = None, {}
    for act in (journal.sync, lambda: journal.append([body(2)])):
        with pytest.raises(JournalPoisoned):
            act()
    reopened, found = Journal.open(fs, PATH, SESSION, epoch=2)
    assert found.torn is not None
    play(fs, [1], told, reopened)
    assert read_journal(fs, PATH, SESSION).records == told.records


@pytest.mark.parametrize("call", ["fdatasync", "sync_dir"])
def test_a_failed_flush_acknowledges_nothing_and_poisons(call: str) -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [2], Told())
    fs.fails = {call: errno.EIO}

    with pytest.raises(JournalPoisoned, match="Input/output error"):
        journal.sync()

    fs.fails = {}
    assert (journal.durable, journal.is_poisoned) == (0, True)
    for act in (journal.sync, lambda: journal.append([body(3)])):
        with pytest.raises(JournalPoisoned):
            act()


def test_torn_bytes_are_kept_beside_the_journal_under_the_next_free_name() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    play(fs, [1, 0], Told()).close()
    whole = fs.content(PATH)
    for number, torn in enumerate((b'{"type":"mess', b"\0\0\0"), start=1):
        fs.plant(PATH, whole + torn)
        journal, found = Journal.open(fs, PATH, SESSION, epoch=2)
        assert found.torn == (len(whole), len(whole) + len(torn))
        assert fs.content(PATH) == whole
        journal.append([body(2)])
        journal.sync()
        assert fs.content(PATH.with_name(f"{PATH.name}.torn-{number}")) == torn


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_flipped_bit_in_acknowledged_records_is_reported_and_changes_nothing(data: st.DataObject) -> None:
    fs = FaultyFs.holding(str(FOLDER))
    play(fs, [2, 0, 3, 0, 1], Told()).close()
    whole = fs.content(PATH)
    flipped = bytearray(whole)
    acknowledged = examine(whole, SESSION)
    end = [place for place, byte in enumerate(whole) if byte == 0x0A][acknowledged.durable - 1]
    flipped[data.draw(st.integers(0, end))] ^= 1 << data.draw(st.integers(0, 7))
    fs.plant(PATH, bytes(flipped))

    with pytest.raises(JournalDamaged, match=r"bytes \d+-\d+ .*sapwood sessions repair"):
        Journal.open(fs, PATH, SESSION, epoch=2)

    assert fs.content(PATH) == flipped
    assert [str(name) for name in fs.names if "torn" in name.name] == []
    found = read_journal(fs, PATH, SESSION)
    assert found.damage
    assert set(found.records) <= set(acknowledged.records)


@pytest.mark.parametrize("data", [b'{"type":"session","version":3,"id":"x"}\n', b"\x7fELF" * 9, b'{"a":1}\n' * 3])
def test_a_file_that_is_not_ours_is_refused_and_untouched(data: bytes) -> None:
    fs = FaultyFs()
    fs.plant(PATH, data)

    with pytest.raises(JournalRefused, match="sapwood sessions import"):
        Journal.open(fs, PATH, SESSION, epoch=1)

    assert fs.content(PATH) == data
    assert list(fs.fds) == []


def test_an_empty_file_becomes_a_journal_with_its_header() -> None:
    fs = FaultyFs()
    fs.plant(PATH, b"")

    journal, found = Journal.open(fs, PATH, SESSION, epoch=1)
    assert (found.header, journal.seq) == (None, 0)
    journal.begin(HEADER)
    journal.append([body(1)])

    assert read_journal(fs, PATH, SESSION).records == (body(1),)
    with pytest.raises(StoreError, match="expected an empty journal"):
        journal.begin(HEADER)


@pytest.mark.parametrize(
    "bad", [b"", b"{}", b"[1]", b'{"a":1}\n', b'{"a":\n1}', b'{"a":"%b"}' % (b"x" * RECORD_LIMIT_BYTES)]
)
def test_what_is_no_record_is_refused_before_anything_is_written(bad: bytes) -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [1], Told())
    calls = fs.calls

    with pytest.raises(StoreError):
        journal.append([body(2), bad])

    assert (fs.calls, journal.seq) == (calls, 2)
    journal.append([])
    assert fs.calls == calls


def test_a_lower_epoch_is_never_written() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    play(fs, [1], Told()).epoch = 8
    journal = Journal.open(fs, PATH, SESSION, epoch=9)[0]
    journal.append([body(2)])
    journal.close()

    assert Journal.open(fs, PATH, SESSION, epoch=3)[0].epoch == 9


def test_records_appended_during_a_flush_are_not_acknowledged_by_it() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [1, 0, 1], Told())
    entered, go_on = threading.Event(), threading.Event()
    flush = fs.fdatasync

    def slow(fd: int) -> None:
        entered.set()
        go_on.wait()
        flush(fd)

    journal.fs = _With(fs, slow)
    worker = threading.Thread(target=journal.sync)
    worker.start()
    entered.wait()
    journal.append([body(3)])
    journal.is_poisoned = True  # as by an append that could not be taken back: park would have nothing to keep
    was_parked = journal.park()
    journal.is_poisoned = False
    go_on.set()
    worker.join()

    assert not was_parked
    assert (journal.seq, journal.durable) == (4, 3)


class _With:
    """A file system whose flush is another."""

    def __init__(self, fs: FaultyFs, fdatasync: Callable[[int], None]) -> None:
        self._fs = fs
        self.fdatasync = fdatasync

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(self._fs, name)


def test_a_flush_that_fails_beside_a_failing_append_still_poisons() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [1, 0, 1], Told())

    def failing(fd: int) -> None:
        fs.errors = {fs.calls + 1: errno.ENOSPC}
        with pytest.raises(OSError, match="No space"):
            journal.append([body(3)])
        raise OSError(errno.EIO, "Input/output error")

    journal.fs = _With(fs, failing)
    with pytest.raises(JournalPoisoned):
        journal.sync()
    assert journal.is_poisoned


def test_an_interrupt_in_an_append_leaves_no_half_counted_record() -> None:
    fs, told = FaultyFs.holding(str(FOLDER)), Told()
    journal = play(fs, [1], told)

    class Interrupted(_With):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            fs.write(fd, data)
            raise KeyboardInterrupt

    journal.fs = Interrupted(fs, fs.fdatasync)
    with pytest.raises(KeyboardInterrupt):
        journal.append([body(2)])
    journal.fs = fs
    play(fs, [1], told, journal)

    found = read_journal(fs, PATH, SESSION)
    assert (found.records, found.torn) == (told.records, None)


@pytest.mark.parametrize("fate", ["deleted", "replaced", "written to"])
@pytest.mark.parametrize("is_parked", [False, True])
def test_a_journal_whose_file_was_taken_away_says_so_at_the_next_use_or_flush(fate: str, is_parked: bool) -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [1, 0], Told())
    if is_parked:
        assert journal.park()
    else:
        journal.append([body(2)])
    if fate == "deleted":
        fs.unlink(PATH)
    elif fate == "replaced":
        fs.plant(PATH, fs.content(PATH))
    else:
        fs.names[PATH].data += b'{"type":"message"}\n'

    with pytest.raises(JournalRefused if is_parked else JournalPoisoned, match=r"expected .*, found "):
        journal.append([body(2)]) if is_parked else journal.sync()
    assert journal.durable == 2


def test_thousands_of_journals_fit_under_a_few_descriptors() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    fs.descriptor_limit = 13
    cache = DescriptorCache(limit=8, most=12)
    names = [f"session-{number:04}" for number in range(300)]
    journals = [
        Journal.create(fs, FOLDER / f"{name}.jsonl", Header(version=3, id=name, timestamp="", cwd="/"), 1, cache)
        for name in names
    ]
    for turn in range(1, 4):
        for journal in journals:
            journal.append([body(turn)])
            if turn == 2:
                journal.sync()
    for journal in journals:
        journal.sync()
        assert len(fs.fds) <= 12
    for name in names:
        assert read_journal(fs, FOLDER / f"{name}.jsonl", name).records == (body(1), body(2), body(3))
    for journal in journals:
        journal.close()
    assert list(fs.fds) == []


def test_the_journal_that_is_in_use_stays_open_while_idle_ones_are_parked() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    cache = DescriptorCache(limit=8)
    busy = Journal.create(fs, PATH, HEADER, 1, cache)
    for number in range(40):
        name = f"session-{number:04}"
        Journal.create(fs, FOLDER / name, Header(version=3, id=name, timestamp="", cwd="/"), 1, cache).sync()
        busy.append([body(number)])
        busy.sync()

    assert fs.log.count("open") == 41
    assert len(fs.fds) <= 12


def test_a_journal_that_is_not_durable_keeps_its_descriptor() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    journal = play(fs, [1], Told())

    assert not journal.park()
    journal.sync()
    assert journal.park()
    assert list(fs.fds) == []


# The kernel's file system


@pytest.mark.parametrize("kind", ["link", "fifo", "hard link", "folder"])
def test_what_is_no_file_of_ours_is_refused_and_the_victim_unchanged(kind: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path = tmp_path / f"{SESSION}.jsonl"
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "hard link":
        path.hardlink_to(victim)
    else:
        path.mkdir()

    for act in (
        lambda: Journal.open(RealFs(), path, SESSION, 1),
        lambda: read_journal(RealFs(), path, SESSION),
    ):
        with pytest.raises(JournalRefused, match="expected a regular file"):
            act()
    with pytest.raises(FileExistsError):
        Journal.create(RealFs(), path, HEADER, 1)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("umask", [0, 0o777])
def test_files_are_0600_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    before = os.umask(umask)
    try:
        journal = Journal.create(RealFs(), path, HEADER, 1)
        journal.sync()
        journal.close()
        with path.open("ab") as file:
            file.write(b"torn")
        path.chmod(0o644)
        Journal.open(RealFs(), path, SESSION, 2)[0].close()
    finally:
        os.umask(before)

    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        path.name: 0o600,
        f"{path.name}.torn-1": 0o600,
    }


WRITER = """
import sys
from pathlib import Path
from store.disk.fs import RealFs
from store.disk.journal import Journal
from store.entries import Header

path, session = Path(sys.argv[1]), sys.argv[2]
if path.exists():
    journal, _ = Journal.open(RealFs(), path, session, epoch=1)
else:
    journal = Journal.create(RealFs(), path, Header(version=3, id=session, timestamp="", cwd="/"), 1)
while True:
    number = journal.seq
    journal.append([b'{"type":"message","n":%d}' % each for each in range(number, number + 1 + number % 3)])
    if number % 2:
        journal.sync()
        print(journal.durable, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    for turn in range(4):
        command = [sys.executable, "-c", WRITER, str(path), SESSION]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(5 + 20 * turn):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            acknowledged = int(([b"%d" % acknowledged, *writer.stdout.read().split(b"\n")[:-1]])[-1])

        found = read_journal(RealFs(), path, SESSION)

        assert (found.damage, found.refusal) == ((), None)
        assert found.records == tuple(b'{"type":"message","n":%d}' % n for n in range(1, found.next_seq))
        assert found.next_seq >= acknowledged


LIMITED = """
import resource, sys
from pathlib import Path
from store.disk.fs import RealFs
from store.disk.journal import Journal, read_journal
from store.entries import Header

path, session = Path(sys.argv[1]), sys.argv[2]
journal = Journal.create(RealFs(), path, Header(version=3, id=session, timestamp="", cwd="/"), 1)
body = b'{"type":"message","text":"%b"}' % (b"x" * 1000)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
try:
    while True:
        journal.append([body])
except OSError as error:
    print(error.errno, journal.seq, journal.is_poisoned, path.stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.append([body])
journal.sync()
found = read_journal(RealFs(), path, session)
print(len(found.records), found.torn, len(found.damage))
"""


def test_a_file_that_may_not_grow_is_taken_back_to_its_last_record(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    command = [sys.executable, "-c", LIMITED, str(path), SESSION]

    out = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()

    code, seq, is_poisoned, size = out[0].split()
    assert (int(code), is_poisoned) == (errno.EFBIG, "False")
    assert int(size) < 10_000
    assert out[1] == f"{seq} None 0"


def test_a_full_disk_gathers_no_copies_of_a_torn_tail_and_loses_none() -> None:
    fs = FaultyFs.holding(str(FOLDER))
    Journal.create(fs, PATH, HEADER, 1).close()
    torn = fs.content(PATH) + b"t" * 100
    fs.plant(PATH, torn)
    fs.room_bytes = len(torn) + 50
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            Journal.open(fs, PATH, SESSION, epoch=2)
        assert (fs.listdir(FOLDER), fs.content(PATH), list(fs.fds)) == ([PATH.name], torn, [])

    fs.room_bytes = None
    Journal.open(fs, PATH, SESSION, epoch=2)[0].close()
    assert fs.content(PATH.with_name(f"{PATH.name}.torn-1")) == b"t" * 100
