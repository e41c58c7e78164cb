"""The addresses of the dashboard: the page and its files, one stream of events, reads, actions."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import attrs
import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.web.dashboard import Dashboard
from orchestrator.web.details import DETAILS
from orchestrator.web.door import HEADERS, Door
from orchestrator.web.ports import Order, Refused
from orchestrator.web.reader import Since

STATIC = Path(__file__).parent / "static"
BODY_LIMIT_BYTES = 1024 * 1024
T = TypeVar("T")


class Enter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


class Look(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a page shows: the conversation that is open, and whether anybody can see it."""

    reader: str
    open_session: str | None
    is_hidden: bool


class BadRequest(Exception):
    """Not what this address takes; the text says what it is."""


def dashboard_app(dashboard: Dashboard, door: Door) -> ASGIApp:
    """The whole as an ASGI application, the door in front."""
    pages = Pages(dashboard, door)
    routes = [
        Route("/api/enter", pages.answered(pages.enter), methods=["POST"]),
        Route("/api/look", pages.answered(pages.look), methods=["POST"]),
        Route("/api/ended", pages.answered(pages.ended), methods=["POST"]),
        Route("/api/do", pages.answered(pages.do), methods=["POST"]),
        Route("/api/stream", pages.stream, methods=["GET"]),
        Route("/api/detail/{kind}", pages.answered(pages.detail), methods=["GET"]),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    return AtTheDoor(Starlette(routes=routes), door)


@attrs.frozen
class AtTheDoor:
    """Every request is looked at before anything else, and every answer has our headers."""

    inside: ASGIApp
    door: Door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inside(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0].decode().lower() not in HEADERS]
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": kept + ours}
            await send(message)

        given: dict[str, str] = {}
        is_doubled = False
        for name, value in scope["headers"]:
            key = name.decode("latin-1").lower()
            is_doubled = is_doubled or (key in given and key in {"host", "origin", "content-type"})
            given[key] = value.decode("latin-1")
        why = "a header stands there twice" if is_doubled else None
        why = why or self.door.refusal(scope["method"], scope["path"], given)
        if why is not None:
            await _json({"error": why}, 403)(scope, receive, send_with_headers)
            return
        await self.inside(scope, receive, send_with_headers)


@attrs.frozen
class Pages:
    """What each address does. A failure is an answer with `error`, never a traceback."""

    dashboard: Dashboard
    door: Door

    def answered(
        self, handler: Callable[[Request], Awaitable[Response | object]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                found = await handler(request)
            except BadRequest as error:
                return _json({"error": str(error)}, 400)
            except Refused as error:
                return _json({"error": str(error)}, 409)
            except KeyError as error:
                return _json({"error": f"no such session: {error.args[0] if error.args else ''}"}, 404)
            except OSError as error:
                return _json({"error": f"it cannot be read: {error.strerror or error}"}, 500)
            return found if isinstance(found, Response) else _json(found)

        return endpoint

    async def enter(self, request: Request) -> Response:
        """The token of the printed address for a cookie."""
        given = await _body(request, Enter)
        if not self.door.is_token(given.token):
            return _json({"error": "this is not the address that sapwood dashboard printed"}, 403)
        return Response(status_code=204, headers={"set-cookie": self.door.cookie})

    async def look(self, request: Request) -> object:
        given = await _body(request, Look)
        reader = self.dashboard.readers.get(given.reader)
        if reader is None:
            raise BadRequest("no such page: it has reconnected")
        if reader.open_session != given.open_session:
            reader.shows(given.open_session)
        reader.is_hidden = given.is_hidden
        return {}

    async def ended(self, request: Request) -> object:
        """Show also what ended long ago. The rows come over the stream."""
        self.dashboard.forest.show_all()
        return {}

    async def do(self, request: Request) -> object:
        order = await _body(request, Order)
        if self.dashboard.hands is None:
            raise Refused("this dashboard is read-only")
        await self.dashboard.hands.do(order)
        return {}

    async def detail(self, request: Request) -> object:
        detail = DETAILS.get(request.path_params["kind"])
        if detail is None:
            raise BadRequest(f"expected one of {', '.join(DETAILS)}")
        session = request.query_params.get("session", "")
        try:
            return await detail(self.dashboard, session, request.query_params)
        except ValueError as error:
            raise BadRequest(str(error)) from error

    async def stream(self, request: Request) -> Response:
        return EventStream(self.dashboard, Since.read(request.query_params.get("since", "")))


class EventStream(Response):
    """One page's stream. It ends when the page goes or the dashboard closes."""

    def __init__(self, dashboard: Dashboard, since: Since | None) -> None:
        super().__init__(media_type="text/event-stream")
        self.dashboard, self.since = dashboard, since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reader = self.dashboard.new_reader()
        headers = [(b"content-type", b"text/event-stream")]
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                async with aclosing(self.dashboard.frames(reader, self.since)) as frames:
                    async for frame in frames:
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                nursery.cancel_scope.cancel()
        finally:
            del self.dashboard.readers[reader.id]


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _body(request: Request, shape: type[T]) -> T:
    """The JSON body. Raises BadRequest."""
    data = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > BODY_LIMIT_BYTES:
                raise BadRequest(f"expected at most {BODY_LIMIT_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(str(error)) from error


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
