"""One description of what a run has come to: a call of a small model, one signal at the end with what it was billed."""

from typing import TYPE_CHECKING

import attrs
import trio

from actors.protocol.describing import DESCRIBER, description_prompt, read_description
from actors.protocol.mail import Described
from actors.protocol.model import ModelFailure, ModelInfo, ModelRequest
from actors.reply import Reply
from actors.side_call import SideCall
from store.entries import UsageEntry
from store.events import Diagnostic
from store.messages import user_text
from store.times import unix_ms
from store.usage import NOTHING, spend_of

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor

KIND = "status"


@attrs.define
class Describing:
    """`model`: who is asked. `scope` cancels it; the signal is sent all the same."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    work: int
    model: str
    answer: str
    scope: trio.CancelScope

    async def run(self) -> Described:
        clock = self.supervisor.clock
        model, info = self.supervisor.workshop.model(self.model)
        reply = Reply(info, unix_ms(clock.now()), clock.steady_s())
        failure: str | None = "the description was aborted"
        try:
            with self.scope:
                end = await SideCall(self.supervisor, self.row, model).make(self._request(info, reply), reply)
                failure = end.message if isinstance(end, ModelFailure) else None
        except trio.Cancelled:
            # The incarnation has crashed, and nobody hears how this ends. What was spent is spent.
            if (billed := self._billed(info, reply)) is not None:
                self.outbox.append_or_show(billed)
            raise
        found = None
        if failure is None:
            found = read_description(reply.message("stop", clock.steady_s()).text)
            failure = None if found else "the model said nothing that can be used"
        if failure is not None:
            text = f"what the run has come to is not described by {self.model}: {failure}"
            self.outbox.publish(Diagnostic(level="info", code="status", text=text))
        return Described(self.work, found, self._billed(info, reply))

    def _request(self, info: ModelInfo, reply: Reply) -> ModelRequest:
        return ModelRequest(
            session_id=self.row.id,
            session_name=self.row.name,
            depth=self.row.place.depth,
            call=0,
            model=info,
            messages=(user_text(description_prompt(self.answer), reply.timestamp),),
            system=DESCRIBER,
        )

    def _billed(self, info: ModelInfo, reply: Reply) -> UsageEntry | None:
        if spend_of(reply.usage) == NOTHING:
            return None
        return UsageEntry(kind=KIND, provider=info.provider, model=info.id, usage=reply.usage)
