"""The connection breaks, in every way that connections break, and comes back."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from orchestrator.views.rows import AgentRow
from tests.browser.chromium import Chromium, Page
from tests.orchestrator.web.pages import cells, feed_texts
from tests.orchestrator.web.stage import Stage, row, stage, summed, until


@attrs.define(eq=False)
class Proxy:
    """Between browser and server. `mode`: `through`, `gone` (refuses), `silent` (swallows), `bad gateway`."""

    port: int
    target: int = 0
    mode: str = "through"
    _connections: set[trio.CancelScope] = attrs.field(factory=set)

    def be(self, mode: str) -> None:
        """All connections there are end, but for those that only fall silent."""
        self.mode = mode
        if mode != "silent":
            for scope in list(self._connections):
                scope.cancel()

    async def serve(self, one: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            async with one:
                if self.mode == "bad gateway":
                    await one.receive_some()
                    await one.send_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                elif self.mode == "through":
                    await self._join(one)
        self._connections.discard(scope)

    async def _join(self, one: trio.SocketStream) -> None:
        try:
            other = await trio.open_tcp_stream("127.0.0.1", self.target)
        except OSError:  # the dashboard has ended
            return
        async with other, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, one, other, nursery.cancel_scope)
            nursery.start_soon(self._pump, other, one, nursery.cancel_scope)

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
        try:
            async for data in source:
                if self.mode != "silent":
                    await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        both.cancel()


@asynccontextmanager
async def shown_through_a_proxy(
    browser: Chromium, rows: Sequence[AgentRow]
) -> AsyncIterator[tuple[Stage, Page, Proxy]]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = Proxy(listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        async with stage(rows, shown_port=proxy.port) as up, browser.pages() as pages:
            proxy.target = up.port
            page = await pages.open(up.address)
            await page.until("document.querySelector('.pill.live') && document.querySelector('.row')")
            yield up, page, proxy
        nursery.cancel_scope.cancel()


async def is_lost(page: Page) -> None:
    await page.until("document.querySelector('.pill.lost')")
    assert re.fullmatch(r"○ reconnecting · try \d+", await page.text(".pill"))
    shown = await page.until("document.querySelector('.banner:not([hidden])').firstChild.textContent")
    assert re.fullmatch(
        r"↯ Connection lost \d+s ago\. Showing the last known state; times are frozen\. Trying again in \d+s\.", shown
    )


async def test_after_a_cut_the_page_says_so_stands_still_and_is_as_a_fresh_one_when_it_is_back(
    browser: Chromium,
) -> None:
    root = row("root-000")
    async with shown_through_a_proxy(browser, summed([root, row("kid-0000", root)])) as (up, page, proxy):
        await page.click("[data-key=kid-0000]")
        up.forest.line("kid-0000", "before")
        await page.until("document.querySelector('.event')")
        proxy.be("gone")
        await is_lost(page)
        clock = (await cells(page, "root-000"))["time"]
        await page.until(
            "[...document.querySelectorAll('[data-act]:not([hidden]), .composer input')].every(e => e.disabled)"
        )
        assert await page.js("getComputedStyle(document.querySelector('.main')).filter") == "saturate(0.35)"
        up.forest.change("kid-0000", turns=7, status="retrying")
        up.forest.line("kid-0000", "while it was away")
        await trio.sleep(1.2)
        assert (await cells(page, "root-000"))["time"] == clock
        proxy.be("through")
        await page.click(".banner .button")
        await page.until("document.querySelector('.pill.live')")
        up.forest.line("kid-0000", "after")
        await page.until("document.querySelectorAll('.event').length === 3")

        assert await feed_texts(page) == ["before", "while it was away", "after"]
        assert (await cells(page, "kid-0000"))["status"] == "↻retrying"
        assert await page.js("document.querySelector('[aria-selected=true]').dataset.key") == "kid-0000"
        assert await page.js("document.querySelectorAll('.banner:not([hidden])').length") == 0
        fresh = await page.pages.open(f"http://127.0.0.1:{proxy.port}/")
        await fresh.until("document.querySelector('.pill.live') && document.querySelectorAll('.row').length === 2")
        for session in ("root-000", "kid-0000"):
            both = [await cells(page, session), await cells(fresh, session)]
            assert [{key: text for key, text in each.items() if key != "time"} for each in both] == [
                {key: text for key, text in both[0].items() if key != "time"}
            ] * 2


async def test_a_gap_says_how_many_and_for_how_long(browser: Chromium) -> None:
    async with shown_through_a_proxy(browser, [row("root-000")]) as (up, page, proxy):
        up.forest.line("root-000", "before")
        await page.until("document.querySelector('.event')")
        proxy.be("gone")
        await is_lost(page)
        board = up.server.dashboard.board
        for number in range(45):
            up.forest.line("root-000", f"{number}")
        await until(lambda: board.n == 46)
        for _ in range(43):
            board.lines.popleft()
        proxy.be("through")
        await page.until("document.querySelector('.pill.live')")
        await page.until("document.querySelectorAll('.event').length === 5")

        before, gap, *rest = await feed_texts(page)
        assert (before, rest) == ("before", ["42", "43", "44"])
        assert re.fullmatch(
            r"↯ gap: 42 events missed while disconnected \(\d+s\)\. Rows were refreshed from a snapshot\.", gap
        )


async def test_a_proxy_that_answers_502_is_tried_again_by_a_timer_of_the_page(browser: Chromium) -> None:
    async with shown_through_a_proxy(browser, [row("root-000")]) as (up, page, proxy):
        proxy.be("bad gateway")
        await is_lost(page)
        await page.until("document.querySelector('.pill').textContent.endsWith('try 2')")
        assert "502" in await page.js("document.querySelector('.banner:not([hidden])').title")
        up.forest.change("root-000", turns=9)
        proxy.be("through")
        await page.until("document.querySelector('.pill.live')")
        await page.click(".bar > .button:last-child")
        await page.until("document.querySelector('.c-turns').textContent === '9'")


async def test_a_connection_that_falls_silent_is_dead_after_twelve_seconds(browser: Chromium) -> None:
    async with shown_through_a_proxy(browser, [row("root-000")]) as (_, page, proxy):
        proxy.be("silent")
        await is_lost(page)
        assert "nothing was heard for 12s" in await page.js("document.querySelector('.banner:not([hidden])').title")


async def test_a_dashboard_that_was_closed_is_waited_for(browser: Chromium) -> None:
    async with shown_through_a_proxy(browser, [row("root-000")]) as (up, page, _):
        up.stop.set()
        await is_lost(page)
