"""The page in a real browser: how one comes in, what hostile text does to it, and its exact words."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.views.doing import Activity
from orchestrator.web.ports import HostEnded
from store.entries import CustomEntry
from tests.browser.chromium import Chromium
from tests.orchestrator.web.pages import pick, shown
from tests.orchestrator.web.stage import StoredJournals, row, settled, stage, summed, usage
from tests.stored import Forest as Home

HOSTILE = ["<img src=x onerror=alert(1)>", "[red]x[/]", "\x1b]0;x\x07", "\u202egnp.exe", "x" * 1_000_000]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home.at(tmp_path / "home")
    yield found
    found.close()


async def test_the_token_leaves_the_address_bar_at_once_and_the_cookie_stays(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, shown(browser, up) as page:
        assert await page.js("location.href") == f"{up.origin}/"
        assert await page.js("document.cookie") == ""
        assert up.server.door.token not in str(page.requests)
        await page.go(f"{up.origin}/")
        await page.until("document.querySelectorAll('.row').length === 1")


async def test_without_the_printed_address_nothing_is_seen(browser: Chromium) -> None:
    async with stage([row("root-000", name="secret-name")]) as up, browser.pages() as pages:
        page = await pages.open(f"{up.origin}/#wrong")
        await page.until("document.body.innerText.includes('this is not the address that sapwood dashboard printed')")
        await page.until("document.querySelector('.pill.lost')")
        refusal = "no cookie of ours: open the address that sapwood dashboard printed"
        await page.until("(text) => document.querySelector('#grid .empty').textContent === text", refusal)
        assert refusal in await page.text(".banner:not([hidden])")

        assert "secret-name" not in await page.js("document.documentElement.outerHTML")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_text_is_text(browser: Chromium, text: str, home: Home) -> None:
    session = home.root(text[:10_000])
    session.prompt(text)
    session.answer(text, error=text)
    session.settle("failed", text)
    act = Activity(kind="error", label=text, since=None)
    tree = [
        row(session.id, name=text, model=f"local/{text[:200]}", activity=act),
        row("neighbour", name="neighbour"),
    ]
    async with stage(tree, home) as up, shown(browser, up) as page:
        top = await page.js("document.querySelector('#grid').getBoundingClientRect().width")
        up.forest.line(session.id, text, kind=text[:100])
        await page.click(f"[data-key='{session.id}']")
        for tab in ("Overview", "Conversation", "Issues", "Info", "Cost"):
            await page.click(f"#tab-{tab}")
            await page.until("!document.querySelector('.panel').hasAttribute('aria-busy')")
        await page.until("document.querySelector('.event .text:last-child')?.textContent")

        assert await page.js("document.querySelectorAll('img').length") == 0
        assert await page.js("document.title.length") < 2_100
        assert await page.js("document.querySelector('#grid').getBoundingClientRect().width") == top
        wide = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        assert await page.js(f"{wide}.map(e => e.tagName + '.' + e.className)") == []
        heights = await page.js("[...document.querySelectorAll('.row')].map(e => e.getBoundingClientRect().height)")
        assert set(heights) == {26}
        if len(text) < 100:
            literal = text.replace("\x1b", "·").replace("\x07", "·").replace("\u202e", "·")
            names = await page.texts(".row .c-name .text")
            assert names == [literal, "neighbour"]


async def test_nothing_runs_yet(browser: Chromium) -> None:
    async with stage(others=(settled("old-0000"),)) as up, shown(browser, up) as page:
        text = await page.until("document.querySelector('#grid .empty:not([hidden])')?.innerText")
        for line in (
            "No agents are running.",
            "Start one here or in a terminal; it appears by itself.",
            'sapwood run "…"    or    sapwood demo',
            "Ended trees: 1 · Show ended",
        ):
            assert line in text
        assert await page.text("#detail .empty") == "Select an agent to see its conversation, timeline and cost."
        assert await page.text("#feed .empty") == "No events of these types yet."
        await page.click("#grid .empty .link")
        await page.until("document.querySelector('[data-key=old-0000]')")


async def test_a_filter_without_a_hit_says_so(browser: Chromium) -> None:
    async with stage([row("root-000"), row("other-00")]) as up, shown(browser, up) as page:
        await page.key("/")
        await page.write("status:failed")

        await page.until(
            "document.querySelector('#grid .empty').innerText === "
            "'No agent matches \"status:failed\". 2 are hidden. Esc clears the filter.'"
        )
        await page.key("Escape")
        await page.until("document.querySelectorAll('.row').length === 2")


async def test_while_rows_are_read_the_page_says_so(browser: Chromium) -> None:
    async with stage([row("root-000")]) as up, browser.pages() as pages:
        page = await pages.open()
        await page.call("Network.setBlockedURLs", urls=["*/api/stream*"])
        await page.go(up.address)
        await page.until("document.querySelector('#grid')?.getAttribute('aria-busy') === 'true'")
        await page.until("document.querySelectorAll('.skeleton').length > 0")
        await page.until("document.querySelector('#grid .empty').innerText.startsWith('Reading ')")


async def test_a_host_that_ended_is_told_in_a_banner(browser: Chromium) -> None:
    lost = settled("lost-000", outcome="lost", status="lost", name="port-billing")
    async with stage([lost]) as up, shown(browser, up) as page:
        at = time.mktime((2026, 11, 30, 14, 13, 0, 0, 0, -1))
        up.forest.tell(HostEnded(5210, at, ("lost-000",)))

        text = "The host (pid 5210) ended at 14:13. 1 agent is lost. It can be continued: sapwood run -r port-billing"
        await page.until("(text) => document.body.innerText.includes(text)", text)
        assert await page.text(".banner:not([hidden]) .text") == text
        await page.click(".banner:not([hidden]) .plain")
        await page.until("!document.querySelector('.banner:not([hidden])')")


async def test_a_damaged_journal_is_told_in_a_banner_with_what_can_be_read(browser: Chromium, home: Home) -> None:
    session = home.root("import-0611")
    home.own(session)
    for number in range(1_200):
        session.prompt(f"{number}")
    damage = Activity(kind="error", label="line 2,114 is not JSON", since=None)
    bad = settled(session.id, outcome=None, status="damaged", name="import-0611", activity=damage)
    async with stage([bad], home) as up, shown(browser, up) as page:
        await page.until("document.body.innerText.includes('1,200 entries are readable.')")

        assert await page.text(".banner:not([hidden]) .text") == (
            "! import-0611 is damaged: line 2,114 is not JSON. Opened read-only, nothing was changed. "
            "1,200 entries are readable."
        )
        assert await page.text(".banner:not([hidden]) code") == "sapwood sessions check import-0611"


async def test_an_unknown_price_is_a_question_mark_and_a_lower_bound_up_to_the_root(browser: Chromium) -> None:
    root = row("root-000", own=usage(84))
    tree = summed([root, row("qwen-000", root, own=usage(0, 58_000, ("local/qwen",)), model="local/qwen")])
    async with stage(tree) as up, shown(browser, up) as page:
        assert await page.texts(".row .c-own") == ["$0.84", "?"]
        assert await page.texts(".row .c-total") == ["≥ $0.84", "?"]
        await page.until("document.querySelector('.vitals .soft')?.textContent.includes('no price')")
        assert "no price for local/qwen (58k tokens), so ≥ is a lower bound" in await page.text(".vitals .money")


async def test_a_budget_is_shown_with_what_is_left_of_it(browser: Chromium, home: Home) -> None:
    root = home.root("top")
    home.own(root)
    root.add(CustomEntry(custom_type="sapwood.terms", data={"max_cost": 10.0}))
    root.prompt()
    root.answer("done", (5_000_000, 35_000, 0, 0))
    async with stage(StoredJournals(home).rows(), home) as up, shown(browser, up) as page:
        await page.until("document.querySelector('.vitals .spent').textContent === '$5.35 spent of $10.00 budget'")
        whole, used = await page.js(
            "[...document.querySelectorAll('.meter, .meter i')].map(e => e.getBoundingClientRect().width)"
        )

        assert abs(used - whole * 0.535) <= 1


async def test_a_read_only_page_offers_no_action(browser: Chromium) -> None:
    async with stage([row("root-000")], is_read_only=True) as up, shown(browser, up) as page:
        await pick(page, "root-000")
        await page.keys("x", "m", "r")

        assert await page.js("[...document.querySelectorAll('[data-act], .composer')].every(e => e.hidden)")
        assert await page.js("document.querySelectorAll('dialog').length") == 0


async def test_new_agents_and_their_ends_appear_by_themselves(browser: Chromium) -> None:
    async with stage() as up, shown(browser, up) as page:
        root = row("root-000", name="first")
        up.forest.show([root])
        await page.until("document.querySelector('[data-key=root-000] .word')?.textContent === 'running'")
        ended = msgspec.structs.replace(root, status="idle", outcome="failed")
        up.forest.show([ended])

        await page.until("document.querySelector('[data-key=root-000] .word').textContent === 'failed'")
        assert await page.text(".pill") == "● live"
