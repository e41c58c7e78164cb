"""`sapwood schedule`: what is printed, what is refused, and with which status."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.views.schedule_text import schedule_list
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.schedules import Schedules
from store.disk.zones import zone_named
from store.schedules import Schedule, claimed, ended, new_schedule
from tests.orchestrator.engine.processes import Desk, Running, desk_at, until

SAYS = '[[reply]]\ntext = "hello"\n'


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


@pytest.fixture
def session(desk: Desk) -> str:
    """A stored session."""
    done = desk.run("--mode", "json", "-m", desk.script(SAYS), "--name", "port-billing", "go")
    return str(done.events[0]["id"])


def test_what_is_added_is_listed_until_it_is_cancelled(desk: Desk, session: str) -> None:
    added = desk.run("schedule", "add", "port-billing", "every 10m", "Are", "the tests green?", "--json")
    schedule = json.loads(added.out)
    assert "sapwood serve" in added.err
    assert (added.status, schedule["sessionId"], schedule["prompt"]) == (0, session, "Are the tests green?")
    due = datetime.fromisoformat(schedule["nextAt"]) - datetime.fromisoformat(schedule["created"])
    assert due == timedelta(minutes=10)

    listed = desk.run("schedule", "list", session[-8:], "--json")
    assert json.loads(listed.out) == [schedule]
    text = desk.run("schedule", "list").out.decode()
    assert all(word in text for word in (schedule["id"], session[-8:], "every 10m", "Are the tests green?"))

    cancelled = desk.run("schedule", "cancel", schedule["id"][:5])
    assert (cancelled.status, cancelled.out.decode()) == (0, f"cancelled {schedule['id']}\n")
    empty = desk.run("schedule", "list", "--json")
    assert (empty.status, empty.out) == (0, b"[]\n")


def test_a_time_of_day_is_one_of_the_place_that_is_named(desk: Desk, session: str) -> None:
    done = desk.run("schedule", "add", session, "0 9 * * *", "p", "--zone", "Asia/Tokyo", "--steer", "--json")

    schedule = json.loads(done.out)
    assert (schedule["zone"], schedule["mode"]) == ("Asia/Tokyo", "steer")
    assert datetime.fromisoformat(schedule["nextAt"]).astimezone(UTC).hour == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("add", "nobody", "every 10m", "p"), "nobody"),
        (("add", "SESSION", "soon", "p"), "every 10m"),
        (("add", "SESSION", "at 2001-01-01", "p"), "has passed"),
        (("add", "SESSION", "every 10m", " "), "prompt"),
        (("add", "SESSION", "every 10m", "p", "--zone", "Mars/Olympus"), "Mars/Olympus"),
        (("add", "SESSION", "every 10m"), "PROMPT"),
        (("cancel", "0000"), "0000"),
        (("list", "nobody"), "nobody"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_was_expected(
    desk: Desk, session: str, words: tuple[str, ...], named: str
) -> None:
    done = desk.run("schedule", *(session if word == "SESSION" else word for word in words))

    assert (done.status, done.out) == (2, b"")
    assert named in done.err


def test_a_beginning_that_several_have_cancels_none(desk: Desk, session: str) -> None:
    for _ in range(2):
        desk.run("schedule", "add", session, "every 1h", "p")
    folder = desk.home / "schedules"
    for number, path in enumerate(sorted(folder.glob("*.json"))):
        new = folder / f"abc0000{number}.json"
        path.rename(new)
        new.write_bytes(new.read_bytes().replace(path.stem.encode(), new.stem.encode()))

    assert desk.run("schedule", "cancel", "abc").status == 2
    assert desk.run("schedule", "cancel", "abc00000", "abc00001").status == 0


def test_a_damaged_file_is_said_with_status_4_beside_those_that_are_sound_and_can_be_cancelled(
    desk: Desk, session: str
) -> None:
    desk.run("schedule", "add", session, "every 1h", "sound")
    (desk.home / "schedules" / "0000000d.json").write_text("{")

    done = desk.run("schedule", "list")

    assert (done.status, b"sound" in done.out) == (4, True)
    assert "0000000d.json" in done.err
    assert desk.run("schedule", "cancel", "0000000d").status == 0
    assert desk.run("schedule", "list").status == 0


def test_a_session_that_is_deleted_takes_its_schedules_with_it(desk: Desk, session: str) -> None:
    added = json.loads(desk.run("schedule", "add", session, "every 1h", "p", "--json").out)

    deleted = desk.run("sessions", "delete", session, "--force", "--json")

    assert (deleted.status, json.loads(deleted.out)["schedules"]) == (0, [added["id"]])
    assert json.loads(desk.run("schedule", "list", "--json").out) == []


# --- with a resident host --------------------------------------------------------------------------------------------


def heard(desk: Desk, session: str, prompt: str) -> int:
    """How often the session was told this."""
    return desk.journals()[session].count(f'"text":"{prompt}"'.encode())


def runs(desk: Desk, session: str) -> int:
    return desk.journals()[session].count(b'"type":"run_settled"')


def serve(desk: Desk) -> Running:
    running = desk.start("serve")
    until(lambda: "serves" in running.err.read_text(), "a host that serves")
    return running


def test_a_host_that_serves_delivers_what_is_due_and_what_is_added_while_it_runs(desk: Desk, session: str) -> None:
    added = desk.run("schedule", "add", session, "in 1s", "first", env={"TZ": "UTC"})
    assert added.status == 0
    running = serve(desk)
    until(lambda: runs(desk, session) == 2, "the first prompt")
    added = desk.run("schedule", "add", session, "every 1s", "again", "--json")
    assert "sapwood serve" not in added.err
    until(lambda: heard(desk, session, "again") >= 2, "two ticks")
    assert desk.run("schedule", "cancel", json.loads(added.out)["id"]).status == 0
    assert desk.run("shutdown").status == 0

    assert running.end().status == 0
    assert heard(desk, session, "first") == 1
    assert json.loads(desk.run("schedule", "list", "--json").out) == []


def test_what_was_missed_while_no_host_ran_comes_as_one(desk: Desk, session: str) -> None:
    long_ago = time.time() - 86_400
    missed = new_schedule("0000000a", session, "every 1h", "missed", "follow_up", long_ago, ("UTC", zone_named("UTC")))
    Schedules(Home(desk.home, desk.sessions, RealFs())).add(missed)

    running = serve(desk)
    until(lambda: runs(desk, session) == 2, "the prompt")
    (after,) = json.loads(desk.run("schedule", "list", "--json").out)
    running.send(signal.SIGTERM)

    assert running.end().status == 143
    assert (heard(desk, session, "missed"), after["claims"]) == (1, 1)
    assert datetime.fromisoformat(after["nextAt"]).timestamp() > time.time()


def test_a_host_that_is_killed_at_any_moment_repeats_no_tick(desk: Desk, session: str) -> None:
    desk.run("schedule", "add", session, "every 1s", "again")
    for _ in range(3):
        before = heard(desk, session, "again")
        running = serve(desk)
        until(lambda before=before: heard(desk, session, "again") > before, "a tick")
        running.send(signal.SIGKILL)
        running.end()

    (schedule,) = json.loads(desk.run("schedule", "list", "--json").out)
    told = [line for line in desk.journals()[session].split(b"\n") if b'"text":"again"' in line]
    assert len(told) <= schedule["claims"]


# --- the list --------------------------------------------------------------------------------------------------------

NOW = 1_800_000_000.0


def made(when: str, prompt: str = "look") -> Schedule:
    utc = zone_named("UTC")
    return new_schedule("0000000a", "01a22ae0-7f3f-72c5-ae52-84dede0a7b95", when, prompt, "steer", NOW, ("UTC", utc))


def test_how_each_stands_is_said_in_words() -> None:
    waiting = made("every 10m")
    uncertain, tick = claimed(waiting, NOW + 600, zone_named("UTC"))
    assert tick is not None
    failed = ended(uncertain, tick, "nobody is there")
    once, last = claimed(made("in 5m"), NOW + 300, zone_named("UTC"))
    assert last is not None

    lines = schedule_list([waiting, uncertain, failed, once], NOW + 601, 200)

    words = ["waiting", "uncertain", "failed: nobody is there", "uncertain"]
    assert all(word in line for word, line in zip(words, lines[1:], strict=True))
    assert [word in line for word, line in zip(["due", "in 9m", "in 9m", "–"], lines[1:], strict=True)] == [True] * 4


def test_hostile_text_of_a_prompt_is_harmless() -> None:
    lines = schedule_list([made("every 10m", "\x1b]0;owned\x07\u202e\r\nX")], NOW, 120)

    assert len(lines) == 2
    assert all(character.isprintable() for line in lines for character in line)
