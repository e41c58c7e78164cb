"""What a mailbox carries: commands from above, signals from below. No live objects inside."""

import msgspec

from actors.protocol.describing import Description
from actors.protocol.model import ModelFailure
from actors.protocol.questions import Directive
from actors.protocol.tools import FamilyRequest, Spawn, ToolResult
from store.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    LabelEntry,
    MessageEntry,
    Mode,
    ModelChangeEntry,
    Origin,
    Outcome,
    ServiceTierChangeEntry,
    SessionInfoEntry,
    SessionStateEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from store.messages import Visible


class Prompt(msgspec.Struct, frozen=True, tag="prompt"):
    """Text for the session. While a run is open `steer` goes in before the next model call, `follow_up` when the
    run would end; `prompt` waits like a follow-up; `auto` is a steer there. An idle session begins a run with any of them."""

    message_id: str
    content: str | tuple[Visible, ...]
    mode: Mode = "prompt"
    sender: str = "user"
    origin: Origin = "direct_user"


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End the run now: work in hand is cancelled, what was spent and said is kept. The session stays addressable."""

    reason: str = "aborted by the user"
    outcome: Outcome = "aborted"


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Abort, and then the end of the session."""

    reason: str = "stopped"


class CompactNow(msgspec.Struct, frozen=True, tag="compact_now"):
    """Summarise what came before: at once when idle, else before the next model call."""

    instructions: str | None = None


# What a person may have written into a session: settings, what it is called, a label, a command that they ran themselves.
Changing = (
    ModelChangeEntry
    | ThinkingLevelChangeEntry
    | ServiceTierChangeEntry
    | SessionInfoEntry
    | SessionStateEntry
    | LabelEntry
    | MessageEntry
)


class Change(msgspec.Struct, frozen=True, tag="change"):
    """Write this entry, and work by it from now on. `message_id`: under which its writing is told."""

    message_id: str
    body: Changing


class MoveLeaf(msgspec.Struct, frozen=True, tag="move_leaf"):
    """Go on from an earlier entry (None: from before any) with `body` as the first entry there. Only at rest."""

    message_id: str
    entry_id: str | None
    body: CustomEntry | BranchSummaryEntry


class SpawnChild(msgspec.Struct, frozen=True, tag="spawn_child"):
    """A child is wanted from outside. Answered as a tool that asks for one."""

    ask_id: int
    request: Spawn


class AbortRetry(msgspec.Struct, frozen=True, tag="abort_retry"):
    """End the pause before a retry: the run ends as the failed call left it. Nothing, where none is waited for."""


class CallPart(msgspec.Struct, frozen=True):
    """A tool call of an answer. `error` is there when its arguments were no JSON object."""

    id: str
    name: str
    error: str | None = None


class ModelEnded(msgspec.Struct, frozen=True, tag="model_ended"):
    """The model call `work` came to an end of its own. `message` is the encoded assistant message."""

    work: int
    message: msgspec.Raw
    stop_reason: str
    calls: tuple[CallPart, ...] = ()
    has_text: bool = True


class ModelFailed(msgspec.Struct, frozen=True, tag="model_failed"):
    """The model call `work` failed, or was cancelled (`failure` None). `message` holds what had come, and its usage."""

    work: int
    message: msgspec.Raw
    failure: ModelFailure | None
    calls: tuple[CallPart, ...] = ()


class Summarised(msgspec.Struct, frozen=True, tag="summarised"):
    """The summary `work` is whole."""

    work: int
    entry: CompactionEntry


class SummaryFailed(msgspec.Struct, frozen=True, tag="summary_failed"):
    """There is no summary, and why. `usage` is what the calls for it were billed, if they were. `is_aborted`: it was cancelled."""

    work: int
    reason: str
    usage: UsageEntry | None = None
    is_aborted: bool = False


class ToolEnded(msgspec.Struct, frozen=True, tag="tool_ended"):
    """One tool of the batch `work` is done. `message` is the encoded tool result; `delivers` what it hands to the model."""

    work: int
    call_id: str
    message: msgspec.Raw
    delivers: tuple[str, ...] = ()


class Described(msgspec.Struct, frozen=True, tag="described"):
    """What a model says that the run has come to, or None; and what asking it was billed."""

    work: int
    description: Description | None = None
    usage: UsageEntry | None = None


class GateEnded(msgspec.Struct, frozen=True, tag="gate_ended"):
    """The gate `work` is done, or was cancelled; it passed unless `result` is an error."""

    work: int
    result: ToolResult
    duration_ms: int


class ChildEnded(msgspec.Struct, frozen=True, tag="child_ended"):
    """A run of a child has settled. `text` is bounded; the whole is in the child."""

    session_id: str
    run: int
    outcome: Outcome
    stop_reason: str | None = None
    error_message: str | None = None
    text: str = ""


class ChildWoken(msgspec.Struct, frozen=True, tag="child_woken"):
    """A settled child has got mail and will run again."""

    session_id: str


class ChildRested(msgspec.Struct, frozen=True, tag="child_rested"):
    """A child that was woken has come to rest without a run: nobody need wait for it."""

    session_id: str


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A tool of this session asks something of the tree."""

    ask_id: int
    request: FamilyRequest


class Directed(msgspec.Struct, frozen=True, tag="directed"):
    """The supervisor's answer to the question `question`."""

    question: int
    directive: Directive


class TimerFired(msgspec.Struct, frozen=True, tag="timer_fired"):
    timer: int


class LedgerDrained(msgspec.Struct, frozen=True, tag="ledger_drained"):
    """Everything that was spent below this session is folded, or the ledger ran out of time."""

    work: int


class Emptied(msgspec.Struct, frozen=True, tag="emptied"):
    """The mailbox has been emptied: what arrived together has been heard, so what comes next can be decided."""


Command = Prompt | Abort | Stop | CompactNow | Change | MoveLeaf | SpawnChild | AbortRetry
Signal = (
    ModelEnded
    | ModelFailed
    | Summarised
    | SummaryFailed
    | ToolEnded
    | GateEnded
    | Described
    | ChildEnded
    | ChildWoken
    | ChildRested
    | Asked
    | Directed
    | TimerFired
    | LedgerDrained
)
Mail = Command | Signal | Emptied
URGENT = (Abort, Stop)
REVIVING = (Prompt, CompactNow, Change, MoveLeaf, SpawnChild)
