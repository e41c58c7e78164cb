"""The commands of the control protocol, as they come in."""

from typing import Annotated, Any, Literal, get_args

import attrs
import msgspec

from store.messages import ImageContent


class Command(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Base. `session_id`: whom it is for; None: the root, where there is one. Members that we do not know are passed over."""

    session_id: str | None = None


class Hello(Command, frozen=True, kw_only=True, tag="hello"):
    """Who is there?"""


class Prompt(Command, frozen=True, kw_only=True, tag="prompt"):
    """Text for the session. While a run is open it must say how it is to be taken."""

    message: str
    images: tuple[ImageContent, ...] = ()
    streaming_behavior: Literal["steer", "followUp"] | None = None


class Steer(Command, frozen=True, kw_only=True, tag="steer"):
    """Goes in before the next model call."""

    message: str
    images: tuple[ImageContent, ...] = ()


class FollowUp(Command, frozen=True, kw_only=True, tag="follow_up"):
    """Goes in when the run would end."""

    message: str
    images: tuple[ImageContent, ...] = ()


class Abort(Command, frozen=True, kw_only=True, tag="abort"):
    """End the run. Answered when it has ended."""


class Stop(Command, frozen=True, kw_only=True, tag="stop"):
    """End the session. Answered when its run has ended."""


class Compact(Command, frozen=True, kw_only=True, tag="compact"):
    """Summarise now. Answered with the summary."""

    custom_instructions: str | None = None


class Since(msgspec.Struct, frozen=True, rename="camel"):
    """What was seen of the hosts of this generation: up to `seq` of the one tree, or per root."""

    generation: str
    seq: int | None = None
    seqs: dict[str, int] | None = None


class Subscribe(Command, frozen=True, kw_only=True, tag="subscribe"):
    """Lines of the stream, of `session_id` and all below it or of all. It takes the place of the connection's last one."""

    types: tuple[str, ...] | None = None
    since: Since | None = None


class GetState(Command, frozen=True, kw_only=True, tag="get_state"):
    pass


class GetMessages(Command, frozen=True, kw_only=True, tag="get_messages"):
    """The messages of the context, from number `cursor` on."""

    cursor: int = 0


class GetEntries(Command, frozen=True, kw_only=True, tag="get_entries"):
    """The entries in the order of the journal, from number `cursor` on."""

    cursor: int = 0


class GetTree(Command, frozen=True, kw_only=True, tag="get_tree"):
    """What hangs on what, from entry number `cursor` on."""

    cursor: int = 0


class GetUsage(Command, frozen=True, kw_only=True, tag="get_usage"):
    """What the session and each below it spent."""


class GetSessionStats(Command, frozen=True, kw_only=True, tag="get_session_stats"):
    """How long the conversation is, and what it cost."""


class GetLastAssistantText(Command, frozen=True, kw_only=True, tag="get_last_assistant_text"):
    pass


class GetForkMessages(Command, frozen=True, kw_only=True, tag="get_fork_messages"):
    """What the person said, with the entries that `fork` takes."""


class ListSessions(Command, frozen=True, kw_only=True, tag="list_sessions"):
    """The rows of all trees, from number `cursor` on."""

    cursor: int = 0


class AbortRetry(Command, frozen=True, kw_only=True, tag="abort_retry"):
    """End the pause before a retry; the run ends as the failed call left it."""


class Spawn(Command, frozen=True, kw_only=True, tag="spawn"):
    """A child of the session; or, with `cwd` and no session, a new root that works there.

    `limits`: for a child `max_cost`, `max_tokens`, `max_turns`, `timeout_s`; for a root also the counts that `run` has options for.
    `tree`: what a tree file holds, for a new root.
    From `gates` on: what a new root has to stand before its runs may end well; null: as configured.
    """

    prompt: str
    name: str | None = None
    model: str | None = None
    thinking: str | None = None
    tools: tuple[str, ...] | None = None
    limits: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    cwd: str | None = None
    tree: dict[str, Any] | None = None
    gates: tuple[str, ...] = ()
    gate_retries: Annotated[int, msgspec.Meta(ge=0)] | None = None
    gate_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] | None = None
    autonomous: bool = False
    max_continuations: Annotated[int, msgspec.Meta(ge=0)] | None = None
    goal: str | None = None

    @property
    def trial(self) -> dict[str, Any]:
        """What was given of that, by the names of `run`'s options."""
        named = {
            "gates": self.gates,
            "gate_retries": self.gate_retries,
            "gate_timeout": self.gate_timeout_s,
            "autonomous": self.autonomous,
            "max_continuations": self.max_continuations,
            "goal": self.goal,
        }
        return {name: value for name, value in named.items() if value not in ((), None, False)}


