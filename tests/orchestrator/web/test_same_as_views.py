"""What the browser works out by itself is what the views say: figures, the column Doing, the filter, what a crowd becomes."""

import random
from typing import Any

import msgspec

from orchestrator.views.chips import CHIPS, chip_meets
from orchestrator.views.context import context_text
from orchestrator.views.doing import Activity
from orchestrator.views.doing_text import doing
from orchestrator.views.money import duration, exact_money, money, tokens
from orchestrator.views.outline import Folding, Order, outline, ranks
from orchestrator.views.query import parse_query
from orchestrator.views.rows import AgentRow, Retry
from orchestrator.views.states import STATES
from orchestrator.web.shown import shown
from store.times import iso
from store.usage import Cost, Usage
from tests.browser.chromium import Chromium
from tests.orchestrator.web.pages import shown as shown_page
from tests.orchestrator.web.stage import row, sample_rows, settled, stage, summed, usage

NOW = 1_800_000_000.0
DOLLARS = [
    0,
    1e-12,
    0.004,
    0.00999,
    0.01,
    0.0149,
    0.015,
    0.995,
    1.235,
    1.245,
    9.995,
    99.99,
    99.995,
    100,
    123.5,
    4503,
    1e6,
]
COUNTS = [
    0,
    1,
    940,
    999,
    1_000,
    1_049,
    1_050,
    9_949,
    9_950,
    9_999,
    12_345,
    99_999,
    999_499,
    999_500,
    1_934_567,
    10**8,
    10**9,
]
TIMES_MS = [
    0,
    999,
    1_000,
    59_999,
    60_000,
    252_000,
    3_599_999,
    3_600_000,
    3_780_000,
    86_399_999,
    86_400_000,
    187_200_000,
]


async def in_the_page(browser: Chromium, module: str, body: str, *given: Any) -> list[Any]:
    """What `body`, a function of (module, given), makes of each in a page of the dashboard."""
    async with stage() as up, shown_page(browser, up) as page:
        call = f"(given) => import('/{module}').then((m) => ({body})(m, given))"
        return [await page.js(call, each) for each in given]


async def test_money_tokens_and_time(browser: Chromium) -> None:
    costs = [(dollars, is_part) for dollars in DOLLARS for is_part in (False, True)]
    used = [
        Usage(cost=Cost(total=dollars, unpriced=("a/b",)) if part else Cost(total=dollars)) for dollars, part in costs
    ]
    [found] = await in_the_page(
        browser,
        "format.js",
        "(m, g) => ({money: g.costs.map(c => m.money(...c)), exact: g.costs.map(c => m.exactMoney(...c)),"
        " tokens: g.counts.map(m.tokens), times: g.times.map(m.duration),"
        " none: [m.money(null), m.tokens(null), m.duration(null)]})",
        {"costs": costs, "counts": COUNTS, "times": TIMES_MS},
    )

    assert found["money"] == [money(each) for each in used]
    assert found["exact"] == [exact_money(each) for each in used]
    assert found["tokens"] == [tokens(count) for count in COUNTS]
    assert found["times"] == [duration(each) for each in TIMES_MS]
    assert found["none"] == [money(None), tokens(None), duration(None)]


def at_work() -> list[AgentRow]:
    """Rows with every kind of Doing at several ages."""
    found = []
    kinds = ("question", "error", "tool", "thinking", "writing", "children", "slot", "silent", "answer", "compaction")
    for kind in kinds:
        for age_s in (0, 4.9, 5, 41, 75, 4000):
            act = Activity(kind=kind, label=f"{kind} label", since=iso(NOW - age_s))  # type: ignore[arg-type]
            found.append(row("a", activity=act, last_event_at=iso(NOW - age_s), queued=2 if age_s == 41 else 0))
    for name in ("overloaded", "rate limited"):
        for left_s in (-3, 0, 7.6, 40, 130):
            retry = Retry(attempt=3, of=5, until=iso(NOW + left_s), kind=name)
            act = Activity(kind="retry", label=name, since=iso(NOW))
            found.append(row("a", status="retrying", activity=act, retry=retry))
    found.append(row("a", activity=None))
    found.append(settled("a", activity=Activity(kind="answer", label="Ported.", since=None)))
    for held, window in (
        (None, 100),
        (0, 100_000),
        (61_500, 100_000),
        (84_000, 100_000),
        (99_999, 100_000),
        (500, None),
    ):
        found.append(row("a", context_tokens=held, context_window=window))
    return found


async def test_doing_and_context(browser: Chromium) -> None:
    rows = at_work()
    [found] = await in_the_page(
        browser,
        "doing.js",
        "(m, g) => g.rows.map(r => [(g.working[r.word] && r.queued ? `[${r.queued}q] ` : '') + m.doing(r, g.now),"
        " m.context(r).text])",
        {
            "rows": [msgspec.to_builtins(shown(each)) for each in rows],
            "now": NOW * 1000,
            "working": {word: state.is_working for word, state in STATES.items()},
        },
    )

    assert [tuple(each) for each in found] == [(doing(each, NOW), context_text(each)) for each in rows]


