"""Commands that a person runs beside a session: one at a time, kept in its journal as what they are."""

from collections.abc import Awaitable, Callable

import attrs
import msgspec
import trio

from actors.directory import Row
from actors.protocol import mail
from actors.protocol.tools import FamilyRequest, HostRequest, ToolContext, ToolResult
from actors.protocol.tools import Refused as FamilyRefused
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data, Refused
from orchestrator.engine.control.mailing import Mailing
from orchestrator.engine.planted import Planted
from orchestrator.tools.bash import CommandEnd, run_command
from store.entries import MessageEntry
from store.messages import BashExecutionMessage
from store.times import unix_ms
from store.wire import encode

PATIENCE_S = 24 * 3600.0
KEPT_S = 1.0


class _Nobody:
    """A person's command is no tool: it has nobody to ask."""

    async def ask(self, request: FamilyRequest | HostRequest) -> FamilyRefused:
        return FamilyRefused("a command of a person asks nothing of the tree")


@attrs.define(eq=False)
class Shell:
    """The running command of each session."""

    _running: dict[str, trio.CancelScope] = attrs.field(factory=dict)

    def bash(self, planted: Planted, row: Row, command: requests.Bash) -> Callable[[], Awaitable[Data]]:
        """Answered when the command has ended and is written down; `recorded` is false where that waits for open calls."""
        if row.id in self._running:
            raise Refused("busy", "a command of this session is running; abort_bash ends it")
        scope = self._running[row.id] = trio.CancelScope()
        mailing = Mailing(planted, row)

        async def ran() -> Data:
            end: CommandEnd | None = None
            try:
                with scope:
                    end = await run_command(command.command, PATIENCE_S, self._context(mailing))
            except (OSError, ValueError) as error:
                raise Refused("not_started", str(error)) from error
            finally:
                del self._running[row.id]
            return await self._kept(mailing, command, end)

        return ran

    def abort_bash(self, planted: Planted, row: Row, command: requests.AbortBash) -> Data:
        if row.id in self._running:
            self._running[row.id].cancel()
        return None

    async def _kept(self, mailing: Mailing, command: requests.Bash, end: CommandEnd | None) -> Data:
        message = BashExecutionMessage(
            command=command.command,
            output="" if end is None else end.output.text,
            exit_code=None if end is None else end.exit_code,
            cancelled=end is None,
            truncated=end is not None and end.output.is_truncated,
            full_output_path=None if end is None or end.output.path is None else str(end.output.path),
            exclude_from_context=command.exclude_from_context,
            timestamp=unix_ms(mailing.planted.sink.clock.now()),
        )
        change_id = mailing.new_id("bash")
        slip = mailing.expect(change_id)
        mailing.deliver(mail.Change(change_id, MessageEntry(message=msgspec.Raw(encode(message)))))
        is_recorded = await mailing.is_kept(change_id, slip, KEPT_S)
        return {
            "recorded": is_recorded,
            "output": message.output,
            "exitCode": message.exit_code,
            "cancelled": message.cancelled,
            "truncated": message.truncated,
            "fullOutputPath": message.full_output_path,
        }

    def _context(self, mailing: Mailing) -> ToolContext:
        workshop = mailing.planted.tree.supervisor.workshop
        return ToolContext(
            call_id=mailing.new_id("user").replace(":", "-"),
            cwd=workshop.cwd,
            artifact_dir=workshop.artifact_dir(mailing.row.id),
            env=workshop.env,
            family=_Nobody(),
            update=_unseen,
            wait_for_room=mailing.planted.sink.wait_for_room,
        )


def _unseen(progress: ToolResult) -> None:
    """Its end is what is told."""