class SetModel(Command, frozen=True, kw_only=True, tag="set_model"):
    """`provider` and `modelId`, or both in `model` as `provider/id`."""

    provider: str | None = None
    model_id: str | None = None
    model: str | None = None


class SetThinkingLevel(Command, frozen=True, kw_only=True, tag="set_thinking_level"):
    level: Literal["off", "minimal", "low", "medium", "high", "xhigh"]


class SetServiceTier(Command, frozen=True, kw_only=True, tag="set_service_tier"):
    """null: as the provider is configured."""

    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None


class SetSessionName(Command, frozen=True, kw_only=True, tag="set_session_name"):
    name: Annotated[str, msgspec.Meta(max_length=200)]


class SetLabel(Command, frozen=True, kw_only=True, tag="set_label"):
    """Without a label: take it away."""

    entry_id: str
    label: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class Archive(Command, frozen=True, kw_only=True, tag="archive"):
    """Take the session out of the lists; `undo`: put it back."""

    undo: bool = False


class Branch(Command, frozen=True, kw_only=True, tag="branch"):
    """Go on from an earlier entry; null: from before any. `summary`: what the model is told of the branch that is left."""

    entry_id: str | None
    summary: str | None = None


class Fork(Command, frozen=True, kw_only=True, tag="fork"):
    """A new root that begins with what leads to an entry, by default to the leaf; `before`: without the entry itself."""

    entry_id: str | None = None
    before: bool = False
    name: str | None = None


class Clone(Command, frozen=True, kw_only=True, tag="clone"):
    """A fork at the leaf."""

    name: str | None = None


class Bash(Command, frozen=True, kw_only=True, tag="bash"):
    """Run a command for the person. It is kept in the session, and the model sees it unless it is excluded."""

    command: Annotated[str, msgspec.Meta(min_length=1)]
    exclude_from_context: bool = False


class AbortBash(Command, frozen=True, kw_only=True, tag="abort_bash"):
    """End the command that runs."""


class Shutdown(Command, frozen=True, kw_only=True, tag="shutdown"):
    """End the host. Running trees are stopped and flushed."""


Any_ = (
    Hello
    | Prompt
    | Steer
    | FollowUp
    | Abort
    | Stop
    | Compact
    | Subscribe
    | GetState
    | GetMessages
    | GetEntries
    | GetTree
    | GetUsage
    | GetSessionStats
    | GetLastAssistantText
    | GetForkMessages
    | ListSessions
    | AbortRetry
    | Spawn
    | SetModel
    | SetThinkingLevel
    | SetServiceTier
    | SetSessionName
    | SetLabel
    | Archive
    | Branch
    | Fork
    | Clone
    | Bash
    | AbortBash
    | Shutdown
)
NAMES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Any_))


@attrs.frozen
class Request:
    """A command, and the id under which it is answered, as it was written."""

    id: msgspec.Raw | None
    name: str
    command: Command


class BadRequest(Exception):
    """A line that is no command. `id` and `name` as far as they could be read."""

    def __init__(self, code: str, message: str, name: str = "parse", id: msgspec.Raw | None = None) -> None:
        super().__init__(message)
        self.code, self.name, self.id = code, name, id


class _Head(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    type: Any = None


_head: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)
_command: msgspec.json.Decoder[Any_] = msgspec.json.Decoder(Any_)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_request(line: bytes) -> Request:
    """Raises BadRequest."""
    try:
        head = _head.decode(line)
    except msgspec.ValidationError as error:
        raise BadRequest("wrong_shape", f"expected a JSON object with a `type`: {error}") from error
    except _NO_JSON as error:
        raise BadRequest("invalid_json", f"expected a JSON object on one line: {error}") from error
    id = msgspec.Raw(bytes(head.id)) if bytes(head.id) else None
    if not isinstance(head.type, str) or head.type not in NAMES:
        name = head.type if isinstance(head.type, str) else "parse"
        known = ", ".join(sorted(NAMES))
        raise BadRequest("unknown_command", f"there is no command {head.type!r:.80}; commands: {known}", name[:80], id)
    try:
        return Request(id, head.type, _command.decode(line))
    except _NO_JSON as error:
        raise BadRequest("wrong_shape", str(error), head.type, id) from error
