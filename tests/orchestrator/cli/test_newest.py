"""Which session is gone on with when none is named: the one that was used last, whatever its id and the clock say."""

from pathlib import Path

import pytest

from orchestrator.cli.common import newest_root
from orchestrator.engine.errors import WrongUsage
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.manager import SessionManager
from store.messages import user_text


class Wall:
    """A wall clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def used(home: Home, cwd: str, clock: Wall, at_s: float) -> SessionManager:
    clock.now = at_s
    session = SessionManager.create(cwd, home=home, clock=clock)
    session.append_message(user_text("hello", 0))
    return session


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.from_env({"SAPWOOD_HOME": str(tmp_path / "home")}, RealFs())


def test_the_one_that_was_used_last_goes_on_and_not_the_one_that_was_begun_last(home: Home) -> None:
    clock = Wall()
    first, second = used(home, "/a", clock, 1000.0), used(home, "/a", clock, 2000.0)
    assert newest_root(home, "/a").id == second.id

    clock.now = 3000.0
    first.append_message(user_text("again", 0))

    assert newest_root(home, "/a").id == first.id


def test_another_folders_sessions_and_archived_ones_are_left_out(home: Home) -> None:
    clock = Wall()
    kept, archived = used(home, "/a", clock, 1000.0), used(home, "/a", clock, 2000.0)
    used(home, "/b", clock, 3000.0)
    archived.append_session_state({"status": "archived"})

    assert newest_root(home, "/a").id == kept.id


def test_without_any_it_says_how_to_begin(home: Home) -> None:
    with pytest.raises(WrongUsage, match="no session in /a yet"):
        newest_root(home, "/a")
