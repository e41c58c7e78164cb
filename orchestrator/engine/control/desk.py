"""Takes the commands of all connections of a host. What changes a session goes to it as mail, never past it."""

import os
from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors.directory import Row
from actors.protocol import mail
from actors.receipts import Slip
from orchestrator import __version__
from orchestrator.engine.control import reading, requests
from orchestrator.engine.control.answers import Answer, Data, Refused
from orchestrator.engine.control.outgoing import Target
from orchestrator.engine.control.requests import Command, Request
from orchestrator.engine.control.subscribing import subscribe
from orchestrator.engine.errors import EngineError, NotOurs
from orchestrator.engine.host import Host
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.planted import Planted
from store.entries import Mode
from store.errors import StoreError
from store.events import CompactionEnd
from store.messages import ImageContent, TextContent, Visible

PROTOCOL = 1
RECEIPT_S = 10.0


@attrs.define(eq=False)
class Desk:
    """`root_id`: whom commands without a session are for; None: they are refused. `keeper`: opens stored sessions, and new ones."""

    host: Host
    root_id: str | None = None
    keeper: Keeper | None = None

    def take(self, request: Request, target: Target) -> Answer:
        """Begin a command. Raises Refused."""
        command = request.command
        if isinstance(command, requests.Subscribe):
            self._subscribable(command)
            trees = self.host.trees.values()
            return subscribe(command, target, self.host.audience, trees, self.host.clock.now())
        if type(command) in _FOR_HOST:
            return _FOR_HOST[type(command)](self, command)
        planted, row = self._session(command)
        return _FOR_SESSION[type(command)](self, planted, row, command)

    def _session(self, command: Command) -> tuple[Planted, Row]:
        session_id = command.session_id or self.root_id
        if session_id is None:
            raise Refused("no_session", "expected a sessionId: this host has no root of its own")
        found = self.host.find(session_id)
        if found is None and self.keeper is not None:
            try:
                found = self.keeper.reach(session_id)
            except NotOurs as error:
                raise Refused("not_ours", str(error)) from error
            except (EngineError, StoreError, OSError) as error:
                raise Refused("unknown_session", str(error)) from error
        if found is None:
            raise Refused("unknown_session", f"this host has no session {session_id[:80]!r}")
        return found

    def _subscribable(self, command: requests.Subscribe) -> None:
        if command.session_id is not None:
            self._session(command)

    # For the host

    def hello(self, command: requests.Hello) -> Data:
        """Who this is."""
        return {
            "protocolVersion": PROTOCOL,
            "hostId": self.host.id,
            "generation": self.host.id,
            "pid": os.getpid(),
            "version": __version__,
            "roots": list(self.host.trees),
        }

    def list_sessions(self, command: requests.ListSessions) -> Data:
        return {"rows": self.host.rows()}

    def shutdown(self, command: requests.Shutdown) -> Data:
        self.host.leave("the host was told to end")
        return None

    # For a session

    def prompt(self, planted: Planted, row: Row, command: requests.Prompt) -> Answer:
        if row.is_running and command.streaming_behavior is None:
            raise Refused("busy", "a run is open; say with streamingBehavior (steer or followUp) how it is to be taken")
        modes: dict[str | None, Mode] = {"steer": "steer", "followUp": "follow_up", None: "prompt"}
        return self._said(planted, row, command.message, command.images, modes[command.streaming_behavior])

    def steer(self, planted: Planted, row: Row, command: requests.Steer) -> Answer:
        return self._said(planted, row, command.message, command.images, "steer")

    def follow_up(self, planted: Planted, row: Row, command: requests.FollowUp) -> Answer:
        return self._said(planted, row, command.message, command.images, "follow_up")

    def _said(self, planted: Planted, row: Row, text: str, images: tuple[ImageContent, ...], mode: Mode) -> Answer:
        """Answered once it is in the session's journal, or refused."""
        if not text.strip() and not images:
            raise Refused("wrong_shape", "expected a message, found nothing but space")
        content: str | tuple[Visible, ...] = (TextContent(text=text), *images) if images else text
        supervisor = planted.tree.supervisor
        message_id = f"user:{supervisor.next_numbers()}:{row.runs}:{self.host.clock.now():.6f}"
        slip = supervisor.receipts[message_id] = Slip()
        was_running = row.is_running
        self._deliver(planted, row, mail.Prompt(message_id, content, mode))

        async def receipt() -> Data:
            try:
                with trio.move_on_after(RECEIPT_S):
                    await slip.came.wait()
            finally:
                del supervisor.receipts[message_id]
            if slip.delivery is None:
                raise Refused("not_confirmed", f"not written down within {RECEIPT_S:.0f} s; it may still come")
            if slip.delivery == "refused":
                raise Refused("refused", slip.reason)
            return {"disposition": "queued" if was_running else "started", "messageId": message_id}

        return receipt

    def abort(self, planted: Planted, row: Row, command: requests.Abort) -> Answer:
        return self._ended(planted, row, mail.Abort())

    def stop(self, planted: Planted, row: Row, command: requests.Stop) -> Answer:
        return self._ended(planted, row, mail.Stop("stopped by the user"))

    def _ended(self, planted: Planted, row: Row, command: mail.Abort | mail.Stop) -> Answer:
        self._deliver(planted, row, command)

        async def ended() -> Data:
            await planted.settled(row)
            return {"outcome": row.outcome or None}

        return ended

    def compact(self, planted: Planted, row: Row, command: requests.Compact) -> Answer:
        async def compacted() -> Data:
            is_it = planted.event_of(row, CompactionEnd)
            with planted.hearing.ear(is_it) as ear:
                self._deliver(planted, row, mail.CompactNow(command.custom_instructions))
                end = await ear.heard()
            if not isinstance(end, CompactionEnd) or end.result is None:
                raise Refused("not_compacted", getattr(end, "error_message", None) or "there is no summary")
            return end.result  # type: ignore[no-any-return]

        return compacted

    def _deliver(self, planted: Planted, row: Row, letter: mail.Command) -> None:
        if not planted.deliver(row, letter):
            raise Refused("not_running", "the tree has ended")

    # Reads

    def get_state(self, planted: Planted, row: Row, command: requests.GetState) -> Data:
        return reading.state(planted, row, self.host.clock.now())

    def get_messages(self, planted: Planted, row: Row, command: requests.GetMessages) -> Data:
        return reading.messages(planted, row, command.cursor)

    def get_entries(self, planted: Planted, row: Row, command: requests.GetEntries) -> Data:
        return reading.entries(planted, row, command.cursor)

    def get_tree(self, planted: Planted, row: Row, command: requests.GetTree) -> Data:
        return reading.tree(planted, row, command.cursor)

    def get_usage(self, planted: Planted, row: Row, command: requests.GetUsage) -> Data:
        return reading.usage(planted, row, self.host.clock.now())


_FOR_HOST: dict[type[Command], Callable[[Desk, Any], Answer]] = {
    requests.Hello: Desk.hello,
    requests.ListSessions: Desk.list_sessions,
    requests.Shutdown: Desk.shutdown,
}
_FOR_SESSION: dict[type[Command], Callable[[Desk, Planted, Row, Any], Answer]] = {
    requests.Prompt: Desk.prompt,
    requests.Steer: Desk.steer,
    requests.FollowUp: Desk.follow_up,
    requests.Abort: Desk.abort,
    requests.Stop: Desk.stop,
    requests.Compact: Desk.compact,
    requests.GetState: Desk.get_state,
    requests.GetMessages: Desk.get_messages,
    requests.GetEntries: Desk.get_entries,
    requests.GetTree: Desk.get_tree,
    requests.GetUsage: Desk.get_usage,
}
