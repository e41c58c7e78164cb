"""The multiplexed stream: every event of every session of a tree gets its number here and goes to whoever watches."""

from collections.abc import Callable
from typing import Protocol

import attrs

from actors.clock import Clock
from store.events import Event, Place
from store.lines import event_tail, tagged


class Outlet(Protocol):
    """Where lines go. `offer` never waits; readers of models and tools wait for room, nobody else does."""

    def offer(self, line: bytes) -> None: ...

    @property
    def has_room(self) -> bool: ...

    async def wait_for_room(self) -> None: ...


Watcher = Callable[[Place, Event, float], None]


@attrs.define
class Sink:
    """`watchers` are called with (place, event, Unix seconds), the time of the line, in this task, and must not raise or wait."""

    clock: Clock
    outlets: list[Outlet] = attrs.field(factory=list)
    watchers: list[Watcher] = attrs.field(factory=list)
    seq: int = 0

    def publish(self, place: Place, event: Event, tail: tuple[str, bytes] | None = None) -> None:
        """Number the event and show it. `tail`: its encoding behind `{"type":"…"`, where that is there already."""
        self.seq += 1
        at, text = self.clock.stamp()
        if self.outlets:
            kind, encoded = tail or event_tail(event)
            line = tagged(encoded, kind, place, self.seq, text)
            for outlet in self.outlets:
                outlet.offer(line)
        for watcher in self.watchers:
            watcher(place, event, at)

    async def wait_for_room(self) -> None:
        """Back-pressure at the sources: return when every outlet has room. At once, without a checkpoint, if they have."""
        for outlet in self.outlets:
            if not outlet.has_room:
                await outlet.wait_for_room()
