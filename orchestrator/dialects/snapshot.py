"""The assistant message as far as it has come: what the dialects with snapshots repeat in each update."""

import msgspec

from orchestrator.dialects.growing import GrowingJson
from store.events import (
    AssistantMessageEvent,
    MessageUpdate,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolcallDelta,
    ToolcallEnd,
    ToolcallStart,
)
from store.messages import AssistantMessage, Block, TextContent, ThinkingContent, ToolCall


class Snapshot(msgspec.Struct, frozen=True):
    """`blocks` by their index in the content; `calls`: the arguments of those that are not whole."""

    message: AssistantMessage
    blocks: dict[int, Block] = {}
    calls: dict[int, GrowingJson] = {}

    def after(self, update: MessageUpdate) -> "Snapshot":
        """With what this update tells."""
        event = update.assistant_message_event
        calls = self.calls
        if isinstance(event, ToolcallStart | ToolcallDelta):
            grown = calls.get(event.content_index, GrowingJson())
            delta = event.delta if isinstance(event, ToolcallDelta) else ""
            calls = {**calls, event.content_index: grown.grown(delta)}
        blocks = {**self.blocks, event.content_index: self._block(event, calls)}
        content = tuple(blocks[index] for index in sorted(blocks))
        message = msgspec.structs.replace(self.message, content=content, usage=update.usage or self.message.usage)
        return Snapshot(message, blocks, calls)

    def _block(self, event: AssistantMessageEvent, calls: dict[int, GrowingJson]) -> Block:
        block = self.blocks.get(event.content_index)
        match event:
            case TextStart():
                return TextContent(text="")
            case TextDelta(delta=delta):
                return TextContent(text=(block.text if isinstance(block, TextContent) else "") + delta)
            case TextEnd(content=text):
                return TextContent(text=text)
            case ThinkingStart():
                return ThinkingContent(thinking="")
            case ThinkingDelta(delta=delta):
                said = block.thinking if isinstance(block, ThinkingContent) else ""
                return ThinkingContent(thinking=said + delta)
            case ThinkingEnd(content=text):
                return ThinkingContent(thinking=text)
            case ToolcallStart(id=call, tool_name=name):
                return ToolCall(id=call, name=name)
            case ToolcallDelta(content_index=index):
                call_so_far = block if isinstance(block, ToolCall) else ToolCall(id="", name="")
                arguments = calls[index].value()
                return call_so_far if arguments is None else msgspec.structs.replace(call_so_far, arguments=arguments)
            case ToolcallEnd(tool_call=whole):
                return whole
