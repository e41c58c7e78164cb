"""Who watches the trees of a host: subscriptions, and what each is shown."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from actors.directory import Row
from orchestrator.engine.control.answers import left, opened, snapshot
from orchestrator.engine.control.outgoing import Target
from orchestrator.engine.control.ring import Ring
from orchestrator.views.rows import AgentRow
from store.lines import line_tags


@attrs.define(eq=False)
class Feed:
    """The stream of one tree on its way to whoever watches: an outlet of its sink. `rows`: the sessions of the tree."""

    root_id: str
    audience: "Audience"
    rows: Mapping[str, Row] = attrs.field(factory=dict)
    ring: Ring = attrs.field(factory=Ring)

    def offer(self, line: bytes) -> None:
        self.ring.add(line)
        for subscription in self.audience.subscriptions:
            subscription.take(self, line)

    @property
    def has_room(self) -> bool:
        return self.audience.has_room

    async def wait_for_room(self) -> None:
        for subscription in tuple(self.audience.subscriptions):
            await subscription.target.wait_for_room()

    def is_below(self, session_id: str, top_id: str) -> bool:
        """Whether a session is `top_id` or somewhere below it."""
        row = self.rows.get(session_id)
        while row is not None and row.id != top_id:
            row = row.parent
        return row is not None


@attrs.define(eq=False)
class Subscription:
    """`top_id`: a session whose subtree is shown; None: all. `types`: of lines; None: all."""

    target: Target
    top_id: str | None = None
    types: frozenset[str] | None = None

    def take(self, feed: Feed, line: bytes) -> None:
        if self._wants(feed, line):
            self.target.offer(line, feed.root_id)

    def wanted(self, feed: Feed, lines: Iterable[bytes]) -> list[bytes]:
        return [line for line in lines if self._wants(feed, line)]

    def shown(self, feed: Feed, rows: Sequence[AgentRow]) -> list[AgentRow]:
        """Of the rows of a tree those that it is about."""
        return [row for row in rows if self.top_id is None or feed.is_below(row.session_id, self.top_id)]

    def covers(self, feed: Feed) -> bool:
        """Whether anything of this tree is shown."""
        return self.top_id is None or self.top_id in feed.rows

    def _wants(self, feed: Feed, line: bytes) -> bool:
        if self.top_id is None and self.types is None:
            return True
        kind, session, _ = line_tags(line)
        if self.types is not None and kind not in self.types:
            return False
        return self.top_id is None or feed.is_below(session, self.top_id)


@attrs.define(eq=False)
class Audience:
    """`generation` is another one for every host: numbers of lines mean something within one only."""

    generation: str
    subscriptions: list[Subscription] = attrs.field(factory=list)

    @property
    def has_room(self) -> bool:
        return all(subscription.target.has_room for subscription in self.subscriptions)

    def tell_opened(self, feed: Feed, rows: Sequence[AgentRow]) -> None:
        """A stored tree is at hand: how its sessions stand, to all that watch it. A new tree tells that itself, line by line."""
        for subscription in self.subscriptions:
            shown = subscription.shown(feed, rows)
            if shown:
                target = subscription.target
                target.note(opened(self.generation, feed.root_id, feed.ring.seq, len(shown)), feed.root_id)
                for row in shown:
                    target.note(snapshot(self.generation, row), feed.root_id)

    def tell_left(self, feed: Feed) -> None:
        """The tree is not at hand any more."""
        for subscription in self.subscriptions:
            if subscription.covers(feed):
                subscription.target.note(left(feed.root_id), feed.root_id)

    def leave(self, target: Target) -> None:
        """The subscription of this connection ends, if it has one."""
        self.subscriptions = [each for each in self.subscriptions if each.target is not target]
