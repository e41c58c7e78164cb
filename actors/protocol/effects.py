"""What a decision asks the actor to carry out. Performing one never waits."""

import msgspec

from actors.protocol.describing import Description
from actors.protocol.questions import Admit, Question
from actors.protocol.tools import Spawn
from store.entries import (
    BranchSummaryEntry,
    CustomEntry,
    Known,
    ModelChangeEntry,
    Outcome,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
)
from store.events import Event


class AppendEntry(msgspec.Struct, frozen=True):
    """Write an entry; the stream shows what belongs to it. All entries of one step are written together or not at all.

    `message_id`: the mail that it hands to the model.
    """

    body: Known
    message_id: str | None = None


class AppendPartial(msgspec.Struct, frozen=True):
    """Write the answer that is under way as far as it has come: its call did not end in time after an abort."""

    reason: str


class PublishEvent(msgspec.Struct, frozen=True):
    """Show an event that is no entry."""

    event: Event


class StartLoop(msgspec.Struct, frozen=True):
    """`agent_start`."""


class EndLoop(msgspec.Struct, frozen=True):
    """`agent_end`, with the messages since `agent_start`."""

    will_retry: bool = False


class StartTurn(msgspec.Struct, frozen=True):
    """`turn_start`."""


class EndTurn(msgspec.Struct, frozen=True):
    """`turn_end`, with the answer and the tool results since `turn_start`."""


class CallModel(msgspec.Struct, frozen=True):
    """Call the model with the context as of now; ends in one ModelEnded or ModelFailed. `call` counts per session.

    `claim` is settled with what it used. `max_output` tokens may come out, 0: as many as the model likes. `is_last`: without tools.
    """

    work: int
    call: int
    claim: int = 0
    max_output: int = 0
    is_last: bool = False


# What a session works by, once it is written.
Setting = ModelChangeEntry | ThinkingLevelChangeEntry | ServiceTierChangeEntry | SessionInfoEntry


class Heed(msgspec.Struct, frozen=True):
    """Work by this setting from now on."""

    setting: Setting


class BranchOff(msgspec.Struct, frozen=True):
    """Write `body` behind an earlier entry (None: before any): the session goes on from there."""

    message_id: str
    entry_id: str | None
    body: CustomEntry | BranchSummaryEntry


class Deny(msgspec.Struct, frozen=True):
    """What a person asked for under `message_id` cannot be done now, and why."""

    message_id: str
    reason: str


class Summarise(msgspec.Struct, frozen=True):
    """Summarise what came before; ends in one Summarised or SummaryFailed."""

    work: int
    instructions: str | None = None


class RunTools(msgspec.Struct, frozen=True):
    """Run the calls of the last answer side by side; each ends in one ToolEnded."""

    work: int
    call_ids: tuple[str, ...]


class RunGate(msgspec.Struct, frozen=True):
    """Run this shell command as the tool `bash` would; ends in one GateEnded."""

    work: int
    command: str
    timeout_s: float


class EndTools(msgspec.Struct, frozen=True):
    """Close on the stream what has been cancelled and does not end: its results are written without it."""


class CancelWork(msgspec.Struct, frozen=True):
    """Cancel model call, tools and gate; each still ends in its signal."""


class AbortChildren(msgspec.Struct, frozen=True):
    """Tell these children to abort; each ends in ChildEnded."""

    session_ids: tuple[str, ...]
    reason: str


class StartTimer(msgspec.Struct, frozen=True):
    """One TimerFired after `delay_s`, unless it is cancelled."""

    timer: int
    delay_s: float


class CancelTimer(msgspec.Struct, frozen=True):
    timer: int


class Consult(msgspec.Struct, frozen=True):
    """Ask the supervisor; the directive comes back as mail."""

    question_id: int
    question: Question


class Withdraw(msgspec.Struct, frozen=True):
    """The session calls no model for now: what it asked for or was granted is free for others."""


class Disown(msgspec.Struct, frozen=True):
    """The child that was admitted is not wanted any more: it never was."""

    admitted: Admit


class StartChild(msgspec.Struct, frozen=True):
    """Start the child once `child_spawned` is durable, with its prompt."""

    admitted: Admit
    request: Spawn


class Answer(msgspec.Struct, frozen=True):
    """End the wait of a tool. `names` and `ended` for a wait; a handle, a refusal or the family otherwise."""

    ask_id: int
    value: "AnswerValue"


class HandleOf(msgspec.Struct, frozen=True):
    admitted: Admit


class RefusalOf(msgspec.Struct, frozen=True):
    reason: str


class ReportsOn(msgspec.Struct, frozen=True):
    """How these children stand now; `ended`: settled, timeout, message."""

    session_ids: tuple[str, ...]
    ended: str


class FamilyNow(msgspec.Struct, frozen=True):
    pass


AnswerValue = HandleOf | RefusalOf | ReportsOn | FamilyNow


class DrainLedger(msgspec.Struct, frozen=True):
    """Wait until what was spent below is folded; ends in one LedgerDrained."""

    work: int


class ReportRunning(msgspec.Struct, frozen=True):
    """A run begins, here or below: those above wait for this session from now on. Nothing, if they do already."""


class KeepTime(msgspec.Struct, frozen=True):
    """The time of a run begins, if the session has a limit of it: an Abort (`timed_out`) when it is over."""


class SettleRun(msgspec.Struct, frozen=True):
    """`agent_settled`; the time of the run ends; the parent hears of it."""

    run: int
    outcome: Outcome
    is_aborted: bool
    stop_reason: str | None = None
    error_message: str | None = None


class DescribeRun(msgspec.Struct, frozen=True):
    """Ask `model` what the run has come to; ends in one Described."""

    work: int
    run: int
    model: str


class Describe(msgspec.Struct, frozen=True):
    """`agent_status`, if a model has said something of this run, or its answer asks for something."""

    run: int
    described: Description | None = None


class RefuseMail(msgspec.Struct, frozen=True):
    """A prompt was not taken, and why."""

    message_id: str
    sender: str
    mode: str
    reason: str


Effect = (
    AppendEntry
    | AppendPartial
    | PublishEvent
    | StartLoop
    | EndLoop
    | StartTurn
    | EndTurn
    | CallModel
    | Heed
    | BranchOff
    | Deny
    | Summarise
    | RunTools
    | RunGate
    | EndTools
    | CancelWork
    | AbortChildren
    | StartTimer
    | CancelTimer
    | Consult
    | Withdraw
    | Disown
    | StartChild
    | Answer
    | DrainLedger
    | ReportRunning
    | KeepTime
    | SettleRun
    | Describe
    | DescribeRun
    | RefuseMail
)
