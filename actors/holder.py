"""A session's task: owns the mailbox and the nursery of its children. Incarnations come and go inside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from actors.directory import Row
from actors.giving_up import GivingUp, reason_of, sort_ends, unheard
from actors.mailbox import Letter
from actors.outbox import Outbox
from actors.performer import Performer
from actors.protocol.effects import Effect
from actors.protocol.limits import recent
from actors.protocol.mail import Abort, Emptied, Mail, Stop
from actors.protocol.questions import Crashed, Escalate
from actors.protocol.restore import restore
from actors.protocol.state import TurnState
from actors.run_time import RunTime
from actors.session import CLOSING_TRIES, ClosingFailed, SessionLoop, write_pause_s
from actors.supervisor import Supervisor
from store.entries import VERSION, Header, ModelChangeEntry
from store.errors import JournalPoisoned, StoreError
from store.events import Diagnostic
from store.repair import next_run
from store.times import iso
from store.tree import EntryTree


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
                    with self._timed(nursery):
                        is_new = await self._ready()
                        self.supervisor.directory.opened(self.row, nursery)
                        await self._incarnations(is_new=is_new)
                except ClosingFailed as error:
                    self.supervisor.failure = str(error)
                    await self._give_up(f"its closing records could not be written: {error}")
                except (OSError, StoreError) as error:
                    await self._give_up(f"its journal cannot be used: {error}")
                except Exception as error:
                    await self._give_up(reason_of(error))
                self.row.nursery = None
        except BaseException:
            # Cancelled from outside: who was started anew now would be cancelled at once, and start anew, for ever.
            self.row.has_task = False
            raise
        self.supervisor.directory.rest(self.row)

    @contextmanager
    def _timed(self, nursery: trio.Nursery) -> Iterator[None]:
        """While inside, a run ends as timed out when its time is over, with all below it. Restarts win no time."""
        row = self.row
        if row.time is None and "timeout_s" in row.limits:
            row.time = RunTime(row.limits["timeout_s"])
        if row.time is None:
            yield
            return
        if row.is_running:
            row.time.begin()
        watch = trio.CancelScope()
        nursery.start_soon(self._expire, row.time, watch)
        try:
            yield
        finally:
            watch.cancel()
            row.time.end()

    async def _expire(self, time: RunTime, watch: trio.CancelScope) -> None:
        option = "; raise it with --timeout" if self.row.parent is None else ""
        with watch:
            while True:
                await time.over()
                reason = f"its time of {time.limit_s:g} s is over{option}"
                self.supervisor.directory.deliver(self.row, Abort(reason, "timed_out"))

    # The journal

    async def _ready(self) -> bool:
        """Make the journal of a new session (True), or open the one that is there."""
        row, workshop = self.row, self.supervisor.workshop
        if row.outbox is not None:
            # What is attributed to a settled session comes after its records were shed.
            if len(row.outbox.tree.records) < row.outbox.tree.count:
                row.outbox.tree = workshop.read_tree(row.id)
        elif row.is_stored:
            row.outbox = self.supervisor.opened(row)
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
        await self._written(lambda: outbox.append(change, *row.founding))

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
        """Write as soon as the disk takes it; with an abort in the mailbox not for ever.

        Raises ClosingFailed, and StoreError for what no disk would ever take.
        """
        failures = tries_under_abort = 0
        while True:
            try:
                write()
                return
            except OSError as error:
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
        describer = self.supervisor.state.describer
        state = TurnState(self.row.id, is_root=self.row.parent is None, describer=describer) if is_new else None
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
                    await self._give_up(f"{directive.reason}, the last time by {reason}")
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
                # A call that the incarnation before this one was granted and never made.
                self.supervisor.withdraw(row)
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
            sort_ends(self.supervisor.directory, row, outbox)
        return restore(
            row.id,
            outbox.tree,
            {child.id for child in row.children if child.is_running} | unheard(row),
            number,
            is_root=row.parent is None,
            describer=self.supervisor.state.describer,
            in_hand=self._in_hand,
            told_run=row.runs if is_restart else None,
        )

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

    async def _give_up(self, reason: str) -> None:
        row = self.row
        if row.outbox is None:
            # Its journal never was: what the stream says of it begins with a header all the same.
            self.supervisor.sink.publish(row.place, self._header())
        self._diagnose("session", f"{row.name}: {reason}")
        await GivingUp(self.supervisor, row, self._in_hand).run(reason)

    def _diagnose(self, code: str, text: str) -> None:
        self.supervisor.sink.publish(self.row.place, Diagnostic(level="error", code=code, text=text))
