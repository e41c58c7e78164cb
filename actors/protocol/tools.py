"""The port to tools, and the port through which tools talk to the tree."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import attrs
import msgspec

from actors.protocol.model import ToolSpec
from store.messages import TextContent, Visible

TOOL_ABORTED = "The tool was aborted."


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool gives back. `delivers` names the notices and messages that it hands to the model."""

    content: tuple[Visible, ...]
    is_error: bool = False
    details: dict[str, Any] | None = None
    delivers: tuple[str, ...] = ()


def text_result(text: str, *, is_error: bool = False, details: dict[str, Any] | None = None) -> ToolResult:
    return ToolResult((TextContent(text=text),), is_error, details)


def shown(result: ToolResult) -> dict[str, Any]:
    """A result as events have it: `{content, details?}`."""
    value: dict[str, Any] = {"content": list(result.content)}
    if result.details:
        value["details"] = result.details
    return value


class Spawn(msgspec.Struct, frozen=True, tag="spawn"):
    """A child is wanted. `limits` holds what is set for this child alone."""

    prompt: str
    name: str | None = None
    model: str | None = None
    thinking: str | None = None
    tools: tuple[str, ...] | None = None
    limits: dict[str, float] = {}
    tool_call_id: str | None = None


class WaitFor(msgspec.Struct, frozen=True, tag="wait_for"):
    """End when `mode` (all, any) of the named children (none named: all) have settled, or after `timeout_s`."""

    names: tuple[str, ...] = ()
    mode: Literal["all", "any"] = "all"
    timeout_s: float = 600.0


class ListFamily(msgspec.Struct, frozen=True, tag="list_family"):
    """Who is there: parent, siblings, children."""


FamilyRequest = Spawn | WaitFor | ListFamily


class Send(msgspec.Struct, frozen=True, tag="send"):
    """A message for `to`: parent, the name of a child or sibling, or all."""

    to: str
    message: str
    mode: Literal["auto", "steer", "follow_up"] = "auto"


class AbortChild(msgspec.Struct, frozen=True, tag="abort_child"):
    """End the child's run, and all below it. It stays addressable."""

    name: str


class DeleteChild(msgspec.Struct, frozen=True, tag="delete_child"):
    """The child is not needed any more: it is stopped, and gone from the family. Its journal stays."""

    name: str


class FindModels(msgspec.Struct, frozen=True, tag="find_models"):
    """Which models a child can have. `query`: part of a name, or empty for all."""

    query: str = ""


class Compact(msgspec.Struct, frozen=True, tag="compact"):
    """Summarise the context before the next request to the model."""

    instructions: str | None = None


class CompactStatus(msgspec.Struct, frozen=True, tag="compact_status"):
    """How full the context is, and whether it will be summarised."""


# What may be asked besides.
HostRequest = Send | AbortChild | DeleteChild | FindModels | Compact | CompactStatus


class Handle(msgspec.Struct, frozen=True, tag="handle"):
    """An admitted child."""

    session_id: str
    name: str
    model: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The request was not taken; `reason` names the limit, its value and the option that changes it."""

    reason: str


class ChildReport(msgspec.Struct, frozen=True):
    """How a child stands. `outcome` is empty while it runs; `text` is its whole answer, or what there is of it."""

    session_id: str
    name: str
    outcome: str = ""
    run: int = 0
    text: str = ""
    error_message: str | None = None
    turns: int = 0

    @property
    def notice_id(self) -> str:
        return notice_id(self.session_id, self.run)


def notice_id(session_id: str, run: int) -> str:
    """The id under which the end of a child's run is delivered."""
    return f"{session_id}/{run}"


class Waited(msgspec.Struct, frozen=True, tag="waited"):
    """How a wait ended, and how each child stands."""

    ended: Literal["settled", "timeout", "message"]
    reports: tuple[ChildReport, ...]


class Relative(msgspec.Struct, frozen=True, rename="camel"):
    """One row of the family. Usage in tokens and dollars; cost None: unknown in part."""

    name: str
    role: Literal["self", "parent", "sibling", "child"]
    session_id: str
    status: str
    outcome: str
    own_tokens: int
    total_tokens: int
    own_usd: float
    total_usd: float
    unpriced: tuple[str, ...] = ()


class Members(msgspec.Struct, frozen=True, tag="members"):
    relatives: tuple[Relative, ...]


FamilyAnswer = Handle | Refused | Waited | Members


class Receipt(msgspec.Struct, frozen=True, tag="receipt"):
    """A message has arrived: `delivered` into the context, or `queued` in the journal of `to`."""

    delivery: Literal["delivered", "queued"]
    message_id: str
    to: str = ""


class Receipts(msgspec.Struct, frozen=True, tag="receipts"):
    """One for each who got a message to all."""

    receipts: tuple[Receipt, ...]


class Aborted(msgspec.Struct, frozen=True, tag="aborted"):
    """How the child stands after its abort."""

    report: ChildReport


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    session_id: str
    name: str


class ModelRow(msgspec.Struct, frozen=True):
    """A model that can be used. `selector` is what `model=` takes."""

    selector: str
    provider: str
    id: str
    context_window: int | None = None


class Models(msgspec.Struct, frozen=True, tag="models"):
    models: tuple[ModelRow, ...]


class Compaction(msgspec.Struct, frozen=True, tag="compaction"):
    """Tokens of the context as far as they are known."""

    status: Literal["idle", "scheduled", "running"]
    context_tokens: int | None = None
    context_window: int | None = None


HostAnswer = Receipt | Receipts | Aborted | Deleted | Models | Compaction


class Family(Protocol):
    """How a tool talks to the tree: a question that its own session answers, or its host."""

    def ask(self, request: FamilyRequest | HostRequest) -> Awaitable[FamilyAnswer | HostAnswer]: ...


@attrs.frozen
class ToolContext:
    """What a tool may use. `env` is the whole environment of its processes; `update` shows progress and never waits."""

    call_id: str
    cwd: str
    artifact_dir: str
    env: Mapping[str, str]
    family: Family
    update: Callable[[ToolResult], None]
    wait_for_room: Callable[[], Awaitable[None]]


class Tool(Protocol):
    """One tool. `is_waiting`: it only waits for others and holds no slot of the live ones."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def is_waiting(self) -> bool: ...

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Awaitable[ToolResult]:
        """Do it. Bad arguments and failures of the outside world are results with `is_error`; cancellation passes through."""
        ...
