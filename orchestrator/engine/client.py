"""How another process talks to a host: commands with their answers, and the lines of its streams."""

import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs
import msgspec
import trio

from orchestrator.engine.control.endpoint import answering, is_ours
from orchestrator.engine.control.lines import LineReader, TooLong
from store.disk.home import Home
from store.wire import encode

T = TypeVar("T")
ANSWER_S = 3.0
"""So long a host that is asked with others is waited for."""
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
    _answers: dict[int, _Response | None] = attrs.field(factory=dict)
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
        answer = await self._answer(self._number, encode({**command, "id": self._number}) + b"\n")
        if not answer.success:
            raise CommandFailed(answer.error.code, answer.error.message)
        return answer.data if isinstance(answer.data, dict) else {}

    async def rows(self) -> list[dict[str, Any]]:
        """The rows of all sessions of the host, page by page, parents before children. Raises as `call`."""
        rows: list[dict[str, Any]] = []
        cursor: int | None = 0
        while cursor is not None:
            page = await self.call({"type": "list_sessions", "cursor": cursor})
            rows += page["rows"]
            cursor = page.get("cursor")
        return rows

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

    async def _answer(self, number: int, line: bytes) -> _Response:
        """What a line is answered with. An answer that nobody waits for any more is not kept."""
        self._answers[number] = None
        try:
            await self._send(line)
            await self._until(lambda: self._answers[number] is not None)
        finally:
            answer = self._answers.pop(number)
        if answer is None:
            raise HostGone("the host has ended")
        return answer

    async def _send(self, line: bytes) -> None:
        try:
            async with self._sending:
                await self.stream.send_all(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise HostGone("the host has ended") from error
        except trio.Cancelled:
            # Half a line may have gone out, so nothing may follow it.
            self.stream.socket.close()
            raise

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
            elif answer.id in self._answers:
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


async def asked(sockets: Iterable[Path], ask: Callable[[Client], Awaitable[T]]) -> dict[Path, T]:
    """What hosts say, all asked at once, by socket and in their order.

    One that is gone, does not answer in time, or answers as another version would, says nothing.
    """
    told: dict[Path, T] = {}

    async def one(socket: Path) -> None:
        with trio.move_on_after(ANSWER_S):
            try:
                async with await Client.connect(socket) as client:
                    told[socket] = await ask(client)
            except (HostGone, CommandFailed, msgspec.ValidationError, KeyError):
                return

    async with trio.open_nursery() as nursery:
        for socket in sockets:
            nursery.start_soon(one, socket)
    return {socket: told[socket] for socket in sorted(told)}


async def hosts(home: Home) -> list[HostInfo]:
    """The hosts of this home that answer. Raises OSError where the folder cannot be read."""

    async def hello(client: Client) -> tuple[str, int, str, tuple[str, ...], bool]:
        told = await client.call({"type": "hello"})
        return told["hostId"], told["pid"], told["version"], tuple(told["roots"]), told["resident"]

    told = await asked(answering(home), hello)
    return [HostInfo(path, *host) for path, host in told.items()]
