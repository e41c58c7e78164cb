"""What a process does when it is told to end."""

import signal
from collections.abc import Callable

import attrs
import trio

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@attrs.define(eq=False)
class Signals:
    """`number`: the signal that ended the work, which gives the exit status. `is_over`: the work has ended of itself."""

    stop: Callable[[str], None]
    number: int | None = None
    is_over: bool = False
    _late: int | None = None

    @property
    def reason(self) -> str | None:
        return None if self.number is None else f"stopped by {signal.Signals(self.number).name}"

    async def hear(
        self, all_of_it: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The first signal calls `stop`, so that what is open is closed. A second one ends at once.

        Work that is over is not stopped any more: what waits for a slow reader is still written, and the status is the work's.
        """
        with trio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for number in received:
                if self.number is not None or self._late is not None:
                    self.number = self.number or self._late
                    all_of_it.cancel()
                    return
                if self.is_over:
                    self._late = number
                    continue
                self.number = number
                self.stop(f"stopped by {signal.Signals(number).name}")
