"""How a command reaches a session: as mail, and what became of it."""

import attrs
import trio

from actors.directory import Row
from actors.protocol import mail
from actors.protocol.tools import FamilyAnswer
from actors.receipts import Ask, Slip
from orchestrator.engine.control.answers import Refused
from orchestrator.engine.planted import Planted

RECEIPT_S = 10.0


@attrs.define(eq=False)
class Mailing:
    """One command on its way: delivered at once, so that commands are heard in the order in which they came."""

    planted: Planted
    row: Row

    def deliver(self, letter: mail.Command) -> None:
        """Raises Refused where nobody hears it any more."""
        if not self.planted.deliver(self.row, letter):
            raise Refused("not_running", "the tree has ended")

    def new_id(self, what: str) -> str:
        """For a letter that nothing else in this session's life is called by."""
        supervisor = self.planted.tree.supervisor
        return f"{what}:{supervisor.next_numbers()}:{self.row.runs}:{supervisor.clock.now():.6f}"

    def expect(self, message_id: str) -> Slip:
        """What becomes of a letter, from now on."""
        slip = self.planted.tree.supervisor.receipts[message_id] = Slip()
        return slip

    async def receipt(self, message_id: str, slip: Slip) -> None:
        """Return once it is in the session's journal. Raises Refused."""
        if not await self.is_kept(message_id, slip, RECEIPT_S):
            raise Refused("not_confirmed", f"not written down within {RECEIPT_S:.0f} s; it may still come")

    async def is_kept(self, message_id: str, slip: Slip, patience_s: float) -> bool:
        """Whether it is in the session's journal after that time at most; it may still come. Raises Refused."""
        try:
            with trio.move_on_after(patience_s):
                await slip.came.wait()
        finally:
            self.planted.tree.supervisor.receipts.pop(message_id, None)
        if slip.delivery == "refused":
            raise Refused("refused", slip.reason)
        return slip.delivery is not None

    async def asked(self, ask_id: int, ask: Ask) -> FamilyAnswer:
        """What the session's rules answer. Raises Refused."""
        try:
            with trio.move_on_after(RECEIPT_S):
                return await ask.answer()
        finally:
            self.planted.tree.supervisor.asks.pop(ask_id, None)
        raise Refused("not_confirmed", f"not answered within {RECEIPT_S:.0f} s; it may still happen")
