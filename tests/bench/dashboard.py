"""H2: the dashboard of ten thousand agents in a real Chromium, while five thousand events a second come."""

import time

import trio

from tests.bench.harness import Row, absent, seconds
from tests.bench.store import within
from tests.browser.chromium import Chromium, NoSuchBrowser, Page, chromium, path_of_chromium
from tests.orchestrator.web.stage import ScriptedForest, many_rows, stage

AGENTS, EVENTS_PER_S, SECONDS = 10_000, 5_000, 10
BATCH = 50
WATCH_LONG_TASKS = """(() => {
  window.longest = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.longest = Math.max(window.longest, e.duration) }))
    .observe({entryTypes: ['longtask']});
})()"""
TO_THE_END = """new Promise((done) => {
  const begin = performance.now();
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'G', bubbles: true}));
  requestAnimationFrame(() => done(performance.now() - begin));
})"""


def h2(rounds: int) -> list[Row]:
    """10,000 agents in the browser: the first rows, the way to the end, the longest task under 5,000 events a second"""
    try:
        path_of_chromium()
    except NoSuchBrowser as error:
        return [absent("H2 dashboard", "", str(error))]
    with chromium() as browser:
        first_s, end_s, longest_s = trio.run(_measured, browser)
    return [
        Row(f"H2 rows of {AGENTS:,} agents are there", "", seconds(first_s), seconds(first_s), "", None),
        within("H2 to the last row by key", 0.1, end_s),
        within(f"H2 longest task at {EVENTS_PER_S:,} events/s", 0.05, longest_s),
    ]


async def _measured(browser: Chromium) -> tuple[float, float, float]:
    async with stage(many_rows(AGENTS)) as up, browser.pages() as pages:
        begin = time.monotonic()
        page = await pages.open(up.address)
        await page.until(
            "document.querySelector('#grid') && !document.querySelector('#grid').hasAttribute('aria-busy')"
        )
        first_s = time.monotonic() - begin
        await page.key("0")
        await page.until(f"document.querySelector('#grid').ariaRowCount === '{AGENTS + 1}'")
        await page.click("[data-key=root-000]")
        end_ms = await page.js(TO_THE_END)
        await page.js(WATCH_LONG_TASKS)
        await _storm(up.forest, page)
        return first_s, float(end_ms) / 1000, float(await page.js("longest")) / 1000


async def _storm(forest: ScriptedForest, page: Page) -> None:
    """Lines of the feed and changes of rows, as evenly as a loop can."""
    rows = forest.shown
    begin = trio.current_time()
    for sent in range(0, EVENTS_PER_S * SECONDS, BATCH):
        for number in range(BATCH):
            forest.line(rows[(sent * 7 + number) % AGENTS].session_id, f"event {sent + number}")
        forest.change(rows[(sent // BATCH) % AGENTS].session_id, turns=sent)
        await trio.sleep_until(begin + (sent + BATCH) / EVENTS_PER_S)
    await page.until("document.querySelector('.feed').textContent.includes('event ')")
