"""A session's task: owns the mailbox and the nursery of its children. Incarnations come and go inside it."""

import attrs
import trio

from actors.directory import Row
from actors.outbox import Outbox
from actors.performer import Performer
from actors.protocol.mail import ChildEnded, Emptied, Stop
from actors.protocol.questions import Crashed, Restart
from actors.protocol.restore import restore
from actors.protocol.state import TurnState
from actors.session import ClosingFailed, SessionLoop
from actors.supervisor import Supervisor
from store.entries import VERSION, Header, ModelChangeEntry, Outcome, RunSettledEntry
from store.errors import JournalPoisoned, StoreError
from store.events import Diagnostic
from store.repair import answer_text
from store.times import iso
from store.tree import EntryTree


@attrs.define(eq=False)
class Holder:
    """Never raises: whatever happens in here, the parent hears that its child has ended."""

    supervisor: Supervisor
    row: Row
    _runs_before: int = 0

    async def run(self) -> None:
        """The session's life as a task, from its start to its rest."""
        self._runs_before = self.row.runs
        try:
            async with trio.open_nursery() as nursery:
                # Caught in here: an error that left this block would cancel the children.
                try:
                    is_new = await self._ready()
                    self.supervisor.directory.opened(self.row, nursery)
                    await self._incarnations(is_new=is_new)
                except ClosingFailed as error:
                    self.supervisor.failure = str(error)
                    self._failed(f"its closing records could not be written: {error}")
                except (OSError, StoreError) as error:
                    self._failed(f"its journal cannot be used: {error}")
                except Exception as error:
                    self._failed(f"{type(error).__name__}: {error}")
        except BaseException:
            # Cancelled from outside: who was started anew now would be cancelled at once, and start anew, for ever.
            self.row.has_task = False
            raise
        self._rest()

    async def _ready(self) -> bool:
        """Make the journal of a new session (True), or open the one that is there."""
        row, workshop = self.row, self.supervisor.workshop
        if row.outbox is not None:
            if not row.outbox.tree.records and row.outbox.tree.count:
                row.outbox.tree = workshop.read_tree(row.id)
            return False
        if row.is_stored:
            row.outbox = self.supervisor.outbox(row, *workshop.open_journal(row.id))
            return False
        if row.parent is not None and row.parent.outbox is not None:
            # child_spawned is durable in the parent before the child's file exists.
            await row.parent.outbox.durable()
        begin(self.supervisor, row)
        return True

    async def _incarnations(self, *, is_new: bool) -> None:
        """Incarnation after incarnation, until one comes to rest."""
        outbox = self._outbox()
        state = TurnState(self.row.id, is_root=self.row.parent is None) if is_new else None
        while True:
            try:
                await self._incarnation(outbox, state)
                return
            except ClosingFailed:
                raise
            except JournalPoisoned as error:
                self._diagnose("journal", f"the journal is opened again: {error}")
                journal, tree = self.supervisor.workshop.open_journal(self.row.id)
                outbox.journal, outbox.tree = journal, tree
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                self._diagnose("crash", f"the session crashed and begins again from its journal: {reason}")
                if not isinstance(self.supervisor.consult(Crashed(self.row.id)), Restart):
                    self._give_up(outbox, reason)
                    return
            outbox.close_brackets("the session was restarted")
            state = None

    def _outbox(self) -> Outbox:
        if self.row.outbox is None:
            raise RuntimeError("a session's task runs before its journal is there")
        return self.row.outbox

    async def _incarnation(self, outbox: Outbox, state: TurnState | None) -> None:
        row = self.row
        failure: Exception | None = None
        async with trio.open_nursery() as work:
            performer = Performer(self.supervisor, row, outbox, work)
            number = self.supervisor.next_numbers()
            if state is None:
                running = [child.id for child in row.children if child.is_running]
                state, effects = restore(row.id, outbox.tree, running, number, is_root=row.parent is None)
                performer.perform(effects)
                row.mailbox.put(Emptied())
            loop = SessionLoop(row.mailbox, performer.perform, state.with_(number=number), self._may_close)
            try:
                await loop.run()
            except Exception as error:
                failure = error
            # Timers and late work of an incarnation that has ended are of no use to anybody.
            work.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _may_close(self) -> bool:
        """At rest: no child has a task, and the mailbox is empty. One step, without a checkpoint."""
        has_children = any(child.has_task for child in self.row.children)
        return not has_children and self.row.mailbox.close_if_empty()

    def _diagnose(self, code: str, text: str) -> None:
        self.supervisor.sink.publish(self.row.place, Diagnostic(level="error", code=code, text=text))

    def _give_up(self, outbox: Outbox, reason: str) -> None:
        """It crashed too often. What is below it is stopped, the run is closed as failed."""
        outbox.close_brackets(reason)
        self._stop_children()
        run = self.row.runs + 1
        outbox.append(RunSettledEntry(run=run, outcome="failed", error_message=reason))
        outbox.settle("failed", is_aborted=False)
        self._end(run, "failed", reason, answer_text(outbox.tree.path()))

    def _stop_children(self) -> None:
        for child in self.row.children:
            if child.is_running:
                self.supervisor.directory.deliver(child, Stop("the parent session failed"))

    def _failed(self, reason: str) -> None:
        """It cannot go on, and may not be able to write either. The next open says what its journal lacks."""
        self._diagnose("session", f"{self.row.name}: {reason}")
        self._stop_children()
        if self.row.runs == self._runs_before:
            self._end(self.row.runs + 1, "failed", reason, "")

    def _end(self, run: int, outcome: Outcome, reason: str, text: str) -> None:
        row = self.row
        row.runs, row.outcome, row.is_running = run, outcome, False
        if row.parent is not None:
            self.supervisor.directory.deliver(row.parent, ChildEnded(row.id, run, outcome, None, reason, text))

    def _rest(self) -> None:
        """The task ends; the row stays. Mail that came at the last moment starts it anew."""
        row = self.row
        row.has_task, row.nursery, row.is_running = False, None, False
        left = [letter for letter in row.mailbox.close() if not isinstance(letter.mail, Emptied)]
        if row.outbox is not None and row.parent is not None:
            row.outbox.tree.shed()
        if row.parent is not None and row.parent.has_task:
            row.parent.mailbox.put(Emptied())
        for letter in left:
            self.supervisor.directory.deliver(row, letter.mail)


def begin(supervisor: Supervisor, row: Row) -> None:
    """Create the session's journal and show its header. Raises OSError, StoreError."""
    workshop, parent = supervisor.workshop, row.parent
    header = Header(
        version=VERSION,
        id=row.id,
        timestamp=iso(supervisor.clock.now()),
        cwd=workshop.cwd,
        parent_session=workshop.journal_path(parent.id) if parent is not None else None,
        parent_session_id=parent.id if parent is not None else None,
        root_session_id=row.place.root_id if parent is not None else None,
        rlm_depth=row.place.depth,
        name=row.name if parent is not None or row.is_named else None,
    )
    journal = workshop.create_journal(header)
    row.outbox, row.is_stored = supervisor.outbox(row, journal, EntryTree()), True
    supervisor.sink.publish(row.place, header)
    _, info = workshop.model(row.model)
    row.outbox.append(ModelChangeEntry(provider=info.provider, model_id=info.id))
