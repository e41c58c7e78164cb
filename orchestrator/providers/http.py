"""HTTP to providers: a POST and its stream of events, a small GET, every failure a value. Nothing else knows httpx."""

import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import trio

from actors.protocol.model import FailureKind, ModelFailure
from orchestrator import __version__
from orchestrator.providers.answer import Answer, CallFailed, Take
from orchestrator.providers.post import HttpLimits, Post
from orchestrator.providers.sse import Event

if TYPE_CHECKING:
    import httpx

# One client for thousands of streams searches its pool for each: time grows with the square.
STREAMS_PER_CLIENT = 100
_DRAIN_S = 0.1


@attrs.define
class _Lane:
    client: "httpx.AsyncClient"
    streams: int = 0


@attrs.define
class Http:
    """The connections of one host to all providers; who opens them calls `aclose`.

    `uses_environment` takes proxies and certificates from the usual variables. `now_s` is Unix time, for dates.
    """

    limits: HttpLimits = attrs.field(factory=HttpLimits)
    uses_environment: bool = True
    now_s: Callable[[], float] = time.time
    _lanes: list[_Lane] = attrs.field(factory=list, init=False)

    async def post(self, post: Post, take: Take) -> ModelFailure | None:
        """Send `post` and hand each event of the answer to `take`. None: the stream ended, or `take` had enough.

        Texts of failures hold no key of this request.
        """
        if post.problem is not None:
            return ModelFailure(kind="invalid_request", message=post.problem)
        lane = self._free_lane()
        lane.streams += 1
        try:
            failure = await _Exchange(post, self.limits, self.now_s).run(lane.client, take)
        except CallFailed as failed:
            failure = failed.failure
        finally:
            lane.streams -= 1
        return None if failure is None else post.without_secrets(failure)

    async def aclose(self) -> None:
        """Close all connections. Nothing may be under way."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            await lane.client.aclose()

    def _free_lane(self) -> _Lane:
        for lane in self._lanes:
            if lane.streams < STREAMS_PER_CLIENT:
                return lane
        lane = _Lane(_new_client(self.uses_environment))
        self._lanes.append(lane)
        return lane


async def fetched(post: Post, within_s: float, most_bytes: int) -> bytes | ModelFailure:
    """What a GET of the URL of `post` brings, in one piece and on a connection of its own. Redirects are not followed."""
    if post.problem is not None:
        return ModelFailure(kind="invalid_request", message=post.problem)
    client = _new_client(uses_environment=True)
    try:
        with trio.move_on_after(within_s):
            return await _fetched(client, post, most_bytes)
        failure = ModelFailure(kind="timeout", message=f"no whole answer from {post.place} within {within_s:g} s")
    except CallFailed as failed:
        failure = failed.failure
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 2):
            await client.aclose()
    return post.without_secrets(failure)


async def _fetched(client: "httpx.AsyncClient", post: Post, most_bytes: int) -> bytes:
    headers = {"accept": "application/json", "accept-encoding": "identity"} | dict(post.headers)
    with _translating(f"no answer from {post.place}", "network"):
        response = await client.send(client.build_request("GET", post.url, headers=headers), stream=True)
    chunks = response.aiter_raw()
    try:
        if response.status_code != 200:
            raise CallFailed("server", f"expected HTTP 200 from {post.place}, found {response.status_code}")
        body = bytearray()
        with _translating(f"the answer from {post.place} was cut off", "incomplete"):
            async for chunk in chunks:
                body += chunk
                if len(body) > most_bytes:
                    raise CallFailed("server", f"the answer from {post.place} is larger than {most_bytes} bytes")
        return bytes(body)
    finally:
        await _finish(chunks)
        await response.aclose()


@asynccontextmanager
async def opened_http(limits: HttpLimits | None = None, *, uses_environment: bool = True) -> AsyncIterator[Http]:
    http = Http(limits or HttpLimits(), uses_environment)
    try:
        yield http
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 2):
            await http.aclose()


_ssl_contexts: dict[bool, Any] = {}


def _new_client(uses_environment: bool) -> "httpx.AsyncClient":
    module = _imported_httpx()
    if uses_environment not in _ssl_contexts:  # 20 ms each, so one for all clients
        _ssl_contexts[uses_environment] = module.create_ssl_context(trust_env=uses_environment)
    client: httpx.AsyncClient = module.AsyncClient(
        verify=_ssl_contexts[uses_environment],
        trust_env=uses_environment,
        timeout=None,
        follow_redirects=False,
        limits=module.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
        headers={"user-agent": f"sapwood/{__version__}"},
    )
    return client


def _imported_httpx() -> Any:
    """httpx without its command line, which would import rich: it puts a stub in the place of what it cannot import."""
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]
        try:
            import httpx
        finally:
            del sys.modules["httpx._main"]
        logging.getLogger("httpx").setLevel(logging.WARNING)  # below that it logs whole URLs
    import httpx

    return httpx


@attrs.define
class _Exchange:
    """One POST and its answer, against the clock. `deadline` is that of the whole; a paused reader moves it."""

    post: Post
    limits: HttpLimits
    now_s: Callable[[], float]
    deadline: float = 0.0

    async def run(self, client: "httpx.AsyncClient", take: Take) -> ModelFailure | None:
        self.deadline = trio.current_time() + self.limits.total_s
        response = await self._send(client)
        chunks = response.aiter_raw()

        async def next_bytes() -> bytes | None:
            return await self._next(chunks)

        async def take_unhurried(event: Event) -> bool:
            started = trio.current_time()
            is_enough = await take(event)
            self.deadline += trio.current_time() - started
            return is_enough

        headers = dict(response.headers)
        try:
            answer = Answer(self.post, self.limits, response.status_code, headers, next_bytes, self.now_s)
            with _translating("the answer was cut off", "incomplete"):
                failure = await answer.read(take_unhurried)
            with trio.move_on_after(_DRAIN_S):
                await _read_up(chunks)  # the few bytes behind the last event, so that the connection can be used again
            return failure
        finally:
            await _finish(chunks)
            await response.aclose()

    async def _send(self, client: "httpx.AsyncClient") -> "httpx.Response":
        phase = f"no connection to {self.post.place} within {self.limits.connect_s:g} s"
        scope = trio.CancelScope(deadline=min(self.deadline, trio.current_time() + self.limits.connect_s))

        async def follow(name: str, _: object) -> None:
            nonlocal phase
            if name.endswith("send_request_headers.started"):
                seconds = self.limits.idle_s
                phase = f"the request was not sent to {self.post.place} within {seconds:g} s"
            elif name.endswith("receive_response_headers.started"):
                seconds = self.limits.first_byte_s
                phase = f"no answer from {self.post.place} within {seconds:g} s"
            else:
                return
            scope.deadline = min(self.deadline, trio.current_time() + seconds)

        headers = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
        with scope, _translating(f"no answer from {self.post.place}", "network"):
            request = client.build_request(
                "POST",
                self.post.url,
                headers=headers | dict(self.post.headers),
                content=self.post.body,
                extensions={"trace": follow},
            )
            return await client.send(request, stream=True)
        raise CallFailed("timeout", phase)

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        idle_ends = trio.current_time() + self.limits.idle_s
        with trio.CancelScope(deadline=min(idle_ends, self.deadline)):
            return await anext(chunks, None)
        if idle_ends <= self.deadline:
            raise CallFailed("timeout", f"the stream stood still for {self.limits.idle_s:g} s")
        raise CallFailed("timeout", f"the answer was not complete within {self.limits.total_s:g} s")


async def _read_up(chunks: AsyncIterator[bytes]) -> None:
    import httpx

    try:
        async for _ in chunks:
            pass
    except (httpx.TransportError, httpx.StreamError):
        pass  # what was wanted is there


async def _finish(chunks: AsyncIterator[bytes]) -> None:
    """End the iterators of httpx by an error: dropped in the middle, each of them would be a warning of trio's."""
    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        await _read_up(chunks)


@contextmanager
def _translating(what: str, on_protocol_error: FailureKind) -> Iterator[None]:
    """httpx's errors as ours; never chained, since they hold the request and its headers."""
    import httpx

    try:
        yield
    except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL):
        raise CallFailed("invalid_request", "the request cannot be written as HTTP: look at URL and headers") from None
    except httpx.TimeoutException as error:
        raise CallFailed("timeout", f"{what}: {type(error).__name__}") from None
    except httpx.RemoteProtocolError as error:
        raise CallFailed(on_protocol_error, f"{what}: {error}") from None
    except httpx.TransportError as error:
        raise CallFailed("network", f"{what}: {str(error) or type(error).__name__}") from None
