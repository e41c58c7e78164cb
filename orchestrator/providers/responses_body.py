"""The request of OpenAI's responses: what a session says, in the words of that format."""

from collections.abc import Iterator
from typing import Any

import msgspec

from actors.protocol.model import ModelRequest, ToolSpec
from orchestrator.providers.call_ids import CallIds, fit_name
from orchestrator.providers.responses_quirks import ModelRow, Quirks, model_row
from store.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Visible,
    text_of,
)

API = "openai-responses"
REASONING = "reasoning"

Json = dict[str, Any]


def body_of(request: ModelRequest, quirks: Quirks, service_tier: str | None = None) -> Json:
    """The body of a streamed call, of which the provider keeps nothing."""
    row = model_row(request.model.id)
    body: Json = {"model": request.model.id, "input": list(_items(request, quirks)), "stream": True, "store": False}
    if request.system and quirks.system == "instructions":
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.model.max_output > 0:
        body["max_output_tokens"] = request.model.max_output
    if quirks.takes_cache_key:
        body["prompt_cache_key"] = request.session_id
    if service_tier is not None:
        body["service_tier"] = service_tier
    reasoning = _reasoning(request.thinking, row)
    if quirks.encrypts_reasoning and (row.is_reasoner or "summary" in reasoning):
        body["include"] = ["reasoning.encrypted_content"]
    return body | ({"reasoning": reasoning} if reasoning else {})


def kept_reasoning(item: Json) -> str | None:
    """What is to be sent back of an item of reasoning, as JSON; None where the provider handed out nothing to send."""
    if not isinstance(item.get("encrypted_content"), str) or not isinstance(item.get("id"), str):
        return None
    kept = {"type": REASONING, "id": item["id"], "summary": item.get("summary") or []}
    return msgspec.json.encode(kept | {"encrypted_content": item["encrypted_content"]}).decode()


def _tool(tool: ToolSpec) -> Json:
    # Not strict: that takes a smaller language of schemas than tools are written in.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _reasoning(level: str | None, row: ModelRow) -> Json:
    efforts = dict(row.efforts)
    if level is None or (level == "off" and "off" not in efforts):
        return {}
    effort = {"effort": efforts.get(level, level)}
    return effort if level == "off" else effort | {"summary": "auto"}


# --- input ------------------------------------------------------------------------------------------------------------


def _items(request: ModelRequest, quirks: Quirks) -> Iterator[Json]:
    if request.system and quirks.system == "system":
        yield {"type": "message", "role": "system", "content": request.system}
    ids = CallIds()
    for message in request.messages:
        match message:
            case UserMessage(content=content):
                if parts := _parts(content):
                    yield {"type": "message", "role": "user", "content": parts}
            case ToolResultMessage():
                id = ids.of_result(message.tool_call_id)
                yield {"type": "function_call_output", "call_id": id, "output": _output(message)}
            case AssistantMessage():
                ids.begin_answer()
                yield from _answer(message, request, ids)


def _answer(message: AssistantMessage, request: ModelRequest, ids: CallIds) -> Iterator[Json]:
    is_own = (message.api, message.provider, message.model) == (API, request.model.provider, request.model.id)
    # Reasoning goes with what came of it: alone, as after an abort, it is refused.
    waiting: list[Json] = []
    for block in message.content:
        item: Json | None = None
        match block:
            case ThinkingContent(thinking_signature=str(signature)) if is_own:
                waiting += _reasoned(signature)
            case TextContent(text=text) if text:
                item = {"type": "message", "role": "assistant", "content": text}
            case ToolCall():
                item = _call(block, ids)
        if item is not None:
            yield from waiting
            waiting = []
            yield item


def _call(call: ToolCall, ids: CallIds) -> Json:
    arguments = msgspec.json.encode(call.checked_arguments).decode()
    id = ids.of_call(call.id)
    return {"type": "function_call", "call_id": id, "name": fit_name(call.name), "arguments": arguments}


def _reasoned(signature: str) -> list[Json]:
    """The item of which `signature` is the JSON, if it is one."""
    try:
        item = msgspec.json.decode(signature)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [item] if isinstance(item, dict) and item.get("type") == REASONING and kept_reasoning(item) else []


def _output(message: ToolResultMessage) -> str | list[Json]:
    """Plain text where it will do: not every server takes a list."""
    if any(isinstance(block, ImageContent) for block in message.content):
        return _parts(message.content)
    return text_of(message.content) or "(no output)"


def _parts(content: str | tuple[Visible, ...]) -> list[Json]:
    if isinstance(content, str):
        content = (TextContent(text=content),)
    return [_part(block) for block in content if isinstance(block, ImageContent) or block.text]


def _part(block: Visible) -> Json:
    if isinstance(block, TextContent):
        return {"type": "input_text", "text": block.text}
    url = f"data:{block.mime_type};base64,{block.data}"
    return {"type": "input_image", "detail": "auto", "image_url": url}
