"""Waiting for something to happen in a tree."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from store.events import Event, Place


@attrs.define(eq=False)
class Ear:
    """Waits for one event. `wants` must not raise."""

    wants: Callable[[Place, Event], bool]
    _came: trio.Event = attrs.field(factory=trio.Event)
    _event: Event | None = None

    def take(self, place: Place, event: Event) -> None:
        if self._event is None and self.wants(place, event):
            self._event = event
            self._came.set()

    async def heard(self) -> Event:
        await self._came.wait()
        if self._event is None:
            raise RuntimeError("an event was announced and is not there")
        return self._event


@attrs.define(eq=False)
class Hearing:
    """A watcher of a tree's stream. It costs next to nothing while nobody waits."""

    _ears: list[Ear] = attrs.field(factory=list)

    def take(self, place: Place, event: Event, at: float) -> None:
        for ear in self._ears:
            ear.take(place, event)

    @contextmanager
    def ear(self, wants: Callable[[Place, Event], bool]) -> Iterator[Ear]:
        """Listens from now on until this is left."""
        ear = Ear(wants)
        self._ears.append(ear)
        try:
            yield ear
        finally:
            self._ears.remove(ear)
