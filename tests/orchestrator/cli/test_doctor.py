"""`sapwood doctor`: what is wrong is found and left as it is, and mended when that is asked for."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from store.disk.catalog import Catalog
from store.disk.fs import RealFs
from store.disk.ownership import TreeLock, liveness
from store.disk.schedules import Schedules
from store.disk.zones import zone_named
from store.schedules import new_schedule
from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import Desk
from tests.stored import Forest, sample

DEAD_PID = 2**22 + 1
"""Above what the kernel gives out. Source: proc(5), /proc/sys/kernel/pid_max."""


@pytest.fixture
def forest(desk: Desk) -> Iterator[Forest]:
    found = Forest.at(desk.home)
    yield found
    found.close()


def kill_owner(forest: Forest, root_id: str) -> None:
    """The lock is left as by a process that was killed."""
    lock = TreeLock.acquire(RealFs(), forest.home, root_id, "2026-01-02T03:04:05.678Z")
    line = msgspec.json.decode(lock.path.read_bytes())
    lock.release()
    lock.path.write_bytes(msgspec.json.encode(line | {"pid": DEAD_PID}) + b"\n")


def a_dead_socket(forest: Forest) -> None:
    run = forest.home.root / "run"
    run.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.fspath(run / "4242-gone.sock"))


def a_killed_run(forest: Forest) -> None:
    kill_owner(forest, sample(forest, ends="open").id)


def a_lock_of_a_killed_process(forest: Forest) -> None:
    kill_owner(forest, sample(forest).id)


def a_lock_that_cannot_be_read(forest: Forest) -> None:
    path = forest.home.lock_path(sample(forest).id)
    path.write_bytes(b"half a li")
    path.chmod(0o600)


def a_broken_catalog(forest: Forest) -> None:
    sample(forest)
    forest.home.catalog_path.write_bytes(b"this is no database, and longer than the head of one would be" * 20)
    forest.home.catalog_path.chmod(0o600)


def a_cut_catalog(forest: Forest) -> None:
    sample(forest)
    with Catalog.open(forest.home) as catalog:
        catalog.sessions()
    data = forest.home.catalog_path.read_bytes()
    forest.home.catalog_path.write_bytes(data[: len(data) // 2])


def an_open_folder(forest: Forest) -> None:
    forest.home.root.chmod(0o755)


def a_damaged_journal(forest: Forest) -> None:
    sample(forest).damage()


def an_unknown_owner(forest: Forest) -> None:
    forest.owned_elsewhere(sample(forest))


def a_wrong_configuration(forest: Forest) -> None:
    forest.home.config_path.write_text("modell = 'x/y'")


def schedule(forest: Forest, session_id: str) -> Path:
    """A schedule for this session; where it lies."""
    utc = ("UTC", zone_named("UTC"))
    made = new_schedule("0000000a", session_id, "every 1h", "look", "follow_up", 1_800_000_000.0, utc)
    schedules = Schedules(forest.home)
    schedules.add(made)
    return schedules.folder / "0000000a.json"


def a_schedule_for_nobody(forest: Forest) -> None:
    sample(forest)
    schedule(forest, "01a22ae0-7f3f-72c5-ae52-84dede0a7b95")


def a_damaged_schedule(forest: Forest) -> None:
    schedule(forest, sample(forest).id).write_text("{")


MENDED: dict[str, tuple[Callable[[Forest], None], str]] = {
    "socket": (a_dead_socket, "sockets: 1 socket of hosts that are gone: 4242-gone.sock"),
    "lost": (a_killed_run, f"is lost: process {DEAD_PID} was killed, and 1 record of its end are missing"),
    "lock": (a_lock_of_a_killed_process, "locks: 1 lock of processes that are gone"),
    "unreadable lock": (a_lock_that_cannot_be_read, "(its lock cannot be read)"),
    "catalog": (a_broken_catalog, "catalog: the catalog is of no use: file is not a database"),
    "cut catalog": (a_cut_catalog, "catalog: the catalog is of no use: "),
    "schedule": (a_schedule_for_nobody, "schedules for 1 session that is not there: de0a7b95"),
    "folder": (an_open_folder, "others may look into it (mode 755)"),
}
TOLD: dict[str, tuple[Callable[[Forest], None], str]] = {
    "journal": (a_damaged_journal, "is damaged: "),
    "damaged schedule": (a_damaged_schedule, "0000000a.json: expected a schedule"),
    "owner": (an_unknown_owner, "(process 4242 of another host or container)"),
    "configuration": (a_wrong_configuration, "there is no setting modell; did you mean model?"),
}


def files(forest: Forest) -> dict[Path, Any]:
    """All that is in the home, but for the files of a catalog that is in use, and the index that it is."""
    found = {}
    for path in sorted(forest.home.root.rglob("*")):
        if path.name not in {"catalog.db", "catalog.db-wal", "catalog.db-shm"} or path.stat().st_size < 4096:
            found[path] = path.read_bytes() if path.is_file() else path.stat().st_mode
    return found


@pytest.mark.parametrize("name", [*MENDED, *TOLD])
def test_what_is_wrong_is_told_and_left_as_it_is(forest: Forest, here: Here, name: str) -> None:
    arrange, text = (MENDED | TOLD)[name]
    arrange(forest)
    before = files(forest)

    done = here("doctor")
    as_json = here("doctor", "--json").events[0]

    assert (done.status, done.err) == (1, "")
    assert text in done.out.decode()
    assert done.out.decode().endswith(
        "1 thing is wrong" + ("; `sapwood doctor --fix` mends 1\n" if name in MENDED else "\n")
    )
    (finding,) = as_json["findings"]
    assert (as_json["sound"], finding["mendable"], finding["mended"]) == (False, name in MENDED, False)
    assert {path: data for path, data in files(forest).items() if path in before} == before


@pytest.mark.parametrize("name", MENDED)
def test_what_can_be_mended_is_mended_when_asked_for(forest: Forest, here: Here, name: str) -> None:
    MENDED[name][0](forest)

    mended = here("doctor", "--fix", "--json")
    after = here("doctor")

    assert mended.status == 0
    assert [(each["mended"], each["trouble"]) for each in mended.events[0]["findings"]] == [(True, None)]
    assert (after.status, after.out) == (0, b"nothing is wrong\n")
    for root_id in {session.header.root_id for session in forest.sessions.values()}:
        assert liveness(RealFs(), forest.home, root_id).state == "dead"
    assert here("agents", "--all").status == 0


@pytest.mark.parametrize("name", TOLD)
def test_what_no_program_may_decide_stays_when_mending_is_asked_for(forest: Forest, here: Here, name: str) -> None:
    TOLD[name][0](forest)
    before = files(forest)

    assert here("doctor", "--fix").status == 1
    assert {path: data for path, data in files(forest).items() if path in before} == before


def test_a_lost_tree_is_closed_as_lost_and_its_children_count(forest: Forest, here: Here) -> None:
    a_killed_run(forest)

    here("doctor", "--fix")

    rows = here("agents", "--all", "--json").events[0]
    assert [row["outcome"] for row in rows if row["depth"] == 0] == ["lost"]
    assert here("usage", "--json").events[0]["verified"] is True


def test_a_run_that_works_is_not_touched(desk: Desk) -> None:
    script = """
