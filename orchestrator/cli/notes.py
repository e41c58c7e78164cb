"""Warnings of a run on stderr, where its stream is in a dialect that has no event for them."""

import attrs
import click
import trio

from orchestrator.views.text import sanitize_terminal
from store.events import Diagnostic, Event, Place


@attrs.define
class Notes:
    """Watches a tree. `run` is a task of the host."""

    def take(self, place: Place, event: Event, at: float) -> None:
        """Hear an event."""
        if isinstance(event, Diagnostic) and event.level != "info":
            click.echo(f"sapwood: {sanitize_terminal(event.text)}", err=True)

    async def run(self) -> None:
        """Until cancelled."""
        await trio.sleep_forever()

    def final(self) -> None:
        """All is said."""
