"""Folds what a session is billed into every ancestor, once it is durable: plain calls up to the root, no hop per level."""

from collections.abc import Callable

import attrs
import trio

from actors.directory import Row
from actors.flusher import Flushing
from store.entries import Origin
from store.errors import StoreError
from store.usage import Spend

RETRY_WRITE_S = (0.05, 0.2, 0.5, 1.0, 2.0)


@attrs.frozen
class Bill:
    """One billed entry of a session. `whys`: per ancestor, why the child ran through which it comes."""

    row: Row
    entry_id: str
    spend: Spend
    whys: list[Origin]


@attrs.define(eq=False)
class Ledger:
    """A task of the host, not of the tree: an abort does not lose what was spent.

    `trouble` is told of an ancestor whose journal did not take its attribution; the repair on the next open adds it.
    """

    flusher: Flushing
    trouble: Callable[[Row, str], None]
    _bills: list[Bill] = attrs.field(factory=list)
    _arrived: trio.Event = attrs.field(factory=trio.Event)
    _is_busy: bool = False
    _drained: trio.Event = attrs.field(factory=trio.Event)

    def bill(self, row: Row, entry_id: str, spend: Spend) -> None:
        """Sums count at once; the journals of the ancestors follow."""
        row.own = row.own + spend
        if row.parent is None:
            return
        whys: list[Origin] = []
        child = row
        while child.parent is not None:
            child.parent.below = child.parent.below + spend
            whys.append(child.origin.why)
            child = child.parent
        self._bills.append(Bill(row, entry_id, spend, whys))
        self._arrived.set()

    async def run(self) -> None:
        """Fold for ever."""
        while True:
            if not self._bills:
                self._arrived = trio.Event()
                await self._arrived.wait()
            bills, self._bills = self._bills, []
            self._is_busy = True
            await self._fold(bills)
            self._is_busy = False
            if not self._bills:
                drained, self._drained = self._drained, trio.Event()
                drained.set()

    async def drained(self) -> None:
        """Return when nothing is left to fold, and what was folded is durable."""
        while self._bills or self._is_busy:
            await self._drained.wait()

    async def _fold(self, bills: list[Bill]) -> None:
        touched: dict[str, Row] = {}
        for bill in bills:
            if not await self._is_durable(bill.row):
                continue
            for (ancestor, child), why in zip(bill.row.ancestors(), bill.whys, strict=True):
                if await self._attribute(ancestor, child, why, bill):
                    touched[ancestor.id] = ancestor
        for row in touched.values():
            await self._is_durable(row)

    async def _is_durable(self, row: Row) -> bool:
        if row.outbox is None:
            return False
        for pause_s in (*RETRY_WRITE_S, None):
            try:
                await row.outbox.durable()
            except (OSError, StoreError) as error:
                await self._failed(row, error, pause_s)
            else:
                return True
        return False

    async def _failed(self, row: Row, error: Exception, pause_s: float | None) -> None:
        """Wait a while, as the disk may be full and the journal being opened again. The last time, say that it stays out."""
        if pause_s is None:
            self.trouble(row, f"an attribution is left to the repair on the next open: {error}")
        else:
            await trio.sleep(pause_s)

    async def _attribute(self, ancestor: Row, child: Row, why: Origin, bill: Bill) -> bool:
        if ancestor.outbox is None:
            return False
        body = ancestor.aggregates.attribution(
            child.target_id,
            bill.spend,
            origin=(bill.row.id, bill.entry_id),
            child_session_id=child.id,
            why=why,
        )
        for pause_s in (*RETRY_WRITE_S, None):
            try:
                ancestor.outbox.append(body)
            except (OSError, StoreError) as error:
                await self._failed(ancestor, error, pause_s)
            else:
                break
        else:
            return False
        if ancestor.parent is not None and not ancestor.has_task:
            # It has settled and shed its entries; this one is no more use in memory than they were.
            ancestor.outbox.tree.shed()
        return True
