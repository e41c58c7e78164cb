"""Messages and their content blocks, as in the seeds; tolerant of what other programs left out."""

from typing import Any

import msgspec

from store.errors import BadRecord
from store.usage import Usage
from store.wire import Wire


class TextContent(Wire, frozen=True, kw_only=True, tag="text", tag_field="type"):
    text: str


class ImageContent(Wire, frozen=True, kw_only=True, tag="image", tag_field="type"):
    """`data` is base64."""

    data: str
    mime_type: str


class ThinkingContent(Wire, frozen=True, kw_only=True, tag="thinking", tag_field="type"):
    """`signature` is what the provider wants back unchanged."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ToolCall(Wire, frozen=True, kw_only=True, tag="toolCall", tag_field="type", omit_defaults=False):
    """`arguments` is an object; where a model sent something else it is `{}` and `argumentsError` says what."""

    id: str
    name: str
    arguments: Any = msgspec.field(default_factory=dict)
    arguments_error: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def checked_arguments(self) -> dict[str, Any]:
        """The arguments, `{}` for the null, string or nothing that other programs may have stored."""
        return self.arguments if isinstance(self.arguments, dict) else {}


Visible = TextContent | ImageContent
Block = TextContent | ThinkingContent | ToolCall | ImageContent


class UserMessage(Wire, frozen=True, kw_only=True, tag="user", tag_field="role"):
    """`details.delivers` names the mail that this message hands to the model."""

    content: str | tuple[Visible, ...]
    details: Any = None
    timestamp: int = 0


class AssistantMessage(Wire, frozen=True, kw_only=True, tag="assistant", tag_field="role"):
    """`timestamp` in Unix ms, `durationMs` of the call."""

    content: tuple[Block, ...]
    api: str = msgspec.field(default_factory=str)
    provider: str = msgspec.field(default_factory=str)
    model: str = msgspec.field(default_factory=str)
    usage: Usage = msgspec.field(default_factory=Usage)
    stop_reason: str = msgspec.field(default_factory=str)
    error_message: str | None = None
    timestamp: int = msgspec.field(default_factory=int)
    response_id: str | None = None
    raw_stop_reason: str | None = None
    duration_ms: int | None = None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class ToolResultMessage(Wire, frozen=True, kw_only=True, tag="toolResult", tag_field="role", omit_defaults=False):
    tool_call_id: str
    tool_name: str = ""
    content: tuple[Visible, ...] = ()
    details: Any = msgspec.UNSET
    is_error: bool = False
    timestamp: int = 0


class BashExecutionMessage(Wire, frozen=True, kw_only=True, tag="bashExecution", tag_field="role"):
    """A command that the person ran. `excludeFromContext` for the `!!` form."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = msgspec.field(default_factory=bool)
    truncated: bool = msgspec.field(default_factory=bool)
    full_output_path: str | None = None
    exclude_from_context: bool = False
    timestamp: int = 0


class CustomMessage(Wire, frozen=True, kw_only=True, tag="custom", tag_field="role"):
    custom_type: str
    content: str | tuple[Visible, ...]
    display: bool
    details: Any = None
    timestamp: int = 0


class BranchSummaryMessage(Wire, frozen=True, kw_only=True, tag="branchSummary", tag_field="role"):
    summary: str
    from_id: str
    timestamp: int = 0


class CompactionSummaryMessage(Wire, frozen=True, kw_only=True, tag="compactionSummary", tag_field="role"):
    summary: str
    tokens_before: int
    timestamp: int = 0


class SystemMessage(Wire, frozen=True, kw_only=True, tag="system", tag_field="role"):
    """pi 1.6 keeps its prompt as a message; it does not enter our context."""

    content: Any = ""
    timestamp: int = 0


Message = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
    | SystemMessage
)

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def decode_message(raw: bytes | msgspec.Raw) -> Message:
    """The typed message. Raises BadRecord for a role or shape that we do not know."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord(f"expected a message of a known role, found {bytes(raw)[:120]!r}: {error}") from error


def text_of(content: str | tuple[Visible, ...]) -> str:
    """The text of a content, images left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def user_text(text: str, timestamp: int) -> UserMessage:
    return UserMessage(content=(TextContent(text=text),), timestamp=timestamp)
