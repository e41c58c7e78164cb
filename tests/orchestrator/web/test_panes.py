"""Feed and conversation: what comes while somebody looks, and what waits until they want it."""

import time
from pathlib import Path

import pytest

from orchestrator.views.feed import FEED_TYPES
from orchestrator.web.ports import Missed, Wrote
from store.messages import ToolCall
from tests.browser.chromium import Chromium
from tests.orchestrator.web.pages import feed_texts, pick, shown
from tests.orchestrator.web.stage import StoredJournals, row, stage, summed, until
from tests.stored import Forest as Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home.at(tmp_path / "home")
    found.now = time.time() - 600
    return found


async def test_a_pause_holds_the_view_and_counts_and_loses_nothing(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        for number in range(20):
            up.forest.line("root-000", f"before {number}")
        await page.until("document.querySelector('.feed .view').scrollHeight === 20 * 22")
        await page.click(".feedhead .button")
        held = await feed_texts(page)
        for number in range(1_000):
            up.forest.line("root-000", f"held {number}")
        await page.until("document.querySelector('.feedhead .button').textContent.includes('paused · 1000 new')")
        assert await feed_texts(page) == held
        await page.key("p")
        await page.until("document.querySelector('.feed .view').scrollHeight === 1020 * 22")

        assert await feed_texts(page) == held + [f"held {number}" for number in range(1_000)]


async def test_five_thousand_lines_are_kept_the_newest(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        await page.click(".feedhead .button")
        for number in range(5_300):
            up.forest.line("root-000", f"line {number}")
        await page.until("document.querySelector('.feedhead .button').textContent.includes('5300 new')")
        await page.key("p")
        await page.until("document.querySelector('.feed .view').scrollHeight === 5000 * 22")
        await page.js("document.querySelector('.feed .view').scrollTop = 0")
        await page.until("document.querySelector('.feed').textContent.includes('line 300')")
        assert not await page.js("document.querySelector('.feed').textContent.includes('line 299')")
        await page.js("document.querySelector('.feed .view').scrollTop = 1e9")
        await page.until("document.querySelector('.feed').textContent.includes('line 5299')")


async def test_each_switch_hides_exactly_its_lines_and_no_delta_ever_comes(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        await page.click(".feedhead .pillbox:nth-of-type(4)")  # messages are off at first
        for kind in FEED_TYPES:
            up.forest.line("root-000", f"of {kind}", type=kind)
        up.forest.tell(Wrote("root-000", 1, "a delta"))
        await page.until("document.querySelectorAll('.event').length === 6")
        everything = await feed_texts(page)
        for place, kind in enumerate(FEED_TYPES, start=1):
            await page.click(f".feedhead .pillbox:nth-of-type({place})")
            assert await feed_texts(page) == [text for text in everything if text != f"of {kind}"]
            await page.key("e")
            await page.key(str(place))
            assert await feed_texts(page) == everything
        assert "a delta" not in str(everything)


async def test_the_feed_can_be_of_the_selected_agent_and_a_line_leads_to_its_own(browser: Chromium) -> None:
    root = row("root-000")
    kid = row("kid-0000", root)
    async with (
        stage(summed([root, kid, row("leaf-000", kid), row("other-00", root)])) as up,
        shown(browser, up) as page,
    ):
        for name in ("leaf-000", "kid-0000", "other-00"):
            up.forest.line(name, f"by {name}")
        await page.until("document.querySelectorAll('.event').length === 3")
        await pick(page, "kid-0000")
        await page.key("w")
        assert await feed_texts(page) == ["by leaf-000", "by kid-0000"]
        await page.click(".event")
        await page.until("document.activeElement.dataset.key === 'leaf-000'")
        await page.key("w")
        await page.keys("e", "ArrowUp", "ArrowUp", "Enter")
        await page.until("document.activeElement.dataset.key === 'kid-0000'")


async def test_what_a_slow_page_missed_is_a_line(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        up.forest.tell(Missed(42))
        await page.until("document.querySelector('.event.notice')")

        assert await feed_texts(page) == [
            "↯ gap: 42 events missed because this view was slow. Rows were refreshed from a snapshot."
        ]


async def test_a_conversation_comes_in_pages_and_goes_on_while_it_is_open(browser: Chromium, home: Home) -> None:
    root = home.root("talker")
    home.own(root)
    for number in range(250):
        root.prompt(f"prompt {number}")
    async with stage(StoredJournals(home).rows(), home) as up, shown(browser, up) as page:
        await pick(page, root.id)
        await page.click("#tab-Conversation")
        await page.until("document.querySelectorAll('.entry').length === 200")
        view = "document.querySelector('.panel')"
        assert await page.js(f"{view}.scrollHeight - {view}.scrollTop - {view}.clientHeight") < 40
        await page.js(f"{view}.scrollTop = 0")
        await page.until("document.querySelectorAll('.entry').length === 250")
        await page.until("document.querySelector('.entry').textContent.includes('prompt 0')")
        assert await page.js(f"{view}.scrollTop") > 0
        root.prompt("one more")
        up.forest.show(StoredJournals(home).rows())
        await page.until("document.querySelectorAll('.entry').length === 251")
        assert await page.text(".newer") == "↓ 1 new"
        await page.click(".newer")
        await page.until(f"{view}.scrollHeight - {view}.scrollTop - {view}.clientHeight < 40")
        root.prompt("and another")
        up.forest.show(StoredJournals(home).rows())
        await page.until("document.querySelectorAll('.entry').length === 252")
        await page.until(f"{view}.scrollHeight - {view}.scrollTop - {view}.clientHeight < 40")


async def test_text_streams_into_the_open_conversation_only(browser: Chromium, home: Home) -> None:
    root = home.root("talker")
    home.own(root)
    root.prompt("say something")
    async with stage(StoredJournals(home).rows(), home) as up, shown(browser, up) as page:
        await pick(page, root.id)
        await page.click("#tab-Conversation")
        await page.until("document.querySelectorAll('.entry').length === 1")
        readers = up.server.dashboard.readers
        await until(lambda: [each.open_session for each in readers.values()] == [root.id])
        for piece in ("Hel", "lo, ", "<b>you</b>"):
            up.forest.tell(Wrote(root.id, 1, piece))
        await page.until("document.querySelector('.writing').textContent === 'Hello, <b>you</b>'")
        root.answer("Hello, <b>you</b>")
        up.forest.show(StoredJournals(home).rows())
        await page.until("document.querySelectorAll('.entry').length === 2")
        assert await page.js("document.querySelector('.writing').hidden")
        assert await page.texts(".entry .what p") == ["say something", "Hello, <b>you</b>"]
        await page.click("#tab-Info")
        await until(lambda: not any(each.open_session for each in readers.values()))


async def test_tools_are_one_line_each_until_they_are_unfolded(browser: Chromium, home: Home) -> None:
    root = home.root("worker")
    home.own(root)
    root.prompt("work")
    root.answer("I work.", calls=(ToolCall(id="a", name="bash", arguments={"command": "ls -la"}),))
    root.result("a", "one\ntwo")
    async with stage(StoredJournals(home).rows(), home) as up, shown(browser, up) as page:
        await pick(page, root.id)
        await page.click("#tab-Conversation")
        await page.until("document.querySelector('.call')")
        assert await page.js("document.querySelector('.call').open") is False
        assert "bashls -la✓" in await page.text(".call summary")
        await page.click(".call summary")
        await page.until(
            "document.querySelector('.call').open && document.querySelector('.call').innerText.includes('two')"
        )
        await page.click("#tab-Tools")
        await page.until("document.querySelector('.panel tbody tr')")
        assert "ls -la" in await page.text(".panel tbody tr")


async def test_a_page_that_nobody_sees_asks_for_little(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        readers = up.server.dashboard.readers
        await page.js("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        await page.js("document.dispatchEvent(new Event('visibilitychange'))")
        await until(lambda: [each.is_hidden for each in readers.values()] == [True])
        await page.js("delete document.hidden")
        await page.js("document.dispatchEvent(new Event('visibilitychange'))")
        await until(lambda: [each.is_hidden for each in readers.values()] == [False])
