"""A provider that gives the recorded replies again.

Its side of a recording is made out of the messages: the same deltas in the same pieces, the same counts, the same failures, in
the wire format of the API that the recorded message names.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import msgspec
import trio

from tests.orchestrator.dialects.recorded import Event, Reply
from tests.raw_server import chunked, events, head, read_request

SUMMARY = "## Goal\nFake summary goal.\n\n## Progress\n### Done\n- [x] Fake step\n\n## Next Steps\n1. Continue"
ROOT = "root"
_CHILD = re.compile(r"You are (\S+), a child agent of sapwood")
_STATUS = re.compile(r"(\d{3}):? (.*)", re.DOTALL)


# --- the wire ---------------------------------------------------------------------------------------------------------


def answer(reply: Reply) -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection ends as it should."""
    if reply.is_refused:
        found = _STATUS.fullmatch(reply.message["errorMessage"])
        assert found is not None, reply.message["errorMessage"]
        return int(found[1]), _refusal(found[2]), True
    body = _ANSWERS[reply.message["api"]](reply)
    return 200, body, not (reply.is_cut or reply.is_unfinished)


def _refusal(text: str) -> bytes:
    """The body that the peer has shown: an error object, or one that stands in `error`, or a sentence."""
    if not text.startswith("{"):
        return msgspec.json.encode({"error": {"message": text}})
    value = json.loads(text)
    return msgspec.json.encode(value if "error" in value else {"error": value})


def _completions(reply: Reply) -> bytes:
    chunks: list[Event] = [_chunk({"role": "assistant", "content": ""})]
    calls: dict[int, int] = {}
    for update in reply.updates:
        event = update["assistantMessageEvent"]
        match event["type"]:
            case "text_delta":
                chunks.append(_chunk({"content": event["delta"]}))
            case "thinking_delta":
                chunks.append(_chunk({"reasoning_content": event["delta"]}))
            case "toolcall_start":
                index = calls[event["contentIndex"]] = len(calls)
                block = _call(reply, event["contentIndex"])
                function = {"name": block["name"], "arguments": ""}
                call = {"index": index, "id": block["id"], "type": "function", "function": function}
                chunks.append(_chunk({"tool_calls": [call]}))
            case "toolcall_delta" if event["delta"]:
                call = {"index": calls[event["contentIndex"]], "function": {"arguments": event["delta"]}}
                chunks.append(_chunk({"tool_calls": [call]}))
    if not _is_whole(reply):
        return events(*chunks, done=False)
    usage = reply.message["usage"]
    prompt = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    reason = {"stop": "stop", "toolUse": "tool_calls", "length": "length"}[reply.message["stopReason"]]
    chunks.append(_chunk({}, reason))
    chunks.append(
        {
            "id": "chatcmpl-fake",
            "choices": [],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": usage["output"],
                "total_tokens": prompt + usage["output"],
                "prompt_tokens_details": {
                    "cached_tokens": usage["cacheRead"],
                    "cache_write_tokens": usage["cacheWrite"],
                },
            },
        }
    )
    return events(*chunks)


def _chunk(delta: Event, finish: str | None = None) -> Event:
    return {"id": "chatcmpl-fake", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _call(reply: Reply, place: int) -> Event:
    """The call at this place of the content; from its own event where the message has not come so far."""
    content = reply.message["content"]
    if place < len(content) and content[place]["type"] == "toolCall":
        found: Event = content[place]
        return found
    start = next(
        event
        for event in (update["assistantMessageEvent"] for update in reply.updates)
        if event["type"] == "toolcall_start" and event["contentIndex"] == place
    )
    return {"id": start["id"], "name": start["toolName"]}


def _messages(reply: Reply) -> bytes:
    usage = reply.message["usage"]
    counts = {
        "input_tokens": usage["input"],
        "cache_read_input_tokens": usage["cacheRead"],
        "cache_creation_input_tokens": usage["cacheWrite"],
    }
    told: list[Event] = [
        {
            "type": "message_start",
            "message": {"id": "msg_fake", "role": "assistant", "usage": {**counts, "output_tokens": 1}},
        }
    ]
    for update in reply.updates:
        told += _block_events(reply, update["assistantMessageEvent"])
    if _is_whole(reply):
        reason = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}[reply.message["stopReason"]]
        told.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason},
                "usage": {**counts, "output_tokens": usage["output"]},
            }
        )
        told.append({"type": "message_stop"})
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event)) for event in told)


