"""How a run of this process has ended: from outcome, signal and stdout to the exit status."""

import attrs

from orchestrator.engine.job import Ended
from orchestrator.engine.planted import Planted
from orchestrator.engine.signals import Signals
from orchestrator.engine.status import exit_status
from store.context import last_assistant
from store.entries import RunSettledEntry
from store.events import Event, Place


@attrs.define(eq=False)
class RunEnd:
    """`gone`: why stdout takes nothing any more."""

    signals: Signals
    gone: OSError | None = None
    _settled: RunSettledEntry | None = None

    def take(self, place: Place, event: Event, at: float) -> None:
        """A watcher: why the root's run ended as it did, also where its journal does not take that any more."""
        if place.parent_id is None and isinstance(event, RunSettledEntry):
            self._settled = event

    def reader_gone(self, error: OSError) -> None:
        self.gone = error
        self.signals.stop("the reader of stdout went away")

    def of(self, planted: Planted) -> Ended:
        root, outbox = planted.tree.root, planted.tree.root.outbox
        message = None if outbox is None else last_assistant(outbox.tree.path())
        is_pipe = isinstance(self.gone, BrokenPipeError)
        failure = planted.tree.supervisor.failure
        if failure is not None:
            failure = f"the records that close the run could not be written: {failure}"
        if self.gone is not None and not is_pipe:
            failure = f"stdout could not be written: {self.gone}"
        outcome = root.outcome or "failed"
        error = failure or self.signals.reason
        if error is None and outcome != "completed":
            error = (self._settled.error_message if self._settled is not None else None) or outcome
        return Ended(
            exit_status(outcome, signal=self.signals.number, reader_gone=is_pipe, failure=failure),
            outcome,
            root.id,
            message.text if message is not None else "",
            error,
        )
