"""The tree of agents in a browser: sums, windows, what stays where it is, what folds, what is found."""

import random

import msgspec
import pytest
import trio

from orchestrator.views.money import money
from orchestrator.views.rows import AgentRow
from orchestrator.views.states import STATES
from store.usage import spend_of
from tests.browser.chromium import Chromium, Page
from tests.orchestrator.web.pages import cells, pick, screen_y, shown
from tests.orchestrator.web.stage import many_rows, row, sample_rows, settled, stage, summed, usage

ROW_PX = 26


async def names(page: Page) -> list[str]:
    """The names in sight, from top to bottom."""
    found: list[str] = await page.js(
        "[...document.querySelectorAll('.row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
        ".map(e => e.querySelector('.c-name .text').textContent)"
    )
    return found


def random_tree(seed: int) -> list[AgentRow]:
    chance = random.Random(seed)
    rows = [row("agent-000")]
    for number in range(1, 30):
        parent = chance.choice(rows)
        unpriced = ("local/qwen",) if chance.random() < 0.1 else ()
        own = usage(0 if unpriced else chance.randrange(0, 400), chance.randrange(0, 100_000), unpriced)
        rows.append(row(f"agent-{number:03}", parent, own=own))
    return summed(in_order(rows))


def in_order(rows: list[AgentRow]) -> list[AgentRow]:
    """Parents before their children, each subtree in one piece."""
    found: list[AgentRow] = []
    stack = [rows[0]]
    while stack:
        each = stack.pop()
        found.append(each)
        stack += reversed([kid for kid in rows if kid.parent_session_id == each.session_id])
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_every_parent_is_its_own_part_and_its_childrens_totals_whatever_is_folded_or_sorted(
    browser: Chromium, seed: int
) -> None:
    tree = random_tree(seed)
    want = {each.session_id: (money(each.own), money(each.total)) for each in tree}
    async with stage(tree) as up, shown(browser, up, height=1200) as page:
        for key in ("0", "o", "o", "1", "0"):
            await page.key(key)
            got = await page.js(
                "Object.fromEntries([...document.querySelectorAll('.row')].filter(e => !e.dataset.key.includes('/'))"
                ".map(e => [e.dataset.key, [e.querySelector('.c-own').textContent, e.querySelector('.c-total').textContent]]))"
            )
            assert got
            assert {key: tuple(value) for key, value in got.items()} == {key: want[key] for key in got}
        await page.key("/")
        await page.write("agent-01")
        await page.until(
            "document.querySelectorAll('.row.dim').length > 0 || document.querySelectorAll('.row').length < 30"
        )
        assert (await cells(page, "agent-000"))["total"] == want["agent-000"][1]
        unknown = [each for each in tree if each.own and each.own.cost.unpriced]
        for each in unknown:
            assert want[each.session_id][0] == "?"
            assert want["agent-000"][1].startswith("≥ ")
    for each in tree:
        below = [kid for kid in tree if kid.parent_session_id == each.session_id]
        parts = [each.own, *(kid.total for kid in below)]
        assert each.total is not None
        assert spend_of(each.total).total_pico == sum(spend_of(part).total_pico for part in parts if part)


async def test_ten_thousand_rows_of_which_sixty_are_in_the_page(browser: Chromium) -> None:
    async with stage(many_rows(10_000)) as up, shown(browser, up) as page:
        await page.key("0")
        await page.until("document.querySelector('#grid').ariaRowCount === '10001'")
        assert await page.js("document.querySelectorAll('.row').length") <= 60
        await page.click("[data-key=root-000]")
        await page.key("G", shift=True)
        await page.until("document.activeElement.ariaRowIndex === '10001'")
        assert await page.js("document.querySelectorAll('.row').length") <= 60
        await page.key("g")
        await page.until("document.activeElement.dataset.key === 'root-000'")
        for top in range(0, 260_000, 9_000):
            await page.js(f"document.querySelector('#grid .view').scrollTop = {top}")
        assert await page.js("document.querySelectorAll('.row').length") <= 60


