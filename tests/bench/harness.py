"""Measuring: sides of a case take turns in one process, CPU time, the best round of each counts. Only ratios hold.

The machine is shared, so a figure says nothing alone. What disturbs one round disturbs the sides alike, and the minimum
leaves the disturbed rounds out.
"""

import gc
import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import process_time
from typing import Any

import attrs
import trio

Side = Callable[[], float]
"""One round of a side: CPU seconds per unit of work."""


@attrs.frozen
class Row:
    """One line of the table. `is_met` None: shown beside the others, with no target of its own, or not measured."""

    case: str
    target: str
    measured: str
    ours: str
    baseline: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "pass", False: "MISS", None: "-"}[self.is_met]


def in_turns(rounds: int, sides: Mapping[str, Side]) -> dict[str, float]:
    """The best of `rounds` of every side. The order rotates, so that nobody always comes after the same neighbour."""
    best: dict[str, float] = {}
    names = list(sides)
    for side in sides.values():
        side()  # once for imports and caches
    settle_heap()
    for number in range(rounds):
        place = number % len(names)
        for name in names[place:] + names[:place]:
            gc.collect()
            took = sides[name]()
            best[name] = min(took, best.get(name, took))
    return best


def settle_heap() -> None:
    """What is there already is not looked through again: what other cases have imported is no cost of this one."""
    gc.collect()
    gc.freeze()


def plain(run: Callable[[int], object], units: int) -> Side:
    """A side that is a function of how many units to do."""

    def side() -> float:
        started = process_time()
        run(units)
        return (process_time() - started) / units

    return side


def on_trio(run: Callable[[int], Awaitable[object]], units: int) -> Side:
    """The same for a coroutine function. Start and end of the loop are not counted."""

    async def timed() -> float:
        started = process_time()
        await run(units)
        return (process_time() - started) / units

    return lambda: trio.run(timed)


def at_most(case: str, limit: float, ours: float, baseline: float, of: str) -> Row:
    """Ours may cost so many times the baseline. `of` says what that is."""
    ratio = ours / baseline
    return Row(case, f"<= {limit:g}x {of}", f"{ratio:.2f}x", seconds(ours), seconds(baseline), ratio <= limit)


def at_least(case: str, limit: float, ours: float, baseline: float, of: str) -> Row:
    """Ours is to be so many times as fast as the baseline."""
    ratio = baseline / ours
    return Row(case, f">= {limit:g}x {of}", f"{ratio:.2f}x", seconds(ours), seconds(baseline), ratio >= limit)


def beside(case: str, ours: float, baseline: float, of: str) -> Row:
    """A ratio that has no target."""
    return Row(case, f"of {of}", f"{ours / baseline:.2f}x", seconds(ours), seconds(baseline), None)


def absent(case: str, target: str, why: str) -> Row:
    """A case that cannot be measured here."""
    return Row(case, target, why, "", "", None)


def seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.0f} ns"


def importable(*modules: str) -> list[Any] | None:
    """The modules, or None if one of them is not installed."""
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError:
        return None


def table(rows: Iterable[Row]) -> list[str]:
    """The rows as lines of equal columns."""
    head = ("case", "target", "measured", "ours", "baseline", "")
    cells = [head, *((r.case, r.target, r.measured, r.ours, r.baseline, r.verdict) for r in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