QUERIES = [
    "", "invoice", "FAILED", "status:failed", "status:needs_input", "status:needs-input", "status:limit", "model:qwen",
    "name:case", "tool:bash", "depth:2", "depth>1", "depth<=1", "cost>0.5", "cost<$0.02", "cost>=0.72", "tokens>100k",
    "tokens<2k", "ctx>10", "ctx<5%", "quiet>2m", "status:running cost>0.5", "depth:x", "cost:", "status>5", "model:",
    "[1q]", "which secret", "tokens>1.5m", "quiet>30x",
]  # fmt: skip


async def test_the_filter_finds_the_same(browser: Chromium) -> None:
    rows = [msgspec.structs.replace(each, last_event_at=iso(NOW - 130)) for each in sample_rows()]
    [found] = await in_the_page(
        browser,
        "filter.js",
        "(m, g) => g.queries.map(q => { const f = m.filter(q, '');"
        " return [f.problem, g.rows.filter(r => !f.test || f.test(r, g.states[r.word], g.now, 1)).map(r => r.id)] })",
        {
            "queries": QUERIES,
            "rows": [msgspec.to_builtins(shown(each)) for each in rows],
            "now": NOW * 1000,
            "states": {word: {"isWorking": each.is_working, "isIssue": each.is_issue} for word, each in STATES.items()},
        },
    )

    for text, (problem, hits) in zip(QUERIES, found, strict=True):
        query = parse_query(text)
        assert (problem, hits) == (query.problem, [each.session_id for each in rows if query.meets(each, NOW)]), text


async def test_chips_mean_the_same(browser: Chromium) -> None:
    rows = sample_rows()
    by_id = {each.session_id: each for each in rows}
    [found] = await in_the_page(
        browser,
        "filter.js",
        "(m, g) => Object.fromEntries(Object.entries(m.CHIPS).map(([name, test]) =>"
        " [name, g.rows.filter(r => test(r, g.states[r.word], 0, g.rows[0].totalUsd)).map(r => r.id)]))",
        {
            "rows": [msgspec.to_builtins(shown(each)) for each in rows],
            "states": {word: {"isWorking": each.is_working, "isIssue": each.is_issue} for word, each in STATES.items()},
        },
    )

    assert found == {chip: [each.session_id for each in rows if chip_meets(chip, each, by_id)] for chip in CHIPS}
    assert all(found.values())


def crowd(seed: int) -> list[AgentRow]:
    """A tree with crowds, all states, and grandchildren."""
    chance = random.Random(seed)
    root = row("root-000")
    rows = [root]
    for number in range(chance.choice((5, 12, 13, 40))):
        word = chance.choice(("running", "failed", "completed", "completed", "aborted", "waiting", "idle"))
        outcome = None if word in {"running", "waiting", "idle"} else word
        status = word if word in {"running", "waiting"} else "idle"
        kid = row(f"kid-{number:05}", root, status=status, outcome=outcome, own=usage(chance.randrange(500)))
        rows.append(kid)
        if chance.random() < 0.3:
            rows.append(settled(f"leaf-{number:04}", kid, chance.choice(("failed", "completed"))))
    return summed(rows)


LAY_OUT = """async (m, g) => {
  const [{Forest}, {Folds}, {Order}] = await Promise.all(['forest', 'folds', 'order'].map(n => import(`/${n}.js`)));
  const [forest, folds, order] = [new Forest(), new Folds(), new Order()];
  forest.setStates(g.states);
  forest.take(Object.fromEntries(g.rows.map(r => [r.id, r])));
  folds.to(g.depth ?? 0);
  order.apply(g.order, forest, g.now);
  const found = m.lines({forest, order, folds, test: null, showsEnded: true, now: g.now});
  return found.items.map(i => [i.key, i.level - 1]);
}"""
WAYS: list[tuple[Order, int | None]] = [("spawned", 1), ("total", 1), ("name", None), ("own", 2)]


async def test_folds_crowds_and_orders_are_laid_out_the_same(browser: Chromium) -> None:
    cases = [(crowd(seed), order, depth) for seed in range(4) for order, depth in WAYS]
    states = [{"word": word, "isWorking": each.is_working, "isIssue": each.is_issue} for word, each in STATES.items()]
    given = [
        {
            "rows": [msgspec.to_builtins(shown(each)) for each in rows],
            "states": states,
            "order": order,
            "depth": depth,
            "now": NOW * 1000,
        }
        for rows, order, depth in cases
    ]

    found = await in_the_page(browser, "lines.js", LAY_OUT, *given)

    for (rows, order, depth), items in zip(cases, found, strict=True):
        want = outline(rows, Folding(depth=depth), ranks(rows, order))
        assert [tuple(each) for each in items] == [(each.key, each.level) for each in want], (order, depth)
