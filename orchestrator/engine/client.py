"""How another process talks to a host: commands with their answers, and the lines of its streams."""

import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
import msgspec
import trio

from orchestrator.engine.control.endpoint import is_answered, is_ours
from orchestrator.engine.control.lines import LineReader, TooLong
from orchestrator.engine.control.places import places
from store.disk.home import Home
from store.wire import encode

HELLO_S = 2.0
RECEIVE_BYTES = 64 << 10
# Rows and entries of a whole page in one line, and more: what a host says is not limited as what it is told.
ANSWER_BYTES = 128 << 20
_RESPONSE = b'"type":"response"'


class HostGone(Exception):
    """The connection has ended, and with it the host or its interest in us."""


class CommandFailed(Exception):
    """The host did not do what it was told. `code` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Error(msgspec.Struct, frozen=True):
    code: str = "failed"
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    type: str
    id: Any = None
    success: bool = False
    data: Any = None
    error: _Error = _Error()


_response: msgspec.json.Decoder[_Response] = msgspec.json.Decoder(_Response)


@attrs.define(eq=False)
class Client:
    """One connection. Several tasks may call and one may read lines at the same time: whoever waits reads for all."""

    stream: trio.SocketStream
    _reader: LineReader = attrs.field(factory=lambda: LineReader(ANSWER_BYTES))
    _number: int = 0
    _answers: dict[int, _Response] = attrs.field(factory=dict)
    _lines: deque[bytes] = attrs.field(factory=deque)
    _is_reading: bool = False
    _is_gone: bool = False
    _news: trio.Event = attrs.field(factory=trio.Event)
    _sending: trio.Lock = attrs.field(factory=trio.Lock)

    @classmethod
    async def connect(cls, path: str | Path) -> Self:
        """To the socket at `path`. Raises HostGone where nobody of this user listens."""
        try:
            stream = await trio.open_unix_socket(os.fspath(path))
        except OSError as error:
            raise HostGone(f"{path}: nobody answers: {error.strerror}") from error
        if not is_ours(stream.socket):
            await stream.aclose()
            raise HostGone(f"{path}: expected a host of user {os.geteuid()}, found one of another user")
        return cls(stream)

    async def call(self, command: dict[str, Any]) -> dict[str, Any]:
        """Give a command and return the `data` of its answer. Raises CommandFailed, HostGone."""
        self._number += 1
        number = self._number
        line = encode({**command, "id": number}) + b"\n"
        try:
            async with self._sending:
                await self.stream.send_all(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise HostGone("the host has ended") from error
        await self._until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if not answer.success:
            raise CommandFailed(answer.error.code, answer.error.message)
        return answer.data if isinstance(answer.data, dict) else {}

    def lines(self) -> AsyncIterator[bytes]:
        """All that is no answer: snapshots, lines of the stream, gaps; each with its newline. Ends with the host."""
        return _Lines(self)

    async def next_line(self) -> bytes:
        """Raises HostGone."""
        await self._until(lambda: bool(self._lines))
        return self._lines.popleft()

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _until(self, is_there: Callable[[], bool]) -> None:
        """Raises HostGone when it never will be."""
        while not is_there():
            if self._is_gone:
                raise HostGone("the host has ended")
            if self._is_reading:
                await self._news.wait()
                continue
            self._is_reading = True
            try:
                await self._read()
            finally:
                self._is_reading = False
                news, self._news = self._news, trio.Event()
                news.set()

    async def _read(self) -> None:
        try:
            data = await self.stream.receive_some(RECEIVE_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        self._is_gone = not data
        for line in self._reader.feed(data):
            if isinstance(line, TooLong):
                continue
            answer = _answer(line)
            if answer is None:
                self._lines.append(line + b"\n")
            elif isinstance(answer.id, int):
                self._answers[answer.id] = answer


@attrs.frozen
class _Lines(AsyncIterator[bytes]):
    """No generator: one may be left at any time."""

    client: Client

    async def __anext__(self) -> bytes:
        try:
            return await self.client.next_line()
        except HostGone:
            raise StopAsyncIteration from None


def _answer(line: bytes) -> _Response | None:
    """The answer in a line, if it is one. What a tool is called with may hold the words, so the members are looked at, too."""
    if _RESPONSE not in line:
        return None
    try:
        answer = _response.decode(line)
    except msgspec.DecodeError:
        return None
    return answer if answer.type == "response" else None


@attrs.frozen
class HostInfo:
    """A host that answers. `roots`: the trees that it runs."""

    path: Path
    host_id: str
    pid: int
    version: str
    roots: tuple[str, ...]
    is_resident: bool = False


async def hosts(home: Home) -> list[HostInfo]:
    """The hosts of this home that answer, all asked at once. Raises OSError, StoreError where the folder cannot be read."""
    found: list[HostInfo] = []

    async def ask(path: Path) -> None:
        with trio.move_on_after(HELLO_S):
            try:
                async with await Client.connect(path) as client:
                    told = await client.call({"type": "hello"})
            except (HostGone, CommandFailed, msgspec.DecodeError):
                return
            host = told["hostId"], told["pid"], told["version"], tuple(told["roots"]), told["resident"]
            found.append(HostInfo(path, *host))

    there = places(home)
    async with trio.open_nursery() as nursery:
        for place in there:
            if is_answered(place):
                nursery.start_soon(ask, place.socket)
    return sorted(found, key=lambda host: str(host.path))
