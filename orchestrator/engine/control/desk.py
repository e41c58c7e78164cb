"""Takes the commands of all connections of a host. What changes a session goes to it as mail, never past it."""

import os
from collections.abc import Callable
from typing import Any

import attrs

from actors.directory import Row
from orchestrator import __version__
from orchestrator.engine.control import changing, facts, reading, requests, talking
from orchestrator.engine.control.answers import Answer, Data, Followed, Refused
from orchestrator.engine.control.outgoing import Target
from orchestrator.engine.control.requests import Command, Request
from orchestrator.engine.control.shell import Shell
from orchestrator.engine.control.spawning import spawn_child, spawn_root
from orchestrator.engine.control.subscribing import subscribe
from orchestrator.engine.errors import EngineError, NotOurs
from orchestrator.engine.host import Host
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.planted import Planted
from store.errors import StoreError

PROTOCOL = 1


@attrs.define(eq=False)
class Desk:
    """`root_id`: whom commands without a session are for; None, on a host for many trees: they are refused.

    `keeper`: opens stored sessions, and begins new ones; without it the host has the one tree that it was started for.
    """

    host: Host
    root_id: str | None = None
    keeper: Keeper | None = None
    shell: Shell = attrs.field(factory=Shell)

    def take(self, request: Request, target: Target) -> Answer:
        """Begin a command. Raises Refused."""
        match request.command:
            case requests.Hello():
                return self._hello()
            case requests.ListSessions(cursor=cursor):
                return reading.rows(self.host.rows(), cursor)
            case requests.Shutdown():
                self.host.leave("the host was told to end")
                return None
            case requests.Subscribe() as command:
                if command.session_id is not None:
                    self._session(command)
                return subscribe(command, target, self.host.audience, self.host.trees.values(), self.host.clock.now())
            case requests.Spawn() as command if command.session_id is None and (command.cwd or self.root_id is None):
                if self.keeper is None:
                    raise Refused(
                        "no_session", "expected a sessionId: this host runs the one tree that it was started for"
                    )
                return spawn_root(self.keeper, command)
        leaving = self.host.being_let_go(request.command.session_id or self.root_id or "")
        if leaving is not None:
            return lambda: self._afterwards(leaving, request, target)
        planted, row = self._session(request.command)
        return self._for_session(request.command)(planted, row, request.command)

    async def _afterwards(self, leaving: Planted, request: Request, target: Target) -> Data:
        """The same command once the tree, which is just being let go of, can be opened again."""
        await leaving.gone.wait()
        answer = self.take(request, target)
        if isinstance(answer, Followed):
            raise TypeError(f"expected a command for a session, found {request.name}")
        return await answer() if callable(answer) else answer

    def _hello(self) -> Data:
        return {
            "protocolVersion": PROTOCOL,
            "hostId": self.host.id,
            "generation": self.host.id,
            "pid": os.getpid(),
            "version": __version__,
            "roots": list(self.host.trees),
            "resident": self.host.is_resident,
        }

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

    def _for_session(self, command: Command) -> "Doing":
        match command:
            case requests.Bash():
                return self.shell.bash
            case requests.AbortBash():
                return self.shell.abort_bash
            case requests.GetState() | requests.GetUsage():
                read = reading.state if isinstance(command, requests.GetState) else reading.usage
                return lambda planted, row, _: read(planted, row, self.host.clock.now())
        return _DOING[type(command)]


Doing = Callable[[Planted, Row, Any], Answer]
_DOING: dict[type[Command], Doing] = {
    requests.Prompt: talking.prompt,
    requests.Steer: talking.steer,
    requests.FollowUp: talking.follow_up,
    requests.Abort: talking.abort,
    requests.AbortRetry: talking.abort_retry,
    requests.Stop: talking.stop,
    requests.Compact: talking.compact,
    requests.Spawn: spawn_child,
    requests.GetMessages: reading.messages,
    requests.GetEntries: reading.entries,
    requests.GetTree: reading.tree,
    requests.GetSessionStats: facts.session_stats,
    requests.GetLastAssistantText: facts.last_text,
    requests.GetForkMessages: facts.fork_messages,
    requests.SetModel: changing.set_model,
    requests.SetThinkingLevel: changing.set_thinking_level,
    requests.SetServiceTier: changing.set_service_tier,
    requests.SetSessionName: changing.set_session_name,
    requests.SetLabel: changing.set_label,
    requests.Archive: changing.archive,
    requests.Branch: changing.branch,
    requests.Fork: changing.fork,
    requests.Clone: changing.clone,
}
