"""The dashboard without a browser: raw requests, and its stream of events read as a page reads it."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import h11
import httpx
import trio

from orchestrator.web.door import Door


def headers(door: Door, **other: str | None) -> dict[str, str]:
    """Those of our own page; None leaves one out."""
    given: dict[str, str | None] = {
        "host": f"127.0.0.1:{door.port}",
        "origin": door.origin,
        "sec-fetch-site": "same-origin",
        "content-type": "application/json",
        "x-sapwood": "1",
        "cookie": f"{door.cookie_name}={door.pass_}",
    }
    given |= {name.replace("_", "-"): value for name, value in other.items()}
    return {name: value for name, value in given.items() if value is not None}


async def get(door: Door, path: str, **other: str | None) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(door.origin + path, headers=headers(door, **other))


async def post(door: Door, path: str, body: Any, **other: str | None) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(door.origin + path, content=data, headers=headers(door, **other))


@attrs.frozen
class Frame:
    event: str
    id: str
    data: Mapping[str, Any]


@attrs.define(eq=False)
class Stream:
    """Frames as they come. `beats` counts heartbeats."""

    connection: trio.SocketStream
    http: h11.Connection
    beats: int = 0
    _text: str = ""

    async def frame(self) -> Frame:
        """The next one. Raises EOFError at the end."""
        while True:
            block, found, rest = self._text.partition("\n\n")
            if not found:
                self._text += await self._more()
                continue
            self._text = rest
            named = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if "event" in named:
                return Frame(named["event"], named.get("id", ""), json.loads(named["data"]))
            self.beats += 1

    async def _more(self) -> str:
        while True:
            match self.http.next_event():
                case h11.NEED_DATA:
                    self.http.receive_data(await self.connection.receive_some())
                case h11.Response(status_code=status):
                    assert status == 200
                case h11.Data(data=data):
                    return bytes(data).decode()
                case h11.EndOfMessage() | h11.ConnectionClosed():
                    raise EOFError("the stream has ended")

    async def until(self, event: str) -> Frame:
        with trio.fail_after(20):
            while True:
                found = await self.frame()
                if found.event == event:
                    return found


@asynccontextmanager
async def stream(door: Door, since: str = "") -> AsyncIterator[Stream]:
    http = h11.Connection(h11.CLIENT)
    request = h11.Request(method="GET", target=f"/api/stream?since={since}", headers=list(headers(door).items()))
    async with await trio.open_tcp_stream("127.0.0.1", door.port) as connection:
        await connection.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        yield Stream(connection, http)


@attrs.define(eq=False)
class Rows:
    """The rows as a page keeps them, from the frames of a stream. `ended`: the hosts that the feed said are gone."""

    told: Stream
    rows: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    ended: list[dict[str, Any]] = attrs.field(factory=list)

    @property
    def by_name(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.rows.values()}

    async def until(
        self, is_so: Callable[[dict[str, dict[str, Any]]], object], patience_s: float = 40
    ) -> dict[str, Any]:
        """Read on until it is so of the rows by name; returns them."""
        with trio.fail_after(patience_s):
            while not is_so(self.by_name):
                frame = await self.told.frame()
                if frame.event in {"rows", "patch"}:
                    for key, members in frame.data.get("rows", {}).items():
                        self.rows.setdefault(key, {}).update(members)
                    for key in frame.data.get("gone", ()):
                        self.rows.pop(key, None)
                elif frame.event == "feed":
                    self.ended += [line["ended"] for line in frame.data["lines"] if "ended" in line]
        return self.by_name
