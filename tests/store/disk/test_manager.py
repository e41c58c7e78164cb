"""The session manager: what programs of their own do with sessions, on a file system that fails and on the kernel's."""

import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from store.attribution import account
from store.disk.appends import Appends
from store.disk.fs import RealFs
from store.disk.history import ReadLimits
from store.disk.home import Home
from store.disk.journal import Journal, read_journal
from store.disk.manager import SessionManager
from store.disk.ownership import liveness
from store.entries import (
    ChildSettledEntry,
    ChildSpawnedEntry,
    CustomEntry,
    Entry,
    GateEndEntry,
    Header,
    Known,
    SessionInfoEntry,
)
from store.errors import JournalDamaged, JournalPoisoned, JournalRefused, OwnedElsewhere, ReadLimit, StoreError
from store.frame import check, seed
from store.messages import AssistantMessage, TextContent, ToolCall, user_text
from store.records import Record
from store.usage import Price, Usage, priced
from tests.faulty_fs import FaultyFs, PowerLoss

REPOSITORY = Path(__file__).resolve().parents[3]
USAGE = priced(Usage(input=100, output=10, total_tokens=110), Price(1_000_000, 10_000_000), "test/model")


@pytest.fixture
def fs() -> FaultyFs:
    return FaultyFs.holding("/home")


@pytest.fixture
def home(fs: FaultyFs) -> Home:
    return Home(Path("/home/sapwood"), Path("/home/sapwood/sessions"), fs)


def answer(text: str = "four", calls: tuple[ToolCall, ...] = ()) -> AssistantMessage:
    return AssistantMessage(
        content=(TextContent(text=text), *calls), provider="test", model="model", usage=USAGE, stop_reason="stop"
    )


def talk(manager: SessionManager, turns: int = 1) -> list[str]:
    ids = []
    for turn in range(turns):
        ids += [
            manager.append_message(user_text(f"question {turn}", turn)),
            manager.append_message(answer(f"answer {turn}")),
        ]
    return ids


def at(manager: SessionManager) -> Path:
    assert manager.file is not None
    return manager.file


def ids(records: list[Record]) -> list[str]:
    return [record.id for record in records]


# --- making and opening -----------------------------------------------------------------------------------------------


def test_a_session_is_created_written_closed_and_opened_again(fs: FaultyFs, home: Home) -> None:
    with SessionManager.create("/work", name="billing", home=home, clock=lambda: 1.8e9) as manager:
        written = talk(manager, 2)
        end = manager.append_run_settled(1, "completed")
        path = at(manager)
        assert (manager.is_persisted, manager.is_read_only, manager.supports_captured_history_reads) == (
            True,
            False,
            True,
        )
        assert (manager.session_dir, manager.artifact_dir) == (home.sessions, home.artifact_dir(manager.id))

    with SessionManager.open(path, home=home) as again:
        assert (again.id, again.cwd, again.name, again.leaf_id) == (manager.id, "/work", "billing", written[-1])
        assert ids(again.read_branch()) == written
        assert ids(again.read_entries()) == [*written, end]
        assert again.append_message(user_text("more", 9)) == "00000006"
    assert again.header.timestamp == "2027-01-15T08:00:00.000Z"
    assert list(fs.fds) == []


def test_a_draft_that_is_thrown_away_leaves_nothing(fs: FaultyFs, home: Home) -> None:
    before = dict(fs.names)
    with SessionManager.create("/work", home=home) as manager:
        assert manager.file == home.journal_path(manager.id)
        assert (manager.leaf_id, manager.read_entries(), manager.read_tree(), manager.name) == (None, [], [], None)
        assert manager.append_batch([]) == []

    assert fs.names == before


