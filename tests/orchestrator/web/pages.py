"""The dashboard in a browser: opened as a person opens it, and what can be seen of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.browser.chromium import Chromium, Page
from tests.orchestrator.web.stage import Stage


@asynccontextmanager
async def shown(browser: Chromium, up: Stage, *, is_loaded: bool = True, **size: Any) -> AsyncIterator[Page]:
    """A page on the printed address. It must not ask anybody else for anything, nor complain."""
    async with browser.pages() as pages:
        page = await pages.open(up.address, **size)
        if is_loaded:
            await page.until(
                "document.querySelector('#grid') && !document.querySelector('#grid').hasAttribute('aria-busy')"
            )
        yield page
        assert [url for url in page.requests if not url.startswith((f"{up.origin}/", "data:", "about:"))] == []
        unread = "Failed to load resource: the server responded with a status of 404 ()"
        assert [each for each in page.complaints if each != unread or up.journals.home is not None] == []
        assert page.dialogs == []


async def pick(page: Page, session: str) -> None:
    """Click on a row, and wait until its detail is there."""
    await page.click(f"[data-key='{session}']")
    name = await page.js("(id) => document.querySelector(`[data-key='${id}'] .text`).textContent", session)
    await page.until("(name) => document.querySelector('.detail h1').textContent === name", name)


async def cells(page: Page, session: str) -> dict[str, str]:
    """The texts of a row by column."""
    found: dict[str, str] = await page.js(
        "(id) => Object.fromEntries([...document.querySelectorAll(`[data-key='${id}'] > span`)]"
        ".map(e => [e.className.split(' ')[0].slice(2), e.textContent]))",
        session,
    )
    return found


async def screen_y(page: Page, session: str) -> float:
    """Where on the screen a row is."""
    found: float = await page.js(
        "(id) => document.querySelector(`[data-key='${id}']`).getBoundingClientRect().y", session
    )
    return found


async def has_focus(page: Page) -> str:
    """What has the focus: its label, text or key."""
    found: str = await page.js(
        "(() => { const e = document.activeElement; return e.dataset?.key || e.getAttribute('aria-label') || e.textContent })()"
    )
    return found


async def feed_texts(page: Page) -> list[str]:
    """The texts of all lines that the feed shows, from top to bottom, by scrolling through it."""
    seen: dict[int, str] = {}
    height = await page.js("document.querySelector('.feed .view').scrollHeight")
    for top in range(0, height + 1, 300):
        found = await page.js(
            f"(() => {{ const view = document.querySelector('.feed .view'); view.scrollTop = {top};"
            " return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
            " done([...document.querySelectorAll('.event')].map(e =>"
            " [Math.round(e.getBoundingClientRect().y - view.getBoundingClientRect().y + view.scrollTop),"
            " e.lastChild.textContent]))))) })()"
        )
        seen.update({int(y): text for y, text in found})
    return [seen[y] for y in sorted(seen)]
