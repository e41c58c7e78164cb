"""What a session's turn rules remember. No messages: those are in the journal."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from actors.protocol.describing import Description
from actors.protocol.effects import AppendEntry, Effect
from actors.protocol.questions import Refuse
from actors.protocol.tools import Spawn, notice_id
from actors.protocol.trial import Trial
from store.entries import Mode, Outcome
from store.events import Reason
from store.messages import Visible

Phase = Literal[
    "idle",  # no run is open
    "ready",  # a run is open and nothing is under way: the next Emptied decides
    "asking",  # the supervisor is asked whether the model may be called
    "calling",  # a model call is open
    "tools",  # a batch of tools is open
    "judging",  # a call failed and the supervisor is asked what to do
    "pausing",  # the delay before a retry
    "compacting",  # a summary is being made
    "waiting",  # the loop has ended; children are running
    "settling",  # the supervisor is asked whether the root may settle
    "gating",  # a gate is run
    "describing",  # a model is asked what the run has come to
    "draining",  # the root waits for the ledger
    "aborting",  # what is open is being ended
    "stopped",  # nothing more will happen
]

MAX_HEARD = 512


class Queued(msgspec.Struct, frozen=True):
    """Mail that has arrived and is not delivered. `is_recorded`: a `mail` entry holds it.

    `kind`: the custom type of a prompt that sapwood itself has for the model; empty: somebody's message.
    """

    message_id: str
    mode: Mode
    sender: str
    content: str | tuple[Visible, ...]
    is_recorded: bool
    kind: str = ""


class Notice(msgspec.Struct, frozen=True):
    """The end of a child's run that the model has not been told of."""

    session_id: str
    name: str
    run: int
    outcome: str
    text: str
    error_message: str | None = None

    @property
    def id(self) -> str:
        return notice_id(self.session_id, self.run)


class Kin(msgspec.Struct, frozen=True):
    """A child, and whether a run of it is open."""

    session_id: str
    name: str
    is_running: bool


class OpenCall(msgspec.Struct, frozen=True):
    """A call of the open batch; `result` is the encoded tool result once it is there."""

    id: str
    name: str
    result: msgspec.Raw | None = None


class Wait(msgspec.Struct, frozen=True):
    """A tool that waits for children. `timer` bounds it."""

    ask_id: int
    session_ids: tuple[str, ...]
    mode: str
    timer: int


class Asking(msgspec.Struct, frozen=True):
    """A child that the supervisor is asked for. `batch`: the tools that want it; None: somebody outside."""

    question: int
    ask_id: int
    request: Spawn
    batch: int | None = None


class Ending(msgspec.Struct, frozen=True):
    """How the open run will end."""

    outcome: Outcome
    stop_reason: str | None = None
    error_message: str | None = None


class Compacting(msgspec.Struct, frozen=True):
    """The summary that is being made. `is_alone`: outside of a run."""

    reason: Reason
    is_alone: bool = False


class TurnState(msgspec.Struct, frozen=True):
    """One session's place in its conversation. `number` is the last id given to work, timers and questions.

    `ending` is how the run ends if nothing comes in between. `heard`: the ids of the last messages that were delivered.
    `is_woken`: something arrived that begins a run when the session is idle; what an abort left behind does not. `passes`:
    summaries since there was progress; `may_compact`: none has failed since the last prompt. `is_asked_to_compact`: a person asked
    for one, with `instructions`.
    `paused_until`: no call before (Unix seconds), as the journal says. `gate`: the command of the gate that is run.
    `has_said`: an answer came in this run. `short`: the limit that leaves the answer under way less room than the model has;
    `handing_back`: the one that ends the run, after a last turn. `asked_chars`: what the open question counted of what waits.
    `describer`: the model that is asked what a run has come to, `description`: what it said of the last answer.
    `notes`: messages of a person that are written when no call is open any more.
    """

    session_id: str
    is_root: bool = False
    phase: Phase = "idle"
    run: int = 0
    call: int = 0
    number: int = 0
    work: int | None = None
    question: int | None = None
    timer: int | None = None
    tools: tuple[OpenCall, ...] = ()
    queue: tuple[Queued, ...] = ()
    heard: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    notes: tuple[AppendEntry, ...] = ()
    kin: tuple[Kin, ...] = ()
    waits: tuple[Wait, ...] = ()
    asking: tuple[Asking, ...] = ()
    retry: int = 0
    paused_until: float = 0.0
    compacting: Compacting | None = None
    passes: int = 0
    may_compact: bool = True
    is_asked_to_compact: bool = False
    instructions: str | None = None
    is_loop_open: bool = False
    is_turn_open: bool = False
    needs_call: bool = False
    is_woken: bool = False
    is_aborted: bool = False
    is_stopping: bool = False
    reason: str = ""
    ending: Ending | None = None
    trial: Trial = Trial()
    gate: str | None = None
    describer: str | None = None
    description: Description | None = None
    has_said: bool = False
    short: Refuse | None = None
    handing_back: Refuse | None = None
    asked_chars: int = 0

    @property
    def is_stopped(self) -> bool:
        return self.phase == "stopped"

    @property
    def will_run(self) -> bool:
        """No run is open, and the next Emptied begins one."""
        return self.phase == "idle" and self.is_woken and bool(self.queue or self.notices)

    @property
    def is_settled(self) -> bool:
        """Nothing is open and nothing waits: the task may end."""
        return self.phase == "stopped" or (self.phase == "idle" and not self.will_run and not self.running)

    @property
    def is_over(self) -> bool:
        """The run will end with a failure or a limit, so nothing more is delivered in it."""
        return self.ending is not None and self.ending.outcome != "completed"

    @property
    def running(self) -> tuple[Kin, ...]:
        return tuple(kin for kin in self.kin if kin.is_running)

    def having_heard(self, message_ids: Iterable[str]) -> "TurnState":
        """After these messages were delivered: who sends one of them again is not heard."""
        return self.with_(heard=(*self.heard, *message_ids)[-MAX_HEARD:])

    def with_(self, **changes: object) -> "TurnState":
        return msgspec.structs.replace(self, **changes)


Step = tuple[TurnState, list[Effect]]


def without(kin: Iterable[Kin], session_id: str) -> tuple[Kin, ...]:
    """`kin`, with this child no longer running."""
    return tuple(Kin(child.session_id, child.name, False) if child.session_id == session_id else child for child in kin)
