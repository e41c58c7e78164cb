"""The ground of a run: a fork that the engine opens is there whole, or not at all."""

from pathlib import Path

import attrs
import pytest

from orchestrator.engine.job import Job
from orchestrator.engine.opening import OwnedTree, open_ground
from orchestrator.engine.rows import name_of
from store.attribution import account
from store.disk.home import Home
from store.disk.journal import read_journal
from store.disk.manager import SessionManager
from store.entries import LabelEntry
from store.messages import user_text
from store.usage import NOTHING
from tests.faulty_fs import FaultyFs, PowerLoss

NOW_S = 1_800_000_000.0


def job(source: str) -> Job:
    return Job(prompt="go on", model=None, cwd=Path("/work"), environ={}, fork=source)


def stored_at(fs: FaultyFs) -> Home:
    return Home(Path("/home/sapwood"), Path("/home/sapwood/sessions"), fs)


@pytest.mark.parametrize("keeps_names", [False, True])
def test_a_fork_is_there_whole_or_not_at_all_wherever_the_power_fails(keeps_names: bool) -> None:
    disk = FaultyFs.holding("/home")
    with SessionManager.create("/work", home=stored_at(disk)) as source:
        for number in range(6):
            source.append_message(user_text(f"message {number}", number))
    empty = 0
    for call in range(1, 200):
        fs = disk.after_power_loss()
        fs.power_fails_at = call
        try:
            ground = open_ground(job(source.id), stored_at(fs), lambda: NOW_S)
        except PowerLoss:
            found = fs.after_power_loss(lambda unsynced: unsynced // 2, keeps_names=keeps_names)
            for session in set(stored_at(found).session_ids()) - {source.id}:
                recovery = read_journal(found, stored_at(found).journal_path(session), session)
                assert (len(recovery.records), recovery.header is None) in {(0, True), (6, False)}
                empty += recovery.header is None
            continue
        break
    assert call < 199
    assert empty or not keeps_names
    assert isinstance(ground, OwnedTree)
    node = ground.nodes[ground.root_id]
    assert len(node.tree.records) == 6
    assert account(node.header, node.tree.records).total == NOTHING
    kept = fs.after_power_loss()  # what was returned stays
    assert len(read_journal(kept, stored_at(kept).journal_path(ground.root_id), ground.root_id).records) == 6


@pytest.mark.parametrize(("wanted", "name"), [(None, "renamed"), ("mine", "mine")])
def test_a_fork_has_the_latest_name_of_its_source_and_its_labels(wanted: str | None, name: str) -> None:
    home = stored_at(FaultyFs.holding("/home"))
    with SessionManager.create("/elsewhere", name="born", home=home) as source:
        said = source.append_message(user_text("hello", 1))
        source.append_session_info("renamed")
        source.append_label_change(said, "here")
        source.append_message(user_text("hello again", 2))

    ground = open_ground(attrs.evolve(job(source.id), name=wanted), home, lambda: NOW_S)

    assert isinstance(ground, OwnedTree)
    node = ground.nodes[ground.root_id]
    assert (node.header.name, name_of(node), node.header.cwd) == (name, name, "/work")
    assert [body.label for record in node.records if isinstance(body := record.body(), LabelEntry)] == ["here"]
    ground.close()
