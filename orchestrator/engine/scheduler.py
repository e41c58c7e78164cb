"""A resident host delivers what is scheduled: it looks once a second, takes what is due, and brings it to its session."""

import math
from collections.abc import Callable

import attrs
import trio

from actors.directory import Row
from actors.protocol.mail import Prompt
from actors.protocol.restore import delivered
from orchestrator.engine.control.answers import Refused
from orchestrator.engine.control.mailing import Mailing
from orchestrator.engine.control.reading import entry_tree
from orchestrator.engine.errors import EngineError, NotOurs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.planted import Planted
from store.disk.schedules import Schedules, is_due
from store.errors import StoreError
from store.schedules import Schedule, Tick
from store.wire import encode

LOOK_AGAIN_S = 1.0
# A tree that another process works on is free when that has ended, which nobody tells.
ASK_AGAIN_S = 10.0


@attrs.define(eq=False)
class Scheduler:
    """`tell` hears of trouble, each time that it is another one."""

    keeper: Keeper
    schedules: Schedules
    tell: Callable[[str], None]
    _known: list[Schedule] = attrs.field(factory=list)
    _stamp: int = 0
    _was_news: bool = False
    _not_before: dict[str, float] = attrs.field(factory=dict)
    _told: str = ""

    async def run(self) -> None:
        """Until the host is to end."""
        leaving = self.keeper.host.leaving
        async with trio.open_nursery() as nursery:
            while not leaving.is_set():
                await self.look(nursery)
                with trio.move_on_after(LOOK_AGAIN_S):
                    await leaving.wait()

    async def look(self, nursery: trio.Nursery) -> None:
        """Take what is due now, and bring each tick to its session by a task of its own. Flushes are waited for in a thread."""
        now = self.keeper.host.clock.now()
        try:
            ids = {schedule.id for schedule in self._due(now) if self._may(schedule)}
            if not ids:
                return
            for tick in await trio.to_thread.run_sync(self.schedules.claim, now, lambda each: each.id in ids):
                nursery.start_soon(self._bring, tick)
        except (OSError, StoreError) as error:
            self._trouble(f"schedules cannot be looked at: {error}")

    def _due(self, now: float) -> list[Schedule]:
        stamp = self.schedules.stamp()
        is_news = stamp != self._stamp
        if is_news or self._was_news:
            # Once more after a change: another one in the same tick of the kernel's clock has the same stamp.
            self._known, troubles = self.schedules.all()
            self._stamp, self._was_news = stamp, is_news
            if troubles:
                self._trouble("; ".join(troubles.values()))
        return [each for each in self._known if is_due(each, now)]

    def _may(self, schedule: Schedule) -> bool:
        """Whether its tick can be delivered, or never will be: until then it waits, and those behind it are one with it."""
        if trio.current_time() < self._not_before.get(schedule.id, -math.inf):
            return False
        self._not_before.pop(schedule.id, None)
        try:
            planted, row = self.keeper.reach(schedule.session_id)
            return not planted.is_over and not _still_waits(planted, row, schedule)
        except NotOurs as error:
            self._not_before[schedule.id] = trio.current_time() + ASK_AGAIN_S
            self._trouble(f"schedule {schedule.id} waits: {error}")
            return False
        except Exception:  # whatever it is, it is told as what became of the tick
            return True

    async def _bring(self, tick: Tick) -> None:
        error = await self._delivered(tick)
        try:
            await trio.to_thread.run_sync(self.schedules.end, tick, error)
        except (OSError, StoreError) as failure:
            self._trouble(f"what became of schedule {tick.schedule.id} could not be noted: {failure}")

    async def _delivered(self, tick: Tick) -> str | None:
        """Why it was not; None: the session has it. A bug with one session is not the end of the host."""
        try:
            mailing = await self._at_hand(tick.schedule.session_id)
            slip = mailing.expect(tick.id)
            mailing.deliver(Prompt(tick.id, tick.schedule.prompt, tick.schedule.mode))
            await mailing.receipt(tick.id, slip)
        except (Refused, EngineError, StoreError, OSError) as error:
            return str(error)
        except Exception as bug:
            return f"{type(bug).__name__}: {bug}"
        return None

    async def _at_hand(self, session_id: str) -> Mailing:
        """The way to a session. A tree that is just let go of is opened again when that is done. Raises Refused; as `reach`."""
        while not self.keeper.host.leaving.is_set():
            planted, row = self.keeper.reach(session_id)
            if not planted.is_over:
                return Mailing(planted, row)
            await trio.sleep(LOOK_AGAIN_S / 10)
        raise Refused("not_running", "its host was just ending")

    def _trouble(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.tell(text)


def _still_waits(planted: Planted, row: Row, schedule: Schedule) -> bool:
    """Whether the last tick lies in the session's queue: then another one would say the same twice."""
    if not schedule.claims:
        return False
    records = entry_tree(planted, row).records
    needle = encode(schedule.last_tick)
    was_queued = any(record.type == "mail" and needle in record.raw for record in records)
    return was_queued and schedule.last_tick not in delivered(records)