async def test_five_thousand_events_a_second_are_at_most_sixty_patches_and_all_of_them_are_counted(
    browser: Chromium,
) -> None:
    tree = many_rows(5_000)
    async with stage(tree) as up, shown(browser, up) as page:
        await page.js(
            "(() => { window.frames_seen = []; const next = TextDecoderStream.prototype; const parse = JSON.parse;"
            " JSON.parse = (text) => { const data = parse(text);"
            " if (data.rows && !('generation' in data)) frames_seen.push(performance.now()); return data } })()"
        )
        begin = trio.current_time()
        sent = 0
        while sent < 10_000:
            for number in range(50):
                up.forest.line(tree[(sent + number) % 5_000].session_id, f"event {sent + number}")
            up.forest.change(tree[sent % 5_000].session_id, turns=sent + 10)
            sent += 50
            await trio.sleep(0.01)
        await page.key("e")
        await page.until(
            "document.querySelector('.event:last-of-type, .event') && document.body.innerText.includes('event 9999')"
        )
        seconds = trio.current_time() - begin
        patches = await page.js("frames_seen.length")

        assert 0 < patches <= 60 * seconds + 1
        assert await page.js("document.querySelectorAll('.row').length") <= 60
        assert await page.js("document.querySelectorAll('.event').length") <= 60


async def test_the_selected_row_stays_on_its_line_while_others_come_settle_and_are_priced_above_it(
    browser: Chromium,
) -> None:
    root = row("root-000")
    first, second = row("first-00", root), row("second-0", root)
    async with stage(summed([root, first, second])) as up, shown(browser, up) as page:
        await page.key("0")
        await pick(page, "second-0")
        line = await screen_y(page, "second-0")
        tree = [root, first]
        for number in range(8):
            tree.append(row(f"new-{number:04}", first, own=usage(number)))
            ended = msgspec.structs.replace(tree[-1], status="idle", outcome="completed") if number % 2 else tree[-1]
            tree[-1] = ended
            up.forest.show(summed([*tree, second]))
            await page.until("(id) => document.querySelector(`[data-key='${id}']`)", f"new-{number:04}")
            assert await screen_y(page, "second-0") == line
        assert await page.js("document.querySelector('[aria-selected=true]').dataset.key") == "second-0"
        assert await page.text(".detail h1") == "second-0"


async def test_an_order_stays_as_it_was_made_until_it_is_asked_for_again(browser: Chromium) -> None:
    root = row("root-000")
    kids = [row(f"kid-{number:05}", root, own=usage(10 * number)) for number in range(3)]
    async with stage(summed([root, *kids])) as up, shown(browser, up) as page:
        assert await names(page) == ["root-000", "kid-00000", "kid-00001", "kid-00002"]
        await page.click(".bar .choice button:nth-child(2)")
        assert await names(page) == ["root-000", "kid-00002", "kid-00001", "kid-00000"]
        kids[0] = msgspec.structs.replace(kids[0], own=usage(900))
        up.forest.show(summed([root, *kids]))
        await page.until("document.body.innerText.includes('order: total ▾ (changed, o to redo)')")
        assert await names(page) == ["root-000", "kid-00002", "kid-00001", "kid-00000"]
        assert await page.js("document.querySelector('[role=columnheader][aria-sort]').innerText") == "Total"
        await page.key("o")
        await page.until("!document.body.innerText.includes('changed, o to redo')")
        assert await names(page) == ["root-000", "kid-00000", "kid-00002", "kid-00001"]


