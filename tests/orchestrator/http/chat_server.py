"""A server of OpenAI's chat completions that plays what a test wrote down, per agent, in pieces cut at odd places."""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import attrs
import msgspec
import trio

from tests.raw_server import Request, chunked, cut_anywhere, events, head, read_request

Tokens = tuple[int, int, int, int]
"""Input, output, cache read, cache write."""
_CHILD = re.compile(r"You are (\S+), a child agent of sapwood")


@attrs.frozen
class Asked:
    """A request for a completion: which agent made it, and the how-manieth of that agent it is, from 1."""

    agent: str
    number: int
    request: Request

    @property
    def body(self) -> Any:
        return self.request.json

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def system(self) -> str:
        return str(self.messages[0]["content"]) if self.messages[0]["role"] == "system" else ""

    @property
    def last(self) -> str:
        """The text of the last message."""
        content = self.messages[-1]["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]


@attrs.frozen
class Said:
    """A streamed reply, with its usage in the last chunk.

    `ending`: `cut` breaks the connection after text, calls and usage, before a finish reason; `stalled` keeps it open there
    and says no more. `piece`: characters of a delta.
    """

    text: str | Callable[[Asked], str] = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    usage: Tokens | None = (10, 1, 0, 0)
    thinking: str = ""
    ending: Literal["whole", "cut", "stalled"] = "whole"
    piece: int = 7

    def chunks(self, asked: Asked) -> list[dict[str, Any]]:
        text = self.text(asked) if callable(self.text) else self.text
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in _pieces(self.thinking, self.piece)]
        deltas += [{"content": piece} for piece in _pieces(text, self.piece)]
        deltas += [{"tool_calls": [call]} for call in self._call_deltas(asked)]
        values = [_chunk(delta) for delta in deltas]
        if self.ending == "whole":
            values.append(_chunk({}, "tool_calls" if self.calls else "stop"))
        if self.usage is not None:
            values.append({"id": "chatcmpl-1", "choices": [], "usage": usage_of(self.usage)})
        return values

    def _call_deltas(self, asked: Asked) -> Iterable[dict[str, Any]]:
        """The calls side by side, as servers send parallel ones: a piece of each in turn."""
        texts = [_pieces(msgspec.json.encode(arguments).decode(), self.piece) for _, arguments in self.calls]
        for index, (name, _) in enumerate(self.calls):
            function = {"name": name, "arguments": ""}
            yield {"index": index, "id": f"call_{asked.number}_{index}", "type": "function", "function": function}
        for place in range(max(map(len, texts), default=0)):
            for index, pieces in enumerate(texts):
                if place < len(pieces):
                    yield {"index": index, "function": {"arguments": pieces[place]}}


@attrs.frozen
class Refused:
    """An answer that is no stream. `error` is its JSON, or its text."""

    status: int
    error: Any = attrs.field(factory=lambda: {"error": {"message": "no", "type": "no"}})
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Raw:
    """A stream of exactly these bytes, behind which the connection ends."""

    body: bytes


Answer = Said | Refused | Raw
Play = Callable[[Asked], Answer]


def by_agent(plan: Mapping[str, Sequence[Answer]]) -> Play:
    """The n-th request of an agent gets its n-th answer. To ask more often than was planned is an error of the test."""

    def play(asked: Asked) -> Answer:
        answers = plan.get(asked.agent, ())
        if asked.number > len(answers):
            return Refused(400, {"error": {"message": f"{asked.agent} asks {asked.number} times: not planned"}})
        return answers[asked.number - 1]

    return play


def in_turn(*answers: Answer) -> Play:
    """The root's n-th request gets the n-th answer, those beyond the last one."""
    return lambda asked: answers[min(asked.number, len(answers)) - 1]


@attrs.define
class ChatServer:
    """`asked` holds the completions that were asked for, `others` every other request.

    `listing` is given instead of the list of the one `model`.
    """

    play: Play
    port: int = 0
    model: str = "fake-chat"
    listing: "Refused | None" = None
    asked: list[Asked] = attrs.field(factory=list)
    others: list[Request] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def of(self, agent: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.agent == agent]

    async def serve(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                while (request := await read_request(stream)) is not None:
                    await self._answer(stream, request)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone

    async def _answer(self, stream: trio.SocketStream, request: Request) -> None:
        if not request.line.startswith("POST /v1/chat/completions"):
            self.others.append(request)
            listing = self.listing or Refused(200, {"data": [{"id": self.model}]})
            nothing = Refused(404, {"error": {"message": f"nothing is at {request.line}"}})
            await _send_whole(stream, listing if request.line.startswith("GET /v1/models ") else nothing)
            return
        found = _CHILD.search(str(request.json["messages"][0]["content"]))
        agent = found[1] if found else "root"
        asked = Asked(agent, len(self.of(agent)) + 1, request)
        self.asked.append(asked)
        answer = self.play(asked)
        match answer:
            case Refused():
                await _send_whole(stream, answer)
            case Raw(body):
                await stream.send_all(head() + body)
                await stream.aclose()
            case Said():
                await self._stream(stream, answer, asked)

    async def _stream(self, stream: trio.SocketStream, said: Said, asked: Asked) -> None:
        body = events(*said.chunks(asked), done=said.ending == "whole")
        opening = head(transfer_encoding="chunked")
        pieces = cut_anywhere(body, seed=len(self.asked), pieces=min(40, len(body)))
        # Once more across the frames of the transfer: an event's end, a frame's end and a packet's end fall apart.
        for piece in [
            opening,
            *cut_anywhere(chunked(*pieces, is_whole=said.ending == "whole"), seed=1 + len(self.asked)),
        ]:
            await stream.send_all(piece)
            await trio.lowlevel.checkpoint()
        if said.ending == "stalled":
            await stream.receive_some()
        if said.ending != "whole":
            await stream.aclose()


async def _send_whole(stream: trio.SocketStream, answer: Refused) -> None:
    body = answer.error.encode() if isinstance(answer.error, str) else msgspec.json.encode(answer.error)
    fields = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Said", *(f"{name}: {field}" for name, field in fields.items())]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)


@asynccontextmanager
async def chat_server(play: Play) -> AsyncIterator[ChatServer]:
    """A server on a free port of 127.0.0.1. Connections that are open at the end are cut."""
    async with trio.open_nursery() as nursery:
        server = ChatServer(play)
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


def usage_of(tokens: Tokens) -> dict[str, Any]:
    """The counts as such servers report them: the cached tokens are part of the prompt."""
    fresh, output, read, written = tokens
    prompt = fresh + read + written
    details = {"cached_tokens": read, "cache_write_tokens": written}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": details,
    }


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "fake-chat", "choices": [choice]}


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
