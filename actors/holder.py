"""A session's task: owns the mailbox and the nursery of its children. Incarnations come and go inside it."""

from collections.abc import Callable, Iterable

import attrs
import trio

from actors.directory import Row
from actors.mailbox import Letter
from actors.outbox import Outbox
from actors.performer import Performer
from actors.protocol.effects import Effect
from actors.protocol.limits import recent
from actors.protocol.mail import Abort, ChildEnded, ChildRested, ChildWoken, Emptied, Mail, Prompt, Stop
from actors.protocol.questions import Crashed, Escalate
from actors.protocol.restore import restore, told_ends, unwritten
from actors.protocol.rules.family import child_settled
from actors.protocol.state import TurnState
from actors.session import CLOSING_TRIES, ClosingFailed, SessionLoop, write_pause_s
from actors.supervisor import Supervisor
from store.entries import VERSION, Header, Known, ModelChangeEntry, RunSettledEntry
from store.errors import JournalPoisoned, StoreError
from store.events import AgentMessage, AgentSettled, Diagnostic
from store.repair import SETTLED_TEXT_BYTES, bounded, children_of, is_run_open, next_run, runs
from store.times import iso
from store.tree import EntryTree

PARENT_FAILED = "the parent session failed"


@attrs.define(eq=False)
class Holder:
    """Never raises: whatever happens in here, the parent hears that its child has ended."""

    supervisor: Supervisor
    row: Row
    _in_hand: TurnState | None = None
    _reopened: tuple[float, ...] = ()

    async def run(self) -> None:
        """The session's life as a task, from its start to its rest."""
        try:
            async with trio.open_nursery() as nursery:
                # Caught in here: an error that left this block would cancel the children.
                try:
                    is_new = await self._ready()
                    self.supervisor.directory.opened(self.row, nursery)
                    await self._incarnations(is_new=is_new)
                except ClosingFailed as error:
                    self.supervisor.failure = str(error)
                    await self._fail(f"its closing records could not be written: {error}")
                except (OSError, StoreError) as error:
                    await self._fail(f"its journal cannot be used: {error}")
                except Exception as error:
                    await self._fail(reason_of(error))
                self.row.nursery = None
        except BaseException:
            # Cancelled from outside: who was started anew now would be cancelled at once, and start anew, for ever.
            self.row.has_task = False
            raise
        self.supervisor.directory.rest(self.row)

    # The journal

    async def _ready(self) -> bool:
        """Make the journal of a new session (True), or open the one that is there."""
        row, workshop = self.row, self.supervisor.workshop
        if row.outbox is not None:
            # What is attributed to a settled session comes after its records were shed.
            if len(row.outbox.tree.records) < row.outbox.tree.count:
                row.outbox.tree = workshop.read_tree(row.id)
        elif row.is_stored:
            row.outbox = self.supervisor.outbox(row, *workshop.open_journal(row.id))
        else:
            if row.parent is not None and row.parent.outbox is not None:
                await self._until_durable(row.parent, row.parent.outbox)
            await self._begin()
            return True
        row.runs = max(row.runs, next_run(row.outbox.tree.own_records) - 1)
        return False

    async def _until_durable(self, parent: Row, outbox: Outbox) -> None:
        """`child_spawned` is durable in the parent before the child's file exists.

        An abort does not wait for a flush: then there is nothing that this child will do. A flush that failed is the
        parent's to mend, which it does with its next mail.
        """
        with self.row.mailbox.until_urgent():
            for failures in range(1, CLOSING_TRIES + 1):
                try:
                    await outbox.durable()
                    return
                except JournalPoisoned:
                    parent.mailbox.put(Emptied())
                    await trio.sleep(write_pause_s(failures))
            await outbox.durable()

    async def _begin(self) -> None:
        """Create the session's journal and show its header. Raises OSError, StoreError."""
        row, workshop = self.row, self.supervisor.workshop
        header = self._header()
        journal = workshop.create_journal(header)
        outbox = row.outbox = self.supervisor.outbox(row, journal, EntryTree())
        row.is_stored = True
        self.supervisor.sink.publish(row.place, header)
        _, info = workshop.model(row.model)
        change = ModelChangeEntry(provider=info.provider, model_id=info.id)
        await self._written(lambda: outbox.append(change))

    def _header(self) -> Header:
        row, workshop, parent = self.row, self.supervisor.workshop, self.row.parent
        return Header(
            version=VERSION,
            id=row.id,
            timestamp=iso(self.supervisor.clock.now()),
            cwd=workshop.cwd,
            parent_session=workshop.journal_path(parent.id) if parent is not None else None,
            parent_session_id=parent.id if parent is not None else None,
            root_session_id=row.place.root_id if parent is not None else None,
            rlm_depth=row.place.depth,
            name=row.name if parent is not None or row.is_named else None,
        )

    async def _written(self, write: Callable[[], object]) -> None:
        """Write as soon as the disk takes it; with an abort in the mailbox not for ever. Raises ClosingFailed, JournalPoisoned."""
        failures = tries_under_abort = 0
        while True:
            try:
                write()
                return
            except JournalPoisoned:
                raise
            except (OSError, StoreError) as error:
                failures += 1
                if failures == 1:
                    self.supervisor.trouble(self.row, f"not written, trying again: {error}")
                if self.row.mailbox.is_urgent:
                    tries_under_abort += 1
                    if tries_under_abort >= CLOSING_TRIES:
                        raise ClosingFailed(str(error)) from error
                    await trio.sleep(write_pause_s(tries_under_abort))
                else:
                    with self.row.mailbox.until_urgent(write_pause_s(failures)):
                        await trio.sleep_forever()

    # Incarnations

    async def _incarnations(self, *, is_new: bool) -> None:
        """Incarnation after incarnation, until one comes to rest."""
        outbox = self._outbox()
        state = TurnState(self.row.id, is_root=self.row.parent is None) if is_new else None
        is_restart = False
        while True:
            try:
                if is_restart:
                    await self._written(lambda: outbox.close_brackets("the session was restarted"))
                await self._incarnation(outbox, state, is_restart=is_restart)
                return
            except ClosingFailed:
                raise
            except JournalPoisoned as error:
                await self._reopen(outbox, error)
            except Exception as error:
                reason = reason_of(error)
                self._diagnose("crash", f"the session crashed and begins again from its journal: {reason}")
                directive = self.supervisor.consult(Crashed(self.row.id))
                if isinstance(directive, Escalate):
                    await self._fail(f"{directive.reason}, the last time by {reason}")
                    return
            state, is_restart = None, True

    def _outbox(self) -> Outbox:
        if self.row.outbox is None:
            raise RuntimeError("a session's task runs before its journal is there")
        return self.row.outbox

    async def _reopen(self, outbox: Outbox, error: JournalPoisoned) -> None:
        """Take the journal from the disk again. Ever more slowly: a disk whose every flush fails must not keep the loop busy."""
        self._diagnose("journal", f"the journal is opened again: {error}")
        self._reopened = recent(self._reopened, trio.current_time())
        with self.row.mailbox.until_urgent(write_pause_s(len(self._reopened))):
            await trio.sleep_forever()
        outbox.journal, outbox.tree = self.supervisor.workshop.open_journal(self.row.id)

    async def _incarnation(self, outbox: Outbox, state: TurnState | None, *, is_restart: bool) -> None:
        row = self.row
        failure: Exception | None = None
        is_done = False
        try:
            async with trio.open_nursery() as work:
                performer = Performer(self.supervisor, row, outbox, work)
                number = self.supervisor.next_numbers()
                if state is None:
                    state, effects = self._restored(outbox, number, is_restart=is_restart)
                    await self._perform(performer, effects)
                    row.mailbox.put_back(self._abort_in_hand())
                    row.mailbox.put(Emptied())
                loop = SessionLoop(row.mailbox, performer.perform, state.with_(number=number), self._may_close)
                try:
                    await loop.run()
                    # Children that are woken from now on wait for the next start of this task.
                    is_done, row.nursery = True, None
                except Exception as error:
                    failure = error
                finally:
                    self._in_hand = loop.state
                # Timers and late work of an incarnation that has ended are of no use to anybody.
                work.cancel_scope.cancel()
        except Exception as error:
            if not is_done:
                raise
            self._diagnose("crash", f"work that was left over broke: {reason_of(error)}")
        if failure is not None:
            raise failure

    def _restored(self, outbox: Outbox, number: int, *, is_restart: bool) -> tuple[TurnState, list[Effect]]:
        row = self.row
        if is_restart:
            self._sort_ends(outbox)
        return restore(
            row.id,
            outbox.tree,
            {child.id for child in row.children if child.is_running} | self._unheard(),
            number,
            is_root=row.parent is None,
            in_hand=self._in_hand,
            told_run=row.runs if is_restart else None,
        )

    def _unheard(self) -> set[str]:
        """The children whose end lies in the mailbox."""
        return {letter.mail.session_id for letter in self.row.mailbox.waiting() if isinstance(letter.mail, ChildEnded)}

    def _sort_ends(self, outbox: Outbox) -> None:
        """After a crash: an end that is in the journal is not heard again, and a child that never began has ended."""
        records = outbox.tree.own_records
        told = told_ends(records)
        self.row.mailbox.discard(lambda mail: isinstance(mail, ChildEnded) and (mail.session_id, mail.run) in told)
        known = {*self.supervisor.directory.rows, *self._unheard(), *(session for session, _ in told)}
        for child in children_of(records):
            if child.child_session_id not in known:
                self.row.mailbox.put(ChildEnded(child.child_session_id, 1, "lost", None, "it was never started"))

    async def _perform(self, performer: Performer, effects: list[Effect]) -> None:
        await self._written(lambda: performer.perform(effects))

    def _abort_in_hand(self) -> list[Letter]:
        """The abort that the incarnation before this one had heard: it is not forgotten with it."""
        state = self._in_hand
        if state is None or not state.is_aborted:
            return []
        mail: Mail = Stop(state.reason)
        if not state.is_stopping:
            is_clear = state.ending is not None and state.ending.outcome != "completed"
            mail = Abort(state.reason, state.ending.outcome) if is_clear and state.ending else Abort(state.reason)
        return [Letter(mail, self.supervisor.clock.now())]

    def _may_close(self) -> bool:
        """At rest: no child has a task, and the mailbox is empty. One step, without a checkpoint."""
        has_children = any(child.has_task for child in self.row.children)
        return not has_children and self.row.mailbox.close_if_empty()

    def _diagnose(self, code: str, text: str) -> None:
        self.supervisor.sink.publish(self.row.place, Diagnostic(level="error", code=code, text=text))

    # The end of a session that cannot go on

    async def _fail(self, reason: str) -> None:
        """What is below it is stopped and heard; then its run is closed as failed, in the journal if that still takes it."""
        row, outbox = self.row, self.row.outbox
        if outbox is None:
            # Its journal never was: what the stream says of it begins with a header all the same.
            self.supervisor.sink.publish(row.place, self._header())
        self._diagnose("session", f"{row.name}: {reason}")
        self._abandon(row)
        if outbox is not None:
            await self._close_brackets(outbox, reason)
            await self._end_children(outbox)
            self._refuse_what_began(outbox)
        self._refuse(letter.mail for letter in row.mailbox.close())
        if row.is_running:
            await self._settle_as_failed(outbox, reason)

    async def _close_brackets(self, outbox: Outbox, reason: str) -> None:
        try:
            if not await self._is_written(outbox, lambda: outbox.close_brackets(reason)):
                outbox.close_brackets(reason, is_forced=True)
        except Exception as error:
            self._diagnose("session", f"its brackets could not be closed: {reason_of(error)}")

    async def _close(self, outbox: Outbox, body: Known) -> None:
        """Write and show; where the journal does not take it, only show, so that the stream comes to its end."""
        if not await self._is_written(outbox, lambda: outbox.append(body)):
            outbox.append_or_show(body)

    async def _is_written(self, outbox: Outbox, write: Callable[[], object]) -> bool:
        """Try it a few times, as the trouble may be over soon. False: the next open says what is missing."""
        for failures in range(1, CLOSING_TRIES):
            try:
                if outbox.journal.is_poisoned:
                    outbox.journal, outbox.tree = self.supervisor.workshop.open_journal(self.row.id)
                write()
                return True
            except (OSError, StoreError) as error:
                self.supervisor.failure = str(error)
                await trio.sleep(write_pause_s(failures))
        return False

    def _abandon(self, row: Row) -> None:
        """Those below that waited for the start of this task will not start."""
        for child in row.take_waiting():
            self._refuse(letter.mail for letter in child.mailbox.close())
            child.has_task = child.is_running = False
            self._abandon(child)

    async def _end_children(self, outbox: Outbox) -> None:
        """Stop what runs below, and hear each end: children settle before their parent."""
        row, directory = self.row, self.supervisor.directory
        self._sort_ends(outbox)
        running = [child for child in row.children if child.is_running]
        open_ones = {child.id for child in running} | self._unheard()
        for child in running:
            directory.deliver(child, Stop(PARENT_FAILED))
        while open_ones:
            drained = await row.mailbox.drain()
            self._refuse(letter.mail for letter in (*drained.refused, *drained.letters))
            for letter in drained.letters:
                match letter.mail:
                    case ChildEnded() as mail:
                        await self._close(outbox, child_settled(mail))
                        open_ones.discard(mail.session_id)
                    case ChildRested(session_id):
                        open_ones.discard(session_id)
                    case ChildWoken(session_id):
                        open_ones.add(session_id)
                        directory.deliver(directory.rows[session_id], Stop(PARENT_FAILED))

    def _refuse_what_began(self, outbox: Outbox) -> None:
        """The prompt of a run that never came to its first message."""
        if self._in_hand is not None:
            records = outbox.tree.own_records
            run = next_run(records) - (not is_run_open(records))
            self._refuse(
                Prompt(queued.message_id, queued.content, queued.mode, queued.sender)
                for queued in unwritten(self._in_hand, run)
            )

    def _refuse(self, mail: Iterable[Mail]) -> None:
        for one in mail:
            if isinstance(one, Prompt):
                message = AgentMessage(sender=one.sender, to=self.row.name, mode=one.mode, delivery="refused")
                self.supervisor.sink.publish(self.row.place, message)

    async def _settle_as_failed(self, outbox: Outbox | None, reason: str) -> None:
        row, sink = self.row, self.supervisor.sink
        settled = RunSettledEntry(run=row.runs + 1, outcome="failed", error_message=reason)
        text = ""
        if outbox is not None:
            ended = runs(outbox.tree.own_records)
            if ended and ended[-1].run > row.runs:
                settled = ended[-1]  # it had ended, and nobody was told
            else:
                await self._close(outbox, settled)
            text = outbox.answer(settled.run)
        else:
            sink.publish(row.place, settled)
        is_aborted = settled.outcome == "aborted" or (self._in_hand is not None and self._in_hand.is_aborted)
        sink.publish(row.place, AgentSettled(aborted=is_aborted, outcome=settled.outcome))
        row.runs, row.outcome, row.is_running = settled.run, settled.outcome, False
        if row.parent is not None:
            ended_mail = ChildEnded(
                row.id,
                settled.run,
                settled.outcome,  # type: ignore[arg-type]
                settled.stop_reason,
                settled.error_message,
                bounded(text, SETTLED_TEXT_BYTES),
            )
            self.supervisor.directory.deliver(row.parent, ended_mail)


def reason_of(error: BaseException) -> str:
    """What broke, without the groups that nurseries put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
