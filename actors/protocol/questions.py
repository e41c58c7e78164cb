"""What a session asks the supervisor, and what it may answer."""

import msgspec

from actors.protocol.budgets import Estimate
from actors.protocol.model import ModelFailure
from actors.protocol.tools import Spawn
from actors.protocol.trial import Trial
from store.events import LimitReached, Reason


class MayCall(msgspec.Struct, frozen=True, tag="may_call"):
    """May this session call its model once more? `passes`: summaries made since there was progress; None: no more of them.

    `incoming_chars`: of what will be delivered with the call. `has_said`: an answer came in this run, so that there is something
    to hand back; `is_last`: it is handing back; `is_summary`: the call is for a summary. `paused_until`: Unix seconds until which
    an earlier life of this session was to wait for a quota.
    The performer adds how many tokens the context holds and the model's window (0: not known), `answered_tokens`: how many it
    held with the last answer (None: the model has not answered since the last summary), and, where there are limits on spending,
    the model's name and what the call will take.
    """

    session_id: str
    passes: int | None = 0
    context_tokens: int = 0
    answered_tokens: int | None = None
    window: int = 0
    paused_until: float = 0.0
    incoming_chars: int = 0
    has_said: bool = False
    is_last: bool = False
    is_summary: bool = False
    model: str = ""
    estimate: Estimate = Estimate(0, 0)


class CallFailed(msgspec.Struct, frozen=True, tag="call_failed"):
    """A model call failed; `retry` retries of this call were made before. An overflow may be compacted away, once per prompt."""

    session_id: str
    failure: ModelFailure
    retry: int
    may_compact: bool = True


class MaySpawn(msgspec.Struct, frozen=True, tag="may_spawn"):
    """May this session have another child? The ids that it would get are drawn by the asker's shell.

    `unknown_model`: why the model that is asked for cannot be had; `is_priced`: what it costs is known.
    """

    session_id: str
    request: Spawn
    unknown_model: str | None = None
    is_priced: bool = True


class MaySettle(msgspec.Struct, frozen=True, tag="may_settle"):
    """May the run of this root end well? The performer adds its last answer."""

    session_id: str
    trial: Trial
    answer: str = ""


class Crashed(msgspec.Struct, frozen=True, tag="crashed"):
    """An incarnation of this session died of a bug."""

    session_id: str


Question = MayCall | CallFailed | MaySpawn | MaySettle | Crashed


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """A limit is in the way. `reason` names it, its value and the option that changes it."""

    limit: str
    value: float
    allowed: float
    holder_session_id: str
    reason: str

    @property
    def event(self) -> LimitReached:
        return LimitReached(
            limit=self.limit, value=self.value, allowed=self.allowed, holder_session_id=self.holder_session_id
        )


class Go(msgspec.Struct, frozen=True, tag="go"):
    """Yes. `claim` is to be settled with what the call used; 0: nobody counts.

    `max_output` tokens at the most may come out; 0: as many as the model likes. `short`: what is in the way of more.
    """

    claim: int = 0
    max_output: int = 0
    short: Refuse | None = None


class HandBack(msgspec.Struct, frozen=True, tag="hand_back"):
    """A limit ends the run: one last turn without tools, to hand back what there is."""

    claim: int
    max_output: int
    refuse: Refuse


class StandBy(msgspec.Struct, frozen=True, tag="stand_by"):
    """Only what others have claimed is in the way. The answer comes when something of it is free."""


class RetryAfter(msgspec.Struct, frozen=True, tag="retry_after"):
    """Call again after this pause; it is retry `attempt` of `max_attempts`."""

    delay_s: float
    attempt: int
    max_attempts: int


class Compact(msgspec.Struct, frozen=True, tag="compact"):
    """Summarise what came before, first. `passes`: summaries before this one that did not help."""

    reason: Reason
    passes: int = 0


class SwitchModel(msgspec.Struct, frozen=True, tag="switch_model"):
    """Go on with another model: the one that was called is overloaded, or its quota is used up."""

    model: str


class GiveUp(msgspec.Struct, frozen=True, tag="give_up"):
    """No further try."""


class Admit(msgspec.Struct, frozen=True, tag="admit"):
    """The child exists from now on, under this id and name. `limits`: what it was given, at most what its parent has left."""

    session_id: str
    name: str
    depth: int
    model: str
    limits: dict[str, float] = {}


class Settle(msgspec.Struct, frozen=True, tag="settle"):
    """It may, and with it this goal is reached."""

    goal: str | None = None


class Check(msgspec.Struct, frozen=True, tag="check"):
    """This gate first."""

    command: str
    timeout_s: float


class FollowUp(msgspec.Struct, frozen=True, tag="follow_up"):
    """Not yet: the model is to go on with this prompt. `kind` is the custom type of its message."""

    kind: str
    text: str


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """Begin again from the journal."""


class Escalate(msgspec.Struct, frozen=True, tag="escalate"):
    """It crashes too often: stop the session, outcome `failed`."""

    reason: str


Directive = (
    Go
    | HandBack
    | StandBy
    | Compact
    | SwitchModel
    | RetryAfter
    | GiveUp
    | Admit
    | Refuse
    | Settle
    | Check
    | FollowUp
    | Restart
    | Escalate
)
