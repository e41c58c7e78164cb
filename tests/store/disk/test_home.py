"""Where things lie, and who may look."""

import os
from pathlib import Path

import msgspec
import pytest

from store.disk.fs import RealFs, Stat
from store.disk.home import Home
from store.errors import BadId, StoreError
from tests.faulty_fs import FaultyFs

SESSION = "0198f0aa-session"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("environ", "root", "sessions"),
    [
        ({"HOME": "/h"}, "/h/.sapwood", "/h/.sapwood/sessions"),
        ({"HOME": "/h", "SAPWOOD_HOME": "/s"}, "/s", "/s/sessions"),
        ({"HOME": "/h", "SAPWOOD_HOME": "", "SAPWOOD_SESSION_DIR": ""}, "/h/.sapwood", "/h/.sapwood/sessions"),
        ({"HOME": "/h", "SAPWOOD_SESSION_DIR": "/d"}, "/h/.sapwood", "/d"),
    ],
)
def test_the_environment_selects_the_places(environ: dict[str, str], root: str, sessions: str) -> None:
    home = Home.from_env(environ, FaultyFs())

    assert (home.root, home.sessions) == (Path(root), Path(sessions))


@pytest.mark.parametrize("name", ["SAPWOOD_HOME", "SAPWOOD_SESSION_DIR"])
def test_a_relative_place_is_refused(name: str) -> None:
    with pytest.raises(StoreError, match=f"{name}: expected an absolute path, found 'here'"):
        Home.from_env({"HOME": "/h", name: "here"}, FaultyFs())


def test_every_file_has_its_place() -> None:
    home = Home.from_env({"SAPWOOD_HOME": "/s"}, FaultyFs())

    assert [str(path) for path in (home.config_path, home.catalog_path)] == [
        "/s/config.toml",
        "/s/catalog.db",
    ]
    assert str(home.journal_path(SESSION)) == f"/s/sessions/{SESSION}.jsonl"
    assert str(home.index_path(SESSION)) == f"/s/sessions/{SESSION}.idx"
    assert str(home.lock_path(SESSION)) == f"/s/sessions/{SESSION}.lock"
    assert str(home.artifact_dir(SESSION)) == f"/s/session-artifacts/{SESSION}"


@pytest.mark.parametrize(
    "hostile",
    [
        *("", "..", "../../etc/passwd", "/etc/passwd", "with/slash", "~root-home", "-leading-dash", "dots.dots.dots"),
        *("short", "UPPERCASE", "a" * 65, "nul\0nul\0", "newline-\n", "ünïcode-id", "0198f0aa session"),
    ],
)
def test_a_hostile_id_reaches_no_path(hostile: str) -> None:
    fs = FaultyFs()
    home = Home.from_env({"SAPWOOD_HOME": "/s"}, fs)

    for build in (home.journal_path, home.index_path, home.lock_path, home.artifact_dir, home.make_artifact_dir):
        with pytest.raises(BadId):
            build(hostile)
    assert fs.calls == 0


def test_sessions_are_the_journals_and_nothing_else() -> None:
    fs = FaultyFs()
    home = Home.from_env({"SAPWOOD_HOME": "/s"}, fs)
    assert home.session_ids() == ()
    for name in ("session-2.jsonl", "session-1.jsonl", "session-1.lock", "session-1.jsonl.torn-1", "X.jsonl", ".jsonl"):
        fs.plant(home.sessions / name, b"")

    assert home.session_ids() == ("session-1", "session-2")


@pytest.mark.parametrize("umask", [0, 0o777])
def test_folders_are_0700_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    home = Home.from_env({"SAPWOOD_HOME": str(tmp_path / "deep" / "er")}, RealFs())
    before = os.umask(umask)
    try:
        home.create()
        home.create()
        artifacts = home.make_artifact_dir(SESSION)
    finally:
        os.umask(before)

    for folder in (tmp_path / "deep", home.root, home.sessions, home.artifacts, artifacts):
        assert mode(folder) == 0o700


def test_a_folder_that_lets_others_in_is_narrowed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    Home.from_env({"SAPWOOD_HOME": str(tmp_path)}, RealFs()).create()

    assert mode(tmp_path) == 0o700


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    place = tmp_path / "home"
    if kind == "file":
        place.write_bytes(b"precious")
    else:
        place.symlink_to(victim)

    with pytest.raises(StoreError, match="expected a folder, found something else"):
        Home.from_env({"SAPWOOD_HOME": str(place)}, RealFs()).create()

    assert mode(victim) == 0o755
    assert list(victim.iterdir()) == []


class OfAnother(RealFs):
    """All files belong to somebody else."""

    def lstat(self, path: Path) -> Stat:
        found = super().lstat(path)
        return msgspec.structs.replace(found, uid=found.uid + 1)


def test_a_folder_of_another_user_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    with pytest.raises(StoreError, match="expected a folder of user"):
        Home.from_env({"SAPWOOD_HOME": str(tmp_path)}, OfAnother()).create()

    assert mode(tmp_path) == 0o755
    assert list(tmp_path.iterdir()) == []


def test_a_new_home_survives_a_loss_of_power() -> None:
    fs = FaultyFs.holding("/users/me")
    home = Home.from_env({"HOME": "/users/me"}, fs)

    home.create()

    assert home.sessions in fs.after_power_loss().names
