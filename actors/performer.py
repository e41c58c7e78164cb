"""Carries out what the turn rules decide, for one incarnation. Nothing here waits: work is started, and comes home as mail."""

from collections.abc import Awaitable, Callable, Sequence

import attrs
import msgspec
import trio

from actors.asks import Asks
from actors.description import Describing
from actors.directory import Row
from actors.errands import Errands
from actors.gate_run import GateRun
from actors.heeding import heed
from actors.in_turn import InTurn, in_turns
from actors.model_call import call_model, with_sizes
from actors.outbox import Outbox, Written
from actors.protocol.describing import status_of
from actors.protocol.effects import (
    AbortChildren,
    Answer,
    AppendEntry,
    AppendPartial,
    BranchOff,
    CallModel,
    CancelTimer,
    CancelWork,
    Consult,
    Deny,
    Describe,
    DescribeRun,
    Disown,
    DrainLedger,
    Effect,
    EndLoop,
    EndTools,
    EndTurn,
    Heed,
    KeepTime,
    PublishEvent,
    RefuseMail,
    ReportRunning,
    RunGate,
    RunTools,
    SettleRun,
    StartChild,
    StartLoop,
    StartTimer,
    StartTurn,
    Summarise,
    Withdraw,
)
from actors.protocol.mail import REVIVING, Abort, ChildEnded, Directed, LedgerDrained, Signal, TimerFired
from actors.protocol.model import Model
from actors.protocol.questions import Go, MayCall, MaySettle, Question
from actors.protocol.rules.batch import not_run
from actors.protocol.tools import (
    FamilyAnswer,
    FamilyRequest,
    HostAnswer,
    HostRequest,
)
from actors.summary import Summary
from actors.supervisor import Supervisor
from actors.tool_calls import ToolRun
from store.entries import AgentStatusEntry, Known, MailEntry, MessageEntry
from store.events import AgentMessage
from store.messages import AssistantMessage, ToolCall
from store.repair import SETTLED_TEXT_BYTES, bounded
from store.wire import encode

SPAWNS = "spawn_agent"


