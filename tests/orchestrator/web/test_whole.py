"""All of it at once: a tree that runs in one process, a dashboard in another, and a person at a browser."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from tests.browser.chromium import Chromium
from tests.orchestrator.cli.test_dashboard import SCRIPT
from tests.orchestrator.engine.processes import Desk, desk_at, marked_sleep


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as found:
        yield found


def told_by(name: str, lines: list[bytes]) -> list[str]:
    """The types of the events of one agent, deltas left out: how a text is cut is chance."""
    events = [msgspec.json.decode(line) for line in lines]
    ids = {event["childSessionId"] for event in events if event["type"] == "child_spawned" and event["name"] == name}
    return [event["type"] for event in events if event["sessionId"] in ids and event["type"] != "message_update"]


async def test_who_aborts_an_agent_in_the_browser_ends_it_and_leaves_its_sibling_alone(
    browser: Chromium, desk: Desk
) -> None:
    hold = desk.folder / "hold"
    os.mkfifo(hold)
    quiet = SCRIPT.replace("SLEEP_ONE", "true").replace("SLEEP_TWO", "cat hold")
    undisturbed = desk.start("run", "--mode", "json", "-m", desk.script(quiet, "quiet.toml"), "go")
    await trio.to_thread.run_sync(hold.write_text, "go on")
    expected = told_by("other", (await trio.to_thread.run_sync(undisturbed.end)).lines)
    loud = SCRIPT.replace("SLEEP_ONE", marked_sleep()).replace("SLEEP_TWO", "cat hold")
    run = desk.start("run", "--mode", "json", "--name", "top", "-m", desk.script(loud, "loud.toml"), "go")
    shown = desk.start("dashboard")
    await trio.to_thread.run_sync(shown.until_seen, "Ctrl-C ends the dashboard")
    async with browser.pages() as pages:
        page = await pages.open(bytes(shown._seen).split(b"\n")[0].decode())
        sleeper = await page.until(
            "[...document.querySelectorAll('.row')].find(e => /sleeper[^]*sleep 1000/.test(e.innerText))?.dataset.key"
        )
        await page.until("[...document.querySelectorAll('.row')].some(e => e.innerText.includes('cat hold'))")
        await page.click(f"[data-key='{sleeper}']")
        await page.until("document.querySelector('.detail h1').textContent === 'sleeper'")
        await page.key("x")
        await page.until("document.querySelector('dialog[open]')?.innerText.includes('Abort sleeper?')")
        await page.keys("Tab", "Enter")
        await page.until(
            "(id) => document.querySelector(`[data-key='${id}'] .word`).textContent === 'aborted'", sleeper
        )
        assert (
            await page.js(
                "[...document.querySelectorAll('.row .word')].filter(e => e.textContent === 'aborted').length"
            )
            == 1
        )
        await trio.to_thread.run_sync(hold.write_text, "go on")
        await page.until("document.querySelector('.row .word').textContent === 'completed'")
        assert page.complaints == []
    done = await trio.to_thread.run_sync(run.end)

    assert done.status == 0
    assert done.faults() == []
    assert told_by("other", done.lines) == expected