def _block_events(reply: Reply, event: Event) -> list[Event]:
    kind, _, step = event["type"].partition("_")
    place = event["contentIndex"]
    if step == "start":
        block: Event = {"type": kind, kind: ""}
        if kind == "toolcall":
            call = _call(reply, place)
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
        return [{"type": "content_block_start", "index": place, "content_block": block}]
    if step == "delta":
        delta = {
            "text": {"type": "text_delta", "text": event["delta"]},
            "thinking": {"type": "thinking_delta", "thinking": event["delta"]},
            "toolcall": {"type": "input_json_delta", "partial_json": event["delta"]},
        }[kind]
        return [{"type": "content_block_delta", "index": place, "delta": delta}]
    ended: list[Event] = [{"type": "content_block_stop", "index": place}]
    if kind == "thinking":
        signature = {"type": "signature_delta", "signature": reply.message["content"][place]["thinkingSignature"]}
        ended.insert(0, {"type": "content_block_delta", "index": place, "delta": signature})
    return ended


def _is_whole(reply: Reply) -> bool:
    return not (reply.is_unfinished or reply.message["stopReason"] == "error")


_ANSWERS = {"openai-completions": _completions, "anthropic-messages": _messages}


# --- the server -------------------------------------------------------------------------------------------------------


@attrs.define
class Provider:
    """Gives the n-th request that a session makes its n-th reply, those beyond the last one; to one without tools a summary."""

    replies: Mapping[str, Sequence[Reply]]
    refused_summaries: list[Reply] = attrs.field(factory=list)
    port: int = 0
    asked: Counter[str] = attrs.field(factory=Counter)
    silent: trio.Event = attrs.field(factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                while (request := await read_request(stream)) is not None:
                    await self._answer(stream, request.json)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone

    async def _answer(self, stream: trio.SocketStream, body: Event) -> None:
        reply = self._reply(body)
        status, told, is_whole = answer(reply)
        if status != 200:
            await stream.send_all(head(status, content_type="application/json", content_length=str(len(told))) + told)
            return
        await stream.send_all(head(transfer_encoding="chunked") + chunked(told, is_whole=is_whole))
        if reply.is_unfinished:
            self.silent.set()
            await trio.sleep_forever()
        if not is_whole:
            await stream.aclose()

    def _reply(self, body: Event) -> Reply:
        if not body.get("tools"):
            return self.refused_summaries.pop(0) if self.refused_summaries else self._summary
        found = _CHILD.search(str(body.get("system") or body["messages"][0]["content"]))
        session = found[1] if found else ROOT
        self.asked[session] += 1
        return self.replies[session][min(self.asked[session], len(self.replies[session])) - 1]

    @property
    def _summary(self) -> Reply:
        usage = {"input": 500, "output": 5, "cacheRead": 0, "cacheWrite": 0}
        message = {"api": self.replies[ROOT][0].message["api"], "stopReason": "stop", "usage": usage, "content": []}
        delta = {"type": "text_delta", "contentIndex": 0, "delta": SUMMARY}
        return Reply(({"assistantMessageEvent": delta},), message)


@asynccontextmanager
async def provider(
    replies: Mapping[str, Sequence[Reply]], refused_summaries: Sequence[Reply] = ()
) -> AsyncIterator[Provider]:
    """A server on a free port of 127.0.0.1. Connections that are open at the end are cut."""
    async with trio.open_nursery() as nursery:
        server = Provider(replies, list(refused_summaries))
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()
