"""Warnings of a run on stderr, where there is no terminal, and no stream that has an event for them."""

import attrs
import click
import trio

from orchestrator.views.text import sanitize_terminal
from store.events import Diagnostic, Event, Place


@attrs.define
class Notes:
    """Watches a tree. `run` is a task of the host. `levels`: those of the diagnostics that are told."""

    levels: frozenset[str] = frozenset({"warning", "error"})

    def take(self, place: Place, event: Event, at: float) -> None:
        """Hear an event."""
        if isinstance(event, Diagnostic) and event.level in self.levels:
            click.echo(f"sapwood: {sanitize_terminal(event.text)}", err=True)

    async def run(self) -> None:
        """Until cancelled."""
        await trio.sleep_forever()

    def final(self) -> None:
        """All is said."""
