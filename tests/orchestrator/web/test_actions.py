"""What a person does in the browser: nothing by accident, everything by the keyboard, and nothing shown before it is so."""

import msgspec
import pytest
import trio

from tests.browser.chromium import Chromium, Page
from tests.orchestrator.web.pages import cells, has_focus, pick, shown
from tests.orchestrator.web.stage import Stage, row, sample_rows, settled, stage, summed, until


async def dialog(page: Page) -> str:
    text: str = await page.until("document.querySelector('dialog[open]')?.innerText")
    return text


async def is_closed(page: Page) -> None:
    await page.until("!document.querySelector('dialog')")


def said(up: Stage) -> list[tuple[str, str, str]]:
    return [(each.verb, each.session_id, each.text) for each in up.hands.orders]


async def test_abort_asks_with_the_default_on_keeping(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await pick(page, "invoices")
        await page.key("x")
        text = await dialog(page)

        assert "Abort invoices and 1 agent below it?" in text
        assert (
            "Their current turns end now, including running tools. What they wrote and spent ($0.72) is kept. "
            "Each can be continued later." in text
        )
        assert "invoice-tests is in a tool: bash pytest -q" in text
        assert await page.texts("dialog button") == ["Keep running", "Abort 2 agents"]
        assert await has_focus(page) == "Keep running"
        await page.key("Enter")
        await is_closed(page)
        await page.key("x")
        await dialog(page)
        await page.key("Escape")
        await is_closed(page)
        assert said(up) == []


async def test_abort_is_shown_as_under_way_until_the_host_has_confirmed(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        up.hands.gate = trio.Event()
        await pick(page, "invoices")
        money = (await cells(page, "invoices"))["total"]
        await page.key("x")
        await dialog(page)
        await page.keys("Tab", "Enter")
        await page.until("document.querySelector('[data-key=invoices] .c-doing').textContent === 'aborting…'")
        assert (await cells(page, "invoices"))["status"] == "●running"
        assert (await cells(page, "invoices"))["total"] == money
        await until(lambda: said(up))
        assert said(up) == [("abort", "invoices", "")]
        up.hands.gate.set()
        await page.until("document.querySelector('[data-key=invoices] .c-doing').textContent === 'bash pytest -q'")
        up.forest.change("invoices", status="idle", outcome="aborted", activity=None, pulse=msgspec.UNSET)
        await page.until("document.querySelector('[data-key=invoices] .word').textContent === 'aborted'")


async def test_more_than_ten_agents_have_to_be_counted_out(browser: Chromium) -> None:
    root = row("root-000")
    async with stage(summed([root, *(row(f"kid-{n:05}", root) for n in range(11))])) as up, shown(browser, up) as page:
        await pick(page, "root-000")
        await page.key("X", shift=True)
        assert "Stop root-000 and 11 agents below it?" in await dialog(page)
        assert await page.js("document.querySelector('dialog .kill').disabled")
        await page.click("#typed")
        await page.write("11")
        assert await page.js("document.querySelector('dialog .kill').disabled")
        await page.key("Backspace")
        await page.write("2")
        await page.click("dialog .kill")
        await until(lambda: said(up))

        assert said(up) == [("stop", "root-000", "")]


async def test_a_refusal_is_shown_with_its_text(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, browser.pages() as pages:
        page = await pages.open(up.address)
        await page.until("document.querySelector('[data-key=invoices]')")
        up.hands.refusal = "no host runs it: <b>sapwood run</b>"
        await pick(page, "invoices")
        await page.key("m")
        await page.write("hello")
        await page.key("Enter")

        await page.until(
            "document.querySelector('.toast.bad')?.textContent.includes('invoices: no host runs it: <b>sapwood')"
        )
        assert await page.js("document.querySelector('.composer input').value") == "hello"


@pytest.mark.parametrize(
    ("key", "session", "verb"), [("m", "invoices", "message"), ("s", "invoices", "steer"), ("m", "hooks-00", "answer")]
)
async def test_one_talks_to_an_agent_by_keyboard(browser: Chromium, key: str, session: str, verb: str) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await pick(page, session)
        await page.key(key)
        await page.until("document.activeElement === document.querySelector('.composer input')")
        await page.write("Use the test key")
        await page.key("Enter")
        await until(lambda: said(up))
        await page.until("document.querySelector('.composer input').value === ''")

        assert said(up) == [(verb, session, "Use the test key")]
        await page.key("Escape")
        await page.until("(id) => document.activeElement.dataset.key === id", session)


async def test_rename_takes_a_line_and_archive_can_be_undone(browser: Chromium) -> None:
    async with stage([settled("root-000", name="old name")]) as up, shown(browser, up) as page:
        await pick(page, "root-000")
        await page.key("r")
        await dialog(page)
        await page.js("document.querySelector('#asked').select()")
        await page.write("new name")
        await page.key("Enter")
        await until(lambda: said(up))
        await page.key("A", shift=True)
        assert await page.until("document.querySelector('.toast')?.textContent") == "Archived.Undo (u)"
        await page.key("u")
        await until(lambda: len(said(up)) == 3)

        assert said(up) == [
            ("rename", "root-000", "new name"),
            ("archive", "root-000", ""),
            ("unarchive", "root-000", ""),
        ]


async def test_all_of_it_by_keyboard_alone(browser: Chromium) -> None:
    """Reach, fold, open, answer, abort, pause, filter: no mouse."""
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await page.keys("j", "j")
        assert await page.js("document.activeElement.dataset.key") == "invoices"
        await page.key("ArrowRight")
        await page.until("document.querySelector('[data-key=shim-000]')")
        await page.key("Enter")
        await page.until("document.activeElement.getAttribute('role') === 'tab'")
        await page.key("ArrowRight")
        await page.until("document.querySelector('#tab-Conversation').ariaSelected === 'true'")
        await page.key("Escape")
        await page.until("document.activeElement.dataset.key === 'invoices'")
        await page.keys("n", "n")
        await page.until("document.querySelector('.detail h1').textContent === 'webhooks'")
        await page.key("m")
        await page.write("The second one")
        await page.keys("Enter", "Escape", "g", "j", "x")
        assert "Abort invoices" in await dialog(page)
        await page.keys("Tab", "Enter")
        await is_closed(page)
        await page.key("p")
        await page.until("document.querySelector('.feedhead .button').ariaPressed === 'true'")
        await page.key("/")
        await page.write("webhooks")
        await page.until("document.querySelectorAll('.row').length === 2")

        assert said(up) == [("answer", "hooks-00", "The second one"), ("abort", "invoices", "")]


async def test_what_does_not_run_cannot_be_aborted(browser: Chromium) -> None:
    async with stage([settled("root-000", name="done")]) as up, shown(browser, up) as page:
        await pick(page, "root-000")
        await page.key("x")

        await page.until("document.querySelector('.toast')?.textContent.includes('done does not run.')")
        assert await page.js("document.querySelectorAll('dialog').length") == 0


async def test_the_keys_are_told(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await page.key("?")
        text = await dialog(page)
        for word in ("move", "abort", "filter", "pause the events", "copy the id"):
            assert word in text
        await page.key("Escape")
        await is_closed(page)
