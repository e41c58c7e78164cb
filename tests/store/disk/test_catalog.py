"""The catalog: always what the journals hold, whatever became of it, and reading no more of them than has changed."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk import catalog, catalog_file, catalog_rows
from store.disk.catalog import Catalog
from store.disk.forest import NoSuchSession, node_of
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.journal import Journal, read_journal
from store.disk.ownership import TreeLock
from store.disk.summarizing import summarize
from store.entries import (
    ChildUsageAttributedEntry,
    CompactionEntry,
    CustomEntry,
    Header,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    UsageEntry,
)
from store.folding import summarized
from store.messages import ToolCall, user_text
from store.records import Draft
from store.summary import Rest, Summary
from store.usage import Cost, Usage
from store.wire import encode
from tests.faulty_fs import FaultyFs
from tests.stored import Forest, StoredSession, sample

REPOSITORY = Path(__file__).resolve().parents[3]


@attrs.define(eq=False)
class CountingFs(RealFs):
    """Counts what is opened and read, by the ending of its name; `refused` cannot be opened."""

    opened: list[str] = attrs.field(factory=list)
    read_bytes: int = 0
    refused: set[str] = attrs.field(factory=set)

    def open(self, path: Path, flags: int) -> int:
        self.opened.append(path.name)
        if path.name in self.refused:
            raise PermissionError(13, "Permission denied", str(path))
        return RealFs.open(self, path, flags)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        data = RealFs.read_at(self, fd, size, offset)
        self.read_bytes += len(data)
        return data

    def journals_opened(self) -> int:
        count = sum(name.endswith(".jsonl") for name in self.opened)
        self.opened.clear()
        self.read_bytes = 0
        return count


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    found = Forest.at(tmp_path / "home")
    yield found
    found.close()


@pytest.fixture
def fs() -> CountingFs:
    return CountingFs()


@pytest.fixture
def home(forest: Forest, fs: CountingFs) -> Home:
    return attrs.evolve(forest.home, fs=fs)


def truth(home: Home) -> dict[str, Summary]:
    """Each journal, read whole."""
    found = {}
    for session_id in home.session_ids():
        recovery = read_journal(RealFs(), home.journal_path(session_id), session_id)
        node = node_of(recovery)
        assert node is not None
        found[session_id], _ = summarized(node)
    return found


def listed(home: Home) -> dict[str, Summary]:
    with Catalog.open(home) as catalog:
        found = {summary.session_id: summary for summary in catalog.sessions()}
        assert catalog.is_kept
    return found


# --- the rows ---------------------------------------------------------------------------------------------------------


def test_a_row_is_what_its_journal_holds(forest: Forest, home: Home) -> None:
    root = sample(forest)
    root.add(SessionInfoEntry(name="renamed"))
    forest.root("archived").add(SessionStateEntry(state={"status": "archived"}))
    forest.root(None, cwd="/elsewhere").prompt("hello")

    assert listed(home) == truth(home)
    found = listed(home)[root.id]
    assert (found.name, found.model, found.outcome, len(found.children)) == ("renamed", "test/opus", "completed", 2)
    assert (found.first_prompt, found.answer) == ("Port the billing module", "Billing is ported; the shim is left.")
    assert found.total.unpriced == {"local/qwen"}
    assert found.total.input == 1200 + 58_000 + 30_000 + 900 + 2_000


def test_the_newest_come_first_and_folders_are_told_apart(forest: Forest, home: Home) -> None:
    here = [forest.root(f"here-{number}") for number in range(3)]
    there = forest.root("there", cwd="/elsewhere")
    child = here[0].child("child")
    child.prompt()
    here[1].prompt()

    with Catalog.open(home) as catalog:
        assert [each.name for each in catalog.sessions()][:2] == ["here-1", "child"]
        assert {each.name for each in catalog.sessions(roots_only=True)} == {"here-0", "here-1", "here-2", "there"}
        assert [each.name for each in catalog.sessions(cwd="/elsewhere")] == ["there"]
        assert [each.session_id for each in catalog.newest(2)] == [here[1].id, here[0].id]
        assert [each.session_id for each in catalog.newest(5, cwd="/elsewhere")] == [there.id]


def test_sums_beyond_64_bits_keep_every_unit(forest: Forest, home: Home) -> None:
    session = forest.root()
    for number in range(3):
        cost = Cost(total=1e9, input=1e9 - number)
        session.add(UsageEntry(kind="k", provider="p", model="m", usage=Usage(input=10**12, cost=cost)))

    [found] = listed(home).values()

    assert (found.own.input, found.own.total_pico) == (3 * 10**12, 3 * 10**21)
    assert found == truth(home)[session.id]
    with Catalog.open(home) as kept:
        types = kept._db.execute("SELECT typeof(own_input), typeof(own_total_pico) FROM session").fetchall()
    assert types == [("integer", "text")]


def test_what_cannot_be_read_whole_is_listed_with_what_is_wrong(forest: Forest, home: Home, fs: CountingFs) -> None:
    damaged, headless, fine = forest.root("damaged"), forest.root("headless"), forest.root("fine")
    for session in (damaged, headless, fine):
        session.prompt("hello there")
    damaged.answer()
    damaged.damage()
    headless.path.write_bytes(b"\0" * 80 + headless.path.read_bytes()[80:])
    (home.sessions / "empty-one.jsonl").write_bytes(b"")
    (home.sessions / "linked-one.jsonl").symlink_to(fine.path)
    (home.sessions / "closed-one.jsonl").write_bytes(b"x")
    fs.refused = {"closed-one.jsonl"}

    found = listed(home)

    assert found[fine.id].trouble == ""
    troubles = {
        name: found[name].trouble for name in (damaged.id, headless.id, "empty-one", "linked-one", "closed-one")
    }
    assert all(troubles.values())
    assert "damage at bytes" in troubles[damaged.id]
    assert "no header" in troubles["empty-one"]
    assert "regular file" in troubles["linked-one"]
    assert "Permission denied" in troubles["closed-one"]
    assert found[damaged.id].messages == 1
    fs.journals_opened()
    fs.refused = set()
    again = listed(home)
    assert fs.journals_opened() == 2  # what could not be looked at is tried again, the rest is as it was
    assert again[damaged.id] == found[damaged.id]


def test_a_journal_of_another_program_is_summed_up_out_of_the_whole(forest: Forest, home: Home) -> None:
    session = forest.root()
    target = session.answer(tokens=(100, 10, 0, 0))
    for total in (150, 190):
        session.add(
            ChildUsageAttributedEntry(
                target_id=target, child_usage=Usage(input=40), aggregate_usage=Usage(input=total, output=10)
            )
        )

    assert listed(home) == truth(home)
    session.prompt()
    assert listed(home) == truth(home)


# --- reading no more than has changed ---------------------------------------------------------------------------------


def test_a_fresh_row_is_not_read_again_and_a_stale_one_from_where_it_ended(
    forest: Forest, home: Home, fs: CountingFs
) -> None:
    roots = [sample(forest) for _ in range(3)]
    listed(home)
    assert fs.journals_opened() == 12
    listed(home)
    assert fs.journals_opened() == 0
    before = roots[1].path.stat().st_size
    roots[1].prompt("go on")

    assert listed(home) == truth(home)

    assert fs.read_bytes == roots[1].path.stat().st_size - before + 46  # and the last frame that was known
    assert fs.journals_opened() == 1


def test_what_a_reader_may_not_see_yet_is_read_when_it_is_whole(forest: Forest, home: Home) -> None:
    session = forest.root()
    session.prompt()
    whole = session.path.read_bytes()
    session.prompt("second")
    grown = session.path.read_bytes()
    for size in range(len(whole), len(grown) + 1):
        session.path.write_bytes(grown[:size])
        assert listed(home)[session.id].messages == (2 if size == len(grown) else 1)
        assert listed(home)[session.id].trouble == ""


def test_a_journal_that_is_another_one_now_is_read_anew(forest: Forest, home: Home) -> None:
    session = forest.root("before")
    for number in range(4):
        session.answer(f"answer {number}")
    listed(home)
    lines = session.path.read_bytes().split(b"\n")

    session.path.write_bytes(b"\n".join(lines[:3]) + b"\n")  # as a loss of power may leave it
    shorter, _ = Journal.open(RealFs(), session.path, session.id, epoch=5)
    for _ in range(6):
        shorter.append([Draft.of(SessionInfoEntry(name="after")).record(f"{shorter.seq:08x}", None, "t").raw])
    shorter.close()

    assert listed(home) == truth(home)
    assert listed(home)[session.id].name == "after"


def test_what_was_said_in_a_journal_that_was_replaced_is_found_no_more(forest: Forest, home: Home) -> None:
    session = forest.root()
    session.prompt("a needle")
    other = forest.root()
    other.prompt("hay")
    with Catalog.open(home) as kept:
        assert len(kept.search("needle")) == 1
        header = Header(version=3, id=session.id, timestamp="t", cwd="/work")
        session.path.unlink()
        Journal.create(RealFs(), session.path, header, epoch=1).close()

        assert kept.search("needle") == []


def test_another_file_that_only_ends_alike_is_read_anew(forest: Forest, home: Home) -> None:
    session = forest.root()

    def put(*prompts: str) -> None:
        session.path.rename(session.path.with_suffix(".old"))  # so that its inode is not given again
        journal = Journal.create(RealFs(), session.path, session.header, epoch=1)
        for number, prompt in enumerate(prompts, start=1):
            body = MessageEntry(message=msgspec.Raw(encode(user_text(prompt, 1))))
            above = f"{number - 1:08x}" if number > 1 else None
            journal.append([Draft.of(body).record(f"{number:08x}", above, "t").raw])
        journal.close()

    put("x" * 10, "y" * 90, "end")
    assert listed(home)[session.id].first_prompt == "x" * 10
    put("x" * 90, "y" * 10, "end", "more")

    assert listed(home) == truth(home)


def test_a_flipped_bit_in_what_going_on_needs_is_not_believed(forest: Forest, home: Home) -> None:
    session = forest.root()
    session.prompt("go")
    listed(home)
    rest = msgspec.json.encode(Rest(mail=["m1"], context_base=5))
    with sqlite3.connect(home.catalog_path) as db:
        db.execute("UPDATE session SET rest=?", (rest,))
    db.close()
    session.add(SessionInfoEntry(name="more"))

    assert listed(home) == truth(home)


def test_a_name_that_came_within_the_same_tick_of_the_clock_is_found(forest: Forest, home: Home) -> None:
    forest.root("first")
    with Catalog.open(home) as kept:
        assert len(kept.newest(5)) == 1
        tick_ns = home.sessions.stat().st_mtime_ns
        forest.root("second")
        os.utime(home.sessions, ns=(tick_ns, tick_ns))

        assert len(kept.newest(5)) == 2


def test_duplicates_that_come_later_are_counted_once(forest: Forest, home: Home) -> None:
    session = forest.root()
    entry = session.answer(tokens=(100, 10, 0, 0))
    child = ChildUsageAttributedEntry(
        target_id=entry, child_usage=Usage(input=5), origin_session_id="c", origin_entry_id="1", child_session_id="c"
    )
    session.add(child)
    odd = Draft.of(UsageEntry(kind="k", provider="p", model="m", usage=Usage(input=7)))
    session.journal.append([odd.record("odd", None, "t").raw])
    listed(home)
    session.add(child)
    session.journal.append([odd.record("odd", None, "t").raw])
    session.journal.append([odd.record(entry, None, "t").raw])

    found = listed(home)[session.id]

    assert (found.own.input, found.total.input) == (107, 112)
    assert found == truth(home)[session.id]


def test_what_is_gone_is_gone_from_lists_and_search(forest: Forest, home: Home) -> None:
    session, other = forest.root("one"), forest.root("two")
    session.prompt("needle")
    other.prompt("hay")
    with Catalog.open(home) as catalog:
        assert len(catalog.search("needle")) == 1
        session.path.unlink()
        assert catalog.search("needle") == []
        assert [each.name for each in catalog.sessions()] == ["two"]
        assert catalog.session(session.id) is None
        other.path.unlink()
        assert catalog.newest(5) == []


def test_the_newest_are_looked_at_again_and_new_names_found(forest: Forest, home: Home, fs: CountingFs) -> None:
    sessions = [forest.root(f"s{number}") for number in range(5)]
    with Catalog.open(home) as catalog:
        catalog.sessions()
        fs.journals_opened()
        sessions[4].prompt("more")
        fresh = forest.root("fresh")

        assert [each.session_id for each in catalog.newest(2)] == [fresh.id, sessions[4].id]

        assert fs.journals_opened() == 2
        assert catalog.newest(1)[0] == truth(home)[fresh.id]


def test_the_newest_trees_are_whole_and_the_others_counted(forest: Forest, home: Home) -> None:
    roots = [sample(forest) for _ in range(4)]
    lost = forest.root("its root is gone").child("orphan")
    lost.prompt()
    forest.sessions[str(lost.header.root_session_id)].path.unlink()
    roots[3].add(SessionStateEntry(state={"status": "archived"}))
    roots[0].add(ModelChangeEntry(provider="p", model_id="m"))
    with Catalog.open(home) as catalog:
        everything = catalog.sessions()

        for with_archived in (True, False):
            known = list(
                dict.fromkeys(each.root_id for each in everything if with_archived or each.root_id != roots[3].id)
            )
            for count in range(1, 7):
                found, total = catalog.newest_trees(count, with_archived=with_archived)
                assert total == len(known) == 4 + with_archived
                assert found == [each for each in everything if each.root_id in known[:count]]


def test_a_journal_that_cannot_be_read_has_the_time_of_its_file(forest: Forest, home: Home) -> None:
    path = home.journal_path("0198f0aa-broken")
    path.write_bytes(b"no journal\n")
    path.chmod(0o600)
    os.utime(path, (1_000_000_000, 1_000_000_000))

    assert listed(home)["0198f0aa-broken"].modified == "2001-09-09T01:46:40.000Z"


def test_one_session_is_opened_without_a_look_at_the_others(
    forest: Forest, home: Home, fs: CountingFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sample(forest)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("expected no look at the folder")

    monkeypatch.setattr(catalog, "stamps", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    with Catalog.open(home) as kept:
        for _ in range(2):
            assert kept.session(root.id) == kept.named(root.id) == truth_of(root)
        root.prompt("more")
        assert kept.session(root.id) == truth_of(root)
        assert kept.session("0198f0aa-nobody") is None
    assert fs.journals_opened() == 2


def truth_of(session: StoredSession) -> Summary:
    recovery = read_journal(RealFs(), session.path, session.id)
    node = node_of(recovery)
    assert node is not None
    return summarized(node)[0]


# --- a catalog that is of no use --------------------------------------------------------------------------------------


def spoiled(home: Home, spoil: Callable[[Path], None]) -> None:
    spoil(home.catalog_path)
    assert listed(home) == truth(home)
    with Catalog.open(home) as catalog:
        assert {each.session.name for each in catalog.search("billing")} == {"port-billing"}
        assert [each.name for each in catalog.newest(1)] == ["port-billing"]
    assert listed(home) == truth(home)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no catalog at all, and rather more than a header of SQLite would take" * 30),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(path.read_bytes()[:-4096]),
        lambda path: path.write_bytes(path.read_bytes()[:100] + b"\0" * (path.stat().st_size - 100)),
        lambda path: sqlite3.connect(path).executescript("DROP TABLE session; PRAGMA user_version=1"),
        lambda path: sqlite3.connect(path).executescript("DROP TABLE said; PRAGMA user_version=1"),
        lambda path: sqlite3.connect(path).executescript("PRAGMA user_version=999"),
        lambda path: sqlite3.connect(path).executescript("UPDATE session SET name='wrong'"),
        lambda path: sqlite3.connect(path).executescript("UPDATE session SET own_input='12x'"),
        lambda path: sqlite3.connect(path).executescript("UPDATE session SET rest='{', size=0"),
        lambda path: sqlite3.connect(path).executescript("UPDATE session SET rest=5, size=0"),
        lambda path: sqlite3.connect(path).executescript("UPDATE session SET good_bytes=good_bytes-1, size=0"),
    ],
)
def test_a_spoiled_catalog_is_made_anew(forest: Forest, home: Home, spoil: Callable[[Path], None]) -> None:
    sample(forest)
    listed(home)
    try:
        spoiled(home, spoil)
    except AssertionError:
        version = sqlite3.connect(home.catalog_path).execute("PRAGMA user_version").fetchone()
        assert version == (999,)  # a newer program's: left alone, and done without
        with Catalog.open(home) as catalog:
            assert not catalog.is_kept
            assert {each.session_id: each for each in catalog.sessions()} == truth(home)


def test_an_old_copy_of_the_catalog_is_brought_up_to_date(forest: Forest, home: Home) -> None:
    root = sample(forest)
    listed(home)
    old = home.catalog_path.read_bytes()
    root.prompt("more")
    gone = forest.root("gone")
    listed(home)
    gone.path.unlink()

    home.catalog_path.write_bytes(old)

    assert listed(home) == truth(home)


def test_flipped_bits_are_never_believed(forest: Forest, home: Home) -> None:
    sample(forest)
    listed(home)
    with Catalog.open(home) as kept:
        kept._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = home.catalog_path.read_bytes()
    expected = truth(home)
    draw = random.Random(7)
    for _ in range(100):
        flipped = bytearray(whole)
        for _ in range(draw.choice([1, 1, 40])):
            flipped[draw.randrange(100, len(flipped))] ^= 1 << draw.randrange(8)
        for leftover in home.root.glob("catalog.db*"):
            leftover.unlink()
        home.catalog_path.write_bytes(flipped)
        with Catalog.open(home) as catalog:
            assert {each.session_id: each for each in catalog.sessions()} == expected
            catalog.search("billing")


def test_a_busy_catalog_is_done_without(forest: Forest, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_file, "BUSY_S", 0.05)
    root = sample(forest)
    listed(home)
    root.prompt("more")
    other = sqlite3.connect(home.catalog_path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with Catalog.open(home) as kept:
        assert {each.session_id: each for each in kept.sessions()} == truth(home)
        assert not kept.is_kept
        assert len(kept.search("more")) == 1
    other.execute("ROLLBACK")
    other.close()

    assert listed(home) == truth(home)


@pytest.mark.parametrize("kind", ["refused", "link", "folder", "fifo", "no home"])
def test_a_catalog_that_cannot_be_had_is_done_without(
    kind: str, forest: Forest, home: Home, fs: CountingFs, tmp_path: Path
) -> None:
    sample(forest)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    if kind == "refused":
        fs.refused = {"catalog.db"}
    elif kind == "link":
        home.catalog_path.symlink_to(victim)
    elif kind == "folder":
        home.catalog_path.mkdir()
    elif kind == "fifo":
        os.mkfifo(home.catalog_path)
    else:
        home = attrs.evolve(home, root=tmp_path / "nowhere")

    with Catalog.open(home) as kept:
        assert {each.session_id: each for each in kept.sessions()} == truth(home)
        assert not kept.is_kept
        assert kept.newest(1)[0].name == "port-billing"
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    with Catalog.open(Home(tmp_path / "h", tmp_path / "h/sessions", RealFs())) as kept:
        assert (kept.sessions(), kept.newest(3), kept.search("x"), kept.owners(["0198f0aa-x"])["0198f0aa-x"].state) == (
            [],
            [],
            [],
            "dead",
        )
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_of_a_file_system_in_memory_is_in_memory() -> None:
    fs = FaultyFs.holding("/home")
    home = Home(Path("/home"), Path("/home/sessions"), fs)
    home.create()
    Journal.create(fs, home.journal_path("0198f0aa-x"), Header(version=3, id="0198f0aa-x", timestamp="t", cwd="/"), 1)

    with Catalog.open(home) as kept:
        assert [each.session_id for each in kept.sessions()] == ["0198f0aa-x"]
        assert not kept.is_kept


def test_two_folders_of_sessions_share_a_catalog_and_nothing_else(forest: Forest, home: Home, fs: CountingFs) -> None:
    sample(forest)
    other = attrs.evolve(home, sessions=home.root / "others")
    other.sessions.mkdir(mode=0o700)
    copied = forest.root("both")
    (other.sessions / copied.path.name).write_bytes(copied.path.read_bytes())
    copied.prompt("only here")
    fs.journals_opened()
    for _ in range(3):
        assert listed(home) == truth(home)
        assert listed(other) == truth(other)
    assert fs.journals_opened() == 6
    with Catalog.open(other) as kept:
        assert kept.search("only here") == []


def test_files_of_the_catalog_are_for_their_owner_alone(forest: Forest, home: Home) -> None:
    sample(forest)
    before = os.umask(0)
    try:
        with Catalog.open(home) as kept:
            kept.sessions()
            modes = {path.name: path.stat().st_mode & 0o777 for path in home.root.glob("catalog.db*")}
    finally:
        os.umask(before)
    assert modes == {"catalog.db": 0o600, "catalog.db-wal": 0o600, "catalog.db-shm": 0o600}


LISTER = """
import os, sys
from store.disk.catalog import Catalog
from store.disk.fs import RealFs
from store.disk.home import Home

