"""Cost chart and timeline: what is drawn is what the figures say, to the pixel."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrator.web.ports import Began, News
from store.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage
from tests.browser.chromium import Chromium, Page
from tests.orchestrator.web.pages import pick, shown
from tests.orchestrator.web.stage import StoredJournals, stage
from tests.stored import Forest as Home
from tests.stored import StoredSession, sample


@asynccontextmanager
async def tab(browser: Chromium, home: Home, root: StoredSession, name: str, *news: News) -> AsyncIterator[Page]:
    """The page with this tab of the root open. `news` came before."""
    home.now = time.time()
    async with stage(StoredJournals(home).rows(), home) as up, shown(browser, up) as page:
        up.forest.tell(*news)
        await pick(page, root.id)
        await page.click(f"#tab-{name}")
        await page.until(
            "!document.querySelector('.panel').hasAttribute('aria-busy') && document.querySelector('.panel div')"
        )
        yield page


@pytest.fixture
def home(tmp_path: Path) -> Home:

    found = Home.at(tmp_path / "home")
    found.now = time.time() - 120
    return found


BOXES = """[...document.querySelectorAll('.panel .box')].map(e => ({
  session: e.dataset.session, kind: e.classList[1], x: parseFloat(e.style.left), y: parseFloat(e.style.top),
  width: parseFloat(e.style.width)}))"""
FIGURES = """Object.fromEntries([...document.querySelectorAll('.panel tbody tr')].map(e =>
  [e.dataset.session, [Number(e.dataset.own), Number(e.dataset.total), e.lastChild.textContent]]))"""


def priced(home: Home) -> StoredSession:
    """A root with a dozen children, big and small, one of them with children of its own."""
    root = home.root("top")
    root.prompt()
    root.answer("go", (20_000, 1_000, 0, 0))
    for number in range(12):
        kid = root.child(f"kid-{number}")
        kid.prompt()
        kid.answer("done", (1_000 * 3**number // 40 + 10, 10, 0, 0))
        if number > 9:
            for name in ("a", "b"):
                grandchild = kid.child(f"{name}-{number}")
                grandchild.prompt()
                grandchild.answer("done", (300_000, 100, 0, 0))
                grandchild.settle()
        kid.settle()
    root.answer("done", (100, 10, 0, 0))
    root.settle()
    return root


async def test_own_part_and_children_fill_their_parent_and_are_the_tables_figures(
    browser: Chromium, home: Home
) -> None:
    root = priced(home)
    async with tab(browser, home, root, "Cost") as page:
        boxes: list[dict[str, Any]] = await page.js(BOXES)
        figures: dict[str, list[Any]] = await page.js(FIGURES)
        nodes = {box["session"]: box for box in boxes if box["kind"] == "node"}
        whole = nodes[root.id]
        per_usd = whole["width"] / figures[root.id][1]
        for session, box in nodes.items():
            assert abs(box["width"] - figures[session][1] * per_usd) <= 1
            inside = [
                each
                for each in boxes
                if each["y"] == box["y"] + 30 and box["x"] - 0.5 <= each["x"] < box["x"] + box["width"] - 0.5
            ]
            if inside:
                assert abs(sum(each["width"] for each in inside) - box["width"]) <= len(inside)
                edges = sorted((each["x"], each["x"] + each["width"]) for each in inside)
                assert all(end <= begin + 0.01 for (_, end), (begin, _) in pairwise(edges))
        for box in boxes:
            if box["kind"] == "own":
                assert abs(box["width"] - figures[box["session"]][0] * per_usd) <= 1
        assert any(text.startswith("+") for text in await page.texts(".panel .box.rest"))
        assert all(box["width"] >= 14 for box in boxes if box["kind"] == "node")
        assert not [box for box in boxes if box["kind"] == "unpriced"]
        assert figures[root.id][2] == "100%"
        assert "17 sessions, own sums to total: verified" in await page.text(".panel")


async def test_what_has_no_price_stands_outside_the_sum(browser: Chromium, home: Home) -> None:
    root = sample(home)
    async with tab(browser, home, root, "Cost") as page:
        boxes = await page.js(BOXES)
        [aside] = [box for box in boxes if box["kind"] == "unpriced"]
        [whole] = [box for box in boxes if box["kind"] == "node" and box["session"] == root.id]

        assert aside["x"] >= whole["x"] + whole["width"] - 0.01
        assert await page.texts(".panel .box.unpriced") == ["price ?"]
        assert (
            await page.js("document.querySelector('.panel .box.unpriced').title")
            == "no price for local/qwen: not in the sum"
        )


async def test_one_goes_into_a_part_and_back_and_measures_tokens_too(browser: Chromium, home: Home) -> None:
    root = priced(home)
    async with tab(browser, home, root, "Cost") as page:
        biggest = await page.js(
            "[...document.querySelectorAll('.panel .box.node')].filter(e => parseFloat(e.style.top) === 30)"
            ".sort((a, b) => parseFloat(b.style.width) - parseFloat(a.style.width))[0].dataset.session"
        )
        await page.click(f".panel .box.node[data-session='{biggest}']")
        await page.until("(id) => document.querySelector('.panel .box.node').dataset.session === id", biggest)
        assert len(await page.texts(".panel tbody tr")) == 3
        await page.js("document.querySelector('.panel .box').focus()")
        await page.keys("ArrowDown", "ArrowRight")
        assert await page.js("document.activeElement.ariaLevel") == "2"
        await page.key("ArrowUp")
        assert await page.js("document.activeElement.ariaLevel") == "1"
        await page.key("Backspace")
        await page.until("(id) => document.querySelector('.panel .box.node').dataset.session === id", root.id)
        await page.click(".panel .choice button:nth-child(2)")
        await page.until("document.querySelector('.panel').innerText.includes('width = tokens')")
        assert await page.texts(".panel .choice [aria-pressed=true]") == ["tokens"]
        assert await page.texts(".panel .choice [aria-pressed=false]") == ["cost"]


async def test_bars_are_as_long_as_their_events_and_every_settled_lane_has_one_end(
    browser: Chromium, home: Home
) -> None:
    root = home.root("top")
    root.prompt()
    begin = int(home.now * 1000)
    call = ToolCall(id="a", name="bash", arguments={"command": "pytest"})
    root.message(
        AssistantMessage(content=(call,), model="haiku", stop_reason="toolUse", timestamp=begin, duration_ms=9_000)
    )
    root.message(
        ToolResultMessage(tool_call_id="a", tool_name="bash", details={"durationMs": 31_000}, timestamp=begin + 40_000)
    )
    for name in ("one", "two"):
        kid = root.child(name)
        kid.prompt()
        kid.message(
            AssistantMessage(content=(TextContent(text="x"),), model="m", timestamp=begin + 10_000, duration_ms=12_000)
        )
        kid.settle("completed" if name == "one" else "failed", None if name == "one" else "broken")
    root.message(
        AssistantMessage(content=(TextContent(text="y"),), model="m", timestamp=begin + 50_000, duration_ms=5_000)
    )
    home.now = (begin + 55_000) / 1000
    root.settle()
    async with tab(browser, home, root, "Timeline", Began(root.id, (begin + 3_000) / 1000)) as page:
        assert await page.js(
            "[...document.querySelectorAll('.panel .lane:first-child .b-model')].map(e => e.style.getPropertyValue('--waited'))"
            ".map(parseFloat).map(Math.round)"
        ) == [33, 0]
        bars = await page.js(
            "[...document.querySelectorAll('.panel .span')].map(e => [e.className, Number(e.dataset.ms),"
            " parseFloat(e.style.left), e.getBoundingClientRect().width])"
        )
        timed = [bar for bar in bars if bar[1] > 1000]
        per_ms = max(width / ms for _, ms, _, width in timed)
        assert all(abs(width - ms * per_ms) <= 1 for _, ms, _, width in timed)
        assert sorted(ms for name, ms, _, _ in bars if "b-model" in name) == [5_000, 9_000, 12_000, 12_000]
        assert [ms for name, ms, _, _ in bars if "b-tool" in name] == [31_000]
        ends = await page.js(
            "[...document.querySelectorAll('.lane[data-session]')].map(e => e.querySelectorAll('.end').length)"
        )
        assert ends == [1, 1, 1]
        assert await page.texts(".panel .end") == ["✓", "✓", "✗"]
        assert await page.js("document.querySelectorAll('.panel .spawn').length") == 2
        await page.click(".panel .lanelabel")
        await page.until("document.querySelector('.panel .steplabel')")
        assert await page.js("document.querySelector('.panel .lanelabel').ariaExpanded") == "true"
        assert "bash pytest · 31s" in await page.texts(".panel .steplabel")


async def test_the_chain_that_decided_the_end_is_marked(browser: Chromium, home: Home) -> None:
    root = sample(home)
    async with tab(browser, home, root, "Timeline") as page:
        await page.js("document.activeElement.blur()")
        await page.key("c")
        await page.until("document.querySelector('.lane.chain')")

        assert await page.texts(".lane.chain .lanelabel .text") == ["port-billing", "legacy-shim"]
