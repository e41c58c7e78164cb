"""The end of a session that cannot go on: what is below it is stopped and heard, then its run is closed as failed."""

from collections.abc import Callable, Iterable

import attrs
import trio

from actors.directory import Directory, Row
from actors.outbox import Outbox
from actors.protocol.mail import ChildEnded, ChildRested, ChildWoken, Mail, Prompt, Stop
from actors.protocol.restore import told_ends, unwritten
from actors.protocol.rules.family import child_settled
from actors.protocol.state import TurnState
from actors.session import CLOSING_TRIES, write_pause_s
from actors.supervisor import Supervisor
from store.entries import Known, RunSettledEntry
from store.errors import StoreError
from store.events import AgentMessage, AgentSettled, Diagnostic
from store.repair import SETTLED_TEXT_BYTES, bounded, children_of, is_run_open, next_run, runs

PARENT_FAILED = "the parent session failed"


@attrs.define(eq=False)
class GivingUp:
    """No rule has a say in here: it may have been a rule that broke. `in_hand`: what the last incarnation knew."""

    supervisor: Supervisor
    row: Row
    in_hand: TurnState | None

    async def run(self, reason: str) -> None:
        """Never raises: whoever waits for this session hears that it has ended."""
        try:
            await self._close_all(reason)
        except Exception as error:
            self._diagnose(f"it could not be closed in order: {reason_of(error)}")
        if self.row.is_running:
            self._tell(RunSettledEntry(run=self.row.runs + 1, outcome="failed", error_message=reason), "")

    async def _close_all(self, reason: str) -> None:
        row, outbox = self.row, self.row.outbox
        self._abandon(row)
        if outbox is not None:
            await self._close_brackets(outbox, reason)
            await self._end_children(outbox)
            self._refuse_what_began(outbox)
        self._refuse(letter.mail for letter in row.mailbox.close())
        if row.is_running:
            await self._settle(outbox, reason)

    def _abandon(self, row: Row) -> None:
        """Those below that waited for the start of this task will not start."""
        for child in row.take_waiting():
            self._refuse(letter.mail for letter in child.mailbox.close())
            child.has_task = child.is_running = False
            self._abandon(child)

    async def _close_brackets(self, outbox: Outbox, reason: str) -> None:
        try:
            if not await self._is_written(outbox, lambda: outbox.close_brackets(reason)):
                outbox.close_brackets(reason, is_forced=True)
        except Exception as error:
            self._diagnose(f"its brackets could not be closed: {reason_of(error)}")

    async def _end_children(self, outbox: Outbox) -> None:
        """Stop what runs below, and hear each end: children settle before their parent."""
        row, directory = self.row, self.supervisor.directory
        sort_ends(directory, row, outbox)
        running = [child for child in row.children if child.is_running]
        open_ones = {child.id for child in running} | unheard(row)
        for child in running:
            directory.deliver(child, Stop(PARENT_FAILED))
        while open_ones:
            drained = await row.mailbox.drain()
            self._refuse(letter.mail for letter in (*drained.refused, *drained.letters))
            for letter in drained.letters:
                match letter.mail:
                    case ChildEnded() as mail:
                        await self._write(outbox, child_settled(mail))
                        open_ones.discard(mail.session_id)
                    case ChildRested(session_id):
                        open_ones.discard(session_id)
                    case ChildWoken(session_id):
                        open_ones.add(session_id)
                        directory.deliver(directory.rows[session_id], Stop(PARENT_FAILED))

    def _refuse_what_began(self, outbox: Outbox) -> None:
        """The prompt of a run that never came to its first message."""
        if self.in_hand is not None:
            records = outbox.tree.own_records
            run = next_run(records) - (not is_run_open(records))
            self._refuse(
                Prompt(queued.message_id, queued.content, queued.mode, queued.sender)
                for queued in unwritten(self.in_hand, run)
            )

    def _refuse(self, mail: Iterable[Mail]) -> None:
        for one in mail:
            if isinstance(one, Prompt):
                self.supervisor.receipt(one.message_id, "refused", "the session has failed")
                message = AgentMessage(sender=one.sender, to=self.row.name, mode=one.mode, delivery="refused")
                self.supervisor.sink.publish(self.row.place, message)

    async def _settle(self, outbox: Outbox | None, reason: str) -> None:
        row = self.row
        settled = RunSettledEntry(run=row.runs + 1, outcome="failed", error_message=reason)
        if outbox is None:
            self.supervisor.sink.publish(row.place, settled)
            self._tell(settled, "")
            return
        ended = runs(outbox.tree.own_records)
        if ended and ended[-1].run > row.runs:
            settled = ended[-1]  # it had ended, and nobody was told
        else:
            await self._write(outbox, settled)
        self._tell(settled, outbox.answer(settled.run))

    def _tell(self, settled: RunSettledEntry, text: str) -> None:
        row = self.row
        self.supervisor.run_ended(row)
        is_aborted = settled.outcome == "aborted" or (self.in_hand is not None and self.in_hand.is_aborted)
        self.supervisor.sink.publish(row.place, AgentSettled(aborted=is_aborted, outcome=settled.outcome))
        row.runs, row.outcome, row.is_running = settled.run, settled.outcome, False
        if row.parent is not None:
            ended = ChildEnded(
                row.id,
                settled.run,
                settled.outcome,  # type: ignore[arg-type]
                settled.stop_reason,
                settled.error_message,
                bounded(text, SETTLED_TEXT_BYTES),
            )
            self.supervisor.directory.deliver(row.parent, ended)

    async def _write(self, outbox: Outbox, body: Known) -> None:
        """Write and show; where the journal does not take it, only show, so that the stream comes to its end."""
        if not await self._is_written(outbox, lambda: outbox.append(body)):
            outbox.append_or_show(body)

    async def _is_written(self, outbox: Outbox, write: Callable[[], object]) -> bool:
        """Try it a few times, as the trouble may be over soon. False: the next open says what is missing."""
        failure = ""
        for failures in range(1, CLOSING_TRIES):
            try:
                if outbox.journal.is_poisoned:
                    outbox.journal, outbox.tree = self.supervisor.workshop.open_journal(self.row.id)
                write()
                return True
            except (OSError, StoreError) as error:
                failure = str(error)
                await trio.sleep(write_pause_s(failures))
        self.supervisor.failure = failure
        return False

    def _diagnose(self, text: str) -> None:
        diagnostic = Diagnostic(level="error", code="session", text=f"{self.row.name}: {text}")
        self.supervisor.sink.publish(self.row.place, diagnostic)


def unheard(row: Row) -> set[str]:
    """The children whose end lies in the mailbox."""
    return {letter.mail.session_id for letter in row.mailbox.waiting() if isinstance(letter.mail, ChildEnded)}


def sort_ends(directory: Directory, row: Row, outbox: Outbox) -> None:
    """After a crash: an end that is in the journal is not heard again, and a child that never began has ended."""
    records = outbox.tree.own_records
    told = told_ends(records)
    row.mailbox.discard(lambda mail: isinstance(mail, ChildEnded) and (mail.session_id, mail.run) in told)
    known = {*directory.rows, *unheard(row), *(session for session, _ in told)}
    for child in children_of(records):
        if child.child_session_id not in known:
            row.mailbox.put(ChildEnded(child.child_session_id, 1, "lost", None, "it was never started"))


def reason_of(error: BaseException) -> str:
    """What broke, without the groups that nurseries put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