home = Home.from_env(os.environ, RealFs())
for _ in range(8):
    with Catalog.open(home) as catalog:
        found = catalog.sessions()
        catalog.search("prompt")
    assert all(summary.trouble == "" for summary in found), [summary.trouble for summary in found]
print(len(found))
"""


def test_many_processes_list_while_sessions_grow(forest: Forest, home: Home) -> None:
    sessions = [forest.root(f"s{number}") for number in range(20)]
    environ = {**os.environ, "SAPWOOD_HOME": str(home.root)}
    environ.pop("SAPWOOD_SESSION_DIR", None)
    command = [sys.executable, "-c", LISTER]
    listers = [
        subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]

    for _ in range(60):
        for session in sessions:
            session.prompt("prompt")
    outs = [lister.communicate(timeout=300) for lister in listers]

    assert [out.strip() for out, _ in outs] == [b"20"] * 4, [error for _, error in outs]
    assert listed(home) == truth(home)


# --- search and names -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["full text", "plain"])
def searched(request: pytest.FixtureRequest, forest: Forest, home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    if request.param == "plain":
        monkeypatch.setattr(catalog_file, "FULL_TEXT", ("CREATE VIRTUAL TABLE said_text USING no_such_module(text)",))
    first = forest.root("billing")
    first.prompt("Port the billing module to Rust, 100% of it")
    first.answer("the word answered is not searched")
    second = forest.root("rounding")
    second.prompt("Résumé of the meeting; snake_case and 'quotes'")
    second.prompt("検索できますか")
    third = forest.root(None)
    third.child("billing-child").prompt("port it")
    return home


def names(home: Home, text: str) -> list[str | None]:
    with Catalog.open(home) as kept:
        return [found.session.name for found in kept.search(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("billing", ["billing-child", "billing"]),
        ("port", ["billing-child", "billing"]),
        ("port rust", ["billing"]),
        ("rust port", ["billing"]),
        ("illing", ["billing-child", "billing"]),
        ("rounding", ["rounding"]),
        ("snake_case", ["rounding"]),
        ("できます", ["rounding"]),
        ("100%", ["billing"]),
        ("answered", []),
        ("nothing", []),
        ("", []),
        ("   ", []),
        ('"', []),
        ("'quotes'", ["rounding"]),
        ("NEAR(port", []),
        ("text:port", []),
        ("\x00", []),
        ("\udc80", []),
        ("x" * 5_000, []),
    ],
)
def test_search_finds_words_their_beginnings_and_parts(searched: Home, text: str, expected: list[str | None]) -> None:
    assert names(searched, text) == expected


@pytest.mark.parametrize("text", ["OR", "a* AND (", "NOT port", "port NOT", '"port', "^port", "port + it", "{a b}: c"])
def test_operators_of_full_text_search_are_words_like_any_other(searched: Home, text: str) -> None:
    assert isinstance(names(searched, text), list)


def test_what_was_found_is_told_with_its_entry(searched: Home, forest: Forest) -> None:
    with Catalog.open(searched) as kept:
        [found] = kept.search("snake_case")
        assert [(said.entry_id, said.text[:6]) for said in found.said] == [("00000001", "Résumé")]
        assert len(kept.search("port", count=1)) == 1
        session = next(each for each in forest.sessions.values() if each.header.name == "rounding")
        session.prompt("one more snake_case")
        assert len(kept.search("snake_case")[0].said) == 2
        session.add(SessionInfoEntry(name="floors"))
        assert kept.search("rounding") == []
        assert [each.session.name for each in kept.search("floors")] == ["floors"]


def test_sessions_are_named_by_what_they_are_called_now(forest: Forest, home: Home) -> None:
    old, new = forest.root("same"), forest.root("same")
    renamed = forest.root("before")
    renamed.add(SessionInfoEntry(name="after"))
    child = old.child("same")
    with Catalog.open(home) as kept:
        assert kept.named("same").session_id == new.id
        assert kept.named("after").session_id == renamed.id
        assert kept.named(child.id).session_id == child.id
        assert kept.named(child.id[-2:]).session_id == child.id
        for name, told in (("before", "no session has"), ("0198f0aa", "expected one session"), ("", "no session has")):
            with pytest.raises(NoSuchSession, match=told):
                kept.named(name)


# --- owners -----------------------------------------------------------------------------------------------------------


def test_owners_are_told_and_the_dead_remembered(
    forest: Forest, home: Home, fs: CountingFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, released, never, elsewhere = (forest.root(f"s{number}") for number in range(4))
    forest.own(alive)
    TreeLock.acquire(RealFs(), home, released.id, "t").release()
    forest.owned_elsewhere(elsewhere)
    ids = [each.id for each in (alive, released, never, elsewhere)]
    for known in (released, elsewhere):
        os.utime(home.lock_path(known.id), (1, 1))

    for looks in (3, 2):
        with Catalog.open(home) as kept:
            fs.opened.clear()
            owners = kept.owners(ids)
            assert [owners[each].state for each in ids] == ["alive", "dead", "dead", "unknown"]
            assert sum(name.endswith(".lock") for name in fs.opened) == looks

    lock = TreeLock.acquire(RealFs(), home, released.id, "t")
    with Catalog.open(home) as kept:
        assert kept.owners(ids)[released.id].state == "alive"
    lock.release()
    with Catalog.open(home) as kept:  # just now: another owner may come within the same tick of the clock
        assert kept.owners(ids)[released.id].state == "dead"
    ended_ns = home.lock_path(released.id).stat().st_mtime_ns
    TreeLock.acquire(RealFs(), home, released.id, "t")
    os.utime(home.lock_path(released.id), ns=(ended_ns, ended_ns))
    with Catalog.open(home) as kept:
        assert kept.owners(ids)[released.id].state == "alive"


# --- everything at once -----------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["root", "prompt", "answer", "name", "branch", "compaction", "child", "settle", "delete", "look", "newest"]
        ),
        st.integers(0, 9),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_after_any_history_the_catalog_is_what_the_journals_hold(
    tmp_path_factory: Any, drawn: list[tuple[str, int]]
) -> None:
    forest = Forest.at(tmp_path_factory.mktemp("home") / "home")
    alive: list[StoredSession] = [forest.root("first")]
    kept = Catalog.open(forest.home)
    for act, number in drawn:
        session = alive[number % len(alive)] if alive else forest.root("again")
        if session not in alive:
            alive.append(session)
        match act:
            case "root":
                alive.append(forest.root(f"r{number}"))
            case "child":
                alive.append(session.child(f"c{number}"))
            case "prompt":
                session.prompt(f"prompt {number}")
            case "answer":
                session.answer(f"answer {number}", calls=(ToolCall(id="c", name="bash"),) if number % 2 else ())
            case "settle":
                session.settle()
            case "name":
                session.add(SessionInfoEntry(name=f"n{number}"))
                session.add(ModelChangeEntry(provider="p", model_id="m"))
            case "branch" if session.tree.records:
                target = session.tree.records[number % len(session.tree.records)].id
                record = Draft.of(CustomEntry(custom_type="sapwood.leaf")).record(
                    session.tree.next_ids(1)[0], target, "t"
                )
                session.journal.append((record.raw,))
                session.tree.add(record)
            case "compaction":
                session.add(CompactionEntry(summary="s", first_kept_entry_id="00000001", tokens_before=1))
            case "delete" if session.parent is None:
                session.path.unlink()
                alive.remove(session)
            case "look":
                kept.sessions()
            case "newest":
                kept.newest(2)
    expected = truth(forest.home)
    found = {summary.session_id: summary for summary in kept.sessions()}
    for summary in [*found.values(), *expected.values()]:  # not known where a branch has just changed
        other = expected[summary.session_id] if summary is found[summary.session_id] else found[summary.session_id]
        for name in ("answer", "answer_error", "context_tokens"):
            if getattr(other, name) is None:
                setattr(summary, name, None)
    assert found == expected
    kept.close()
    forest.close()


def test_reading_on_is_the_same_as_reading_anew(forest: Forest, home: Home) -> None:
    root = sample(forest)
    known = summarize(home, root.id)
    assert known is not None
    root.prompt("more")
    root.answer("and more")

    further = summarize(home, root.id, known)
    anew = summarize(home, root.id)

    assert further is not None
    assert anew is not None
    assert (further.summary, further.rest, further.scan.good_bytes) == (anew.summary, anew.rest, anew.scan.good_bytes)
    assert (further.is_whole, anew.is_whole) == (False, True)
    assert further.said == anew.said[1:]
    assert summarize(home, "0198f0aa-nobody") is None
    assert catalog_rows.known_of(catalog_rows.row_of(1, anew)[1:]).summary == anew.summary
