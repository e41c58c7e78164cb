"""The dashboard on a socket: loopback only, and gone when it is told to."""

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from orchestrator.web.app import dashboard_app
from orchestrator.web.dashboard import Dashboard
from orchestrator.web.door import Door

LOOPBACK = "127.0.0.1"
_CLOSING_S = 2.0


@attrs.define(eq=False)
class Server:
    """Bound before it is told to anybody: the port is in the address. Raises OSError where it is taken."""

    dashboard: Dashboard
    listener: socket.socket
    door: Door

    @classmethod
    def bound(cls, dashboard: Dashboard, port: int = 0) -> "Server":
        """`port` 0: any that is free."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, port))
            listener.listen()
        except OSError:
            listener.close()
            raise
        return cls(dashboard, listener, Door(listener.getsockname()[1]))

    async def run(self, until: Callable[[], Awaitable[object]]) -> None:
        """Serve until `until` returns. The streams end first: the server would wait for them."""
        config = Config()
        config.bind = [f"fd://{self.listener.detach()}"]  # who serves closes it
        config.include_server_header = False
        config.graceful_timeout = config.shutdown_timeout = _CLOSING_S
        config.accesslog = config.errorlog = None
        config.h11_max_incomplete_size = 64 * 1024
        config.websocket_max_message_size = 1024

        async def stopped() -> None:
            await until()
            self.dashboard.close()

        app: Any = dashboard_app(self.dashboard, self.door)  # hypercorn has shapes of ASGI of its own
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.dashboard.run)
            await serve(app, config, shutdown_trigger=stopped)
            nursery.cancel_scope.cancel()