@attrs.define(eq=False)
class Performer:
    """`nursery` holds the work of this incarnation; children live in the row's own."""

    supervisor: Supervisor
    row: Row
    outbox: Outbox
    nursery: trio.Nursery
    _scopes: dict[int, list[trio.CancelScope]] = attrs.field(factory=dict)
    _timers: dict[int, trio.CancelScope] = attrs.field(factory=dict)
    _calls: dict[str, ToolCall] = attrs.field(factory=dict)
    _answer_id: str | None = None
    _speaker: Model | None = None
    _asks: Asks = attrs.field(
        init=False, default=attrs.Factory(lambda self: Asks(self.supervisor, self.row, self.outbox), takes_self=True)
    )

    def perform(self, effects: Sequence[Effect]) -> None:
        """Write what is to be written, in one go; then everything else, in order.

        Raises OSError or StoreError when the write failed. Then nothing of `effects` has happened.
        """
        parts = [(effect, self._bodies(effect)) for effect in effects]
        written = iter(self.outbox.write([body for _, bodies in parts for body in bodies]))
        for effect, bodies in parts:
            self._carry_out(effect, [next(written) for _ in bodies])

    def _bodies(self, effect: Effect) -> tuple[Known, ...]:
        """The entries of an effect. With an answer that is kept in part go the results of the calls that are whole in it."""
        if isinstance(effect, AppendEntry):
            return (effect.body,)
        if isinstance(effect, AppendPartial):
            reply = self.outbox.reply
            now = self.supervisor.clock.steady_s()
            message = AssistantMessage(content=(), stop_reason="aborted", error_message=effect.reason)
            message = message if reply is None else reply.message("aborted", now, effect.reason)
            results = [not_run(call.id, call.name, message.timestamp) for call in message.calls]
            return (MessageEntry(message=msgspec.Raw(encode(message))), *results)
        if isinstance(effect, Describe):
            messages = sum(record.type == "message" for record in self.outbox.tree.records)
            status = status_of(self.outbox.answer(effect.run), messages, effect.described)
            return () if status is None else (AgentStatusEntry(status=status),)
        return ()

    def _carry_out(self, effect: Effect, written: Sequence[Written]) -> None:
        outbox, supervisor = self.outbox, self.supervisor
        match effect:
            case AppendEntry() | AppendPartial() | Describe():
                for one in written:
                    self._show(one)
                if isinstance(effect, AppendEntry) and effect.message_id is not None:
                    supervisor.receipt(effect.message_id, "delivered")
            case PublishEvent() | StartLoop() | EndLoop() | StartTurn() | EndTurn() | EndTools():
                self._bracket(effect)
            case CallModel() | RunTools() | RunGate() | Summarise() | DescribeRun() | DrainLedger():
                self._begin(effect)
            case CancelWork():
                for scope in [scope for scopes in self._scopes.values() for scope in scopes]:
                    scope.cancel()
            case StartTimer(timer, delay_s):
                self._start_timer(timer, delay_s)
            case CancelTimer(timer):
                if timer in self._timers:
                    self._timers[timer].cancel()
            case Consult(question_id, question):
                self._consult(question_id, question)
            case Withdraw():
                supervisor.withdraw(self.row)
            case Heed(setting):
                heed(supervisor, self.row, setting)
            case BranchOff(message_id, entry_id, body):
                outbox.branch_off(entry_id, body)
                supervisor.receipt(message_id, "delivered")
            case Deny(message_id, reason):
                supervisor.receipt(message_id, "refused", reason)
            case Answer(ask_id, value):
                self._asks.answer(ask_id, value)
            case AbortChildren(session_ids, reason):
                self._abort_children(session_ids, reason)
            case Disown(admitted):
                supervisor.disown(self.row, admitted)
            case StartChild(admitted, request):
                supervisor.start_child(self.row, admitted, request, self._answer_id)
            case ReportRunning():
                supervisor.directory.wake(self.row)
            case KeepTime():
                if self.row.time is not None:
                    self.row.time.begin()
            case SettleRun():
                self._settle(effect)
            case RefuseMail():
                self.refuse(effect)

    def _bracket(self, effect: PublishEvent | StartLoop | EndLoop | StartTurn | EndTurn | EndTools) -> None:
        """What is on the stream alone."""
        match effect:
            case PublishEvent(event):
                self.outbox.publish(event)
            case StartLoop():
                self.outbox.start_loop()
            case EndLoop(will_retry):
                self.outbox.end_loop(will_retry=will_retry)
            case StartTurn():
                self.row.turns += 1
                self.outbox.start_turn()
            case EndTurn():
                self.outbox.end_turn()
            case EndTools():
                self.outbox.tools.close("The run ended before this tool did.")

    def _begin(self, effect: CallModel | RunTools | RunGate | Summarise | DescribeRun | DrainLedger) -> None:
        """Work of its own, which ends in one signal."""
        supervisor, row, outbox = self.supervisor, self.row, self.outbox
        match effect:
            case CallModel(work):
                self._start(work, lambda scope: call_model(supervisor, row, outbox, effect, scope, self._speaker))
            case RunTools(work, call_ids):
                self._start_tools(work, call_ids)
            case RunGate(work, command, timeout_s):
                self._start(work, GateRun(supervisor, row, outbox, InTurn(self._ask), work, command, timeout_s).run)
            case Summarise(work, instructions):
                self._start(work, lambda scope: Summary(supervisor, row, outbox, work, instructions, scope).run())
            case DescribeRun(work, number, model):
                answer = outbox.answer(number)
                self._start(work, lambda scope: Describing(supervisor, row, outbox, work, model, answer, scope).run())
            case DrainLedger(work):
                self.nursery.start_soon(self._drain, work)

    def _show(self, written: Written) -> None:
        body = written.draft.body
        if isinstance(body, MessageEntry) and bytes(body.message).startswith(b'{"role":"assistant"'):
            message = msgspec.json.decode(body.message, type=AssistantMessage)
            self._calls = {call.id: call for call in message.calls}
            self._answer_id = written.record.id
        elif isinstance(body, MailEntry):
            self.supervisor.receipt(body.message_id, "queued")
        self.outbox.show(written.draft)

    # Model and tools

    def _start(self, work: int, run: Callable[[trio.CancelScope], Awaitable[Signal]]) -> None:
        """Start work that its scope cancels, and whose signal comes home."""
        scope = trio.CancelScope()
        self._scopes[work] = [scope]

        async def task() -> None:
            signal = await run(scope)
            self._scopes.pop(work, None)
            self.row.mailbox.put(signal)

        self.nursery.start_soon(task)

    def _consult(self, question_id: int, question: Question) -> None:
        if isinstance(question, MayCall):
            self._speaker = self.supervisor.workshop.speaker(self.row)
            if self._speaker is not None:
                # It costs nothing, so there is nobody to ask. What is recorded by now is what the answer goes with.
                self.row.mailbox.put(Directed(question_id, Go()))
                return
            question = with_sizes(self.supervisor, self.row, self.outbox, question)
        elif isinstance(question, MaySettle):
            question = msgspec.structs.replace(question, answer=self.outbox.answer(self.row.runs + 1))
        mailbox = self.row.mailbox
        self.supervisor.ask(question, lambda directive: mailbox.put(Directed(question_id, directive)))

    def _start_tools(self, work: int, call_ids: tuple[str, ...]) -> None:
        runs: list[tuple[ToolRun, InTurn]] = []
        calls = [self._calls[call_id] for call_id in call_ids]
        for call, port in zip(calls, in_turns(self._ask, [call.name == SPAWNS for call in calls]), strict=True):
            bracket = self.outbox.tools.start(call.id, call.name, call.checked_arguments)
            run = ToolRun(self.supervisor, self.row, self.outbox, port, work, call, bracket, trio.CancelScope())
            self._scopes.setdefault(work, []).append(run.scope)
            runs.append((run, port))
        for run, port in runs:
            self.nursery.start_soon(self._run_tool, run, port)

    async def _run_tool(self, run: ToolRun, port: InTurn) -> None:
        try:
            signal = await run.run()
        finally:
            port.end()
        self.row.mailbox.put(signal)

    # What tools ask of the tree

    async def _ask(self, request: FamilyRequest | HostRequest, asked: Callable[[], None]) -> FamilyAnswer | HostAnswer:
        """What a tool asks. What concerns this session's own state goes through its own mailbox; then `asked` is called."""
        if isinstance(request, HostRequest):
            return await Errands(self.supervisor, self.row, self.outbox, self._asks.ask).run(request)
        return await self._asks.ask(request, asked)

    # Children, timers, the end

    def _abort_children(self, session_ids: tuple[str, ...], reason: str) -> None:
        for session_id in session_ids:
            row = self.supervisor.directory.rows[session_id]
            self.supervisor.directory.deliver(row, Abort(reason))

    def _start_timer(self, timer: int, delay_s: float) -> None:
        scope = self._timers[timer] = trio.CancelScope()

        async def run() -> None:
            with scope:
                await trio.sleep(delay_s)
                self.row.mailbox.put(TimerFired(timer))
            self._timers.pop(timer, None)

        self.nursery.start_soon(run)

    async def _drain(self, work: int) -> None:
        await self.supervisor.drained()
        self.row.mailbox.put(LedgerDrained(work))

    def _settle(self, effect: SettleRun) -> None:
        row = self.row
        row.runs, row.outcome, row.is_running = effect.run, effect.outcome, False
        self.supervisor.run_ended(row)
        self.outbox.settle(effect.outcome, is_aborted=effect.is_aborted)
        if row.parent is None:
            return
        text = self.outbox.answer(effect.run)
        ended = ChildEnded(
            row.id,
            effect.run,
            effect.outcome,
            effect.stop_reason,
            effect.error_message,
            bounded(text, SETTLED_TEXT_BYTES),
        )
        self.supervisor.directory.deliver(row.parent, ended)
        if any(isinstance(letter.mail, REVIVING) for letter in row.mailbox.waiting()):
            # In the same breath, so that nobody above takes it for quiet in between.
            self.supervisor.directory.wake(row)

    def refuse(self, effect: RefuseMail) -> None:
        """Say that a message was not taken."""
        self.supervisor.receipt(effect.message_id, "refused", effect.reason)
        self.outbox.publish(AgentMessage(sender=effect.sender, to=self.row.name, mode=effect.mode, delivery="refused"))
