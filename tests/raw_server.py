"""A TCP server that sends exactly the bytes it is told to, cut where it is told to.

Imported by tests as `tests.raw_server`.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import attrs
import msgspec
import trio

Talk = Callable[[trio.SocketStream], Awaitable[None]]
Answer = Sequence[bytes | float] | Talk
"""Pieces to send and seconds to wait; or a function that talks on its own. The connection is closed behind it."""


@attrs.frozen
class Request:
    """What a client sent. Header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@attrs.define
class RawServer:
    """The n-th request gets the n-th answer, those beyond the last one. `keeps_alive`: many requests per connection."""

    port: int
    answers: Sequence[Answer]
    keeps_alive: bool = False
    requests: list[Request] = attrs.field(factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        try:
            async with stream:
                stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
                while (request := await read_request(stream)) is not None:
                    self.requests.append(request)
                    await send(stream, self.answers[min(len(self.requests), len(self.answers)) - 1])
                    if not self.keeps_alive:
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone


async def send(stream: trio.SocketStream, answer: Answer) -> None:
    if callable(answer):
        await answer(stream)
        return
    for piece in answer:
        if isinstance(piece, bytes):
            await stream.send_all(piece)
            await trio.lowlevel.checkpoint()
        else:
            await trio.sleep(piece)


async def read_request(stream: trio.SocketStream) -> Request | None:
    """One request with its body, or None when the client closed before it was whole."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = await stream.receive_some()
        if not piece:
            return None
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    while len(body) < int(headers.get("content-length", "0")):
        piece = await stream.receive_some()
        if not piece:
            return None
        body += piece
    return Request(line, headers, body)


@asynccontextmanager
async def raw_server(*answers: Answer, keeps_alive: bool = False) -> AsyncIterator[RawServer]:
    """A server on a free port of 127.0.0.1. Connections that are open at the end are cut."""
    async with trio.open_nursery() as nursery:
        server = RawServer(0, answers, keeps_alive)
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


# --- bytes to send ----------------------------------------------------------------------------------------------------


def head(status: int = 200, *, content_type: str = "text/event-stream", **headers: str) -> bytes:
    """The head of an answer that ends with the connection. Underscores in names stand for hyphens."""
    fields = {"content-type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode()


def chunked(*pieces: bytes, is_whole: bool = True) -> bytes:
    """A body with `transfer-encoding: chunked`; without its last chunk it reads as cut off."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return body + b"0\r\n\r\n" if is_whole else body


def events(*values: Any, done: bool = True, line_end: str = "\n") -> bytes:
    """A stream of `data:` events: JSON of each value, strings and bytes as they stand."""
    lines = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]
    return "".join(f"data: {line}{line_end * 2}" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def each_byte(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    inside = sorted({place for place in places if 0 < place < len(data)})
    return [data[start:end] for start, end in pairwise([0, *inside, len(data)])]


def cut_anywhere(data: bytes, seed: int, pieces: int = 12) -> list[bytes]:
    """`data` in about so many pieces, cut at places that the seed decides."""
    chance = random.Random(seed)
    return cut(data, (chance.randrange(len(data) + 1) for _ in range(pieces - 1)))
