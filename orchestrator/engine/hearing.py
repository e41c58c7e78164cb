"""Waiting for something to happen in a tree."""

from collections.abc import Callable

import attrs
import trio

from store.events import Event, Place


@attrs.define(eq=False)
class Ear:
    """Waits for one event. `wants` must not raise. Leaving its block ends the listening."""

    wants: Callable[[Place, Event], bool]
    _hearing: "Hearing"
    _came: trio.Event = attrs.field(factory=trio.Event)
    _event: Event | None = None

    def take(self, place: Place, event: Event) -> None:
        if self._event is None and self.wants(place, event):
            self._event = event
            self._came.set()

    async def heard(self) -> Event | None:
        """None: the tree is let go of, and nothing comes any more."""
        await self._came.wait()
        return self._event

    def end(self) -> None:
        self._came.set()

    def __enter__(self) -> "Ear":
        return self

    def __exit__(self, *exc: object) -> None:
        self._hearing.ears.remove(self)


@attrs.define(eq=False)
class Hearing:
    """A watcher of a tree's stream. It costs next to nothing while nobody waits."""

    ears: list[Ear] = attrs.field(factory=list)

    def take(self, place: Place, event: Event, at: float) -> None:
        for ear in self.ears:
            ear.take(place, event)

    def end(self) -> None:
        """Nothing comes any more."""
        for ear in self.ears:
            ear.end()

    def listen(self, wants: Callable[[Place, Event], bool]) -> Ear:
        """Listens from now on."""
        self.ears.append(Ear(wants, self))
        return self.ears[-1]
