"""The files of schedules: durable before a tick is told of, taken by one process only, and as good as before after any crash."""

import errno
import os
import threading
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk.fs import FOLDER_MODE, RealFs
from store.disk.home import Home
from store.disk.schedules import Schedules
from store.disk.zones import local_zone, zone_named
from store.errors import BadWhen, StoreError
from store.schedules import Schedule, new_schedule
from tests.faulty_fs import FaultyFs, PowerLoss

NOW = 1_800_000_000.0
SESSION = "01a22ae0-7f3f-72c5-ae52-84dede0a7b95"


def made(id: str = "0000000a", when: str = "every 10m", session: str = SESSION) -> Schedule:
    return new_schedule(id, session, when, "look again", "follow_up", NOW, ("UTC", zone_named("UTC")))


def real(root: Path) -> Schedules:
    return Schedules(Home(root, root / "sessions", RealFs()))


def always(schedule: Schedule) -> bool:
    return True


@pytest.fixture
def schedules(tmp_path: Path) -> Schedules:
    return real(tmp_path / "home")


def test_where_nothing_was_made_there_is_nothing_and_nothing_is_made(schedules: Schedules) -> None:
    assert schedules.all() == ([], {})
    assert schedules.claim(NOW, always) == []
    assert schedules.cancel("0000000a") is False
    assert schedules.stamp() == 0
    assert not schedules.home.root.exists()


def test_what_was_added_is_there_for_others_in_the_order_in_which_it_comes(schedules: Schedules) -> None:
    late, soon = made("0000000a", "every 1h"), made("0000000b", "every 1m")
    for schedule in (late, soon):
        schedules.add(schedule)

    assert real(schedules.home.root).all() == ([soon, late], {})
    assert schedules.folder.stat().st_mode & 0o777 == FOLDER_MODE
    assert (schedules.folder / "0000000a.json").stat().st_mode & 0o777 == 0o600


def test_whoever_looks_can_see_that_something_changed(schedules: Schedules) -> None:
    stamps = [schedules.stamp()]
    schedules.add(made())
    stamps.append(schedules.stamp())
    schedules.claim(NOW + 600, always)
    stamps.append(schedules.stamp())
    schedules.cancel("0000000a")
    stamps.append(schedules.stamp())

    assert len(set(stamps)) == 4


def test_a_due_tick_is_taken_once_and_noted_in_the_file(schedules: Schedules) -> None:
    schedules.add(made())

    (tick,) = schedules.claim(NOW + 601, always)

    assert (tick.id, schedules.claim(NOW + 601, always)) == ("schedule:0000000a:1", [])
    assert schedules.all()[0] == [tick.schedule]
    schedules.end(tick, "nobody is there")
    assert schedules.all()[0][0].error == "nobody is there"


def test_only_what_may_be_taken_is(schedules: Schedules) -> None:
    schedules.add(made("0000000a", session=SESSION))
    schedules.add(made("0000000b", session="b" * 8))

    ticks = schedules.claim(NOW + 601, lambda schedule: schedule.session_id == SESSION)

    assert [tick.schedule.id for tick in ticks] == ["0000000a"]
    assert [tick.schedule.id for tick in schedules.claim(NOW + 601, always)] == ["0000000b"]


def test_what_was_to_be_once_is_gone_when_it_was_delivered_and_stays_when_it_was_not(schedules: Schedules) -> None:
    for id in ("0000000a", "0000000b", "0000000c"):
        schedules.add(made(id, "in 5m"))
    first, second, _ = schedules.claim(NOW + 300, always)

    schedules.end(first)
    schedules.end(second, "nobody is there")

    assert {each.id: each.outcome for each in schedules.all()[0]} == {"0000000b": "failed", "0000000c": None}


def test_what_is_cancelled_does_not_come_again(schedules: Schedules) -> None:
    schedules.add(made())
    (tick,) = schedules.claim(NOW + 600, always)

    assert (schedules.cancel("0000000a"), schedules.cancel("0000000a")) == (True, False)
    schedules.end(tick)

    assert schedules.all() == ([], {})
    assert schedules.claim(NOW + 9_999, always) == []


@pytest.mark.parametrize("id", ["", "../x", "0000000A", "0000000a/..", "0" * 9])
def test_no_path_is_built_from_what_is_no_id(schedules: Schedules, id: str) -> None:
    schedules.add(made())

    with pytest.raises(StoreError):
        schedules.cancel(id)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff", b'{"version":2}', b"[" * 100_000, b"{}" + b" " * (2 << 20)]
)
def test_a_damaged_file_is_told_of_and_keeps_none_of_the_others_back(schedules: Schedules, damage: bytes) -> None:
    for id in ("0000000a", "0000000b"):
        schedules.add(made(id))
    (schedules.folder / "0000000a.json").write_bytes(damage)

    found, troubles = schedules.all()

    assert ([each.id for each in found], list(troubles)) == (["0000000b"], ["0000000a"])
    assert [tick.schedule.id for tick in schedules.claim(NOW + 600, always)] == ["0000000b"]
    assert (schedules.folder / "0000000a.json").read_bytes() == damage
    assert schedules.cancel("0000000a")


