"""For everybody: names and roles, contrast in both themes, no motion for who wants none, small windows."""

import re

import pytest

from orchestrator.views.states import STATES
from orchestrator.web.app import STATIC
from tests.browser.chromium import Chromium
from tests.orchestrator.web.pages import pick, shown
from tests.orchestrator.web.stage import sample_rows, stage

GROUNDS = ("--ground", "--panel", "--raised", "--hover", "--chosen", "--notice")
TEXTS = ("--ink", "--soft", *sorted({state.token for state in STATES.values()}))
PAIRS = [("--on-accent", "--accent"), ("--panel", "--fail"), ("--accent", "--panel")] + [
    (text, f"--shade{n}") for n, text in enumerate(["--on-shade"] * 3 + ["--on-dark-shade"] * 2)
]


def luminance(colour: str) -> float:
    """Source: WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The tokens of each theme: the dark one says what it has otherwise."""
    blocks = re.findall(r"(:root[^{]*)\{([^{}]*)\}", (STATIC / "tokens.css").read_text("utf-8"))
    tokens = [(head.strip(), dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", body))) for head, body in blocks]
    full = {head: found for head, found in tokens if found}
    light, dark = full[":root"], full[':root[data-theme="dark"]']
    return {"light": light, "dark": light | dark}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_a_contrast_of_four_and_a_half_on_every_ground(theme: str) -> None:
    tokens = themes()[theme]
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + PAIRS

    weak = {pair: round(contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in pairs}
    assert {pair: found for pair, found in weak.items() if found < 4.5} == {}


def test_no_file_of_the_page_writes_markup_or_style_attributes() -> None:
    for path in STATIC.glob("*.js"):
        source = path.read_text("utf-8")
        for banned in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "setAttribute('style'",
            "cssText",
        ):
            assert banned not in source, f"{path.name} has {banned}"
        assert len(source.split("\n")) <= 350, path.name


async def test_every_control_has_a_name_and_every_row_its_place(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await pick(page, "root-000")
        tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
        unnamed = [
            node["role"]["value"]
            for node in tree
            if not node["ignored"]
            and node["role"]["value"]
            in {
                "button",
                "tab",
                "textbox",
                "searchbox",
                "listbox",
                "option",
                "treegrid",
                "tree",
                "log",
                "dialog",
                "row",
            }
            and not node.get("name", {}).get("value")
        ]
        assert unnamed == []
        found = await page.js(
            "[...document.querySelectorAll('.row')].map(e => [e.ariaLevel, e.ariaPosInSet, e.ariaSetSize, e.ariaRowIndex,"
            " e.ariaExpanded, e.ariaSelected, e.tabIndex].join(' '))"
        )
        assert found == [
            "1 1 1 2 true true 0",
            "2 1 4 3 false false -1",
            "2 2 4 4  false -1",
            "2 3 4 5 false false -1",
            "2 4 4 6  false -1",
        ]
        assert await page.js("document.querySelector('#grid').ariaRowCount") == "6"
        assert await page.js("document.querySelectorAll('[aria-live=polite], [role=status]').length") == 1
        ids = await page.js("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        assert await page.js("[...document.querySelectorAll('[tabindex]')].every(e => e.tabIndex <= 0)")


async def test_who_wants_no_motion_gets_none(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, browser.pages() as pages:
        page = await pages.open()
        await page.go(up.address)
        await page.until("document.querySelectorAll('.row').length > 2")
        assert await page.js("document.getAnimations().length") > 0
        await page.media(prefers_reduced_motion="reduce")
        await pick(page, "invoices")
        await page.keys("n", "e", "p")

        assert await page.js("document.getAnimations().length") == 0


async def test_the_theme_follows_the_system_until_somebody_chooses(browser: Chromium) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        light = await page.js(ground)
        await page.media(prefers_color_scheme="dark")
        await page.until(f"{ground} !== '{light}'")
        dark = await page.js(ground)
        await page.click("[aria-label^='Theme']")
        assert await page.js(ground) == light
        await page.click("[aria-label^='Theme']")
        await page.media(prefers_color_scheme="light")
        assert await page.js(ground) == dark


@pytest.mark.parametrize(("width", "height"), [(1180, 800), (720, 450), (400, 700)])
async def test_in_small_windows_and_when_enlarged_the_detail_is_a_sheet(
    browser: Chromium, width: int, height: int
) -> None:
    async with stage(sample_rows()) as up, shown(browser, up, width=width, height=height) as page:
        assert await page.js("document.documentElement.scrollWidth <= innerWidth")
        assert await page.js("getComputedStyle(document.querySelector('.detail')).display") == "none"
        await page.keys("j", "Enter")
        await page.until("getComputedStyle(document.querySelector('.detail')).display !== 'none'")
        await page.key("Escape")
        await page.until("getComputedStyle(document.querySelector('.detail')).display === 'none'")
        assert await page.js("document.activeElement.dataset.key") == "root-000"


async def test_issues_and_confirmations_are_spoken_once_and_not_all_at_once(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await page.js(
            "(() => { window.spoken = []; new MutationObserver(() => spoken.push(document.querySelector('#spoken').textContent))"
            ".observe(document.querySelector('#spoken'), {childList: true, characterData: true, subtree: true}) })()"
        )
        for name in ("invoices", "tests-00", "fuzz-000"):
            up.forest.change(name, status="idle", outcome="failed")
        await page.until("spoken.length === 2")

        first, second = await page.js("spoken")
        assert first != second
        assert first.endswith(": failed")
        assert second.endswith(": failed")
