"""What tools ask of the tree beside what the turn rules answer: messages, the end of a child, models, a summary."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import attrs
import trio

from actors.protocol.mail import Abort, CompactNow, Prompt, Stop
from actors.protocol.tools import (
    AbortChild,
    Aborted,
    Compact,
    Compaction,
    CompactStatus,
    DeleteChild,
    Deleted,
    FamilyAnswer,
    FamilyRequest,
    FindModels,
    HostAnswer,
    HostRequest,
    Models,
    Receipt,
    Receipts,
    Refused,
    Send,
    Waited,
    WaitFor,
)
from actors.receipts import Slip
from store.errors import StoreError
from store.events import AgentMessage
from store.size import context_tokens

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor

MESSAGE_LIMIT_BYTES = 64 * 1024
RECEIPT_S = 10.0
END_S = 10.0


@attrs.frozen
class Errands:
    """For one session. `ask` puts a question to its own turn rules."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    ask: Callable[[FamilyRequest], Awaitable[FamilyAnswer]]

    async def run(self, request: HostRequest) -> HostAnswer | Refused:
        match request:
            case Send():
                return await self._send(request)
            case AbortChild(name):
                return await self._end(name, Abort(f"aborted by {self.row.name}"))
            case DeleteChild(name):
                ended = await self._end(name, Stop(f"deleted by {self.row.name}"))
                child = self._child(name)
                if isinstance(ended, Refused) or child is None:
                    return ended
                try:
                    self.supervisor.archive(child)
                except (OSError, StoreError) as error:
                    return Refused(f"{child.name} was stopped, and stays in the family: {error}")
                return Deleted(child.id, child.name)
            case FindModels(query):
                return Models(self.supervisor.workshop.find_models(query))
            case Compact(instructions):
                self.row.mailbox.put(CompactNow(instructions))
                return self._compaction(is_scheduled=True)
            case CompactStatus():
                return self._compaction(is_scheduled=False)

    # Messages

    async def _send(self, request: Send) -> HostAnswer | Refused:
        size = len(request.message.encode("utf-8", "replace"))
        if size > MESSAGE_LIMIT_BYTES:
            return Refused(f"a message holds at most {MESSAGE_LIMIT_BYTES} bytes, this one has {size}")
        receivers = self._receivers(request.to)
        if not receivers:
            known = ", ".join(sorted({name for name, _ in self._family()})) or "nobody"
            return Refused(f"there is no {request.to!r} to send to; family: {known}")
        receipts = [await self._sent(receiver, request) for receiver in receivers]
        refused = next((receipt for receipt in receipts if isinstance(receipt, Refused)), None)
        if request.to != "all":
            return refused or receipts[0]
        return Receipts(tuple(receipt for receipt in receipts if isinstance(receipt, Receipt)))

    def _family(self) -> list[tuple[str, "Row"]]:
        family = [("parent", self.row.parent)] if self.row.parent is not None else []
        family += [(child.name, child) for child in self.row.present]
        if self.row.parent is not None:
            family += [(other.name, other) for other in self.row.parent.present if other is not self.row]
        return family

    def _receivers(self, to: str) -> list["Row"]:
        found = [other for name, other in self._family() if to in {"all", name, other.id}]
        return found if to == "all" else found[:1]

    async def _sent(self, receiver: "Row", request: Send) -> Receipt | Refused:
        """In the receiver's journal before the receipt says so."""
        supervisor = self.supervisor
        # With the time in it: another host of this tree counts from the beginning again.
        message_id = f"message:{supervisor.next_numbers()}:{self.row.id}:{supervisor.clock.now():.6f}"
        slip = supervisor.receipts[message_id] = Slip()
        prompt = Prompt(message_id, request.message, request.mode, self.row.name, "agent_message")
        try:
            supervisor.directory.deliver(receiver, prompt)
            with trio.move_on_after(RECEIPT_S):
                await slip.came.wait()
        finally:
            del supervisor.receipts[message_id]
        delivery = slip.delivery or "queued"
        self.outbox.publish(
            AgentMessage(sender=self.row.name, to=receiver.name, mode=request.mode, delivery=delivery)  # type: ignore[arg-type]
        )
        if delivery == "refused":
            return Refused(f"{receiver.name} did not take the message: {slip.reason}")
        if slip.delivery is None:
            return Refused(
                f"{receiver.name} has not written the message down within {RECEIPT_S:.0f} s; it may still come"
            )
        return Receipt(delivery, message_id, receiver.name)  # type: ignore[arg-type]

    # Children

    def _child(self, name: str) -> "Row | None":
        return next((child for child in self.row.children if name in {child.name, child.id}), None)

    async def _end(self, name: str, command: Abort | Stop) -> HostAnswer | Refused:
        child = self._child(name)
        if child is None or child.is_gone:
            known = ", ".join(other.name for other in self.row.present) or "none"
            return Refused(f"no child is named {name!r}; children: {known}")
        if child.is_running:
            self.supervisor.directory.deliver(child, command)
        answer = await self.ask(WaitFor((child.name,), "all", END_S))
        if isinstance(answer, Waited) and answer.reports:
            return Aborted(answer.reports[0])
        return answer if isinstance(answer, Refused) else Refused(f"{name} has not ended within {END_S:.0f} s")

    # The context

    def _compaction(self, *, is_scheduled: bool) -> Compaction:
        _, info = self.supervisor.workshop.model(self.row.model)
        tokens = context_tokens(self.outbox.tree.path())
        return Compaction("scheduled" if is_scheduled else "idle", tokens, info.context_window or None)
