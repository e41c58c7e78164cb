"""The request of OpenAI's chat completions: what a session says, in the words of that format."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from actors.protocol.model import ModelRequest, ToolSpec
from orchestrator.providers.quirks import Quirks
from orchestrator.providers.text import encoded_json
from store.context import ModelMessage
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

# Members in which servers stream thinking. The one that was used is kept as the signature of the block.
THINKING_MEMBERS = ("reasoning_content", "reasoning", "reasoning_text")


def encoded_body(request: ModelRequest, quirks: Quirks, service_tier: str | None = None) -> bytes:
    return encoded_json(body_of(request, quirks, service_tier))


def body_of(request: ModelRequest, quirks: Quirks, service_tier: str | None = None) -> dict[str, Any]:
    """The body of a streamed call."""
    body: dict[str, Any] = {
        "model": request.model.id,
        "messages": list(_messages(request, quirks)),
        "stream": True,
    }
    if quirks.reports_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.model.max_output > 0:
        body[quirks.max_tokens] = request.model.max_output
    if quirks.takes_cache_key:
        body["prompt_cache_key"] = request.session_id
    if service_tier is not None:
        body["service_tier"] = service_tier
    return body | _thinking(request.thinking, quirks)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _thinking(level: str | None, quirks: Quirks) -> dict[str, Any]:
    if level is None:
        return {}
    is_on = level != "off"
    effort = dict(quirks.efforts).get(level, level)
    match quirks.thinking:
        case "reasoning_effort":
            return {"reasoning_effort": effort} if is_on else {}
        case "reasoning":
            return {"reasoning": {"effort": effort} if is_on else {"enabled": False}}
        case "thinking":
            return {"thinking": {"type": "enabled" if is_on else "disabled"}}
        case "enable_thinking":
            return {"enable_thinking": is_on}
        case "none":
            return {}


def _messages(request: ModelRequest, quirks: Quirks) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    # Pictures of results wait until all results of a batch stand there: nothing may come between those.
    pictures: list[ImageContent] = []
    for message in request.messages:
        if pictures and not isinstance(message, ToolResultMessage):
            yield _pictures_of_results(pictures)
            pictures = []
        if isinstance(message, ToolResultMessage):
            pictures += _images(message.content)
        yield from _message(message, quirks)
    if pictures:
        yield _pictures_of_results(pictures)


def _message(message: ModelMessage, quirks: Quirks) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage(content=content):
            yield {"role": "user", "content": _content(content)}
        case ToolResultMessage():
            result = {
                "role": "tool",
                "tool_call_id": _call_id(message.tool_call_id, quirks),
                "content": text_of(message.content) or _wordless(message),
            }
            yield result | ({"name": message.tool_name} if quirks.names_results else {})
        case AssistantMessage():
            said = _assistant(message, quirks)
            if len(said) > 1:
                yield said


def _wordless(message: ToolResultMessage) -> str:
    """Some servers refuse a result without text."""
    return "(see the image below)" if _images(message.content) else "(no output)"


def _assistant(message: AssistantMessage, quirks: Quirks) -> dict[str, Any]:
    """The role alone where nothing can be sent, as after an abort while the model was thinking."""
    said: dict[str, Any] = {"role": "assistant"}
    if message.text:
        said["content"] = message.text
    if message.calls:
        said.setdefault("content", None)
        said["tool_calls"] = [_call(call, quirks) for call in message.calls]
    if quirks.wants_reasoning_back and len(said) > 1:
        thoughts = [block for block in message.content if isinstance(block, ThinkingContent) and block.thinking]
        member = thoughts[0].thinking_signature if thoughts else None
        if member in THINKING_MEMBERS:
            said[member] = "\n".join(block.thinking for block in thoughts)
    return said


def _call(call: ToolCall, quirks: Quirks) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.checked_arguments).decode()
    return {
        "id": _call_id(call.id, quirks),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _call_id(id: str, quirks: Quirks) -> str:
    """`id` where the server takes it, else one made from it: a session may have begun with another provider."""
    if quirks.is_call_id_exact:
        is_taken = re.fullmatch(rf"[A-Za-z0-9]{{{quirks.call_id_chars}}}", id)
    else:
        is_taken = re.fullmatch(rf"[A-Za-z0-9_.:-]{{1,{quirks.call_id_chars}}}", id)
    return id if is_taken else hashlib.sha256(id.encode(errors="replace")).hexdigest()[: quirks.call_id_chars]


def _content(content: str | tuple[Visible, ...]) -> str | list[dict[str, Any]]:
    """Plain text where it will do: not every server takes a list."""
    if isinstance(content, str) or not _images(content):
        return text_of(content)
    return [_part(block) for block in content]


def _part(block: Visible) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _images(content: Iterable[Visible]) -> list[ImageContent]:
    return [block for block in content if isinstance(block, ImageContent)]


def _pictures_of_results(pictures: list[ImageContent]) -> dict[str, Any]:
    label = {"type": "text", "text": "Images in the tool results above:"}
    return {"role": "user", "content": [label, *map(_part, pictures)]}