async def test_a_crowd_shows_issues_then_who_works_then_one_row_an_outcome_with_its_sum(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await page.click("[data-key=fuzz-000] .twist")

        await page.until("document.querySelector(\"[data-key='fuzz-000/completed']\")")
        group = await cells(page, "fuzz-000/completed")
        assert (group["name"], group["status"], group["total"], group["tokens"]) == (
            "▸19 completed",
            "✓completed",
            "$0.36",
            "247k",
        )
        assert "!1" in (await cells(page, "invoices"))["name"]
        await page.click("[data-key='fuzz-000/completed'] .twist")
        await page.until("document.querySelectorAll('[data-key^=case]').length > 10")


async def test_folding_to_a_depth_and_by_hand(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        assert "legacy-shim" not in await names(page)
        await page.key("2")
        assert "legacy-shim" in await names(page)
        await page.key("1")
        assert "legacy-shim" not in await names(page)
        await pick(page, "invoices")
        await page.key("ArrowRight")
        assert await page.js("document.querySelector('[data-key=invoices]').ariaExpanded") == "true"
        await page.keys("ArrowRight", "ArrowLeft")
        assert await page.js("document.activeElement.dataset.key") == "invoices"
        await page.key("ArrowLeft")
        assert await page.js("document.querySelector('[data-key=invoices]').ariaExpanded") == "false"


async def test_chips_filter_and_keep_the_way_to_a_hit_and_change_no_figure(browser: Chromium) -> None:
    tree = sample_rows()
    async with stage(tree) as up, shown(browser, up) as page:
        total = (await cells(page, "root-000"))["total"]
        await page.until("document.querySelector('.chip:nth-child(3) b').textContent === '3'")
        await page.click(".chip:nth-child(3)")
        await page.until("document.querySelectorAll('.row').length === 5")

        assert await names(page) == ["port-billing", "invoices", "legacy-shim", "webhooks", "docs"]
        assert await page.texts(".row.dim .c-name .text") == ["port-billing", "invoices"]
        assert (await cells(page, "root-000"))["total"] == total
        await page.key("Escape")
        await page.until("!document.querySelector('.row.dim')")
        assert await names(page) == ["port-billing", "invoices", "webhooks", "fuzz-amounts", "docs"]


async def test_the_next_issue_is_found_wherever_it_is_folded_away(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        seen = []
        for _ in range(3):
            await page.key("n")
            seen.append(await page.js("document.activeElement.dataset.key"))
        await page.key("N", shift=True)

        assert seen == ["shim-000", "hooks-00", "docs-000"]
        assert await page.js("document.activeElement.dataset.key") == "hooks-00"


async def test_every_state_has_its_word_its_glyph_and_its_colour(browser: Chromium) -> None:
    outcomes = ("completed", "failed", "aborted", "timed_out", "limit_reached")
    made = {
        "needs input": settled("s", task_state="needs_input"),
        "idle": settled("s", outcome=None),
        **{word: row("s", status=word) for word in ("running", "waiting", "retrying", "compacting")},
        **{word: settled("s", status=word) for word in ("lost", "unknown", "damaged", "archived")},
        **{outcome.replace("_", " "): settled("s", outcome=outcome) for outcome in outcomes},
    }
    assert set(made) == set(STATES)
    tree = [
        msgspec.structs.replace(each, session_id=f"s-{at:06}", root_session_id=f"s-{at:06}", name=word)
        for at, (word, each) in enumerate(made.items())
    ]
    async with stage(tree) as up, shown(browser, up) as page:
        await page.click(".bar > .button")  # archived ones are shown when they are asked for
        await page.until("document.querySelectorAll('.row').length === 15")
        for each in tree:
            state = STATES[str(each.name)]
            status = (await cells(page, each.session_id))["status"]
            assert status == f"{state.glyph}{state.word}"
            colours = await page.js(
                "([id, token]) => { const p = document.createElement('i'); p.style.color = `var(${token})`;"
                " document.body.append(p); const c = e => getComputedStyle(e).color;"
                " const found = [c(document.querySelector(`[data-key='${id}'] .state`)), c(p)]; p.remove(); return found }",
                [each.session_id, state.token],
            )
            assert colours[0] == colours[1]
        assert len({(STATES[word].glyph, word) for word in made}) == 15


async def test_more_columns_are_remembered(browser: Chromium) -> None:
    async with stage(sample_rows()) as up, shown(browser, up) as page:
        await page.click(".bar > .button:last-child")
        heads = await page.texts("[role=columnheader]")
        assert {"Turns", "Retry", "Queue", "Last"} <= set(heads)
        await page.go(f"{up.origin}/")
        await page.until("document.querySelectorAll('[role=columnheader]').length === 15")


async def test_what_is_archived_or_ended_long_ago_is_shown_when_it_is_asked_for(browser: Chromium) -> None:
    root = row("root-000")
    kept, away = row("kid-0000", root), settled("kid-0001", root, status="archived")
    old = settled("old-0000", last_event_at="2026-01-01T00:00:00.000Z", host_pid=None)
    async with stage([old, *summed([root, kept, away])]) as up, shown(browser, up) as page:
        assert await names(page) == ["root-000", "kid-0000"]
        await page.until("document.body.innerText.includes('Show ended: 1')")
        await page.click(".bar > .button")
        await page.until("document.querySelectorAll('.row').length === 4")
        assert await names(page) == ["old-0000", "root-000", "kid-0000", "kid-0001"]
        await page.click(".bar > .button")
        await page.until("document.querySelectorAll('.row').length === 2")
