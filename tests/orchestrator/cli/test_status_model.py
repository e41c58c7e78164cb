"""`[status] model`: a small model says what runs have come to, in a journal, a list and a report."""

import json

from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import Desk

WORKS = """
[cost]
input = 1.0
[[reply]]
text = "All fourteen call sites are ported."
usage = { input = 1000 }
"""
SAYS = """
[cost]
input = 0.1
[[reply]]
last = "fourteen call sites"
text = "COMPLETED: fourteen call sites ported"
usage = { input = 500 }
"""


def test_what_it_says_is_shown_and_what_it_costs_is_counted(desk: Desk, here: Here) -> None:
    works, says = desk.script(WORKS, "works.toml"), desk.script(SAYS, "says.toml")
    desk.home.mkdir(parents=True, exist_ok=True)
    (desk.home / "config.toml").write_text(f'[status]\nmodel = "{says}"\n')

    done = here("--mode", "json", "-m", works, "Port it")
    (row,) = json.loads(here("agents", "--all", "--json").out)
    report = json.loads(here("usage", "--by", "model", "--json").out)

    assert (done.status, done.faults()) == (0, [])
    assert (row["summary"], row["taskState"]) == ("fourteen call sites ported", "completed")
    assert [(part["key"], part["usage"]["input"]) for part in report["parts"]] == [(works, 1000), (says, 500)]
    assert report["verified"] is True


def test_a_model_that_is_not_there_is_refused_before_anything_runs(desk: Desk, here: Here) -> None:
    desk.home.mkdir(parents=True, exist_ok=True)
    (desk.home / "config.toml").write_text('[status]\nmodel = "scripted/nowhere.toml"\n')

    done = here("-m", desk.script(WORKS), "Port it")

    assert (done.status, done.out) == (2, b"")
    assert "nowhere.toml" in done.err
