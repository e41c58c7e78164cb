"""The Unix socket of a host: who may come in, and the end of it."""

import os
import socket
import struct
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import trio

from actors.giving_up import reason_of
from orchestrator.engine.control.answers import failure
from orchestrator.engine.control.connection import Connection
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.outgoing import Outgoing
from orchestrator.engine.control.places import Place, new_place, places
from orchestrator.engine.planted import Planted
from store.disk.home import Home
from store.errors import StoreError
from store.events import Diagnostic

BACKLOG = 64
RECEIVE_BYTES = 64 << 10
# Each takes a descriptor, and journals need theirs.
MAX_CONNECTIONS = 256
LAST_LINES_S = 1.0
"""So long a host that ends waits for its readers."""


@attrs.define(eq=False)
class Endpoint:
    """`trouble`: why there is none. A host runs without one, too."""

    desk: Desk
    environ: Mapping[str, str]
    trouble: str | None = None
    socket: Path | None = None
    _connections: dict[Outgoing, trio.CancelScope] = attrs.field(factory=dict)
    _nobody: trio.Event = attrs.field(factory=trio.Event)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Reachable inside; behind it what waits for readers is sent, if they take it soon, and everything is closed."""
        made = self._made()
        if made is None:
            yield
            return
        place, listener = made
        self.socket = place.socket
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            try:
                yield
            finally:
                with suppress(OSError):
                    place.remove()
            await self._say_goodbye()
            nursery.cancel_scope.cancel()

    def tell_trouble(self, planted: Planted) -> None:
        """On the stream of a tree, where there is none."""
        if self.trouble is not None:
            planted.tell_later(Diagnostic(level="warning", code="endpoint", text=self.trouble))

    def _made(self) -> tuple[Place, trio.SocketListener] | None:
        home, host_id = self.desk.host.home, self.desk.host.id
        try:
            place = new_place(home, host_id, self.environ)
            clean(home)
            return place, listen(place, home)
        except (OSError, StoreError) as error:
            self.trouble = f"no other terminal can reach this run: {error}"
            return None

    async def _serve(self, stream: trio.SocketStream) -> None:
        """A bug in one connection is the end of that connection, and of nothing else."""
        outgoing = Outgoing()
        try:
            async with stream:
                if not is_ours(stream.socket):
                    return
                if len(self._connections) >= MAX_CONNECTIONS:
                    await stream.send_all(
                        failure(None, "hello", "busy", f"{MAX_CONNECTIONS} connections are open already")
                    )
                    return
                await self._talk(stream, outgoing)
        except Exception as error:
            text = f"a connection to this host broke: {reason_of(error)}"
            for planted in self.desk.host.trees.values():
                planted.tell_later(Diagnostic(level="error", code="endpoint", text=text))
        finally:
            self.desk.host.audience.leave(outgoing)
            self._connections.pop(outgoing, None)
            if not self._connections:
                self._nobody.set()

    async def _talk(self, stream: trio.SocketStream, outgoing: Outgoing) -> None:
        """Until the client has said all, or the host ends; then what waits for it is sent."""
        connection = Connection(outgoing, self.desk.take)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, outgoing, stream, nursery.cancel_scope)
            with trio.CancelScope() as reading:
                self._connections[outgoing] = reading
                await connection.serve(partial(_received, stream))
            self.desk.host.audience.leave(outgoing)
            outgoing.finish()

    async def _send(self, outgoing: Outgoing, stream: trio.SocketStream, all_of_it: trio.CancelScope) -> None:
        """Whatever ends this ends the connection: half a line may have gone out."""
        try:
            await outgoing.run(stream.send_all)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            all_of_it.cancel()

    async def _say_goodbye(self) -> None:
        with trio.move_on_after(LAST_LINES_S):
            for reading in self._connections.values():
                reading.cancel()
            while self._connections:
                self._nobody = trio.Event()
                await self._nobody.wait()


async def _received(stream: trio.SocketStream) -> bytes:
    """Nothing where the other end is gone, however it went: with lines that it never read the kernel calls that a reset."""
    try:
        return await stream.receive_some(RECEIVE_BYTES)
    except trio.BrokenResourceError:
        return b""


def listen(place: Place, home: Home) -> trio.SocketListener:
    """A socket that only we can reach. It gets its name when it listens: whoever finds it unanswered may take it away.

    Raises OSError.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    new = place.socket.with_name(f".{place.socket.name[-20:]}")
    try:
        sock.bind(os.fspath(new))
        os.chmod(new, 0o600)
        sock.listen(BACKLOG)
        sock.setblocking(False)
        os.rename(new, place.socket)
        if place.pointer is not None:
            fd = home.fs.open(place.pointer, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                home.fs.write(fd, os.fsencode(place.socket) + b"\n")
            finally:
                home.fs.close(fd)
        return trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    except BaseException:
        sock.close()
        with suppress(OSError):
            new.unlink(missing_ok=True)
            place.remove()
        raise


def clean(home: Home) -> list[Place]:
    """Take away the sockets of processes that are gone; which they were. Raises OSError."""
    gone = abandoned(home)
    for place in gone:
        place.remove()
    return gone


def abandoned(home: Home) -> list[Place]:
    """Where nobody listens any more. Raises OSError."""
    return [place for place in places(home) if not is_answered(place)]


def answering(home: Home, known: Container[Path] = ()) -> list[Path]:
    """The sockets that a process listens at; those that are `known` to be such are not tried again. Raises OSError."""
    return [place.socket for place in places(home) if place.socket in known or is_answered(place)]


def is_answered(place: Place) -> bool:
    """Whether a process listens there. One that is busy does, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(os.fspath(place.socket))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def peer_uid(sock: trio.socket.SocketType) -> int:
    """Who is at the other end, as the kernel says. Source: unix(7), SO_PEERCRED: pid, uid, gid."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


def is_ours(sock: trio.socket.SocketType) -> bool:
    """Others of this machine are kept out, whatever became of the folder's mode."""
    return peer_uid(sock) == os.geteuid()
