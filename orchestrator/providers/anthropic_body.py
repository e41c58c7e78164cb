"""The request of Anthropic's messages: what a session says, in the words of that format."""

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from actors.protocol.model import ModelRequest, ToolSpec
from orchestrator.providers.anthropic_quirks import ModelRow, Quirks, model_row
from orchestrator.providers.call_ids import CallIds, fit_name
from store.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Visible,
)

API = "anthropic-messages"
# Thinking that the provider keeps to itself has no text: its signature is the whole block, as it came.
REDACTED = "redacted_thinking"
BINDING_BETA = "thinking-binding-controls-2026-08-01"

_EPHEMERAL = {"type": "ephemeral"}
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 20_480, "xhigh": 31_744}
_LEAST_BUDGET = 1_024
_TIERS = {"default": "standard_only", "priority": "auto"}

Json = dict[str, Any]


def body_of(request: ModelRequest, quirks: Quirks, service_tier: str | None = None) -> Json:
    """The body of a streamed call."""
    row = model_row(request.model.id)
    max_tokens = request.model.max_output or row.max_output
    body: Json = {
        "model": request.model.id,
        "max_tokens": max_tokens,
        "messages": _Turns(request, quirks, row).all(),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _EPHEMERAL}]
    if request.tools:
        body["tools"] = _cached([_tool(tool) for tool in request.tools])
    elif names := _called(request):
        # Calls in the history need their tools, also where none may be called any more.
        body["tools"] = _cached([{"name": name, "input_schema": {"type": "object"}} for name in names])
        body["tool_choice"] = {"type": "none"}
    if service_tier is not None:
        body["service_tier"] = _TIERS.get(service_tier, service_tier)
    return body | _thinking(request.thinking, row, max_tokens)


def beta_of(body: Json) -> str | None:
    """The beta that `body` makes use of, which a header has to name."""
    return BINDING_BETA if "block_binding" in body.get("thinking", {}) else None


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _called(request: ModelRequest) -> list[str]:
    answers = (message for message in request.messages if isinstance(message, AssistantMessage))
    return list(dict.fromkeys(fit_name(call.name) for answer in answers for call in answer.calls))


def _cached(blocks: list[Json]) -> list[Json]:
    """Everything up to the last of `blocks` stays in the provider's cache for the next call."""
    return [*blocks[:-1], blocks[-1] | {"cache_control": _EPHEMERAL}]


# --- thinking ---------------------------------------------------------------------------------------------------------


def _thinking(level: str | None, row: ModelRow, max_tokens: int) -> Json:
    """The members that ask for thinking. Without a level the model does as it is used to."""
    if row.thinking == "none":
        return {}
    if level is None:
        return {"thinking": _adaptive(row)} if row.is_bound else {}
    if level == "off":
        if row.off == "low":
            return {"thinking": _adaptive(row), "output_config": {"effort": "low"}}
        return {"thinking": {"type": row.off}}
    if row.thinking == "adaptive":
        effort = {"minimal": "low", "xhigh": row.highest}.get(level, level)
        return {"thinking": _adaptive(row) | {"display": "summarized"}, "output_config": {"effort": effort}}
    # Thinking is part of the output: some of it must be left for the answer.
    budget = min(_BUDGETS.get(level, _BUDGETS["medium"]), max_tokens * 3 // 4)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def _adaptive(row: ModelRow) -> Json:
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if row.is_bound else {}
    return {"type": "adaptive"} | binding


# --- messages ---------------------------------------------------------------------------------------------------------


@attrs.define
class _Turns:
    """The messages in alternating roles: what follows one another in the same role becomes one message."""

    request: ModelRequest
    quirks: Quirks
    row: ModelRow
    ids: CallIds = attrs.field(factory=CallIds)
    turns: list[Json] = attrs.field(factory=list)

    def all(self) -> list[Json]:
        for message in self.request.messages:
            match message:
                case UserMessage(content=content):
                    self._add("user", _visible(content))
                case ToolResultMessage():
                    self._add("user", [self._result(message)])
                case AssistantMessage():
                    self.ids.begin_answer()
                    self._add("assistant", self._answer(message))
        if self.turns and self.turns[0]["role"] == "assistant":
            beginning = {"type": "text", "text": "(What was said before is not shown.)"}
            self.turns.insert(0, {"role": "user", "content": [beginning]})
        for turn in reversed(self.turns):
            if turn["role"] == "user":
                turn["content"] = _cached(turn["content"])
                break
        return self.turns

    def _add(self, role: str, blocks: Sequence[Json]) -> None:
        if not blocks:
            return
        if not self.turns or self.turns[-1]["role"] != role:
            self.turns.append({"role": role, "content": []})
        self.turns[-1]["content"] += blocks

    def _result(self, message: ToolResultMessage) -> Json:
        content = _visible(message.content)
        if message.is_error:  # an error is told in text alone
            content = [block for block in content if block["type"] == "text"]
        return {
            "type": "tool_result",
            "tool_use_id": self.ids.of_result(message.tool_call_id),
            "content": content or [{"type": "text", "text": "(no output)"}],
        } | ({"is_error": True} if message.is_error else {})

    def _answer(self, message: AssistantMessage) -> list[Json]:
        is_own = (message.api, message.provider, message.model) == (
            API,
            self.request.model.provider,
            self.request.model.id,
        )
        blocks: list[Json] = []
        for block in message.content:
            match block:
                case TextContent(text=text) if text.strip():
                    blocks.append({"type": "text", "text": text})
                case ThinkingContent() if is_own:
                    blocks += self._thought(block)
                case ToolCall():
                    blocks.append(self._call(block))
        while blocks and blocks[-1]["type"] in {"thinking", REDACTED}:
            blocks.pop()  # an abort behind it: a thought alone, or at the end, is refused
        return blocks

    def _call(self, call: ToolCall) -> Json:
        id = self.ids.of_call(call.id)
        return {"type": "tool_use", "id": id, "name": fit_name(call.name), "input": call.checked_arguments}

    def _thought(self, block: ThinkingContent) -> list[Json]:
        """The block as it came; nothing where it was never signed, which is how a cut one looks."""
        if self.row.is_bound and self.request.thinking == "off":
            return []  # without thinking the provider cannot be asked to drop what does not hold any more
        signature = block.thinking_signature or ""
        if block.redacted:
            return [{"type": REDACTED, "data": signature}] if signature else []
        if redacted := _redacted(signature):
            return [redacted]
        if not signature and not (self.quirks.takes_unsigned_thoughts and block.thinking):
            return []
        return [{"type": "thinking", "thinking": block.thinking, "signature": signature}]


def _redacted(signature: str) -> Json | None:
    """The block of which `signature` is the JSON. Other signatures are base64."""
    if not signature.startswith("{"):
        return None
    try:
        block = msgspec.json.decode(signature, type=dict[str, str])
    except msgspec.DecodeError:
        return None
    return block if block.get("type") == REDACTED else None


def _visible(content: str | tuple[Visible, ...]) -> list[Json]:
    """Blocks of what people and tools say; blank text is refused, so it is left out."""
    if isinstance(content, str):
        content = (TextContent(text=content),)
    return [_block(block) for block in content if isinstance(block, ImageContent) or block.text.strip()]


def _block(block: Visible) -> Json:
    if isinstance(block, ImageContent):
        source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": block.text}
