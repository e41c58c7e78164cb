"""A session without a world: plays the world's part against the turn rules, and looks at every step that they take."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs
import msgspec

from actors.protocol.effects import (
    AbortChildren,
    Answer,
    AppendEntry,
    AppendPartial,
    CallModel,
    CancelTimer,
    CancelWork,
    Consult,
    Disown,
    DrainLedger,
    Effect,
    EndLoop,
    EndTurn,
    PublishEvent,
    RefuseMail,
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
from actors.protocol.mail import (
    Abort,
    Asked,
    CallPart,
    ChildEnded,
    ChildRested,
    ChildWoken,
    CompactNow,
    Directed,
    Emptied,
    GateEnded,
    LedgerDrained,
    Mail,
    ModelEnded,
    ModelFailed,
    Prompt,
    Stop,
    Summarised,
    SummaryFailed,
    TimerFired,
    ToolEnded,
)
from actors.protocol.model import FailureKind, ModelFailure
from actors.protocol.questions import (
    Admit,
    CallFailed,
    Compact,
    Directive,
    GiveUp,
    Go,
    HandBack,
    MayCall,
    MaySettle,
    MaySpawn,
    Question,
    Refuse,
    RetryAfter,
    SwitchModel,
)
from actors.protocol.rules.batch import not_run
from actors.protocol.settling import may_settle
from actors.protocol.state import TurnState
from actors.protocol.tools import ListFamily, Spawn, WaitFor, text_result
from actors.protocol.trial import DONE, AutonomyPolicy, GatePolicy, says_done
from actors.protocol.turn import step
from store.entries import (
    MOVES_LEAF,
    CompactionEntry,
    CustomMessageEntry,
    GateEndEntry,
    Known,
    MailEntry,
    MessageEntry,
    RunSettledEntry,
)
from store.events import AutoRetryEnd, AutoRetryStart, CompactionEnd, CompactionStart, GateStart
from store.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
)
from store.records import Draft
from store.tree import EntryTree
from store.wire import encode

AT = 1_700_000_000.0
MODES = ("prompt", "steer", "follow_up", "auto")
KINDS: tuple[FailureKind, ...] = ("overloaded", "auth", "overflow", "network")


def answer(text: str, calls: Sequence[str] = (), stop: str | None = None) -> AssistantMessage:
    content = (*((TextContent(text=text),) if text else ()), *(ToolCall(id=call, name="tool") for call in calls))
    return AssistantMessage(content=content, stop_reason=stop or ("toolUse" if calls else "stop"), timestamp=1)


def raw(message: Message) -> msgspec.Raw:
    return msgspec.Raw(encode(message))


def message_of(body: Known) -> Message | None:
    return decode_message(body.message) if isinstance(body, MessageEntry) else None


def result(call: str, text: str = "fine") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, tool_name="tool", content=(TextContent(text=text),), timestamp=1)


@attrs.define
class Child:
    name: str
    run: int = 0
    is_running: bool = True


@attrs.define
class World:
    """What is owed to the session, and what it has done so far. `hear` takes a step and holds it against the rules."""

    state: TurnState
    journal: EntryTree = attrs.field(factory=EntryTree)
    calls: set[int] = attrs.field(factory=set)
    summaries: set[int] = attrs.field(factory=set)
    batches: dict[int, list[str]] = attrs.field(factory=dict)
    timers: set[int] = attrs.field(factory=set)
    questions: dict[int, Question] = attrs.field(factory=dict)
    ledgers: set[int] = attrs.field(factory=set)
    claims: set[int] = attrs.field(factory=set)
    """Granted, and neither used by a call nor withdrawn."""
    asks: set[int] = attrs.field(factory=set)
    orphans: set[int] = attrs.field(factory=set)
    """Asks of tools that have ended or were cancelled: they may be answered, once, or not at all."""
    children: dict[str, Child] = attrs.field(factory=dict)
    gates: GatePolicy = attrs.field(factory=GatePolicy)
    autonomy: AutonomyPolicy = attrs.field(factory=AutonomyPolicy)
    open_gates: dict[int, str] = attrs.field(factory=dict)
    passed: list[str] = attrs.field(factory=list)
    """The gates that passed since anything was done last."""
    said_last: str = ""
    is_cancelled: bool = False
    highest: int = 0
    loop: bool = False
    turn: bool = False
    retry: bool = False
    compaction: bool = False
    gate: bool = False
    unanswered: list[str] = attrs.field(factory=list)
    settled: list[int] = attrs.field(factory=list)
    written_runs: list[int] = attrs.field(factory=list)
    sent: list[str] = attrs.field(factory=list)
    delivered: list[str] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
    spent: list[Mail] = attrs.field(factory=list)
    must_end: bool = False
    said: int = 0
    last_turns: int = 0
    on_entry: Callable[[Known], None] = lambda body: None

    @classmethod
    def of(cls, *, is_root: bool = True, number: int = 1_000, **more: Any) -> "World":
        return cls(TurnState("session-1", is_root=is_root, number=number), highest=number, **more)

    @property
    def is_closed(self) -> bool:
        """No bracket of the stream is open."""
        return not (self.loop or self.turn or self.retry or self.compaction or self.gate)

    # One step

    def hear(self, mail: Mail) -> list[Effect]:
        if isinstance(mail, Prompt) and mail.message_id not in self.sent:
            self.sent.append(mail.message_id)
        self._take_back(mail)
        before = self.state
        self.state, effects = step(before, mail, AT)
        for effect in effects:
            self._carry_out(effect)
        if self.state.is_aborted:
            self.must_end = True
        if before.is_stopped:
            assert all(isinstance(effect, RefuseMail | Answer | Disown) for effect in effects), effects
        assert self.state.is_loop_open == self.loop
        assert self.state.is_turn_open == self.turn
        return effects

    def hear_stale(self, mail: Mail) -> None:
        """What nobody waits for changes nothing."""
        assert step(self.state, mail, AT) == (self.state, []), mail

    def _take_back(self, mail: Mail) -> None:
        """The world has kept a promise."""
        match mail:
            case ModelEnded(work) | ModelFailed(work):
                self.calls.discard(work)
            case Summarised(work) | SummaryFailed(work):
                self.summaries.discard(work)
            case ToolEnded(work, call_id):
                if work in self.batches and call_id in self.batches[work]:
                    self.batches[work].remove(call_id)
                    if not self.batches[work]:
                        del self.batches[work]
                        self._orphan_asks()
            case GateEnded(work, ended):
                command = self.open_gates.pop(work, None)
                if command is not None and not ended.is_error:
                    self.passed.append(command)
            case TimerFired(timer):
                self.timers.discard(timer)
            case Directed(question, directive):
                self.questions.pop(question, None)
                if isinstance(directive, Go | HandBack) and directive.claim:
                    self.claims.add(directive.claim)
            case LedgerDrained(work):
                self.ledgers.discard(work)
            case ChildEnded(session_id):
                self.children[session_id].is_running = False
                self.passed.clear()
            case ChildRested(session_id):
                self.children[session_id].is_running = False
            case ChildWoken(session_id):
                self.children[session_id].is_running = True
            case Asked(ask_id):
                self.asks.add(ask_id)
        if not isinstance(mail, Emptied | Prompt | Abort | Stop | Asked | CompactNow | ChildWoken | ChildRested):
            self.spent.append(mail)

    def _fresh(self, number: int) -> None:
        assert number > self.highest, f"{number} was given out before"
        self.highest = number

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case AppendEntry(GateEndEntry() as end):
                assert self.gate
                self.gate = False
                self._append(end)
            case AppendEntry(body):
                self._append(body)
            case AppendPartial():
                message = answer("half", ["cut"], "aborted")
                self._append(MessageEntry(message=raw(message)))
                self._append(not_run("cut", "tool", 1))
            case PublishEvent(AutoRetryStart()):
                assert not self.loop
                self.retry = True
            case PublishEvent(AutoRetryEnd()):
                assert self.retry
                self.retry = False
            case PublishEvent(CompactionStart()):
                assert not self.compaction
                self.compaction = True
            case PublishEvent(CompactionEnd()):
                assert self.compaction
                self.compaction = False
            case PublishEvent(GateStart()):
                assert not self.gate
                assert not self.loop
                self.gate = True
            case StartLoop():
                assert not self.loop
                assert not self.gate
                self.loop = True
            case EndLoop():
                assert self.loop
                assert not self.turn
                self.loop = False
            case StartTurn():
                assert self.loop
                assert not self.turn
                self.turn = True
            case EndTurn():
                assert self.turn
                assert not self.unanswered
                self.turn = False
            case RunGate(work, command):
                self._begin_work(work)
                assert self.gate
                assert not any(child.is_running for child in self.children.values())
                self.open_gates[work] = command
            case CallModel(work, _, claim, _, is_last):
                self._begin_work(work)
                self.passed.clear()
                assert self.turn
                assert not claim or claim in self.claims
                self.claims.discard(claim)
                self.last_turns += is_last
                self.calls.add(work)
            case Withdraw():
                self.claims.clear()
                asked = [number for number, question in self.questions.items() if isinstance(question, MayCall)]
                for number in asked:
                    del self.questions[number]
            case Summarise(work):
                self._begin_work(work)
                assert self.compaction
                self.summaries.add(work)
            case RunTools(work, call_ids):
                self._begin_work(work)
                assert list(call_ids) == self.unanswered
                self.batches[work] = list(call_ids)
                assert self.state.handing_back is None, "a tool was run in a last turn"
            case StartTimer(timer):
                self._fresh(timer)
                self.timers.add(timer)
            case CancelTimer(timer):
                self.timers.discard(timer)
            case Consult(question_id, question):
                self._fresh(question_id)
                self.questions[question_id] = question
            case DrainLedger(work):
                self._fresh(work)
                assert not any(child.is_running for child in self.children.values())
                self.ledgers.add(work)
            case CancelWork():
                self.is_cancelled = True
                self._orphan_asks()
            case AbortChildren(session_ids):
                assert all(self.children[session_id].is_running for session_id in session_ids)
            case StartChild(admitted):
                assert not self.must_end
                assert admitted.session_id not in self.children
                self.children[admitted.session_id] = Child(admitted.name)
            case Disown(admitted):
                assert admitted.session_id not in self.children, "a child was disowned that runs"
            case Answer(ask_id):
                assert ask_id in self.asks | self.orphans, f"{ask_id} was answered twice, or never asked"
                self.asks.discard(ask_id)
                self.orphans.discard(ask_id)
            case SettleRun(run):
                self._settle(run)
            case RefuseMail(message_id):
                self.refused.append(message_id)

    def _orphan_asks(self) -> None:
        self.orphans |= self.asks
        self.asks.clear()

    def _begin_work(self, work: int) -> None:
        self._fresh(work)
        assert not self.must_end, "work was begun after an abort"
        assert not (self.calls or self.batches or self.summaries or self.open_gates) or self.is_cancelled
        self.is_cancelled = False

    def _append(self, body: Known) -> None:
        self.on_entry(body)
        record = Draft.of(body).record(self.journal.next_ids(1)[0], self.journal.leaf_id, "2026-01-01T00:00:00.000Z")
        self.journal.add(record)
        message = message_of(body)
        if record.type in MOVES_LEAF:
            if isinstance(message, ToolResultMessage):
                assert self.unanswered, "a result without a call"
                assert self.unanswered.pop(0) == message.tool_call_id
            else:
                assert not self.unanswered, f"{record.type} between a call and its result"
        if isinstance(message, AssistantMessage):
            self.said_last = message.text
        if isinstance(message, AssistantMessage) and message.stop_reason != "error":
            self.unanswered = [call.id for call in message.calls]
        self._take_delivery(body, message)
        if isinstance(body, RunSettledEntry):
            self.written_runs.append(body.run)
            assert self.written_runs == list(range(self.written_runs[0], body.run + 1))
            if body.outcome == "completed" and self.state.is_root:
                self._may_be_completed()

    def _may_be_completed(self) -> None:
        """No run of a root ends well before its gates have passed, after all that was done."""
        assert self.passed == list(self.gates.commands)
        if self.autonomy.is_on and (self.autonomy.goal or not self.gates.commands):
            assert says_done(self.said_last)

    def _take_delivery(self, body: Known, message: Message | None) -> None:
        details: Any = None
        if isinstance(body, CustomMessageEntry):
            details = body.details
        elif isinstance(message, UserMessage | ToolResultMessage):
            details = message.details
            if isinstance(message, UserMessage) and not details:
                details = {"delivers": [str(message.content[0].text)]}  # type: ignore[union-attr]
        for name in details.get("delivers", ()) if isinstance(details, dict) else ():
            assert name not in self.delivered, f"{name} was delivered twice"
            self.delivered.append(name)

    def _settle(self, run: int) -> None:
        assert self.written_runs[-1:] == [run], "a run is settled that the journal does not know"
        assert run not in self.settled
        self.settled.append(run)
        assert self.is_closed
        assert not self.claims, "a claim was never used"
        assert not self.unanswered
        assert not any(child.is_running for child in self.children.values()), "children settle before their parent"
        self.must_end = False
        self.batches.clear()
        self.calls.clear()
        self.summaries.clear()
        self.open_gates.clear()

    # What may come next

    def promises(self, random: Random) -> list[Mail]:
        """The signals that the world owes, one way each. A call or tool that was cancelled may also never end."""
        owed: list[Mail] = [self._model_end(work, random) for work in self.calls]
        owed += [self._summary_end(work, random) for work in self.summaries]
        owed += [ToolEnded(work, call, raw(result(call))) for work, batch in self.batches.items() for call in batch]
        owed += [self._gate_end(work, random) for work in self.open_gates]
        owed += [TimerFired(timer) for timer in self.timers]
        owed += [Directed(number, self._directive(asked, random)) for number, asked in self.questions.items()]
        owed += [LedgerDrained(work) for work in self.ledgers]
        owed += [self._child_end(name, random) for name, child in self.children.items() if child.is_running]
        return owed

    def surprises(self, random: Random) -> list[Mail]:
        """What may come at any time."""
        self.said += 1
        sender = random.choice(["user", "someone"])
        mails: list[Mail] = [
            Emptied(),
            Emptied(),
            Prompt(f"m{self.said}", f"m{self.said}", random.choice(MODES), sender),  # type: ignore[arg-type]
            Abort("enough"),
            CompactNow(),
        ]
        if self.delivered and random.random() < 0.2:
            # Somebody has not heard that it was delivered.
            again = random.choice([name for name in self.delivered if name.startswith("m")] or ["m0"])
            mails.append(Prompt(again, again, random.choice(MODES), sender))  # type: ignore[arg-type]
        mails += [ChildWoken(name) for name, child in self.children.items() if not child.is_running]
        if self.batches and not self.is_cancelled:
            names = tuple(child.name for child in self.children.values()) or ("nobody",)
            request = random.choice(
                [
                    Spawn("task"),
                    Spawn("task", "same"),
                    ListFamily(),
                    WaitFor(),
                    WaitFor(names[:1], "any"),
                    WaitFor(names, timeout_s=-1.0),
                ]
            )
            mails.append(Asked(10_000_000 + self.said, request))
        if random.random() < 0.05:
            mails.append(Stop("stopped"))
        return mails

    def stale(self, random: Random) -> Mail:
        """A signal that nobody waits for: one that came before, or one with an id that was never given out."""
        message = raw(answer("stale", ["x"]))
        never = random.choice([0, -1, self.highest + 7])
        stale: list[Mail] = [
            ModelEnded(never, message, "stop"),
            ModelFailed(never, message, ModelFailure("auth", "no")),
            ToolEnded(never, "x", message),
            TimerFired(never),
            GateEnded(never, text_result("fine"), 1),
            Directed(never, Go()),
            LedgerDrained(never),
            SummaryFailed(never, "no"),
            ChildEnded("stranger", 1, "completed"),
            *self.spent[-6:],
        ]
        mail = random.choice(stale)
        if (
            isinstance(mail, ChildEnded)
            and mail.session_id in self.children
            and self.children[mail.session_id].is_running
        ):
            return TimerFired(never)
        return mail

    def _model_end(self, work: int, random: Random) -> Mail:
        if self.is_cancelled:
            calls = ["w1"] if random.random() < 0.5 else []
            parts = tuple(CallPart(call, "tool") for call in calls)
            if random.random() < 0.2:
                return ModelEnded(work, raw(answer("late", calls)), "toolUse" if calls else "stop", parts)
            return ModelFailed(work, raw(answer("half", calls, "aborted")), None, parts)
        kind = random.random()
        if kind < 0.3:
            failure = ModelFailure(random.choice(KINDS), "it failed")
            return ModelFailed(work, raw(answer("half", [], "error")), failure)
        if kind < 0.65:
            calls = [f"c{work}-{number}" for number in range(random.randint(1, 3))]
            parts = tuple(CallPart(call, "tool") for call in calls)
            return ModelEnded(work, raw(answer("", calls)), "toolUse", parts, has_text=False)
        stop = random.choice(["stop", "stop", "stop", "length", "toolUse"])
        text = random.choice(["text", "text", f"text\n{DONE}"])
        return ModelEnded(work, raw(answer(text, (), stop)), stop, (), has_text=random.random() < 0.8)

    def _gate_end(self, work: int, random: Random) -> Mail:
        has_failed = random.random() < 0.3
        return GateEnded(work, text_result("it says so", is_error=has_failed), 5)

    def _summary_end(self, work: int, random: Random) -> Mail:
        if self.is_cancelled or random.random() < 0.4:
            return SummaryFailed(work, "no summary", is_aborted=self.is_cancelled)
        first = self.journal.records[0].id if self.journal.records else "00000001"
        return Summarised(work, CompactionEntry(summary="s", first_kept_entry_id=first, tokens_before=9))

    def _child_end(self, name: str, random: Random) -> Mail:
        child = self.children[name]
        if child.run and random.random() < 0.2:
            return ChildRested(name)
        child.run += 1
        return ChildEnded(name, child.run, random.choice(["completed", "failed", "aborted"]), text="text")

    def _directive(self, question: Question, random: Random) -> Directive:
        refuse = Refuse("max_turns", 2, 1, "session-1", "no more")
        match question:
            case MayCall(passes=passes):
                self.said += 1
                options: list[Directive] = [Go(self.said), Go(), Go(self.said, 500, refuse)] * 2 + [refuse]
                if question.has_said:
                    options += [HandBack(self.said, 500, refuse)]
                if question.is_last:
                    options = [HandBack(self.said, 500, refuse), refuse]
                options += [Compact("threshold")] if passes is not None and passes < 2 else []
                return random.choice(options)
            case CallFailed(retry=retry, may_compact=may_compact, failure=failure):
                options = [GiveUp(), SwitchModel("test/other")]
                options += [RetryAfter(1.0, retry + 1, 4)] * 3 if retry < 4 else []
                options += [Compact("overflow")] if may_compact and failure.kind == "overflow" else []
                return random.choice(options)
            case MaySpawn(request=request):
                self.said += 1
                admit = Admit(f"child-{self.said}", request.name or f"agent-{self.said}", 1, "test/model")
                return random.choice([admit, admit, refuse])
            case MaySettle(trial=trial):
                return may_settle(self.gates, self.autonomy, MaySettle("session-1", trial, self.said_last))
        raise TypeError(question)

    # Whole stretches

    def wander(self, random: Random, steps: int, stale: float = 0.2) -> None:
        """So many steps of a life in which anything may happen."""
        for _ in range(steps):
            if self.state.is_stopped:
                return
            if random.random() < stale:
                self.hear_stale(self.stale(random))
            owed = self.promises(random)
            mail = random.choice(owed) if owed and random.random() < 0.75 else random.choice(self.surprises(random))
            self.hear(mail)
            if random.random() < 0.7:
                self.hear(Emptied())

    def finish(self, random: Random, steps: int = 2_000) -> None:
        """Nothing new comes any more, and everything that is owed does. The session must come to rest."""
        for _ in range(steps):
            self.hear(Emptied())
            if self.state.is_settled and not self.summaries:
                break
            owed = self.promises(random)
            urgent = [mail for mail in owed if not isinstance(mail, TimerFired)] or owed
            if urgent:
                self.hear(random.choice(urgent))
        else:
            raise AssertionError(f"it never comes to rest: {self.state}")
        assert self.settled == self.written_runs
        assert self.is_closed
        assert not self.asks

    def queued(self) -> list[str]:
        return [queued.message_id for queued in self.state.queue]

    def recorded(self) -> list[str]:
        """Mail that the journal holds."""
        bodies = [record.body() for record in self.journal.records if record.type == "mail"]
        return [body.message_id for body in bodies if isinstance(body, MailEntry)]