def test_a_link_is_no_schedule(schedules: Schedules, tmp_path: Path) -> None:
    schedules.add(made())
    elsewhere = tmp_path / "elsewhere"
    (schedules.folder / "0000000a.json").rename(elsewhere)
    (schedules.folder / "0000000a.json").symlink_to(elsewhere)

    assert [*schedules.all()[1]] == ["0000000a"]


def test_one_whose_time_cannot_be_read_any_more_fails_and_does_not_come_again(schedules: Schedules) -> None:
    schedules.add(made())
    path = schedules.folder / "0000000a.json"
    path.write_bytes(path.read_bytes().replace(b'"UTC"', b'"Mars/Olympus"'))

    assert schedules.claim(NOW + 600, always) == []

    (failed,) = schedules.all()[0]
    assert (failed.next_at, failed.outcome) == (None, "failed")
    assert "Mars/Olympus" in (failed.error or "")


def test_many_that_look_at_the_same_moment_take_each_tick_once(schedules: Schedules) -> None:
    """Threads with descriptors of their own are to the lock what processes are."""
    for number in range(5):
        schedules.add(made(f"0000000{number}", "every 1s"))
    taken: list[str] = []
    begin = threading.Barrier(4)

    def host() -> None:
        own = real(schedules.home.root)
        begin.wait()
        for second in range(1, 6):
            taken.extend(tick.id for tick in own.claim(NOW + second, always))

    hosts = [threading.Thread(target=host) for _ in range(4)]
    for each in hosts:
        each.start()
    for each in hosts:
        each.join()

    assert len(taken) == len(set(taken))
    assert {each.claims for each in schedules.all()[0]} <= {1, 2, 3, 4, 5}
    assert len(taken) == sum(each.claims for each in schedules.all()[0])


# --- crashes ---------------------------------------------------------------------------------------------------------


def faulty() -> tuple[FaultyFs, Schedules]:
    fs = FaultyFs.holding("/home/somebody")
    root = Path("/home/somebody/.sapwood")
    schedules = Schedules(Home(root, root / "sessions", fs))
    schedules.add(made("0000000a"))
    schedules.add(made("0000000b", "in 5m"))
    return fs, schedules


def calls_of_a_claim() -> range:
    fs, schedules = faulty()
    before = fs.calls
    schedules.claim(NOW + 600, always)
    return range(before + 1, fs.calls + 1)


@pytest.mark.parametrize("keeps_names", [True, False])
@pytest.mark.parametrize("call", calls_of_a_claim())
def test_a_power_loss_at_any_call_of_a_claim_delivers_no_tick_twice(call: int, keeps_names: bool) -> None:
    fs, schedules = faulty()
    fs.power_fails_at = call
    told: list[str] = []
    try:
        told += [tick.id for tick in schedules.claim(NOW + 600, always)]
    except PowerLoss:
        pass

    after = attrs.evolve(schedules, home=attrs.evolve(schedules.home, fs=fs.after_power_loss(keeps_names=keeps_names)))

    found, troubles = after.all()
    assert ([each.id for each in found if each.id == "0000000a"], troubles) == (["0000000a"], {})
    again = [tick.id for tick in after.claim(NOW + 600, always)]
    assert not set(told) & set(again)


@given(st.sampled_from(calls_of_a_claim()), st.sampled_from([errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES]))
def test_a_system_call_that_fails_loses_no_tick_that_was_taken(call: int, number: int) -> None:
    fs, schedules = faulty()
    fs.errors[call] = number
    told: list[str] = []
    for _ in range(3):
        try:
            told += [tick.id for tick in schedules.claim(NOW + 600, always)]
        except (OSError, StoreError):
            continue

    assert len(told) == len(set(told))
    assert len(told) <= 2
    claims = sum(each.claims for each in schedules.all()[0])
    assert claims <= 2


def test_a_full_disk_is_said_and_leaves_what_was_there(schedules: Schedules) -> None:
    fs, full = faulty()
    fs.room_bytes = 0

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        full.add(made("0000000c"))

    fs.room_bytes = None
    assert [each.id for each in full.all()[0]] == ["0000000b", "0000000a"]


# --- zones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "x\0y", "Europe"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BadWhen):
        zone_named(name)


def test_the_zone_of_the_environment_comes_first_and_there_is_always_one() -> None:
    assert local_zone({"TZ": "Asia/Tokyo"}) == "Asia/Tokyo"
    assert local_zone({"TZ": ":Asia/Tokyo"}) == "Asia/Tokyo"
    zone_named(local_zone({"TZ": "EST5EDT,M3.2.0"}))
    zone_named(local_zone({}))