[[reply]]
call = 1
[[reply.tool]]
name = "bash"
arguments = { command = "until [ -e go ]; do sleep 0.02; done" }
[[reply]]
text = "done"
"""
    run = desk.start("--mode", "json", "-m", desk.script(script), "wait")
    run.until_seen("tool_execution_start")

    looked = desk.run("doctor", "--fix")

    assert (looked.status, looked.out) == (0, b"nothing is wrong\n")
    (desk.folder / "go").touch()
    assert run.end().status == 0


def test_what_a_killed_run_leaves_is_found_and_mended(desk: Desk) -> None:
    script = (
        '[[reply]]\n[[reply.tool]]\nname = "bash"\narguments = { command = "until [ -e go ]; do sleep 0.02; done" }\n'
    )
    run = desk.start("--mode", "json", "-m", desk.script(script), "wait")
    run.until_seen("tool_execution_start")
    run.send(signal.SIGKILL)
    run.end()
    (desk.folder / "go").touch()

    found = desk.run("doctor", "--json")
    mended = desk.run("doctor", "--fix")

    assert sorted(each["part"] for each in found.events[0]["findings"]) == ["sessions", "sockets"]
    assert mended.status == 0
    assert mended.out.endswith(b"nothing is wrong any more\n")
    assert desk.tree().unrepaired == 0


def test_without_a_home_nothing_is_wrong_and_none_is_made(desk: Desk, here: Here) -> None:
    assert here("doctor").out == b"nothing is wrong\n"
    assert not desk.home.exists()
