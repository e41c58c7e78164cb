"""What a session asks the supervisor, and what it may answer."""

import msgspec

from actors.protocol.model import ModelFailure
from actors.protocol.tools import Spawn
from actors.protocol.trial import Trial
from store.events import LimitReached, Reason


class Budget(msgspec.Struct, frozen=True):
    """A limit on spending of this session or one above it, and how much of it is used. Dollars or tokens."""

    limit: str
    spent: float
    allowed: float
    holder_session_id: str
    holder_name: str


class MayCall(msgspec.Struct, frozen=True, tag="may_call"):
    """May this session call its model once more? `passes`: summaries made since there was progress; None: no more of them.

    The performer adds how many tokens the context holds and the model's window (0: not known). `answered_tokens`: how many it
    held with the last answer; None: the model has not answered since the last summary. `paused_until`: Unix seconds until
    which an earlier life of this session was to wait for a quota.
    """

    session_id: str
    passes: int | None = 0
    context_tokens: int = 0
    answered_tokens: int | None = None
    window: int = 0
    paused_until: float = 0.0
    budgets: tuple[Budget, ...] = ()


class CallFailed(msgspec.Struct, frozen=True, tag="call_failed"):
    """A model call failed; `retry` retries of this call were made before. An overflow may be compacted away, once per prompt."""

    session_id: str
    failure: ModelFailure
    retry: int
    may_compact: bool = True


class MaySpawn(msgspec.Struct, frozen=True, tag="may_spawn"):
    """May this session have another child? The ids that it would get are drawn by the asker's shell."""

    session_id: str
    request: Spawn


class MaySettle(msgspec.Struct, frozen=True, tag="may_settle"):
    """May the run of this root end well? The performer adds its last answer."""

    session_id: str
    trial: Trial
    answer: str = ""


class Crashed(msgspec.Struct, frozen=True, tag="crashed"):
    """An incarnation of this session died of a bug."""

    session_id: str


Question = MayCall | CallFailed | MaySpawn | MaySettle | Crashed


class Go(msgspec.Struct, frozen=True, tag="go"):
    """Yes."""


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
    """The child exists from now on, under this id and name."""

    session_id: str
    name: str
    depth: int
    model: str


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
    Go | Compact | SwitchModel | RetryAfter | GiveUp | Admit | Refuse | Settle | Check | FollowUp | Restart | Escalate
)