def test_a_session_in_memory_is_kept_nowhere(fs: FaultyFs) -> None:
    with SessionManager.in_memory("/work") as manager:
        written = talk(manager)
        manager.branch_to(written[0])
        other = manager.append_message(answer("other"))
        manager.flush()

        assert (manager.file, manager.session_dir, manager.artifact_dir, manager.is_persisted) == (
            None,
            None,
            None,
            False,
        )
        assert ids(manager.read_branch()) == [written[0], other]
        assert not manager.supports_captured_history_reads
        assert manager.create_branched_session(written[1]) is None
        assert ids(manager.read_entries()) == written
    assert fs.calls == 0


def test_a_second_owner_is_refused_by_name_and_may_read(home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        talk(manager)
        with pytest.raises(OwnedElsewhere, match=f"process {os.getpid()} \\(this one\\)"):
            SessionManager.open(at(manager), home=home)
        reader = SessionManager.open_read_only(at(manager), home=home)
        assert len(reader.read_entries()) == 2
        talk(manager)
        assert len(reader.read_entries()) == 4
        with pytest.raises(StoreError, match="only read"):
            talk(reader)
    SessionManager.open(at(manager), home=home).close()


def test_after_close_nothing_is_written(home: Home) -> None:
    manager = SessionManager.create("/work", home=home)
    talk(manager)
    manager.close()
    manager.close()

    with pytest.raises(StoreError, match="closed"):
        talk(manager)
    assert len(manager.read_entries()) == 2


def test_a_child_is_opened_under_the_lock_of_its_root(fs: FaultyFs, home: Home) -> None:
    root = SessionManager.create("/work", home=home)
    talk(root)
    child = Header(
        version=3, id="0198f0aa-child", timestamp="", cwd="/work", parent_session_id=root.id, root_session_id=root.id
    )
    Journal.create(fs, home.journal_path(child.id), child, 1).sync()
    with pytest.raises(OwnedElsewhere):
        SessionManager.open(home.journal_path(child.id), home=home)

    root.set_session_file(home.journal_path(child.id))  # one tree, one owner: the lock goes along
    talk(root)
    assert root.id == child.id
    root.set_session_file(root.file or "")
    root.close()
    SessionManager.open(home.journal_path(child.id), home=home).close()
    fs.unlink(home.journal_path(str(child.root_session_id)))
    with pytest.raises(JournalRefused, match=r"its root .* It can be read, not written to"):
        SessionManager.open(home.journal_path(child.id), home=home)
    assert len(SessionManager.open_read_only(home.journal_path(child.id), home=home).read_entries()) == 2


def test_what_is_no_session_is_refused_and_untouched(fs: FaultyFs, home: Home) -> None:
    home.create()
    contents = {
        "rubbish-1": b"rubbish\n",
        "plain-one": b'{"type":"session","version":3,"id":"plain-one","timestamp":"t","cwd":"/"}\n',
        "newer-one": b"",
    }
    newer = Journal.create(
        fs, home.journal_path("newer-one"), Header(version=4, id="newer-one", timestamp="", cwd="/"), 1
    )
    contents["newer-one"] = fs.content(newer.path)
    newer.close()
    for name, data in contents.items():
        fs.plant(home.journal_path(name), data)
        with pytest.raises(JournalRefused):
            SessionManager.open(home.journal_path(name), home=home)
        assert fs.content(home.journal_path(name)) == data
    with pytest.raises(JournalRefused, match="sessions import"):
        SessionManager.open("/home/Some Log.jsonl", home=home)
    with pytest.raises(JournalRefused, match=r"\.jsonl"):
        SessionManager.open("/home/notes-of-mine.txt", home=home)
    with pytest.raises(FileNotFoundError):
        SessionManager.open(home.journal_path("not-there"), home=home)
    assert list(fs.fds) == []


def test_an_empty_file_becomes_a_session(fs: FaultyFs, home: Home) -> None:
    home.create()
    fs.plant(home.journal_path("empty-one"), b"")

    with pytest.raises(JournalRefused, match="empty file"):
        SessionManager.open_read_only(home.journal_path("empty-one"), home=home)
    with SessionManager.open(home.journal_path("empty-one"), home=home) as manager:
        talk(manager)

    assert SessionManager.open_read_only(home.journal_path("empty-one"), home=home).header.id == "empty-one"


def test_damage_is_refused_for_writing_and_worked_around_for_reading(fs: FaultyFs, home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        talk(manager, 3)
        manager.flush()
        talk(manager)
    whole = fs.content(at(manager))
    lines = whole.split(b"\n")
    broken = b"\n".join([*lines[:2], lines[2].replace(b"answer", b"ANSWER"), *lines[3:]])
    headless = b"\n".join([b"{" * len(lines[0]), *lines[1:]])
    for data, left in ((broken, 7), (headless, 8)):
        fs.plant(at(manager), data)
        with pytest.raises(JournalDamaged):
            SessionManager.open(at(manager), home=home)
        with pytest.raises(StoreError, match="damage"):
            SessionManager.fork_from(at(manager), "/work", home=home)
        reader = SessionManager.open_read_only(at(manager), home=home)
        assert len(reader.read_entries()) == left
        assert reader.trouble
        assert reader.leaf_id == "00000008"
        assert fs.content(at(manager)) == data
    assert list(fs.fds) == []


# --- appending --------------------------------------------------------------------------------------------------------


def all_appends(manager: SessionManager) -> dict[str, str]:
    target = manager.append_message(answer())
    child = ChildSpawnedEntry(child_session_id="0198f0aa-c", name="c", child_depth=1, prompt="p", model="m")
    return {
        "message": target,
        "thinking_level_change": manager.append_thinking_level_change("high"),
        "service_tier_change": manager.append_service_tier_change("priority"),
        "model_change": manager.append_model_change("test", "other"),
        "compaction": manager.append_compaction("all of it", target, 5, {"readFiles": []}, True, "be short", USAGE),
        "custom": manager.append_custom_entry("mine", {"count": 42}),
        "custom_message": manager.append_custom_message_entry("mine", "look", True, {"x": 1}),
        "child_usage_attributed": manager.append_child_usage_attribution(
            target, USAGE, USAGE, "s", "e", "c", "spawn_task"
        ),
        "usage": manager.append_usage("summary", "test", "model", USAGE),
        "session_info": manager.append_session_info("named"),
        "session_state": manager.append_session_state({"status": "active"}),
        "agent_status": manager.append_agent_status({"summary": "works"}),
        "git_state": manager.append_git_state({"branch": "main"}),
        "label": manager.append_label_change(target, "here"),
        "context_edit": manager.append_context_edit(target, {"content": []}),
        "mail": manager.append_mail("m1", "user", "steer", "psst"),
        "run_settled": manager.append_run_settled(1, "completed", "stop"),
        "gate_end": manager.append_gate_end(
            GateEndEntry(command="make", attempt=1, passed=True, result={}, duration_ms=1)
        ),
        "child_spawned": manager.append_child_spawned(child),
        "child_settled": manager.append_child_settled(
            ChildSettledEntry(child_session_id="0198f0aa-c", run=1, outcome="completed")
        ),
        "branch_summary": manager.branch_with_summary(target, "left it", {"readFiles": []}, False, USAGE),
    }


def test_every_type_of_entry_is_appended_and_read_back_as_it_was(home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        appended = all_appends(manager)

        assert {record.type: record.id for record in manager.read_entries()} == appended
        for kind, entry in appended.items():
            record = manager.read_entry(entry)
            assert record is not None
            assert record.body().__struct_config__.tag == kind
        tags = {str(body.__struct_config__.tag) for body in Known.__args__}
        assert set(appended) == tags
        assert manager.name == "named"
        assert manager.read_label(appended["message"]) == "here"
    kinds = {name for name in vars(Appends) if name.startswith("append_")}
    assert len(kinds) == len(tags) - 1 + 2  # all but the summary of a branch; `append_batch` and `append_entry`


def test_a_batch_is_all_or_nothing(fs: FaultyFs, home: Home) -> None:
    manager = SessionManager.create("/work", home=home)
    written = talk(manager)
    size = len(fs.content(at(manager)))
    fs.room_bytes = sum(len(node.data) for node in set(fs.names.values())) + 200

    with pytest.raises(OSError, match="No space left"):
        manager.append_batch(
            [SessionInfoEntry(name="x" * 90), CustomEntry(custom_type="t"), CustomEntry(custom_type="t")]
        )
    fs.room_bytes = None

    assert (len(fs.content(at(manager))), manager.leaf_id, len(manager.read_entries())) == (size, written[-1], 2)
    assert manager.append_batch([SessionInfoEntry(name="a"), SessionInfoEntry(name="b")]) == ["00000003", "00000004"]
    assert manager.name == "b"
    manager.close()


def test_a_draft_whose_file_cannot_be_made_can_be_tried_again() -> None:
    home, calls = empty_home(), 0
    talk(SessionManager.create("/work", home=home))
    calls = home.fs.calls
    for number in range(1, calls + 1):
        home = empty_home()
        manager = SessionManager.create("/work", home=home)
        home.fs.errors = {number: errno.ENOSPC}
        with suppress(OSError, StoreError):
            talk(manager)
        home.fs.errors = {}
        if manager.leaf_id is None:
            assert list(home.fs.fds) == []
            talk(manager)
        assert len(manager.read_entries()) in (1, 2)
        manager.close()
        assert SessionManager.open_read_only(at(manager), home=home).read_entries() == manager.read_entries()
        assert list(home.fs.fds) == []


@attrs.frozen
class FaultyHome(Home):
    fs: FaultyFs


def empty_home() -> FaultyHome:
    return FaultyHome(Path("/home/s"), Path("/home/s/sessions"), FaultyFs.holding("/home"))


def test_a_failed_flush_is_told_and_the_lock_let_go(fs: FaultyFs, home: Home) -> None:
    manager = SessionManager.create("/work", home=home)
    talk(manager)
    fs.fails = {"fdatasync": errno.EIO}
    with pytest.raises(JournalPoisoned):
        manager.flush()
    with pytest.raises(JournalPoisoned):
        talk(manager)
    fs.fails = {}
    manager.close()

    with SessionManager.open(at(manager), home=home, repairs=False) as again:
        assert len(again.read_entries()) == 2


def test_arguments_that_are_no_object_are_stored_as_none_and_said_so() -> None:
    manager = SessionManager.in_memory("/work")
    call = ToolCall(id="1", name="bash", arguments=None)
    manager.append_message(answer(calls=(call,)))
    plain: dict[str, Any] = {
        "role": "assistant",
        "mine": True,
        "content": [{"type": "toolCall", "id": "1", "name": "bash", "arguments": '{"a":'}],
    }
    manager.append_message(plain)

    stored = [json.loads(record.raw)["message"] for record in manager.read_entries()]
    assert [message["content"][-1]["arguments"] for message in stored] == [{}, {}]
    assert all("expected an object" in message["content"][-1]["argumentsError"] for message in stored)
    assert stored[1]["mine"] is True
    assert plain["content"][0]["arguments"] == '{"a":'
    with pytest.raises(StoreError, match="known role"):
        manager.append_message({"role": "nobody"})


def test_the_mark_of_the_leaf_is_not_for_extensions() -> None:
    with pytest.raises(StoreError, match="branch_to"):
        SessionManager.in_memory("/").append_custom_entry("sapwood.leaf")


# --- branches ---------------------------------------------------------------------------------------------------------


def test_the_leaf_is_moved_for_good(home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        first, second, third, fourth = talk(manager, 2)
        mark = manager.branch_to(second)
        assert manager.leaf_id == second
    with SessionManager.open(at(manager), home=home, repairs=False) as again:
        assert again.leaf_id == second
        other = again.append_message(user_text("another way", 5))
        assert ids(again.read_branch()) == [first, second, other]
        assert ids(again.read_branch(fourth)) == [first, second, third, fourth]
        assert [ids(path) for path in again.read_branches([fourth, other])] == [
            [first, second, third, fourth],
            [first, second, other],
        ]
        assert again.branch_to(None)
        assert again.leaf_id is None
        assert again.read_branch() == []
        root = again.append_message(user_text("from the start", 6))
        assert ids(again.read_branch()) == [root]
        with pytest.raises(StoreError, match="expected the id of an entry"):
            again.branch_to("nowhere")
        [tree, mark_of_none, new_root] = again.read_tree()
    assert [child.entry.id for child in tree.children[0].children] == [third, mark, other]
    assert (mark_of_none.entry.type, new_root.entry.id) == ("custom", root)


def test_a_branch_is_left_with_a_summary(home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        first, second, *_, last = talk(manager, 2)
        summary = manager.branch_with_summary(second, "that led nowhere")

        context = manager.build_session_context()

        assert ids(manager.read_branch()) == [first, second, summary]
        assert getattr(context.messages[-1], "summary", "") == "that led nowhere"
        leaf = manager.read_leaf_entry()
        assert leaf is not None
        assert json.loads(leaf.raw)["fromId"] == last


def test_a_branch_becomes_a_session_of_its_own_with_a_file(fs: FaultyFs, home: Home) -> None:
    manager = SessionManager.create("/work", name="old", home=home)
    question = manager.append_message(user_text("2+2?", 1))
    manager.append_label_change(question, "start")
    manager.append_message(answer())
    old = at(manager)

    new = manager.create_branched_session(question)

    assert new == manager.file != old
    found = read_journal(fs, at(manager), manager.id)  # although nobody has answered yet
    assert found.header is not None
    assert (found.header.parent_session, found.header.name) == (str(old), "old")
    assert ids(manager.read_branch()) == [question]
    assert manager.read_label(question) == "start"
    SessionManager.open(old, home=home).close()  # nobody holds it any more
    manager.append_message(answer())
    manager.close()


def test_a_fork_keeps_its_origin_and_is_billed_for_its_own_alone(fs: FaultyFs, home: Home) -> None:
    source = SessionManager.create("/work", home=home)
    written = talk(source, 3)
    source.append_run_settled(1, "completed")
    fork = SessionManager.fork_from(at(source), "/elsewhere", from_id=written[3], name="try", home=home)
    own = talk(fork)
    again = SessionManager.fork_from(at(fork), "/elsewhere", home=home)
    mine = talk(again, 2)

    assert (fork.cwd, fork.name, fork.header.forked_from) == (
        "/elsewhere",
        "try",
        msgspec.convert({"sessionId": source.id, "entryId": written[3], "records": 4}, type(fork.header.forked_from)),
    )
    assert ids(fork.read_branch()) == written[:4] + own
    assert [fork.read_entry_retention(entry).source for entry in (written[0], own[0])] == ["inherited", "own"]  # type: ignore[union-attr]
    assert fork.read_entry_retention(written[0]).session_id == source.id  # type: ignore[union-attr]
    assert fork.read_entry_retention("unknown") is None
    billed = [account(each.header, each.read_entries()).total.input for each in (source, fork, again)]
    assert billed == [300, 100, 200]
    assert len(set(ids(again.read_entries()))) == 4 + 2 + 4
    assert mine[-1] == again.leaf_id
    for each in (source, fork, again):
        each.close()
        with SessionManager.open(at(each), home=home) as opened:
            assert opened.append_message(user_text("x", 1)) not in ids(each.read_entries())[:-1]


@pytest.mark.parametrize("keeps_names", [False, True])
def test_a_fork_is_there_whole_or_not_at_all_wherever_the_power_fails(home: Home, keeps_names: bool) -> None:
    with SessionManager.create("/work", home=home) as source:
        talk(source, 3)
    disk = home.fs
    assert isinstance(disk, FaultyFs)
    forked = 0
    for call in range(1, 200):
        fs = disk.after_power_loss(lambda unsynced: 0)
        fs.power_fails_at = call
        place = attrs.evolve(home, fs=fs)
        try:
            fork = SessionManager.fork_from(at(source), "/work", home=place)
        except PowerLoss:
            found = fs.after_power_loss(lambda unsynced: unsynced // 2, keeps_names=keeps_names)
            place = attrs.evolve(home, fs=found)
            for session in set(place.session_ids()) - {source.id}:
                recovery = read_journal(found, place.journal_path(session), session)
                assert (len(recovery.records), recovery.header is None) in {(0, True), (6, False)}
                forked += recovery.header is not None
            continue
        found = fs.after_power_loss(lambda unsynced: 0)
        assert len(read_journal(found, at(fork), fork.id).records) == 6  # what was returned stays
        break
    assert forked or not keeps_names
    assert call < 199


def test_a_fork_that_another_program_left_half_made_is_not_gone_on_with(fs: FaultyFs, home: Home) -> None:
    with SessionManager.create("/work", home=home) as source:
        talk(source)
    fork = SessionManager.fork_from(at(source), "/work", home=home)
    fork.close()
    fs.unlink(at(fork))
    Journal.create(fs, at(fork), fork.header, 1).close()

    with pytest.raises(JournalRefused, match="it was cut while it was made"):
        SessionManager.open(at(fork), home=home)
    assert list(fs.fds) == []


def test_a_new_session_leaves_the_old_one(fs: FaultyFs, home: Home) -> None:
    manager = SessionManager.create("/work", home=home)
    talk(manager)
    old, old_id = at(manager), manager.id

    manager.new_session(parent_session=str(old))
    talk(manager, 2)

    assert manager.id != old_id
    assert manager.header.parent_session == str(old)
    assert len(manager.read_entries()) == 4
    with SessionManager.open(old, home=home, repairs=False):
        with pytest.raises(OwnedElsewhere):
            manager.set_session_file(old)
        assert len(manager.read_entries()) == 4  # this one goes on
        talk(manager)
    manager.set_session_file(old)
    assert (manager.id, len(manager.read_entries())) == (old_id, 3)  # with the end of the run that was left
    manager.close()
    assert list(fs.fds) == []


# --- lists ------------------------------------------------------------------------------------------------------------


def test_lists_and_the_most_recent_session_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SAPWOOD_SESSION_DIR", raising=False)
    assert SessionManager.list("/work") == []
    assert not (tmp_path / "home").exists()
    sessions = []
    for number, cwd in enumerate(["/work", "/else", "/work", "/work"]):
        with SessionManager.create(cwd, name=f"s{number}", clock=lambda number=number: 1e9 + number) as manager:
            talk(manager)
            sessions.append(manager)
    told: list[tuple[int, int]] = []
    seen: list[str | None] = []

    listed = SessionManager.list(
        "/work", on_progress=lambda *progress: told.append(progress), on_session=lambda each: seen.append(each.name)
    )

    assert [each.name for each in listed] == seen == ["s3", "s2", "s0"]
    assert told[-1] == (4, 4)
    assert [each.name for each in SessionManager.list_all()] == ["s3", "s2", "s1", "s0"]
    assert SessionManager.list("/work", tmp_path / "home/others") == []
    with SessionManager.continue_recent("/work") as recent:
        assert recent.id == sessions[3].id
        recent.append_session_state({"status": "archived"})
        with SessionManager.continue_recent("/work") as other:
            assert other.id == sessions[2].id
            with pytest.raises(OwnedElsewhere):
                SessionManager.continue_recent("/work")
    with SessionManager.continue_recent("/nowhere") as new:
        assert (new.cwd, new.read_entries()) == ("/nowhere", [])
    at(sessions[2]).write_bytes(at(sessions[2]).read_bytes().replace(b"question", b"Question"))
    with pytest.raises(JournalDamaged):  # and not a new one in its place
        SessionManager.continue_recent("/work")


# --- the index, for owners --------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class CountingFs(FaultyFs):
    """Counts the bytes that are read."""

    read_bytes: int = 0

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        data = FaultyFs.read_at(self, fd, size, offset)
        self.read_bytes += len(data)
        return data


def test_a_large_session_that_was_closed_is_opened_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = CountingFs()
    home = Home(Path("/home"), Path("/home/sessions"), fs)
    fs.names[Path("/")] = fs._node(is_folder=True)
    for module in ("store.disk.index", "store.disk.owned"):
        monkeypatch.setattr(f"{module}.WORTH_BYTES", 1000)
    with SessionManager.create("/work", home=home) as manager:
        written = talk(manager, 40)
        manager.append_run_settled(1, "completed")
        manager.branch_to(written[3])
    fs.read_bytes = 0
    before = fs.log.count("fdatasync")

    with SessionManager.open(at(manager), home=home) as again:
        journal_bytes = len(fs.content(at(manager)))
        assert fs.read_bytes < journal_bytes
        assert again.leaf_id == written[3]
        assert again.header.id == manager.id
        assert fs.log.count("fdatasync") == before + 1
        assert again.append_message(answer()) == "00000053"

    found = read_journal(fs, at(manager), manager.id)
    assert (found.damage, found.refusal, len(found.records)) == ((), None, 83)
    assert found.epoch == 2
    fs.names[at(manager)].data += b"torn"
    with SessionManager.open(at(manager), home=home, repairs=False) as again:
        assert len(again.read_entries()) == 83


@pytest.mark.parametrize("worth", [1000, 1 << 20])
def test_an_owner_whose_lock_was_lost_writes_above_the_epochs_of_the_journal(
    worth: int, fs: FaultyFs, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the index, too, which alone knows the epoch then."""
    for module in ("store.disk.index", "store.disk.owned"):
        monkeypatch.setattr(f"{module}.WORTH_BYTES", worth)
    with SessionManager.create("/work", home=home) as manager:
        talk(manager, 10)
        manager.append_run_settled(1, "completed")
    for name in ("second", "third"):
        with SessionManager.open(at(manager), home=home) as again:
            again.append_session_info(name)
    fs.unlink(home.lock_path(manager.id))

    with SessionManager.open(at(manager), home=home) as again:
        again.append_session_info("fourth")

    found = read_journal(fs, at(manager), manager.id)
    assert (found.trouble, found.epoch, len(found.records)) == (None, 4, 24)
    assert liveness(fs, home, manager.id).state == "dead"
    assert msgspec.json.decode(fs.content(home.lock_path(manager.id)))["epoch"] == 4


def test_what_an_untouched_journal_holds_is_told_to_be_durable(
    fs: FaultyFs, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("store.disk.index", "store.disk.owned"):
        monkeypatch.setattr(f"{module}.WORTH_BYTES", 1000)
    with SessionManager.create("/work", home=home) as manager:
        talk(manager, 10)
        manager.append_run_settled(1, "completed")

    with SessionManager.open(at(manager), home=home) as again:
        again.append_session_info("more")

        line = fs.content(at(manager)).splitlines(keepends=True)[-1]
        frame = check(line, seed(manager.id))
        assert frame is not None
        assert (frame.seq, frame.durable) == (22, 22)


def test_a_reader_of_a_damaged_journal_sees_what_has_become_of_it(fs: FaultyFs, home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        talk(manager, 3)
        manager.flush()
        talk(manager)
    sound = fs.content(at(manager))
    lines = sound.splitlines(keepends=True)
    broken = b"".join([*lines[:2], b"x" + lines[2][1:], *lines[3:]])
    fs.plant(at(manager), broken[: broken.rindex(lines[-1])])
    reader = SessionManager.open_read_only(at(manager), home=home)
    assert (len(reader.read_entries()), bool(reader.trouble)) == (6, True)

    fs.plant(at(manager), broken)
    assert (len(reader.read_entries()), bool(reader.trouble)) == (7, True)

    fs.plant(at(manager), sound)
    assert (len(reader.read_entries()), bool(reader.trouble)) == (8, False)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_reads_that_are_too_large_are_refused_whole(home: Home) -> None:
    with SessionManager.create("/work", home=home) as manager:
        written = talk(manager, 3)
        few = ReadLimits(entries=5)
        for read in (
            lambda: manager.read_entries(few),
            lambda: manager.read_branch(limits=few),
            lambda: manager.read_tree(few),
            lambda: manager.read_entry(written[0], max_source_bytes=10),
            lambda: manager.read_leaf_entry(10),
            lambda: manager.read_last_entries(6, few),
        ):
            with pytest.raises(ReadLimit, match="ask for fewer"):
                read()
        assert len(manager.read_last_entries(5, few)) == 5
    reader = SessionManager.open_read_only(at(manager), home=home)
    with pytest.raises(ReadLimit):
        reader.read_last_entries(6, few)
    assert ids(reader.read_last_entries(2, few)) == written[-2:]


# --- the kernel -------------------------------------------------------------------------------------------------------

OWNER = """
import sys
from pathlib import Path
from store.disk.manager import SessionManager
from store.disk.ownership import liveness
from store.messages import user_text

manager = SessionManager.create("/work")
manager.append_message(user_text("hello", 1))
manager.flush()
print(manager.file, flush=True)
while True:
    manager.append_message(user_text("x" * 300_000, 1))
    manager.flush()
    print(manager.leaf_id, flush=True)
"""


def test_an_owner_that_dies_leaves_all_that_it_flushed_and_its_tree_to_the_next(tmp_path: Path) -> None:
    environ = {**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")}
    environ.pop("SAPWOOD_SESSION_DIR", None)
    home = Home.from_env(environ, RealFs())
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        path = Path(owner.stdout.readline().strip())
        with pytest.raises(OwnedElsewhere, match=f"process {owner.pid} on host"):
            SessionManager.open(path, home=home)
        last = [owner.stdout.readline().strip() for _ in range(20)][-1]
        reader = SessionManager.open_read_only(path, home=home)
        assert reader.read_entry(last) is not None
        owner.kill()
        rest = owner.stdout.read().split("\n")
        last = rest[-2] if len(rest) > 1 else last

    with SessionManager.open(path, home=home) as manager:
        assert manager.read_entry(last) is not None
        talk(manager)
    assert path.with_suffix(".idx").stat().st_mode & 0o777 == 0o600
    with SessionManager.open(path, home=home) as manager:
        assert len(manager.read_last_entries(2)) == 2


def test_an_entry_of_a_type_of_another_program_is_kept_and_walked_over(fs: FaultyFs, home: Home) -> None:
    header = Header(version=3, id="0198f0aa-x", timestamp="", cwd="/work")
    home.create()
    journal = Journal.create(fs, home.journal_path(header.id), header, 1)
    strange = [
        '{"type":"message","id":"a\\"b","parentId":null,"message":{"role":"user","content":"x"}}',
        '{"type":"dream","id":"c","parentId":"a\\"b"}',
    ]
    journal.append([line.encode() for line in strange])
    journal.sync()

    with SessionManager.open(journal.path, home=home, repairs=False) as manager:
        assert manager.leaf_id == 'a"b'
        new = manager.append_message(answer())
        assert ids(manager.read_branch()) == ['a"b', new]
        entries: list[Entry] = [record.body() for record in manager.read_entries()]
    assert len(entries) == 3
